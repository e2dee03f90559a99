# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lockstep-data with folders of images."""

import io
import sys

import numpy as np
import pytest
from data_command import convert, error_of
from lockstep_data import data_file, folder as folders
from PIL import Image


def write_folder(place, classes=("cat", "dog"), count=5, size=(12, 16)):
    """Writes `count` PNG images of one colour per class: the label, the number of the image, 0."""
    for label, name in enumerate(classes):
        (place / name / "deeper").mkdir(parents=True)
        for number in range(count):
            colour = np.broadcast_to(np.array([label, number, 0], np.uint8), (*size, 3))
            Image.fromarray(colour).save(
                place / name / ("deeper" if number % 2 else "") / f"{number}.PNG"
            )
        (place / name / "notes.txt").write_text("no image")
        (place / name / "._0.PNG").write_bytes(b"of another system")
    (place / ".hidden").mkdir()


def colours(found, split):
    """Returns the set of (label, number of the image), and checks that each image has the colour of
    its label."""
    images, labels = found[f"{split}/images"], found[f"{split}/labels"]
    assert (images == images[:, :, :1, :1]).all() and (images[:, 0, 0, 0] == labels).all()
    return {(int(label), int(number)) for label, number in zip(labels, images[:, 1, 0, 0])}


def test_folder_is_split_by_class_and_seed(tmp_path):
    write_folder(tmp_path / "f", count=10)
    splits = []
    for seed in (1, 1, 2):
        found = convert(
            tmp_path,
            "folder",
            tmp_path / "f",
            "--size",
            "8x10",
            "--test-share",
            "0.3",
            "--seed",
            seed,
        )
        (tmp_path / "out.h5").unlink()
        train, test = colours(found, "train"), colours(found, "test")
        assert len(train) == 14 and len(test) == 6 and not train & test
        assert sum(label for label, _ in test) == 3
        assert (
            found["train/images"].shape == (14, 3, 8, 10)
            and len(set(found["train/labels"][:8])) == 2
        )
        assert list(found["class_names"]) == [b"cat", b"dog"]
        splits.append((test, found["train/labels"].tolist()))
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize(
    "train, test", [("train", "test"), ("train", "val"), ("Training", "Testing")]
)
def test_folders_train_and_test(train, test, tmp_path):
    write_folder(tmp_path / "f" / train, count=6)
    write_folder(tmp_path / "f" / test, count=3)
    found = convert(
        tmp_path,
        "folder",
        tmp_path / "f",
        "--size",
        "8",
        "--mean",
        "0.5,0.25,0.125",
        "--std",
        "1,1,1",
    )
    assert len(colours(found, "train")) == 12 and len(colours(found, "test")) == 6
    assert found["mean"].tolist() == [0.5, 0.25, 0.125] and found["std"].tolist() == [1, 1, 1]


def test_classes_that_may_be_sets_are_named(tmp_path, capsys):
    for name in ("seg_test", "seg_train"):
        write_folder(tmp_path / "f" / name, count=6)
    convert(tmp_path, "folder", tmp_path / "f", "--size", "8")
    assert (
        "all images of the classes seg_test, seg_train are in subfolders of them: cat, dog; if"
        " these are" in capsys.readouterr().out
    )


def test_a_test_folder_without_a_class_keeps_the_numbers_of_the_others(tmp_path, capsys):
    write_folder(tmp_path / "f" / "train", ("cat", "cow", "dog"), count=6)
    write_folder(tmp_path / "f" / "val", ("dog",), count=3)
    (tmp_path / "f" / "val" / "cow").mkdir()
    found = convert(tmp_path, "folder", tmp_path / "f", "--size", "8")
    assert found["test/labels"].tolist() == [2] * 3 and [
        name.decode() for name in found["class_names"]
    ] == ["cat", "cow", "dog"]
    output = capsys.readouterr().out
    assert (
        "the test images are those of val\n" in output and "val has no images of cat, cow" in output
    )


def test_images_are_scaled_cropped_and_converted(tmp_path):
    gradient = np.broadcast_to(np.arange(64, dtype=np.uint8)[None, :, None] * 4, (32, 64, 3))
    for name, mode in (("a", "RGB"), ("b", "P"), ("c", "LA"), ("d", "CMYK")):
        (tmp_path / "f" / name).mkdir(parents=True)
        for copy in range(2):
            Image.fromarray(gradient).convert(mode).save(tmp_path / "f" / name / f"{copy}.tif")
    found = convert(tmp_path, "folder", tmp_path / "f", "--size", "16", "--channels", "1")
    middle = found["train/images"][:, 0].astype(int)
    assert middle.shape == (4, 16, 16)
    # The columns 16 to 47 of the original, two averaged into one. A palette of the web has six
    # values per channel.
    expected = 4 * (16 + 2 * np.arange(16)) + 2
    for image, label in zip(middle, found["train/labels"]):
        np.testing.assert_allclose(
            image, np.broadcast_to(expected, (16, 16)), atol=40 if label == 1 else 10
        )


def test_unreadable_images_are_named_and_the_others_kept(tmp_path, capsys, monkeypatch):
    write_folder(tmp_path / "f", count=6)
    broken = {
        "cat/0.PNG": b"",
        "cat/2.PNG": b"<html>",
        "dog/4.PNG": (tmp_path / "f/dog/4.PNG").read_bytes()[:45],
    }
    for name, content in broken.items():
        (tmp_path / "f" / name).write_bytes(content)
    deep = io.BytesIO()
    Image.fromarray(np.full((12, 16), 40000, np.uint16)).save(deep, "PNG")
    (tmp_path / "f/dog/2.PNG").write_bytes(deep.getvalue())
    convert(tmp_path, "folder", tmp_path / "f", "--size", "8", status=3)
    line = error_of(capsys)
    assert "cannot read 4 image(s)" in line and all(name in line for name in (*broken, "dog/2.PNG"))
    assert "more than 8 bits" in line and "cat/2.PNG (not an image, but an HTML page)" in line
    for name in (*broken, "dog/2.PNG"):
        colour = np.array([name.startswith("dog"), int(name[4]), 0], np.uint8)
        Image.fromarray(np.broadcast_to(colour, (12, 16, 3))).save(tmp_path / "f" / name)
    found = convert(tmp_path, "folder", tmp_path / "f", "--size", "8")
    assert colours(found, "train") | colours(found, "test") == {
        (label, number) for label in (0, 1) for number in range(6)
    }


def test_interrupted_import_continues(tmp_path, monkeypatch, capsys):
    write_folder(tmp_path / "f", count=40)
    monkeypatch.setattr(data_file, "BLOCK", 8)
    load, loaded = folders.load_image, []

    def interrupted(pillow, size, channels, path):
        loaded.append(path)
        if len(loaded) > 30:
            raise KeyboardInterrupt
        return load(pillow, size, channels, path)

    monkeypatch.setattr(folders, "load_image", interrupted)
    convert(tmp_path, "folder", tmp_path / "f", "--size", "8", status=130)
    assert "the same command continues" in error_of(capsys)
    complete, loaded[:] = set(loaded[:24]), []
    monkeypatch.setattr(
        folders, "load_image", lambda *arguments: loaded.append(arguments[-1]) or load(*arguments)
    )
    found = convert(tmp_path, "folder", tmp_path / "f", "--size", "8")
    assert len(loaded) == 56 and not complete & set(loaded)
    (tmp_path / "out.h5").unlink()
    again = convert(tmp_path, "folder", tmp_path / "f", "--size", "8")
    assert all(np.array_equal(found[name], again[name]) for name in again)


def test_other_images_do_not_continue_an_import(tmp_path, capsys):
    write_folder(tmp_path / "f")
    (tmp_path / "f/cat/0.PNG").write_bytes(b"")
    convert(tmp_path, "folder", tmp_path / "f", "--size", "8", status=3)
    (tmp_path / "f/cat/0.PNG").unlink()
    capsys.readouterr()
    assert len(convert(tmp_path, "folder", tmp_path / "f", "--size", "8")["train/labels"]) == 7
    assert "starts again" in error_of(capsys)


@pytest.mark.parametrize(
    "prepare, words",
    [
        (lambda place: place.mkdir(), "has 0 subfolder(s)"),
        (lambda place: write_folder(place, ("cat",)), "has 1 subfolder(s)"),
        (
            lambda place: [write_folder(place), (place / "empty").mkdir()],
            "empty: contains no images",
        ),
        (
            lambda place: [
                write_folder(place / "train"),
                write_folder(place / "test", ("cat", "cow")),
            ],
            "different classes: cow, dog",
        ),
        (
            lambda place: [write_folder(place / "train"), (place / "test").mkdir()],
            "test: has 0 subfolder(s)",
        ),
        (lambda place: None, "cannot be read"),
        (lambda place: write_folder(place, count=1), "there are no test images"),
    ],
)
def test_wrong_folders_are_named(prepare, words, tmp_path, capsys):
    prepare(tmp_path / "f")
    convert(tmp_path, "folder", tmp_path / "f", "--size", "8", status=3)
    assert words in error_of(capsys)


def test_missing_pillow_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    convert(tmp_path, "folder", tmp_path, "--size", "8", status=2)
    assert "install python3-pil (Debian) or pip install pillow" in error_of(capsys)
