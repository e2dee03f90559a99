# SPDX-License-Identifier: BSD-3-Clause
"""Labelled images in the form that the sources return and `data_file` writes."""

import hashlib
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from lockstep_report.errors import INPUT, ReportError

SPLITS = ("train", "test")
TRAIN_NAMES = ("train", "training")  # of folders and arrays, in any case
TEST_NAMES = ("test", "testing", "val", "valid", "validation", "dev")  # in the order of preference


@dataclass
class Images:
    """`shape`: (channels, height, width); `labels`: {split: array of int64}. `read(split, first,
    last)` returns the pixels of images [first, last) of a split, as uint8 (images, channels,
    height, width), and {index in this array: reason} of the images that cannot be read. `identity`:
    a text that is equal for equal images in equal order. `notes`: what the user should know about
    the choice of the images."""

    shape: tuple
    class_names: list
    labels: dict
    read: Callable
    identity: str
    notes: list = field(default_factory=list)


def note_on_test(names):
    """Returns a list with the text that says which of several sets has the test images."""
    if names[:1] in ([], ["test"]) and len(names) < 2:
        return []
    unused = f"; {', '.join(names[1:])} is not used" if names[1:] else ""
    return [f"the test images are those of {names[0]}{unused}"]


def text(shape):
    return "x".join(map(str, shape))


def from_arrays(source, pixels, labels, class_names):
    """Returns the `Images` of arrays {split: uint8 (images, channels, height, width)} and {split:
    labels}. Raises `ReportError` (input), naming `source`, if they do not fit together."""
    hashed = hashlib.sha256(repr(class_names).encode())
    for split in SPLITS:
        images, own = pixels[split], labels[split]
        if len(images) != len(own):
            raise ReportError(
                INPUT, f"{source}: {len(images)} {split} images, but {len(own)} labels"
            )
        if len(images) == 0:
            raise ReportError(INPUT, f"{source}: there are no {split} images")
        if images.shape[1:] != pixels["train"].shape[1:]:
            raise ReportError(
                INPUT,
                f"{source}: the images in train and test have different shapes:"
                f" {text(pixels['train'].shape[1:])} and {text(images.shape[1:])} (channels x"
                " height x width)",
            )
        wrong = np.flatnonzero((own < 0) | (own >= len(class_names)))
        if len(wrong):
            raise ReportError(
                INPUT,
                f"{source}: label {own[wrong[0]]} of {split} image {wrong[0]} is not from 0 to "
                f"{len(class_names) - 1}, the indices of the {len(class_names)} classes",
            )
        for array in (images, own):
            hashed.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return Images(
        pixels["train"].shape[1:],
        class_names,
        labels,
        lambda split, first, last: (pixels[split][first:last], {}),
        hashed.hexdigest(),
    )
