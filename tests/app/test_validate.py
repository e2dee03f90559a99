# SPDX-License-Identifier: BSD-3-Clause
"""Tests that `lockstep-report validate` accepts the runs of several ranks of the program, and no
other sizes of the buckets."""

import pathlib
import sys

import h5py
import pytest
from command_line import start, start_ranks, train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.runfile.validate import problems  # noqa: E402


@pytest.mark.parametrize(
    "options",
    [
        {
            "model": "resnet18-cifar",
            "classes": 11,
            "gradient_dtype": "bf16",
            "all_reduce": "direct",
        },
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"model": "resnet18-cifar"},
                {"model": "vgg11", "classes": 13},
                {"model": "resnet18-cifar", "reducer": "parameter-server"},
            )
        ),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_buckets_of_padded_parameters_are_valid(tmp_path, options):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train(output=path, **options)))
    assert result.returncode == 0, result.stderr
    assert problems(path) == []
    with h5py.File(path, "r+") as file:
        file["buckets/bytes"][-1] -= 24
    assert any("elements of the gradients need" in line for line in problems(path))


@pytest.mark.parametrize(
    "command",
    [
        ["ladder", "--data=synthetic:8", "--ladder-start=4"],
        ["layers", "--layer=relu@1x2x8x8"],
        ["stack", "--layer=relu@1x2x8x8", "--memory-limit=1M"],
        ["allreduce", "--max-bytes=4096"],
    ],
    ids=lambda c: c[0],
)
def test_other_commands_record_the_lack_of_processors(tmp_path, command):
    path = tmp_path / "run.h5"
    result = start(*command, "--threads=1", "--output", path)
    assert result.returncode == 0, result.stderr
    assert problems(path) == []
    with h5py.File(path) as file:
        share = file["results"].attrs["lacking_processor_share"]
    assert 0 <= share <= 1
    assert (share >= 0.05) == ("a rank lacked a processor" in result.stderr)
