# SPDX-License-Identifier: BSD-3-Clause
"""Tests of outputs that are one file, and of files that they do not replace."""

import os
import pathlib
import stat

import pytest
from commands import refused
from lockstep_report.cli import main
from programs import run_report

# Arguments that write one file, before its name.
ONE_FILE = {"html": ["-o"], "index": ["--csv"]}


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("command", ONE_FILE)
def test_a_single_file_is_written_and_replaced(command, one, tmp_path):
    target = tmp_path / "target"
    for text in (None, "earlier"):
        if text:
            target.write_text(text)
        assert main([command, one, *ONE_FILE[command], str(target)]) == 0
        assert target.stat().st_size > 100
    assert names(tmp_path) == {"one.h5", "target"}


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("name", ["two.h5", "copy", "copy.partial"])
def test_a_run_file_is_not_replaced(command, name, one, pair, tmp_path, capfd):
    """A pattern such as *.h5 after an option gives it the first of the files."""
    target = tmp_path / name
    target.write_bytes(pathlib.Path(pair[1]).read_bytes())
    before = target.read_bytes()
    line = refused(capfd, command, one, *ONE_FILE[command], target)
    assert f"{target}: cannot be written (it is an HDF5 file); give another file" in line
    assert target.read_bytes() == before


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("by_folder", [False, True])
def test_a_damaged_run_file_is_not_replaced(command, by_folder, tmp_path, capfd):
    folder = tmp_path / "runs"
    folder.mkdir()
    bad = folder / "bad.h5"
    bad.write_text("no HDF5")
    line = refused(capfd, command, folder if by_folder else bad, *ONE_FILE[command], bad)
    assert "cannot be written (" in line and bad.read_text() == "no HDF5"


def test_an_input_with_another_name_is_not_replaced(tmp_path, capfd):
    times, link = tmp_path / "times.csv", tmp_path / "link.csv"
    times.write_text("ranks,epoch_seconds\n1,10\n2,6\n")
    os.link(times, link)
    line = refused(capfd, "html", "--csv", times, "-o", link)
    assert "it is an input of the command" in line
    assert times.read_text().startswith("ranks,")


def special_file(kind, path):
    """Creates what no file may replace. The devices are copies and links in the folder of the test,
    because root can replace /dev/null."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.stat(os.devnull).st_rdev)
        except PermissionError:
            pytest.skip("device files can be created only by root")
    else:
        path.symlink_to({"link": "one.h5", "loop": path.name, "stdout": "/proc/self/fd/1"}[kind])


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "link", "loop", "stdout"])
def test_only_regular_files_are_replaced(command, kind, one, tmp_path, capfd):
    target = tmp_path / "target"
    special_file(kind, target)
    before = target.lstat()
    line = refused(capfd, command, one, *ONE_FILE[command], target)
    assert f"{target}: cannot be written (it is not a regular file); give another file" in line
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize(
    "place, words",
    [("none/target", "No such file or directory"), ("one.h5/target", "Not a directory")],
)
def test_a_file_in_no_folder_is_refused(command, place, words, one, tmp_path, capfd):
    assert words in refused(capfd, command, one, *ONE_FILE[command], tmp_path / place)


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("name", ["new.h5", "new.H5", "new.h5.partial", "new.hdf5"])
def test_no_file_gets_the_name_of_a_run_file(command, name, one, tmp_path, capfd):
    target = tmp_path / name
    assert "its name is that of a run file" in refused(
        capfd, command, one, *ONE_FILE[command], target
    )
    assert "its name is that of a run file" in refused(capfd, "tables", one, "--out", target)
    assert not target.exists()


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize(
    "name, content, kind",
    [
        ("thesis.pdf", b"%PDF-1.4", "a PDF document"),
        ("notes.txt", b"mine", "a text"),
        ("model.pt", b"PK\x03\x04", "a ZIP archive"),
        ("a", bytes(9), "a file of zero bytes"),
        ("b", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    ],
)
def test_a_file_of_another_kind_is_not_replaced(command, name, content, kind, one, tmp_path, capfd):
    target = tmp_path / name
    target.write_bytes(content)
    assert f"(it is {kind})" in refused(capfd, command, one, *ONE_FILE[command], target)
    assert target.read_bytes() == content


@pytest.mark.parametrize("command", ONE_FILE)
def test_an_output_of_another_command_is_not_replaced(command, one, tmp_path, capfd):
    target, own = tmp_path / "target", ONE_FILE[command]
    for other in ONE_FILE:
        assert main([other, one, *ONE_FILE[other], str(target)]) == 0
        capfd.readouterr()
        if other != command:
            before = target.read_bytes()
            assert "(it is a" in refused(capfd, command, one, *own, target)
            assert target.read_bytes() == before
        target.unlink()


@pytest.mark.parametrize("command", ONE_FILE)
def test_write_protected_file_and_stdout_are_not_replaced(command, one, tmp_path, capfd):
    target = tmp_path / "target"
    with target.open("w", encoding="utf-8") as stdout:
        done = run_report(command, one, *ONE_FILE[command], target, stdout=stdout)
    assert done.returncode == 6 and "(it is stdout or stderr of the command)" in done.stderr
    target.chmod(0o444)
    assert "(it is write-protected)" in refused(capfd, command, one, *ONE_FILE[command], target)
