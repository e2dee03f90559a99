# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the numbers that a study reads from the output of its runs."""

import os
import subprocess

import pytest
from lockstep_study.machine import mpi_environment
from lockstep_study.output import Efficiencies, Output
from lockstep_study.points import Point

TRAINING = """\
lockstep: warning: the batch is small
epoch 1/3: 4 steps
epoch 2/3: 4 steps
An epoch takes 12.5 s: 80 % computation
Total img/sec on 2 ranks : 812.5 +-3
lockstep: warning: a second one
Final test accuracy 75.00 % (best 76.00 %)
"""


@pytest.mark.parametrize(
    "text, result",
    [
        (TRAINING, "epoch 12.5 s, accuracy 75.00 %"),
        ("Final test accuracy 9.1 %\n", "accuracy 9.1 %"),
        (
            "# Avg bus bandwidth    : 1.5 GB/s\n# Avg bus bandwidth    : 12.3456 GB/s\n"
            "# Avg bus bandwidth    : 2 GB/s\n",
            "bus bandwidth up to 12.3 GB/s",
        ),
        (
            "The largest measured batch is 512 images per rank (memory)\n",
            "largest batch is 512 images per rank",
        ),
        ("x An epoch takes 12.5 s\nan error\n", ""),
    ],
)
def test_result_has_the_numbers_that_matter(text, result):
    assert Output(text).result() == result


def test_output_has_complete_epochs_rate_and_warnings():
    output = Output(TRAINING)
    assert (output.epochs, output.rate) == ("2/3", 812.5)
    assert output.warnings == ["the batch is small", "a second one"]
    assert (Output("").epochs, Output("").rate, Output("").warnings) == ("", None, [])


def efficiencies(*runs):
    """Returns the efficiencies of runs (ranks, options, rate), which end one after the other."""
    found = Efficiencies()
    return [
        found.add(Point("a", ranks, ("train",)), ["train", *options.split()], rate)
        for ranks, options, rate in runs
    ]


def test_efficiency_of_weak_scaling_compares_equal_batches_per_rank():
    assert efficiencies(
        (1, "--batch-per-rank 32 --lr 1", 100.0),
        (1, "--batch-per-rank 64 --lr 1", 500.0),
        (2, "--lr 1 --batch-per-rank 32", 150.0),
        (4, "--batch-per-rank 32 --lr 1", 200.0),
        (2, "--batch-per-rank 16 --lr 1", 150.0),
        (2, "--batch-per-rank 32 --lr 2", 150.0),
    ) == [None, None, 0.75, 0.5, None, None]


def test_efficiency_of_strong_scaling_compares_equal_global_batches():
    assert efficiencies(
        (1, "--global-batch=64", 100.0), (2, "--global-batch 64", 180.0), (2, "--lr 1", 90.0)
    ) == [None, 0.9, None]


def test_efficiency_uses_the_mean_of_the_repeats_with_one_rank():
    assert efficiencies((1, "", 100.0), (1, "", 300.0), (2, "", 200.0), (2, "", None)) == [
        None,
        None,
        0.5,
        None,
    ]


@pytest.mark.parametrize(
    "ranks, command, words",
    [
        (
            1,
            "train --data synthetic:4@3x32x32/2 --model vgg11 --batch-per-rank 2 --epochs 2"
            " --threads 1",
            ["epoch ", "accuracy "],
        ),
        (2, "allreduce --max-bytes 1K --repeats 2", ["bus bandwidth up to "]),
    ],
)
def test_output_of_the_program_is_understood(tmp_path, ranks, command, words):
    program = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    ended = subprocess.run(
        ["mpirun", "-n", str(ranks), program, *command.split(), "--output", tmp_path / "run.h5"],
        capture_output=True,
        text=True,
        env=os.environ | mpi_environment(ranks, os.environ),
    )
    assert ended.returncode == 0, ended.stderr
    output = Output(ended.stdout)
    assert all(word in output.result() for word in words), ended.stdout
    if command.startswith("train"):
        assert output.epochs == "2/2" and output.rate > 0
