# SPDX-License-Identifier: BSD-3-Clause
"""Tests of files that a run writes or reads: run files, traces and weights."""

import fcntl
import json

import h5py
import pytest
from command_line import expect_failure, start, train


def test_existing_output_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "run.h5"
    path.write_text("existing")
    assert "--overwrite" in expect_failure(start(*train(output=path)), 6)
    assert path.read_text() == "existing"
    assert "is no run file" in expect_failure(start(*train("--overwrite", output=path)), 6)
    assert path.read_text() == "existing"
    assert sorted(tmp_path.iterdir()) == [path]
    path.write_text("")
    for steps in (1, 2):
        assert start(*train("--overwrite", output=path, steps=steps)).returncode == 0
        with h5py.File(path) as file:
            assert len(file["steps/loss"]) == steps


@pytest.mark.parametrize("name", ["missing/run.h5", "file/run.h5"])
def test_output_path_that_cannot_be_created_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / name) in expect_failure(start(*train(output=tmp_path / name)), 6)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_invalid_weights_file_is_an_error(tmp_path):
    path = tmp_path / "weights.h5"
    assert str(path) in expect_failure(start(*train(init_from=path)), 3)
    path.write_text("not HDF5")
    assert str(path) in expect_failure(start(*train(init_from=path)), 3)


def test_locks_of_other_programs_do_not_prevent_reading(tmp_path):
    assert start(*train("--quiet", checkpoint_dir=tmp_path)).returncode == 0
    checkpoint = next(tmp_path.glob("checkpoint-*"))
    with open(checkpoint) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = start(
            *train("--quiet", batch_per_rank=8, init_from=checkpoint, output=tmp_path / "run.h5"),
            env={"HDF5_USE_FILE_LOCKING": "TRUE"},
        )
    assert (result.returncode, result.stderr) == (0, "")


def test_non_finite_loss_ends_the_run_and_is_recorded(tmp_path):
    path = tmp_path / "run.h5"
    line = expect_failure(start(*train(steps=6, lr=1e30, output=path)), 5)
    assert "step" in line and "--lr" in line
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"failed"
        assert b"not finite" in file.attrs["failure"]


def test_existing_trace_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("mine")
    assert "--overwrite" in expect_failure(start(*train(profile=1, trace=path)), 6)
    assert "is no trace" in expect_failure(start(*train("--overwrite", profile=1, trace=path)), 6)
    assert path.read_text() == "mine"
    path.write_text('{"traceEvents": []}')
    assert start(*train("--overwrite", profile=1, trace=path)).returncode == 0
    assert json.loads(path.read_text())["traceEvents"]
