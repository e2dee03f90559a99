# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of lockstep-data about images and labels that a correct dataset hardly has.
tests/data/plausibility_test.cpp has the same cases for the program."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from lockstep_data import plausibility
from lockstep_data.cli import main

TRAIN, TEST = 200, 50


def random_images():
    random = np.random.default_rng(1)
    return {
        "x_train": random.integers(0, 256, (TRAIN, 4, 4, 3), np.uint8),
        "y_train": np.arange(TRAIN) % 10,
        "x_test": random.integers(0, 256, (TEST, 4, 4, 3), np.uint8),
        "y_test": np.arange(TEST) % 10,
    }


def sorted_by_class(data):
    return {"y_train": np.sort(data["y_train"])}


def repeated(name, share):
    return lambda data: {name: np.concatenate([data[name][:share]] * (len(data[name]) // share))}


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda data: {}, []),
        (
            lambda data: {"y_train": data["y_train"] + 1, "y_test": data["y_test"] + 1},
            ["no training image has the label 0 (of 11 classes); labels count from 0"],
        ),
        (
            lambda data: {
                "x_train": data["x_train"][:20],
                "y_train": data["y_train"][:20] + 1,
                "y_test": data["y_test"] + 1,
            },
            ["no training image has the label 0 (of 11 classes); labels count from 0"],
        ),
        (
            lambda data: {"y_train": data["y_train"] % 9},
            [
                (
                    "no training image has the label 9 (of 10 classes); check the labels, or remove"
                    " the names of classes without images"
                ),
                (
                    "5 of the 50 test images have classes of which there is no training image, so"
                    " the test accuracy is at most 90 %"
                ),
            ],
        ),
        (
            lambda data: {"y_test": data["y_test"] % 5},
            [
                "no test image has one of the labels 5, 6, 7, 8, ... (of 10 classes), so the test"
                " accuracy is that of the others"
            ],
        ),
        (
            lambda data: {"y_test": np.where(np.arange(TEST) < 40, 3, data["y_test"])},
            [
                "82 % of the 50 test images have the label 3, so a network that always answers this"
                " class has an accuracy of 82 %; use images of all classes in equal numbers"
            ],
        ),
        (
            sorted_by_class,
            [
                "the training images are sorted by class, so lockstep train --train-samples N,"
                " which takes the first N, does not use all classes; write them in random order"
            ],
        ),
        (
            lambda data: {"x_test": np.concatenate([data["x_train"][:5], data["x_test"][5:]])},
            [
                "5 of the 50 test images are also training images, so the test accuracy is too"
                " high; divide the images into training and test images without repeats"
            ],
        ),
        (
            repeated("x_train", 100),
            ["only 100 of the 200 training images are different; check how the file was written"],
        ),
        (
            repeated("x_test", 25),
            ["only 25 of the 50 test images are different; check how the file was written"],
        ),
        (
            lambda data: {
                "x_train": np.where(
                    np.arange(TRAIN)[:, None, None, None] < 20,
                    data["x_train"][:, :1, :1],
                    data["x_train"],
                )
            },
            ["20 of the 200 training images have a single colour; check how they were read"],
        ),
        (
            lambda data: {"x_train": data["x_train"] // 128},
            [
                "all pixels of the training images are 0 or 1, but white is 255; multiply images"
                " with values from 0 to 1 by 255 before they are written as integers"
            ],
        ),
    ],
)
def test_each_check_names_its_case_alone(change, expected, tmp_path, capsys):
    data = random_images()
    np.savez(tmp_path / "a.npz", **data | change(data))
    assert main(["numpy", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.h5")]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"lockstep-data: warning: {text}" for text in expected
    ]


def test_a_few_known_test_images_are_counted_without_an_effect(tmp_path):
    """10 of the 10,000 test images of Fashion-MNIST are training images."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["class_names"] = [b"a", b"b"]
        for split, count, shift in (("train", 300, 0), ("test", 200, 299)):
            number = np.arange(count) + shift
            file[f"{split}/images"] = (
                np.stack([number // 256, number % 256, number * 0, number * 0 + 9], 1)
                .reshape(-1, 1, 2, 2)
                .astype(np.uint8)
            )
            file[f"{split}/labels"] = number % 2
    assert plausibility.warnings_of(tmp_path / "a.h5") == [
        "1 of the 200 test images are also training images; divide the images into training and"
        " test images without repeats"
    ]


def test_the_program_has_the_same_texts_and_limits():
    source = (Path(__file__).parents[2] / "src" / "data" / "plausibility.cpp").read_text(
        encoding="utf-8"
    )
    joined = re.sub(r'"\s*\n\s*"', "", source)
    for text in (
        "labels count from 0",
        "check the labels, or remove the names of classes without images",
        (
            "test images have classes of which there is no training image, so the test accuracy is"
            " at most"
        ),
        (
            "test images are also training images, so the test accuracy is too high; divide the"
            " images into training and test images without repeats"
        ),
        "images are different; check how the file was written",
        "so a network that always answers this class has an accuracy of",
        "all pixels of the training images are 0 or 1, but white is 255",
    ):
        assert text in joined, text
    for name, value in (
        ("least_share", plausibility.LEAST_SHARE),
        ("dominant_share", plausibility.DOMINANT_SHARE),
        ("least_of_dominant", plausibility.LEAST_OF_DOMINANT),
    ):
        assert float(re.search(rf"constexpr \S+ {name} = ([\d.]+)", source)[1]) == value
