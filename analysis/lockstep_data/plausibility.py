# SPDX-License-Identifier: BSD-3-Clause
"""Images and labels that a correct dataset hardly has. src/data/plausibility.cpp has the same
checks, with the same texts and limits, for data that the program reads."""

import hashlib
import math
from dataclasses import dataclass

import h5py
import numpy as np

from lockstep_data.images import SPLITS

LEAST_SHARE = 0.01  # of the images, from which there is a warning
# Share of a class in this number of test images or more.
DOMINANT_SHARE, LEAST_OF_DOMINANT = (
    0.6,
    20,
)
LEAST_SINGLE = 10  # training images of a single colour
SHOWN = 4  # labels in a text
BLOCK = 1024  # images
NAMES = {"train": "training", "test": "test"}


@dataclass
class Split:
    labels: np.ndarray
    counts: np.ndarray  # images of each class
    hashes: np.ndarray  # of each image
    single_colour: int  # number of images with one colour
    brightest: int  # value


@dataclass
class Data:
    train: Split
    test: Split


def warnings_of(path):
    """Returns a text for each check that the complete file `path` does not pass."""
    with h5py.File(path) as file:
        data = Data(*(split_of(file[split], len(file["class_names"])) for split in SPLITS))
    return [text for check in CHECKS if (text := check(data))]


def split_of(group, classes):
    images, labels = group["images"], group["labels"][:]
    hashes, single_colour, brightest = np.empty(len(labels), np.uint64), 0, 0
    for first in range(0, len(images), BLOCK):
        block = images[first : first + BLOCK]
        digests = b"".join(
            hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in block
        )
        hashes[first : first + len(block)] = np.frombuffer(digests, np.uint64)
        channels = block.reshape(*block.shape[:2], -1)
        single_colour += int((channels.max(2) == channels.min(2)).all(1).sum())
        brightest = max(brightest, int(block.max()))
    return Split(labels, np.bincount(labels, minlength=classes), hashes, single_colour, brightest)


def most_absent(images, classes):
    """Returns the number of absent classes that random labels exceed in about one of 1,000
    datasets: the mean of the occupancy problem plus three standard deviations."""
    one, two = ((1 - share / classes) ** images for share in (1, min(2, classes)))
    mean = classes * one
    return mean + 3 * math.sqrt(max(0, classes * (classes - 1) * two + mean - mean**2))


def list_labels(labels):
    """Returns "the label 3" or "one of the labels 1, 2, 3, 4, ..."."""
    if len(labels) == 1:
        return f"the label {labels[0]}"
    return (
        "one of the labels"
        f" {', '.join(map(str, labels[:SHOWN]))}{', ...' if len(labels) > SHOWN else ''}"
    )


def absent_classes(data):
    absent = np.flatnonzero(data.train.counts == 0)
    is_from_one = absent.tolist() == [0] and data.test.counts[0] == 0
    if (
        len(absent) <= most_absent(len(data.train.labels), len(data.train.counts))
        and not is_from_one
    ):
        return ""
    advice = (
        "labels count from 0"
        if is_from_one
        else "check the labels, or remove the names of classes without images"
    )
    return (
        f"no training image has {list_labels(absent)} (of {len(data.train.counts)} classes);"
        f" {advice}"
    )


def unlearned_classes(data):
    total = len(data.test.labels)
    count = int((data.train.counts[data.test.labels] == 0).sum())
    if count < LEAST_SHARE * total:
        return ""
    return (
        f"{count} of the {total} test images have classes of which there is no training image, so"
        f" the test accuracy is at most {100 * (1 - count / total):.0f} %"
    )


def untested_classes(data):
    absent = np.flatnonzero((data.test.counts == 0) & (data.train.counts > 0))
    if len(absent) <= most_absent(len(data.test.labels), len(data.test.counts)):
        return ""
    return (
        f"no test image has {list_labels(absent)} (of {len(data.test.counts)} classes), so the test"
        " accuracy is that of the others"
    )


def dominant_class(data):
    total, most = len(data.test.labels), int(data.test.counts.argmax())
    share = data.test.counts[most] / total
    if total < LEAST_OF_DOMINANT or share < DOMINANT_SHARE:
        return ""
    return (
        f"{100 * share:.0f} % of the {total} test images have the label {most}, so a network that"
        f" always answers this class has an accuracy of {100 * share:.0f} %; use images of all"
        " classes in equal numbers"
    )


def sorted_labels(data):
    labels = data.train.labels
    present = int((data.train.counts > 0).sum())
    if present < 2 or len(labels) < 4 * present or (np.diff(labels) < 0).any():
        return ""
    return (
        "the training images are sorted by class, so lockstep train --train-samples N, which takes"
        " the first N, does not use all classes; write them in random order"
    )


def known_test_images(data):
    total, count = len(data.test.labels), int(np.isin(data.test.hashes, data.train.hashes).sum())
    if count == 0:
        return ""
    effect = "so the test accuracy is too high; " if count >= LEAST_SHARE * total else ""
    mark = ", " if effect else "; "
    return (
        f"{count} of the {total} test images are also training images{mark}{effect}divide the"
        " images into training and test images without repeats"
    )


def repeated_images(split):
    def check(data):
        hashes = getattr(data, split).hashes
        different = len(np.unique(hashes))
        if len(hashes) - different < LEAST_SHARE * len(hashes):
            return ""
        return (
            f"only {different} of the {len(hashes)} {NAMES[split]} images are different; check how"
            " the file was written"
        )

    return check


def single_colours(data):
    total = len(data.train.labels)
    if data.train.single_colour < max(LEAST_SINGLE, LEAST_SHARE * total):
        return ""
    return (
        f"{data.train.single_colour} of the {total} training images have a single colour; check how"
        " they were read"
    )


def dark_pixels(data):
    if data.train.brightest > 1:
        return ""
    return (
        "all pixels of the training images are 0 or 1, but white is 255; multiply images with"
        " values from 0 to 1 by 255 before they are written as integers"
    )


CHECKS = (
    absent_classes,
    unlearned_classes,
    untested_classes,
    dominant_class,
    sorted_labels,
    known_test_images,
    *map(repeated_images, SPLITS),
    single_colours,
    dark_pixels,
)
