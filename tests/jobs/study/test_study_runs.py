# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the order of the runs, their files and markers, and of runs that were killed."""

import h5py
import pytest
from study_command import RUN, calls, commands_of, study, study_process


def test_points_run_in_turn_and_repeats_have_their_seed(table, tmp_path, program):
    result = study(*RUN, "--repeats", 2, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 0, result.stderr
    made = calls(tmp_path)
    assert [words[0] for words in made] == ["train", "allreduce", "train", "allreduce"]
    assert [words[words.index("--seed") + 1] for words in made[::2]] == ["1", "2"]
    assert made[0][-1] == f"{tmp_path}/out/one-1.0.h5"
    assert "--seed" not in made[1] and "--resume" not in made[1]
    marker = (tmp_path / "out" / "two-2.done").read_text(encoding="utf-8")
    assert marker == "two-2.0.h5\nlauncher=env RANKS_STARTED=RANKS\nbuild=1\n"


def test_complete_points_are_not_run_again(table, tmp_path, program):
    for _ in range(2):
        assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert len(calls(tmp_path)) == 2


def test_complete_run_keeps_only_its_last_checkpoint(table, tmp_path, program):
    folder = tmp_path / "out" / "checkpoints" / "one-1"
    folder.mkdir(parents=True)
    (tmp_path / "out" / "one-1.started").touch()
    for name in ("checkpoint-9.h5", "checkpoint-10.h5", "checkpoint-100.h5", ".lockstep-run"):
        (folder / name).touch()
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert {path.name for path in folder.iterdir()} == {"checkpoint-100.h5", ".lockstep-run"}


EXPERIMENT = "launcher=env RANKS_STARTED=RANKS\nbuild=1\n"  # of the stub


@pytest.mark.parametrize("name", ["out", "é [d] *"])
def test_run_that_was_killed_continues_in_another_file(table, tmp_path, program, name):
    """lockstep would not write to a file whose unfinished part remains."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "one-1.0.h5.partial").touch()
    (folder / "one-1.started").write_text(EXPERIMENT, encoding="utf-8")
    result = study_process(*RUN, "--dir", folder, table, **program(), LC_ALL="C")
    assert result.returncode == 0, result.stderr
    assert b"one-1.1.h5" in (tmp_path / "calls").read_bytes().splitlines()[0]
    assert (folder / "one-1.done").read_text(encoding="utf-8").startswith("one-1.1.h5\n")


@pytest.mark.parametrize("status", ["complete", "preempted"])
def test_run_that_ended_after_the_study_was_killed_is_complete(table, tmp_path, program, status):
    """lockstep would write no run file, because its checkpoint is that of the last step."""
    folder = tmp_path / "out"
    folder.mkdir()
    with h5py.File(folder / "one-1.0.h5", "w") as file:
        file.attrs["status"] = status
    (folder / "one-1.started").write_text(EXPERIMENT, encoding="utf-8")
    assert study(*RUN, "--dir", folder, table, **program()).returncode == 0
    is_run = any(words[0] == "train" for words in calls(tmp_path))
    assert is_run == (status != "complete")
    file = "one-1.1.h5" if is_run else "one-1.0.h5"
    assert (folder / "one-1.done").read_text(encoding="utf-8") == f"{file}\n{EXPERIMENT}"


def test_marker_that_cannot_be_written_fails_the_run(table, tmp_path, program):
    (tmp_path / "out" / "one-1.done.new").mkdir(parents=True)
    result = study(*RUN, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 1 and "failed runs: one-1 (status 1)" in result.stderr
    assert (tmp_path / "out" / "one-1.started").exists() and not (
        tmp_path / "out" / "one-1.done"
    ).exists()


def test_image_of_a_cluster_is_not_used(table):
    result = study("--dry-run", table, LOCKSTEP_BIN="", LOCKSTEP_IMAGE="/nowhere.sif")
    assert all("/lockstep " in line for line in commands_of(result)), result.stdout
