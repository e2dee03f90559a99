# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the reducers that send all gradients through rank 0, and of the bytes in the run
file."""

import csv
import math
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command_line import HANG, environment, expect_failure, start, start_ranks, train
from lockstep_study.table import read_table

ROOT = pathlib.Path(__file__).parents[2]
ANALYSIS = ROOT / "analysis"
STUDY = ROOT / "jobs" / "studies" / "reducers.tsv"
GRADIENTS = 4 * 11_173_962  # bytes of the gradients and of the parameters of resnet18-cifar
BUCKETS = [1_572_864] * 7 + [163_914]  # gradients in each bucket of 6 MiB
# An index and a value for 1 % of them.
SPARSE = sum(8 * math.ceil(0.01 * gradients) for gradients in BUCKETS)
BATCH = 2 * (3 * 32 * 32 + 4)  # bytes of the images and labels of a rank


def run(path, reducer, *arguments, ranks=2):
    result = start_ranks(
        (ranks, train("--reducer", reducer, "--deterministic", *arguments, output=path))
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def reported(paths, folder):
    """Returns {reducer: row} of the table in the report of the runs."""
    command = [sys.executable, "-B", "-m", "lockstep_report", "report"]
    report = subprocess.run(
        [*command, *map(str, paths), "--out", str(folder)],
        env=environment() | {"PYTHONPATH": str(ANALYSIS), "MPLBACKEND": "Agg"},
        text=True,
        capture_output=True,
        timeout=HANG,
    )
    assert report.returncode == 0, report.stderr
    assert list(folder.glob("reducers*.svg"))
    with (folder / "reducers.csv").open() as file:
        return {row["mode"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
def test_losses_and_messages_of_each_reducer(tmp_path):
    expected = {  # reducer: (bytes that rank 0 and rank 1 send, bytes that they receive)
        "allreduce": ((GRADIENTS, GRADIENTS), (GRADIENTS, GRADIENTS)),
        "gather-scatter": ((GRADIENTS, GRADIENTS), (GRADIENTS, GRADIENTS)),
        "parameter-server": ((GRADIENTS + BATCH, GRADIENTS), (GRADIENTS, GRADIENTS + BATCH)),
        "top-k": ((SPARSE, SPARSE), (SPARSE, SPARSE)),
    }
    losses, bucket_bytes = {}, {}
    for reducer, (sent, received) in expected.items():
        run(tmp_path / f"{reducer}.h5", reducer)
        with h5py.File(tmp_path / f"{reducer}.h5") as file:
            # The two chunks of a piece may differ by some elements with the all-reduce.
            assert np.allclose(file["steps/sent_bytes"][...], [sent] * 2, rtol=1e-6, atol=0)
            assert np.allclose(file["steps/received_bytes"][...], [received] * 2, rtol=1e-6, atol=0)
            losses[reducer] = file["steps/loss"][...]
            bucket_bytes[reducer] = file["buckets/bytes"][...].sum()
    assert bucket_bytes["top-k"] == SPARSE
    assert bucket_bytes["allreduce"] == pytest.approx(GRADIENTS, rel=1e-6)
    # The sum of two ranks has one order only, so all reducers give the same bits.
    assert np.array_equal(losses["gather-scatter"], losses["allreduce"])
    assert np.array_equal(losses["parameter-server"], losses["allreduce"])
    rows = reported(tmp_path.glob("*.h5"), tmp_path / "out")
    assert set(rows) == set(expected)
    for reducer, (sent, received) in expected.items():
        assert float(rows[reducer]["sent_mb"]) == pytest.approx(max(sent) / 1e6)
        assert float(rows[reducer]["received_mb"]) == pytest.approx(max(received) / 1e6)
        assert float(rows[reducer]["all_sent_mb"]) == pytest.approx(sum(sent) / 1e6)


def test_one_rank_has_nothing_to_serve(tmp_path):
    assert "none: there is one rank" in run(tmp_path / "run.h5", "parameter-server", ranks=1)
    with h5py.File(tmp_path / "run.h5") as file:
        assert not file["steps/sent_bytes"][...].any()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["--reducer", "gather-scatter", "--all-reduce", "ring"],
            ["gather-scatter", "--all-reduce ring"],
        ),
        (
            ["--reducer", "gather-scatter", "--gradient-dtype", "bf16"],
            ["gather-scatter", "fp32 only; use --gradient-dtype fp32"],
        ),
        (["--reducer", "top-k", "--pipeline-stages", "2"], ["top-k", "--pipeline-stages"]),
        (
            ["--reducer", "parameter-server", "--data-residency", "device"],
            ["parameter-server", "--data-residency device"],
        ),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (  # the same checks with other values
                (
                    ["--reducer", "parameter-server", "--all-reduce", "mpi"],
                    ["parameter-server", "--all-reduce mpi"],
                ),
                (["--reducer", "top-k", "--all-reduce", "ring"], ["top-k", "--all-reduce ring"]),
                (
                    ["--reducer", "top-k", "--gradient-dtype", "bf16"],
                    ["top-k", "fp32 only; use --gradient-dtype fp32"],
                ),
            )
        ),
    ],
)
def test_combinations_that_are_not_possible_are_errors(arguments, words):
    line = expect_failure(start_ranks((2, train(*arguments))), 2)
    for word in words:
        assert word in line


@pytest.mark.slow
def test_lines_of_the_study_are_valid_commands():
    for words in sorted({point.words for point in read_table(str(STUDY))}):
        result = start(
            *words,
            "--data",
            "synthetic:64",
            "--steps",
            "1",
            "--threads",
            "1",
            "--dry-run",
        )
        assert result.returncode == 0, f"{words}: {result.stderr}"
