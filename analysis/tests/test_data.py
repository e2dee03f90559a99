# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lockstep-data: each source gives the pixels, labels and names that it contains, and no
file is lost."""

import gzip
import io
import os
import pickle
import struct
import tarfile

import h5py
import numpy as np
import pytest
from data_command import check, contents, convert, error_of, pixels
from lockstep_data.cli import main
from lockstep_data.progress import Progress

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
RANDOM = np.random.default_rng(1)


# --- CIFAR, version for Python
# -------------------------------------------------------------------------------


def write_cifar(place, protocol=2, per_file=3):
    """Writes the files of CIFAR-10 and returns the pixels and labels of the training and the test
    images."""
    place.mkdir(parents=True)
    images, labels = pixels(6 * per_file, 3, 32, 32), RANDOM.integers(0, 10, 6 * per_file)
    for at, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        part = slice(at * per_file, (at + 1) * per_file)
        values = {
            b"data": images[part].reshape(per_file, -1),
            b"labels": labels[part].tolist(),
            b"filenames": [b"x.png"],
        }
        (place / name).write_bytes(pickle.dumps(values, protocol))
    (place / "batches.meta").write_bytes(
        pickle.dumps({b"label_names": [name.encode() for name in NAMES]}, protocol)
    )
    return (
        images[: 5 * per_file],
        labels[: 5 * per_file],
        images[5 * per_file :],
        labels[5 * per_file :],
    )


@pytest.mark.parametrize("form", ["cifar-10-batches-py", ".", "cifar-10-python.tar.gz"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_cifar_for_python(form, protocol, tmp_path):
    expected = write_cifar(tmp_path / "cifar-10-batches-py", protocol)
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    check(convert(tmp_path, "cifar-python", tmp_path / form), *expected, NAMES)


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


# --- MNIST
# ---------------------------------------------------------------------------------------------------


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


# --- NumPy
# ---------------------------------------------------------------------------------------------------


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


# --- the file and the command
# --------------------------------------------------------------------------------


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
