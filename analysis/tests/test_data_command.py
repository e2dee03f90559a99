# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the outputs, errors and progress of lockstep-data."""

import io

import h5py
import pytest
from data_command import contents, convert, error_of
from image_files import write_cifar
from lockstep_data.cli import main
from lockstep_data.progress import Progress


@pytest.mark.parametrize("name", ["out.h5", "out.h5.partial"])
def test_existing_files_are_kept(name, tmp_path, capsys):
    write_cifar(tmp_path / "py")
    (tmp_path / name).write_bytes(b"content of the user")
    assert main(["cifar-python", str(tmp_path / "py"), "-o", str(tmp_path / "out.h5")]) == 6
    assert name in error_of(capsys) and (tmp_path / name).read_bytes() == b"content of the user"


def test_a_partial_file_of_another_program_is_kept(tmp_path, capsys):
    write_cifar(tmp_path / "py")
    with h5py.File(tmp_path / "out.h5.partial", "w") as file:
        file["mine"] = 1
    assert main(["cifar-python", str(tmp_path / "py"), "-o", str(tmp_path / "out.h5")]) == 6
    assert "no file of an interrupted import" in error_of(capsys)
    assert contents(tmp_path / "out.h5.partial") == {"mine": 1}


@pytest.mark.parametrize(
    "arguments, status",
    [
        (["folder", "f", "--size", "0"], 2),
        (["folder", "f", "--size", "8x8x8"], 2),
        (["folder", "f"], 2),
        (["jpeg", "f"], 2),
        (["numpy", "a.npz", "--mean", "2"], 2),
        (["numpy", "missing.npz"], 3),
        (["mnist", "missing"], 3),
        (["cifar-python", "missing"], 3),
    ],
)
def test_wrong_commands_have_one_line(arguments, status, tmp_path, capsys):
    try:
        found = main([*arguments, "-o", str(tmp_path / "out.h5")])
    except SystemExit as error:
        found = error.code
    assert found == status
    error_of(capsys)


def test_wrong_number_of_means_is_an_error(tmp_path, capsys):
    write_cifar(tmp_path / "py")
    convert(tmp_path, "cifar-python", tmp_path / "py", "--mean", "0.5", status=2)
    assert "--mean: 1 values, but the images have 3 channel(s)" in error_of(capsys)


def test_missing_directory_is_an_error_of_the_output(tmp_path, capsys):
    write_cifar(tmp_path / "py")
    assert main(["cifar-python", str(tmp_path / "py"), "-o", str(tmp_path / "no" / "out.h5")]) == 6
    assert "cannot be written" in error_of(capsys)


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    texts = []
    for is_terminal in (True, False):
        progress = Progress(400, Stream(is_terminal))
        for done in range(100, 401, 50):  # 100 were complete before
            progress.show(done)
            now[0] += 4
        texts.append(progress.stream.getvalue())
    assert texts[0].count("\r") == 7 and texts[0].endswith("400 of 400 images\033[K\n")
    assert "[" + "#" * 15 in texts[0] and "200 of 400 images, 16 s left" in texts[0]
    assert texts[1].splitlines() == [
        "lockstep-data: 250 of 400 images, 12 s left",
        "lockstep-data: 400 of 400 images",
    ]
