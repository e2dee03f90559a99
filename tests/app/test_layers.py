# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `lockstep layers` and `lockstep stack`, which measure single layers and stacks of
layers, and of --swap-relu-pool."""

import json

import h5py
import numpy as np
import pytest
from command_line import expect_failure, start, start_ranks, train

LAYERS = "relu@2x8x16x16+maxpool:k2@2x8x16x16+conv:3-8,k3,p1@2x16x16+linear:64-32@4"


def test_layers_measures_every_layer(tmp_path):
    run = tmp_path / "l.h5"
    result = start("layers", "--layer", LAYERS, "--threads", "1", "--output", run)
    assert result.returncode == 0, result.stderr
    for layer in LAYERS.split("+"):
        assert f"\n{layer} " in result.stdout
    assert "Power and energy: not readable on this device." in result.stdout
    with h5py.File(run) as file:
        table = file["layers"]
        assert [name.decode() for name in table["description"]] == LAYERS.split("+")
        assert [name.decode() for name in table["status"]] == ["complete"] * 4
        assert list(table["batch"]) == [2, 2, 2, 4]
        assert table["forward_seconds"].shape == table["backward_seconds"].shape == (4, 10)
        assert (table["forward_seconds"][()] > 0).all() and (
            table["backward_seconds"][()] > 0
        ).all()
        assert table["forward_bytes"][0] == 2 * 4 * 2 * 8 * 16 * 16
        assert table["forward_flops"][3] == 2 * 4 * 64 * 32
        assert np.isnan(table["power_watts"]).all() and np.isnan(table["energy_joules"]).all()
        assert (table["copy_bytes_per_second"][()] > 0).all()
        assert file.attrs["status"] == b"complete"


def test_layers_prints_json_and_reports_a_lack_of_memory_as_a_row():
    result = start(
        "layers",
        "--layer",
        "relu@2x8x8x8+relu@100000x64x224x224",
        "--threads",
        "1",
        "--json",
        "--memory-limit",
        "2G",
    )
    assert result.returncode == 0, result.stderr
    small, large = json.loads(result.stdout)["layers"]
    assert small["status"] == "complete" and len(small["forward_seconds"]) == 10
    assert small["power_watts"] is None
    assert large["status"] == "out_of_memory" and large["forward_seconds"] == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["layers", "--layer", "gelu@2x8x8x8"], ["gelu", "relu@NxCxHxW"]),
        (["layers", "--layer", "relu@2x8x8x8+"], ["''"]),
        (
            ["layers", "--layer", "conv:3-8,q3@2x6x6"],
            ["'conv:3-8,q3@2x6x6'", "conv:IN-OUT,kK,sS,pP@NxHxW"],
        ),
        (["layers", "--layer", "conv:3@2x6x6"], ["'conv:3@2x6x6'", "IN-OUT"]),
        (["stack", "--layer", "linear:8-4@2"], ["linear:8-4@2", "cannot be stacked"]),
        (["stack", "--layer", "relu@1x1x1x1", "--memory-limit", "1G"], ["10000", "--memory-limit"]),
        (["layers", "--layer", "relu@2x8x8x8", "--precision", "fp16"], ["fp16"]),
        (train("--swap-relu-pool"), ["--swap-relu-pool", "resnet18-cifar"]),
    ],
)
def test_invalid_layers_are_errors(arguments, words):
    line = expect_failure(start(*arguments), 2)
    for word in words:
        assert word in line


def test_layers_measure_one_device():
    assert "start one" in expect_failure(start_ranks((2, ["layers", "--layer", "relu@1x1x1x1"])), 2)


def test_stack_of_layers_that_cannot_be_cut_is_an_error_on_several_ranks():
    line = expect_failure(
        start_ranks((2, ["stack", "--layer", "relu@2x8x8x8", "--memory-limit", "1G"])), 2
    )
    assert "layer.1" in line


@pytest.mark.parametrize("ranks", [1, 2])
def test_stack_finds_the_deepest_stack_under_the_memory_limit(tmp_path, ranks):
    run = tmp_path / "s.h5"
    result = start_ranks(
        (
            ranks,
            [
                "stack",
                "--layer",
                "linear:1024-1024@8",
                "--memory-limit",
                "400MB",
                "--threads",
                "1",
                "--output",
                run,
            ],
        )
    )
    assert result.returncode == 0, result.stderr
    with h5py.File(run) as file:
        table = {name: values[()] for name, values in file["stack"].items()}
    assert [name.decode() for name in table["status"]] == ["complete", "out_of_memory"]
    assert (table["stages"] == ranks).all()
    fits, first_failure = table["depth"]
    assert first_failure == fits + 1
    assert fits >= 10 * ranks  # a layer needs 12.6 MB
    # The resident memory of a process, part of the estimate, varies by some MB with the pages of
    # libraries that are loaded.
    assert abs(fits - table["estimated_depth"][0]) <= 2 * ranks
    assert (table["limit_bytes"] == 400_000_000).all()
    assert table["peak_bytes"][0] > 0.8 * 400e6
    assert (
        np.isfinite(table["forward_seconds"][0]).all()
        and np.isnan(table["forward_seconds"][1]).all()
    )


def test_swapping_relu_and_max_pool_does_not_change_the_training():
    def losses(*options):
        result = start(
            *train("--deterministic", "--json", "--quiet", *options, model="vgg11", steps=3)
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["results"]["train_loss"]

    assert losses() == losses("--swap-relu-pool")
