# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `lockstep ladder`."""

import json
import re
import subprocess

import h5py
import numpy as np
from command_line import BIN, HANG, environment, expect_failure, start


def estimated_bytes(batch):
    """Returns the estimated memory of a training with this batch."""
    options = "--data synthetic:200 --threads 1 --evaluate-every never".split()
    planned = start("plan", *options, "--batch-per-rank", batch, "--json")
    return json.loads(planned.stdout)["memory_bytes"]["total"]


def test_ladder_ends_with_an_out_of_memory_point_and_status_0(tmp_path):
    path = tmp_path / "ladder.h5"
    # Between the estimates of the first two points: the process itself is larger with sanitizers
    # and on some processors.
    limit = (estimated_bytes(2) + estimated_bytes(8)) // 2
    options = "--ladder-start 2 --steps 1 --data synthetic:200 --threads 1".split()
    result = start("ladder", *options, "--memory-limit", limit, "--output", path)
    assert result.returncode == 0, result.stderr
    assert "out of memory" in result.stdout
    with h5py.File(path) as file:
        status = [s.decode() if isinstance(s, bytes) else s for s in file["ladder/status"][:]]
        assert status == ["complete", "out_of_memory"]
        assert (file["ladder/batch_per_rank"][:] == 2 * 4 ** np.arange(len(status))).all()


LADDER = [
    "ladder",
    "--ladder-start",
    "2",
    "--steps",
    "1",
    "--data",
    "synthetic:600",
    "--threads",
    "1",
]


def points_of(path):
    """Returns the columns of the ladder in a run file for its complete points."""
    with h5py.File(path, swmr=True) as file:
        if "ladder" not in file:
            return {}
        count = len(file["point"])
        return {name: column[:count].tolist() for name, column in file["ladder"].items()}


def test_run_file_of_a_killed_ladder_has_the_complete_points(tmp_path):
    path = tmp_path / "ladder.h5"
    process = subprocess.Popen(
        [BIN, *LADDER, "--output", path], env=environment(), stdout=subprocess.PIPE, text=True
    )
    rows = (line for line in process.stdout if re.match(r"\d+ ", line))
    (
        next(rows),
        next(rows),
    )  # each row is printed before its point is written, so the file has at least one point
    process.kill()
    process.communicate(timeout=HANG)
    points = points_of(tmp_path / "ladder.h5.partial")
    assert points["batch_per_rank"][0] == 2 and points["status"][0] == b"complete"
    assert 0 < points["training_seconds"][0] <= points["epoch_seconds"][0]
    assert points["steps"][0] == 1 and points["is_extrapolated"][0] == 1


def test_ladder_with_a_non_finite_loss_fails(tmp_path):
    path = tmp_path / "ladder.h5"
    result = start(
        "ladder",
        "--steps",
        "6",
        "--lr",
        "1e30",
        "--ladder-start",
        "2",
        "--data",
        "synthetic:24",
        "--threads",
        "1",
        "--output",
        path,
    )
    assert "not finite" in expect_failure(result, 5)
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"failed" and b"not finite" in file.attrs["failure"]


def test_ladder_reports_that_the_first_batch_is_too_large():
    text = start(*LADDER, "--memory-limit", "100MB").stdout
    assert (
        "Even the smallest batch, 2 images per rank, needs more memory than the limit of 100 MB per"
        " rank" in text
    )
