# SPDX-License-Identifier: BSD-3-Clause
"""Tests that lockstep-data reads CIFAR, and refuses damaged files and harmful pickles."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from data_command import check, convert, error_of, pixels
from image_files import LFS, NAMES, write_cifar


@pytest.mark.parametrize("form", ["cifar-10-batches-py", ".", "cifar-10-python.tar.gz"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_cifar_for_python(form, protocol, tmp_path):
    train, test = write_cifar(tmp_path / "cifar-10-batches-py", protocol)
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    check(convert(tmp_path, "cifar-python", tmp_path / form), *train, *test, NAMES)


def test_cifar_100_has_the_fine_labels(tmp_path):
    images, fine = {name: pixels(4, 3, 32, 32) for name in ("train", "test")}, [0, 99, 50, 1]
    for name, array in images.items():
        (tmp_path / name).write_bytes(
            pickle.dumps(
                {b"data": array.reshape(4, -1), b"fine_labels": fine, b"coarse_labels": [0] * 4}, 2
            )
        )
    names = [f"fine{i}" for i in range(100)]
    (tmp_path / "meta").write_bytes(
        pickle.dumps({b"fine_label_names": [name.encode() for name in names]}, 2)
    )
    check(
        convert(tmp_path, "cifar-python", tmp_path),
        images["train"],
        fine,
        images["test"],
        fine,
        names,
    )


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_pickles_execute_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_cifar(tmp_path / "py")
    (tmp_path / "py" / "data_batch_3").write_bytes(
        pickle.dumps({b"data": Malicious(), b"labels": [1]}, 2)
    )
    convert(tmp_path, "cifar-python", tmp_path / "py", status=3)
    assert "data_batch_3 is damaged (it needs posix.mkdir" in error_of(capsys)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "data_batch_2 is damaged"),
        (b"\x80\x02}q", "data_batch_2 is damaged"),
        (
            LFS,
            "data_batch_2 is damaged (it is a pointer of Git LFS); fetch its content: git lfs pull",
        ),
        (bytes(9), "it is a file of zero bytes"),
        (None, "lacks data_batch_2"),
        (pickle.dumps([1]), "no dictionary"),
        (pickle.dumps({b"labels": [1]}), "does not have 3072 pixels for each of its 1"),
        (
            pickle.dumps({b"labels": [1], b"data": np.zeros((1, 3072), np.float32)}, 2),
            "3072 pixels",
        ),
        (
            pickle.dumps({b"labels": [11], b"data": np.zeros((1, 3072), np.uint8)}, 2),
            "label 11 of train image 3 is not from 0 to 9",
        ),
    ],
)
def test_damaged_cifar_files_are_named(content, words, tmp_path, capsys):
    write_cifar(tmp_path / "py")
    (tmp_path / "py" / "data_batch_2").unlink()
    if content is not None:
        (tmp_path / "py" / "data_batch_2").write_bytes(content)
    convert(tmp_path, "cifar-python", tmp_path / "py", status=3)
    assert words in error_of(capsys)


@pytest.mark.parametrize(
    "command, words",
    [
        (
            ["numpy", "FILE"],
            (
                "FILE: not arrays of NumPy (.npz), but a pointer of Git LFS; fetch its content: git"
                " lfs pull"
            ),
        ),
        (
            ["cifar-python", "FILE"],
            "FILE: not CIFAR for Python, but a pointer of Git LFS; fetch its content: git lfs pull",
        ),
    ],
)
def test_pointers_of_git_lfs_are_named(command, words, tmp_path, capsys):
    file = tmp_path / "a.npz"
    file.write_bytes(LFS)
    convert(tmp_path, *(str(file) if word == "FILE" else word for word in command), status=3)
    assert words.replace("FILE", str(file)) in error_of(capsys)


def test_every_cut_off_archive_is_an_error(tmp_path, capsys):
    write_cifar(tmp_path / "py")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(tmp_path / "py", "py")
    whole = buffer.getvalue()
    for length in range(0, len(whole) - 1024, len(whole) // 20):
        (tmp_path / "x.tar.gz").write_bytes(whole[:length])
        convert(tmp_path, "cifar-python", tmp_path / "x.tar.gz", status=3)
        assert "x.tar.gz: " in error_of(capsys)
