# SPDX-License-Identifier: BSD-3-Clause
"""Tests the formulas of the all-reduces and the network descriptions, by hand."""

import json

import pytest
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.models.prediction.collectives import (
    direct_factors,
    recursive_doubling_factors,
    ring_factors,
    tree_factors,
)
from lockstep_report.models.prediction.network_file import read_network

MIB = 2**20


@pytest.mark.parametrize(
    "factors, expected",
    [
        (ring_factors(4, 400), (6, 600)),
        (ring_factors(2, 400), (2, 400)),
        (direct_factors(4, 400), (2, 600)),
        (recursive_doubling_factors(4, 400), (2, 800)),  # short: 2 exchanges of the whole array
        (
            recursive_doubling_factors(4, 4 * MIB),
            (4, 6 * MIB),
        ),  # halving-doubling: 2 log2 P, 2 * 3/4
        (
            recursive_doubling_factors(5, 4 * MIB),
            (6, 14 * MIB),
        ),  # and two messages of the fifth rank
        (tree_factors(8, 400), (6, 800)),
        (tree_factors(5, 400), (6, 800)),
    ],
)
def test_factors_of_alpha_and_beta(factors, expected):
    assert factors == pytest.approx(expected)


def write(path, **content):
    path.write_text(json.dumps(content))
    return path


def level(ranks=None, alpha=1e-6, beta=1e-9, **more):
    return {"alpha": alpha, "beta": beta, **more} | ({"ranks": ranks} if ranks else {})


def network(folder, algorithm, *levels, library="MPI", **more):
    return read_network(
        write(
            folder / "net.json", library=library, algorithm=algorithm, levels=list(levels), **more
        )
    )


def seconds(net, ranks, size):
    return net.seconds(ranks, size, [(level.alpha.low, level.beta.low) for level in net.levels])


def test_one_rank_does_not_communicate(tmp_path):
    assert seconds(network(tmp_path, "ring", level()), 1, 1e6) == 0


def test_ring_on_one_level(tmp_path):
    """4 ranks, 1 MB: 6 µs + 1.5 ms."""
    assert seconds(network(tmp_path, "ring", level()), 4, 1e6) == pytest.approx(1.506e-3)


def test_ring_on_two_levels_has_the_speed_of_the_slowest_link(tmp_path):
    """8 ranks, 1 MB: 14 messages of 10 µs and 1.75 MB at 2 ns per byte."""
    net = network(tmp_path, "ring", level(4), level(alpha=10e-6, beta=2e-9))
    assert seconds(net, 8, 1e6) == pytest.approx(140e-6 + 3.5e-3)
    assert seconds(net, 4, 1e6) == pytest.approx(1.506e-3)  # within one group


def test_hierarchical(tmp_path):
    """Groups of 4, 2 groups, 1 MB. In the groups: as a ring of 4, 6 µs + 1.5 ms. Between them, each
    rank reduces 250 kB by a ring of 2: 2 messages of 10 µs, 250 kB at 2 ns per byte = 0.5 ms, times
    4 if the four ranks share the link."""
    shared = network(tmp_path, "hierarchical", level(4), level(alpha=10e-6, beta=2e-9))
    assert seconds(shared, 8, 1e6) == pytest.approx(1.506e-3 + 20e-6 + 2e-3)
    own = network(tmp_path, "hierarchical", level(4), level(alpha=10e-6, beta=2e-9, shared=False))
    assert seconds(own, 8, 1e6) == pytest.approx(1.506e-3 + 20e-6 + 0.5e-3)


def test_hierarchical_with_another_algorithm_between_groups(tmp_path):
    """A tree of 4 groups: 4 messages and 2 * 250 kB per rank."""
    net = network(
        tmp_path,
        "hierarchical",
        level(4),
        level(alpha=10e-6, beta=2e-9, shared=False, algorithm="tree"),
        library="NCCL",
    )
    assert seconds(net, 16, 1e6) == pytest.approx(1.506e-3 + 40e-6 + 1e-3)


def test_three_levels(tmp_path):
    """2 x 2 x 2 ranks, 8 MB, own links, no latency: 8, 4 and 2 MB at 1, 2 and 4 ns."""
    net = network(
        tmp_path,
        "hierarchical",
        level(2, 0),
        level(2, 0, 2e-9, shared=False),
        level(2, 0, 4e-9, shared=False),
    )
    assert seconds(net, 8, 8e6) == pytest.approx(8e-3 + 8e-3 + 8e-3)


@pytest.mark.parametrize(
    "ranks, levels, text",
    [(6, (level(4), level()), "groups of 4"), (16, (level(4), level(2)), "at most 8 ranks")],
)
def test_ranks_that_do_not_fill_the_network(tmp_path, ranks, levels, text):
    net = network(tmp_path, "hierarchical", *levels)
    with pytest.raises(ReportError, match=text) as error:
        seconds(net, ranks, 1e6)
    assert error.value.status == USAGE


def test_flat_algorithms_on_several_levels_are_refused(tmp_path):
    net = network(tmp_path, "recursive-doubling", level(4), level())
    assert seconds(net, 4, 1e6) > 0
    with pytest.raises(ReportError, match="several levels"):
        seconds(net, 8, 1e6)


def test_labels_contain_the_library(tmp_path):
    assert network(tmp_path, "ring", level()).label == "MPI ring"
    assert network(tmp_path, "ring", level(), library="NCCL").label == "NCCL ring"


@pytest.mark.parametrize(
    "change, text",
    [
        ({"library": "Gloo"}, "not MPI or NCCL"),
        ({"algorithm": "tree"}, "none of MPI"),
        ({"levels": []}, "no list of levels"),
        ({"levels": [{"beta": 1}]}, "alpha is missing"),
        ({"levels": [level(), level()]}, "ranks of level 1 is missing"),
        ({"levels": [level(alpha=-1)]}, "alpha is not a range"),
        ({"levels": [level(alpha=[2, 1])]}, "alpha is not a range"),
        ({"levels": [level(beta="fast")]}, "beta is no number"),
        ({"levels": [level(ranks=2.5)]}, "not a positive integer"),
        ({"levels": [level(gamma=1)]}, "unknown key gamma"),
        ({"overlap": 2}, "overlap"),
        ({"levels": [level(shared="no")]}, "neither true nor false"),
        ({"levels": [7]}, "not iterable"),
        ({"ranks_per_node": 1}, "unknown key ranks_per_node"),
    ],
)
def test_wrong_descriptions_have_one_line(tmp_path, change, text):
    content = {"library": "MPI", "algorithm": "ring", "levels": [level()]} | change
    with pytest.raises(ReportError, match=text) as error:
        read_network(write(tmp_path / "net.json", **content))
    assert error.value.status == INPUT
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100000])
def test_files_that_are_no_descriptions(tmp_path, text):
    path = tmp_path / "net.json"
    path.write_text(text)
    with pytest.raises(ReportError, match="not a network description"):
        read_network(path)


def test_missing_files(tmp_path):
    with pytest.raises(ReportError, match="cannot be read"):
        read_network(tmp_path / "none.json")
