# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the folder of the results: errors, and the lock against a second study."""

import errno
import os
import pathlib

import pytest
from lockstep_study import local
from study_command import RUN, study


def test_folder_that_cannot_be_created_is_one_error(table, tmp_path):
    (tmp_path / "file").write_text("")
    result = study(*RUN, "--dir", tmp_path / "file", table)
    assert result.returncode == 1
    assert (
        result.stderr
        == f"study: cannot create the folder {tmp_path}/file; name another one with --dir\n"
    )


def test_folder_that_cannot_be_written_is_one_error(table, tmp_path, monkeypatch):
    monkeypatch.setattr(local.os, "access", lambda path, mode: str(path) != str(tmp_path))
    result = study(*RUN, "--dir", tmp_path, table)
    assert (result.returncode, result.stdout) == (1, "")
    assert (
        result.stderr
        == f"study: cannot write to the folder {tmp_path}; name another one with --dir\n"
    )


def test_folder_without_locks_is_used_with_a_note(table, tmp_path, program, monkeypatch):
    """Some network file systems have no locks."""

    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(local.fcntl, "flock", flock)
    result = study(*RUN, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 0 and (tmp_path / "out" / "one-1.done").exists()
    assert result.stderr == (
        f"study: cannot lock {tmp_path}/out (No locks available); make sure that no other study"
        " uses it\n"
    )


@pytest.mark.parametrize("directory", ["new/a/b", "a b", "\N{SNOWMAN}"])
def test_folder_is_created(table, tmp_path, program, directory):
    result = study(*RUN, "--dir", directory, table, folder=tmp_path, **program())
    assert result.returncode == 0, result.stderr
    assert (tmp_path / directory / "one-1.done").exists()


def test_links_of_the_folder_are_resolved(table, tmp_path, program):
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to("true")
    result = study("--dry-run", *RUN, "--dir", tmp_path / "link", table, **program())
    assert f" --output {tmp_path}/true/one-1.0.h5 #" in result.stdout


def test_error_of_the_system_is_one_line(table, tmp_path, program, monkeypatch):
    """For example a full disk, when the start of a run is noted."""

    def write_text(self, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    program_of_study = program()
    monkeypatch.setattr(pathlib.Path, "write_text", write_text)
    result = study(*RUN, "--dir", tmp_path / "out", table, **program_of_study)
    assert result.returncode == 1
    assert result.stderr == f"study: {tmp_path}/out/table.tsv.new: No space left on device\n"
