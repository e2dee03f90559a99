"""Tests that `lockstep-report validate` accepts the runs of several ranks of the program, and no other sizes of the
buckets."""

import pathlib
import sys

import h5py
import pytest

from test_cli import start_ranks, train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.validate import problems  # noqa: E402


@pytest.mark.parametrize("options", [
    {"model": "resnet18-cifar"}, {"model": "vgg11", "classes": 13}, {"model": "resnet18-cifar", "classes": 11,
                                                                    "gradient_dtype": "bf16", "all_reduce": "direct"},
    {"model": "resnet18-cifar", "reducer": "parameter-server"}], ids=lambda options: "-".join(map(str, options.values())))
def test_buckets_of_padded_parameters_are_valid(tmp_path, options):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train(output=path, **options)))
    assert result.returncode == 0, result.stderr
    assert problems(path) == []
    with h5py.File(path, "r+") as file:
        file["buckets/bytes"][-1] -= 24
    assert any("elements of the gradients need" in line for line in problems(path))
