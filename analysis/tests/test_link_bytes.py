# SPDX-License-Identifier: BSD-3-Clause
"""Tests the bytes over the link of a host."""

import numpy as np
import pytest
from lockstep_report.measure.link_bytes import MESSAGES, gather, link_bytes
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.bandwidth import bandwidth_table
from synthetic import phases, write_run, write_sweep

M = 44_695_872  # bytes of resnet18-cifar with padding: the buckets of the runs below


@pytest.mark.parametrize(
    "algorithm, ranks, per_host, factor",
    [
        ("ring (MPI)", 4, 1, 2 * 3 / 4),
        ("ring (MPI)", 8, 4, 2 * 7 / 8),
        ("direct (MPI)", 4, 1, 2 * 3 / 4),
        ("direct (MPI)", 8, 4, 2 * 4 * 4 / 8),
        ("direct (MPI)", 8, 2, 2 * 2 * 6 / 8),
        ("hierarchical (MPI)", 8, 4, 2 * 1 / 2),
        ("hierarchical (MPI)", 8, 2, 2 * 3 / 4),
        ("recursive-doubling (MPI)", 8, 1, 2 * 7 / 8),
        ("recursive-doubling (MPI)", 8, 4, 2 * 1 / 2 * 4),
        ("gather-scatter (MPI)", 4, 1, 2 * 3),
        ("gather-scatter (MPI)", 8, 4, 2 * 4),
        ("NCCL", 8, 4, 2 * 7 / 8),
    ],
)
def test_bytes_of_ranks_in_the_order_of_hosts(algorithm, ranks, per_host, factor):
    assert link_bytes(algorithm, np.arange(ranks) // per_host, M) == pytest.approx(factor * M)


@pytest.mark.parametrize(
    "algorithm, hosts",
    [
        ("mpi (MPI)", [0, 1]),
        ("unknown (MPI)", [0, 1]),
        ("hierarchical (MPI)", [0, 0, 0, 1]),
        ("ring (MPI)", [0, 0]),
    ],
)
def test_unknown_messages_have_no_bytes(algorithm, hosts):
    assert link_bytes(algorithm, hosts, M) is None


def test_short_arrays_are_exchanged_as_a_whole():
    assert link_bytes("recursive-doubling (MPI)", [0, 1, 2, 3], 16384) == 2 * 16384


# /steps/sent_bytes of a step of `mpirun -n N lockstep train --reducer allreduce --all-reduce
# ALGORITHM` (gather-scatter: the reducer), in MB.
@pytest.mark.parametrize(
    "algorithm, sent",
    [
        ("ring", [67.044] * 4),
        ("ring", [74.493] * 6),
        ("direct", [59.595] * 3),
        ("direct", [74.493] * 6),
        ("gather-scatter", [134.088, 44.696, 44.696, 44.696]),
        ("recursive-doubling", [44.696, 89.392, 44.696]),
        ("recursive-doubling", [44.696, 111.740, 44.696, 111.740, 67.044, 67.044]),
    ],
)
def test_messages_are_those_that_ranks_count(algorithm, sent):
    ranks = len(sent)
    messages = (
        gather(ranks, M) + gather(ranks, M).T
        if algorithm == "gather-scatter"
        else MESSAGES[algorithm](ranks, M)
    )
    assert messages.sum(axis=1) / 1e6 == pytest.approx(sent, abs=0.001)


# Bytes that eth0 of host 1 sent (/telemetry), divided by the steps, in MB: tests/cluster/cluster up
# 2; cluster run 4 lockstep train --batch-per-rank 1 --steps 12 --reducer allreduce --all-reduce
# ALGORITHM. TCP adds headers and acknowledgements.
@pytest.mark.parametrize(
    "algorithm, interface",
    [
        ("ring", 134.3),
        ("direct", 89.6),
        ("hierarchical", 44.8),
        ("recursive-doubling", 44.8),
        ("gather-scatter", 2 * 89.6),
    ],
)  # in each direction
def test_bytes_are_those_of_the_network_interface(algorithm, interface):
    found = link_bytes(f"{algorithm} (MPI)", [0, 1, 0, 1], M)  # round-robin
    assert found / 1e6 == pytest.approx(interface, rel=0.005)


@pytest.mark.parametrize(
    "algorithm, factor", [("ring", 2 * 7 / 8), ("hierarchical", 1), ("direct", 4), ("mpi", None)]
)
def test_share_of_the_link_is_that_of_its_bytes(tmp_path, algorithm, factor):
    """10 MB in 0.1 s on two hosts with 4 ranks each: 0.8 Gbit/s for each 10 MB on the link."""
    run = read_run(
        write_run(
            tmp_path / "run.h5",
            phases(10, *[(0, 0, 0.1, 0.1, 0.1, 0)] * 8),
            256,
            epochs=2,
            bucket_bytes=[10**7],
            bucket_start=[0.2],
            bucket_end=[0.3],
            reducer="allreduce",
            config={"link-gbit": "10"},
            environment={"all_reduce": f"{algorithm}: 1 MB in 1 ms"},
            ranks_of={"hostname": ["a"] * 4 + ["b"] * 4},
        )
    )
    (row,) = bandwidth_table([from_run(run)]).rows
    assert row["measured_gb_s_low"] == pytest.approx(2 * 7 / 8 * 0.1)
    if factor is None:
        assert row.get("measured_percent_low") is None
    else:
        assert row["measured_percent_low"] == pytest.approx(8 * factor)


def test_share_of_the_peak_of_a_sweep_on_the_same_host_and_ranks(tmp_path):
    """1 MB in 2 ms, which the sweep reduces in 1 ms; the other sweep is on another host."""
    run = read_run(
        write_run(
            tmp_path / "run.h5",
            phases(10, *[(0, 0, 0.1, 0.1, 0.002, 0)] * 2),
            64,
            epochs=2,
            bucket_bytes=[10**6],
            bucket_start=[0.2],
            bucket_end=[0.202],
            reducer="allreduce",
            config={"device": "cpu"},
        )
    )
    sweeps = [read_run(write_sweep(tmp_path / f"{host}.h5", host)) for host in ("node1", "node2")]
    (row,) = bandwidth_table([from_run(run)], None, [run, *sweeps]).rows
    assert row["peak_gb_s"] == pytest.approx(1.0)
    assert row["measured_peak_percent_low"] == pytest.approx(50)
    (row,) = bandwidth_table([from_run(run)], None, [run, sweeps[1]]).rows
    assert row["peak_gb_s"] is None and row["measured_peak_percent"] is None
