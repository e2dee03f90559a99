# SPDX-License-Identifier: BSD-3-Clause
"""Tests that lockstep-data reads the IDX files of MNIST and EMNIST."""

import gzip
import struct

import numpy as np
import pytest
from data_command import check, convert, error_of, pixels
from image_files import LFS, RANDOM
from lockstep_data.cli import main


def write_idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as file:
        file.write(head + array.tobytes())


@pytest.mark.parametrize(
    "below, suffix, first",
    [(".", "", "0"), ("MNIST/raw", ".gz", "0"), ("FashionMNIST/raw", ".gz", "T-shirt/top")],
)
def test_mnist(below, suffix, first, tmp_path):
    place = tmp_path / below
    place.mkdir(parents=True, exist_ok=True)
    expected = []
    for prefix, count in (("train", 12), ("t10k", 5)):
        images, labels = pixels(count, 28, 28), RANDOM.integers(0, 10, count, dtype=np.uint8)
        write_idx(place / f"{prefix}-images-idx3-ubyte{suffix}", images)
        write_idx(place / f"{prefix}-labels-idx1-ubyte{suffix}", labels)
        expected += [images[:, None], labels]
    found = convert(tmp_path, "mnist", tmp_path)
    assert found["class_names"][0].decode() == first
    check(found, *expected, [name.decode() for name in found["class_names"]])


def test_emnist_has_a_prefix_and_labels_from_1(tmp_path, capsys):
    expected = []
    for split, count in (("train", 208), ("test", 52)):
        images, labels = pixels(count, 28, 28), np.arange(count, dtype=np.uint8) % 26 + 1
        write_idx(tmp_path / f"emnist-letters-{split}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"emnist-letters-{split}-labels-idx1-ubyte.gz", labels)
        expected += [images[:, None], labels]
    check(convert(tmp_path, "mnist", tmp_path), *expected, [str(i) for i in range(27)])
    assert "no training image has the label 0 (of 27 classes); labels count from 0" in error_of(
        capsys
    )
    write_idx(tmp_path / "emnist-digits-train-images-idx3-ubyte.gz", images)
    assert main(["mnist", str(tmp_path), "-o", str(tmp_path / "b.h5")]) == 3
    assert "several files of train images: emnist-digits-train" in error_of(capsys)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda content: content[:-1], "has 6271 values instead of 8 x 28 x 28"),
        (lambda content: b"\0\0\x0d" + content[3:], "no IDX file"),
        (
            lambda content: b"<html>",
            "no IDX file of uint8 with 3 dimension(s), but an HTML page; get a fresh copy",
        ),
        (
            lambda content: LFS,
            "no IDX file of uint8 with 3 dimension(s), but a pointer of Git LFS; fetch its content",
        ),
        (lambda content: gzip.compress(content)[:-9], "cannot be read"),
    ],
)
def test_damaged_idx_files_are_named(change, words, tmp_path, capsys):
    for prefix in ("train", "t10k"):
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte", pixels(8, 28, 28))
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte", np.zeros(8, np.uint8))
    broken = tmp_path / "t10k-images-idx3-ubyte"
    broken.write_bytes(change(broken.read_bytes()))
    convert(tmp_path, "mnist", tmp_path, status=3)
    line = error_of(capsys)
    assert words in line and "t10k-images-idx3-ubyte" in line
