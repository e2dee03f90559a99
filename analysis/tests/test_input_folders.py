# SPDX-License-Identifier: BSD-3-Clause
"""Tests of directories as arguments: their run files are used, and other files are named or
ignored."""

import json
import shutil

import h5py
import pytest
from lockstep_report.cli import main


def test_a_directory_stands_for_its_run_files(pair, tmp_path):
    by_name, by_folder = tmp_path / "by-name", tmp_path / "by-folder"
    assert main(["tables", *pair, "--out", str(by_name)]) == 0
    assert main(["tables", str(tmp_path), "--out", str(by_folder)]) == 0
    name = "table-1-time-speedup.csv"
    assert (by_name / name).read_text() == (by_folder / name).read_text()


def test_a_directory_without_run_files_is_named(tmp_path, capfd):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["report", str(empty), "--out", str(tmp_path / "out")]) == 3
    assert "is a directory without *.h5 files" in capfd.readouterr().err


def test_hidden_files_of_a_directory_are_not_read(pair, tmp_path, capfd):
    for name in ("._a.h5", ".nfs000000000001", ".~lock.a.h5#", ".a.part2.h5"):
        (tmp_path / name).write_bytes(b"\0\5\26\7")
    (tmp_path / "__MACOSX").mkdir()
    assert main(["index", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)) == len(pair)


@pytest.mark.parametrize("name", ["a.hdf5", "a.he5", "a.HDF", "a.hdf5.copy"])
def test_run_files_with_other_suffixes_are_found_or_named(name, one, tmp_path, capfd):
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(one, folder / name)
    with h5py.File(folder / "images.hdf5", "w") as file:  # no run file
        file["train/images"] = [1]
    is_named = name.endswith("copy")
    assert main(["index", str(folder)]) == (3 if is_named else 0)
    output = capfd.readouterr()
    assert f"folder/{name}" in output.out + output.err and "images" not in output.out + output.err
    assert (f"give its run files by name: {folder / name}" in output.err) == is_named


def test_a_directory_of_directories_names_those_with_run_files(one, tmp_path, capfd):
    for place in (
        "study/one",
        "study/two/deep",
        "study/__MACOSX",
        "study/.hidden",
        "study/checkpoints",
        "study/empty",
    ):
        (tmp_path / place).mkdir(parents=True)
    for place in ("one", "two/deep", "__MACOSX", ".hidden"):
        shutil.copy(one, tmp_path / "study" / place / "a.h5")
    with h5py.File(tmp_path / "study/checkpoints/c.h5", "w") as file:
        file.attrs["format"] = "lockstep-checkpoint"
    assert main(["report", str(tmp_path / "study"), "--out", str(tmp_path / "out")]) == 3
    study = tmp_path / "study"
    assert (
        capfd.readouterr().err
        == f"lockstep-report: {study}: is a directory without *.h5 files; give its subfolders with"
        f" run files: {study / 'one'}, {study / 'two/deep'}\n"
    )


@pytest.mark.parametrize("command", ["validate"])
def test_a_command_for_one_file_says_that_it_got_a_directory(command, one, tmp_path, capfd):
    assert main([command, str(tmp_path)]) == 3
    line = capfd.readouterr().err
    assert "is a directory" in line and one in line
