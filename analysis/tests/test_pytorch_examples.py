# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the examples of training with PyTorch."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.settings import setting_of
from pytorch_programs import start

pytestmark = pytest.mark.requires("PYTORCH")


@pytest.mark.parametrize("name, ranks", [("pytorch_ddp.py", 2), ("pytorch_dp.py", 1)])
def test_example_trains_and_records(tmp_path, name, ranks):
    example = Path(__file__).parents[1] / "examples" / name
    for status, output in start(
        [
            example,
            "--data",
            "synthetic:40",
            "--model",
            "vgg11",
            "--batch-per-rank",
            "8",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--output",
            tmp_path / "a.h5",
        ],
        ranks,
    ):
        assert status == 0, output
    assert main(["validate", str(tmp_path / "a.h5")]) == 0
    found = read_run(tmp_path / "a.h5")
    assert found.rank_count == ranks and found.integer("steps_per_epoch") == {1: 5, 2: 2}[ranks]
    assert found.number("train-samples") == 40 and found.option("bn") == (
        "local" if ranks == 2 else ""
    )
    assert setting_of(found)[:4] == ("vgg11", "cpu", "fp32", "synthetic, 40 images")


@pytest.mark.parametrize(
    "folder", ["", "cifar-10-batches-bin"]
)  # without and with that of the archive
def test_example_trains_with_a_schedule_and_evaluates(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    for name in ["test_batch", *(f"data_batch_{i}" for i in range(1, 6))]:
        (tmp_path / folder / f"{name}.bin").write_bytes(bytes(i % 10 for i in range(8 * 3073)))
    example = Path(__file__).parents[1] / "examples" / "pytorch_dp.py"
    ((status, output),) = start(
        [
            example,
            "--data",
            f"cifar10:{tmp_path}",
            "--model",
            "vgg11",
            "--batch-per-rank",
            "8",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--epochs",
            "3",
            "--lr",
            "0.01",
            "--lr-schedule",
            "onecycle",
            "--nesterov",
            "--label-smoothing",
            "0.1",
            "--evaluate-every",
            "2",
            "--output",
            tmp_path / "a.h5",
        ],
        1,
    )
    assert status == 0, output
    found = read_run(tmp_path / "a.h5")
    assert found.option("lr-schedule") == "onecycle" and found.option("label-smoothing") == "0.1"
    assert [0 <= value <= 1 for value in found.epochs["test_accuracy"]] == [False, True, True]


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({}, ("0", "1", "127.0.0.1")),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "head"}, ("1", "2", "head")),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_NODES": "1",
                "SLURM_LAUNCH_NODE_IPADDR": "login",
            },
            ("1", "2", "127.0.0.1"),
        ),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_NODES": "2",
                "SLURM_LAUNCH_NODE_IPADDR": "head",
            },
            ("1", "2", "head"),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "SLURM_LAUNCH_NODE_IPADDR": "login",
            },
            ("1", "2", "127.0.0.1"),
        ),
    ],
)
def test_example_finds_its_ranks(variables, expected, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    import pytorch_ddp  # noqa: PLC0415

    monkeypatch.setattr(os, "environ", dict(variables))
    pytorch_ddp.set_ranks()
    assert tuple(os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")) == expected


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"lr_schedule": "onecycle"}, {0: 0.04, 3: 1, 10: 1e-4}),
        ({"lr_schedule": "cosine"}, {0: 1, 5: 0.5, 10: 0}),
        ({"lr_schedule": "onecycle", "warmup_epochs": 1}, {0: 0.2, 4: 1, 5: 1, 10: 1e-4}),
        ({"lr_schedule": "constant"}, {0: 1, 9: 1}),
    ],
)
def test_example_computes_the_learning_rates_of_lockstep(options, expected, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    from pytorch_training import learning_rate  # noqa: PLC0415

    args = SimpleNamespace(lr=1.0, epochs=2, **{"warmup_epochs": 0, **options})
    assert {step: learning_rate(args, step, 5) for step in expected} == pytest.approx(expected)
