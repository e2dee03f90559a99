# SPDX-License-Identifier: BSD-3-Clause
"""Tests that lockstep-data reads NumPy arrays, and names those that it cannot use."""

import numpy as np
import pytest
from data_command import check, convert, error_of, pixels
from image_files import RANDOM


@pytest.mark.parametrize("names", [("{}_images", "{}_labels"), ("x_{}", "y_{}")])
@pytest.mark.parametrize("order", ["NHWC", "NCHW", "NHW"])
def test_numpy_arrays(names, order, tmp_path):
    arrays, expected = {}, []
    for split, count in (("train", 9), ("test", 4)):
        images, labels = (
            pixels(count, 1 if order == "NHW" else 3, 6, 8),
            RANDOM.integers(0, 4, (count, 1)),
        )
        stored = {"NHWC": images.transpose(0, 2, 3, 1), "NCHW": images, "NHW": images[:, 0]}[order]
        arrays |= {names[0].format(split): stored, names[1].format(split): labels}
        expected += [images, labels[:, 0]]
    np.savez(tmp_path / "a.npz", **arrays, class_names=["a", "bä", "c", "d"])
    check(convert(tmp_path, "numpy", tmp_path / "a.npz"), *expected, ["a", "bä", "c", "d"])


@pytest.mark.parametrize(
    "stored",
    [
        lambda x, y: (x / 255, np.eye(3)[y]),
        lambda x, y: ((x / 255).astype(np.float32), np.eye(3, dtype=bool)[y]),
        lambda x, y: (x.astype(np.float16), y.astype(np.float32)),
        lambda x, y: (x.astype(np.int64), y.astype(np.uint8)[:, None]),
        lambda x, y: (x, np.array(["0", "1", "2"])[y]),
        lambda x, y: (x, np.array(["0", "1", "2"], "S")[y]),
    ],
)
@pytest.mark.parametrize("names", [("X_{}", "y_{}"), ("{}X", "{}Y"), ("{}_data", "{}_label")])
@pytest.mark.parametrize("test", ["test", "val", "validation"])
def test_arrays_that_state_the_same_are_the_same(stored, names, test, tmp_path):
    arrays, expected = {}, []
    for split, images, labels in (
        ("train", pixels(9, 3, 6, 8), np.arange(9) % 3),
        (test, pixels(4, 3, 6, 8), np.arange(4) % 3),
    ):
        arrays |= dict(zip((name.format(split) for name in names), stored(images, labels)))
        expected += [images, labels]
    np.savez(tmp_path / "a.npz", **arrays)
    check(convert(tmp_path, "numpy", tmp_path / "a.npz"), *expected, ["0", "1", "2"])


def test_of_two_test_sets_one_is_used_and_named(tmp_path, capsys):
    arrays = {
        f"{split}_images": np.full((2, 3, 3), value, np.uint8)
        for value, split in enumerate(("train", "val", "test"))
    }
    labels = {name.replace("images", "labels"): np.array([0, 1]) for name in arrays}
    np.savez(tmp_path / "a.npz", train_images_mean=np.zeros(3), **arrays, **labels)
    assert (convert(tmp_path, "numpy", tmp_path / "a.npz")["test/images"] == 2).all()
    output = capsys.readouterr().out
    assert (
        "the test images are those of test; val is not used" in output
        and "train_images is read as" not in output
    )


def test_the_order_of_axes_that_is_not_clear_is_named(tmp_path, capsys):
    np.savez(
        tmp_path / "a.npz",
        x_train=pixels(2, 3, 3, 1),
        x_test=pixels(2, 3, 3, 1),
        y_train=[0, 1],
        y_test=[0, 1],
    )
    assert convert(tmp_path, "numpy", tmp_path / "a.npz")["train/images"].shape == (2, 1, 3, 3)
    assert "x_train is read as (N, H, W, C)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, kind",
    [(b"<html>", "an HTML page"), (b"", "an empty file"), (b"PK\x05\x06", "a ZIP archive")],
)
def test_a_file_that_has_no_arrays_is_named(content, kind, tmp_path, capsys):
    (tmp_path / "a.npz").write_bytes(content)
    convert(tmp_path, "numpy", tmp_path / "a.npz", status=3)
    assert f"a.npz: not arrays of NumPy (.npz), but {kind}; " in error_of(capsys)
    convert(tmp_path, "cifar-python", tmp_path / "a.npz", status=3)
    assert "archive" in kind or f"a.npz: not CIFAR for Python, but {kind}; " in error_of(capsys)


def test_one_array_is_named(tmp_path, capsys):
    np.save(tmp_path / "a.npy", pixels(2, 3, 3))
    convert(tmp_path, "numpy", tmp_path / "a.npy", status=3)
    assert "contains one array; write numpy.savez" in error_of(capsys)


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"train_images": None}, "has no array train_images"),
        ({"x_train": np.zeros(3)}, "train_images and x_train may both be the train images"),
        ({"test_labels": np.zeros(3, int)}, "4 test images, but 3 labels"),
        (
            {"train_images": np.full((6, 4, 4), 0.3, np.float32)},
            "float32 with values from 0.3 to 0.3, not uint8; write numpy.rint(255 * train_images)",
        ),
        ({"train_images": np.full((6, 4, 4), -0.3)}, "which undoes a normalisation"),
        ({"train_images": np.full((6, 4, 4), np.nan)}, "from nan"),
        ({"train_images": np.full((6, 4, 4), 300)}, "int64 with values from 300 to 300"),
        ({"test_images": np.zeros((4, 5, 5), np.uint8)}, "different shapes"),
        ({"train_labels": np.full((6, 10), 0.1)}, "not one integer per image"),
        ({"train_labels": np.ones((6, 2), int)}, "of the shape (6, 2)"),
        ({"train_labels": np.array(["a"] * 6)}, "the labels of one set are texts"),
        ({"train_labels": np.full(6, 0.5)}, "float64 of the shape (6,), not one integer"),
        ({"train_images": np.zeros((6, 4, 4, 4), np.uint8)}, "up to 3 channels"),
        ({"test_labels": np.array([0, 1, -1, 0])}, "label -1 of test image 2"),
        ({"test_labels": np.array([{}] * 4)}, "cannot be read"),
    ],
)
def test_wrong_numpy_arrays_are_named(arrays, words, tmp_path, capsys):
    valid = {
        "train_images": np.zeros((6, 4, 4), np.uint8),
        "train_labels": np.arange(6) % 3,
        "test_images": np.zeros((4, 4, 4), np.uint8),
        "test_labels": np.arange(4) % 3,
    }
    np.savez(
        tmp_path / "a.npz",
        **{name: array for name, array in (valid | arrays).items() if array is not None},
    )
    convert(tmp_path, "numpy", tmp_path / "a.npz", status=3)
    assert words in error_of(capsys)
