# SPDX-License-Identifier: BSD-3-Clause
"""The verification of the binary version of CIFAR-10 that jobs/download-cifar10 runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lockstep_data import cifar_binary
from lockstep_data.cifar_binary import first_difference

BATCH = b"".join(bytes([label]) + bytes(3072) for label in range(10)) * 1000
NAMES = "airplane automobile bird cat deer dog frog horse ship truck".replace(" ", "\n")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with the files, of black images."""
    folder = tmp_path_factory.mktemp("published")
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").write_bytes(BATCH)
    (folder / "test_batch.bin").write_bytes(BATCH)
    (folder / "batches.meta.txt").write_text(NAMES, encoding="utf-8")
    return folder


@pytest.fixture
def copy(published, tmp_path):
    """A copy of the folder, whose files are hard links: a test replaces them and does not write
    into them."""
    for path in published.iterdir():
        os.link(path, tmp_path / path.name)
    return tmp_path


def test_published_files_have_no_difference(published):
    assert first_difference(published) == ""


@pytest.mark.parametrize(
    "name, content, text",
    [
        (
            "data_batch_3.bin",
            lambda: BATCH[:-1],
            "data_batch_3.bin has 30729999 bytes instead of 30730000",
        ),
        ("test_batch.bin", lambda: b"", "test_batch.bin has 0 bytes instead of 30730000"),
        (
            "test_batch.bin",
            lambda: b"\1" + BATCH[1:],
            "the test labels are not 1000 of each class",
        ),
        (
            "data_batch_5.bin",
            lambda: b"\12" + BATCH[1:],
            "the train labels are not 5000 of each class",
        ),
        (
            "batches.meta.txt",
            lambda: b"cat\n" * 9,
            "batches.meta.txt does not have ten class names",
        ),
        (
            "batches.meta.txt",
            lambda: b"cat\n" * 1025,
            "batches.meta.txt has 4100 bytes, more than ten class names",
        ),
    ],
)
def test_first_difference_is_named(copy, name, content, text):
    (copy / name).unlink()
    (copy / name).write_bytes(content())
    assert first_difference(copy) == text


def test_files_that_cannot_be_read_are_reported(copy):
    (copy / "batches.meta.txt").unlink()
    assert first_difference(copy).startswith("cannot be read: [Errno 2]")
    (copy / "batches.meta.txt").write_bytes(b"\xff")
    assert first_difference(copy).startswith("cannot be read: 'utf-8' codec")


def test_only_regular_files_are_read(copy):
    (copy / "data_batch_1.bin").unlink()
    (copy / "data_batch_1.bin").symlink_to("/dev/zero")
    assert first_difference(copy) == "data_batch_1.bin is not a regular file"


def test_program_needs_no_packages(copy):
    program = Path(cifar_binary.__file__)
    (copy / "test_batch.bin").unlink()
    done = subprocess.run(
        [sys.executable, "-S", "-I", program, copy], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cannot be read: ") and done.stdout.count("\n") == 1
