# SPDX-License-Identifier: BSD-3-Clause
"""Runs every table of jobs/studies at toy size."""

import os

import pytest
from lockstep_study.points import as_table, option_value
from lockstep_study.table import read_table
from study_command import ROOT, study_process

TABLES = sorted((ROOT / "jobs" / "studies").glob("*.tsv"))

# Options that shrink every point of a table to a run of seconds.
TRAINING = [
    "--data",
    "synthetic:32",
    "--model",
    "vgg11",
    "--epochs",
    "1",
    "--evaluate-every",
    "never",
    "--threads",
    "1",
]
PER_RANK = [*TRAINING, "--batch-per-rank", "4"]
PROGRAMS = ["--data", "synthetic:32", "--model", "vgg11", "--epochs", "1", "--batch-per-rank", "4"]
TOY = {
    "accuracy-94": PROGRAMS,
    "against-pytorch": PROGRAMS,
    "bandwidth": ["--max-bytes", "4K", "--repeats", "2"],
    "homework": [*TRAINING, "--batch-per-rank", "4", "--max-bytes", "4K", "--repeats", "2"],
    "ladder": [
        "--data",
        "synthetic:64",
        "--model",
        "vgg11",
        "--memory-limit",
        "400MB",
        "--steps",
        "1",
    ],
    "large-batch": [*TRAINING, "--global-batch", "16", "--warmup-epochs", "0"],
    "large-batch-lars": [*TRAINING, "--global-batch", "16", "--warmup-epochs", "0"],
    "layers": ["--layer", "relu@2x4x8x8+linear:16-16@4"],
    "pipeline": [*TRAINING, "--batch-per-rank", "8"],
    "profile": [*PER_RANK, "--profile", "1"],
    "quickstart": PER_RANK,
    "reducers": PER_RANK,
    "stack": ["--layer", "linear:2048-2048@8", "--memory-limit", "400MB"],
    "strong": [*TRAINING, "--global-batch", "16"],
    "swap-relu-pool": PER_RANK,
    "telemetry": PER_RANK,
    "threads": [*TRAINING[:-2], "--batch-per-rank", "16"],
    "tutorial": [*TRAINING[2:], "--data", "synthetic:64", "--train-samples", "64"],
    "waiting": PER_RANK,
    "weak": PER_RANK,
}
MOST_RANKS = 2
MOST_THREADS = 2


def test_every_table_of_the_repository_has_toy_options():
    assert {path.stem for path in TABLES} == set(TOY)


WITH_PYTORCH = (pytest.mark.slow, pytest.mark.requires("PYTORCH"))
MARKS = {"quickstart": (), "accuracy-94": WITH_PYTORCH, "against-pytorch": WITH_PYTORCH}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, pytest.mark.slow))
        for path in TABLES
    ],
)
def test_table_runs_at_toy_size_and_is_reported(path, tmp_path):
    """Runs up to four points of a table, with few images, and makes the report."""
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    kept = [
        point
        for point in read_table(str(path))
        if point.ranks <= MOST_RANKS and threads_of(point) <= MOST_THREADS
    ]
    assert kept
    kept = kept if len(kept) <= 4 else kept[:2] + kept[-2:]
    small = tmp_path / "a table.tsv"
    small.write_text(as_table(kept), encoding="utf-8")
    result = study_process(
        "--dir",
        tmp_path / "results of a study",
        small,
        "--",
        *TOY[path.stem],
        LOCKSTEP_BIN=os.environ["LOCKSTEP_BIN"],
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "results of a study" / "report" / "report.md").exists()
    assert (tmp_path / "results of a study" / "report.html").exists()


def threads_of(point):
    return int(option_value(point.words, "--threads") or 1)
