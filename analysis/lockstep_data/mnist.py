# SPDX-License-Identifier: BSD-3-Clause
"""The IDX files of MNIST (http://yann.lecun.com/exdb/mnist), which Fashion-MNIST uses as well."""

import gzip
from pathlib import Path

import numpy as np

from lockstep_data.images import from_arrays
from lockstep_report.errors import INPUT, ReportError, cannot_read

PREFIXES = {"train": "train", "test": "t10k"}
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def read_mnist(folder):
    """Returns the images of the four files in `folder`, or in the folder MNIST/raw, FashionMNIST/raw or raw in it, where
    torchvision stores them. Raises `ReportError` (input)."""
    place = find_folder(Path(folder))
    pixels = {split: read_idx(place, f"{prefix}-images", 3)[:, None] for split, prefix in PREFIXES.items()}
    labels = {split: read_idx(place, f"{prefix}-labels", 1).astype(np.int64) for split, prefix in PREFIXES.items()}
    is_fashion = "fashion" in str(place.absolute()).lower()
    count = max(10, *(int(own.max(initial=0)) + 1 for own in labels.values()))
    names = FASHION if is_fashion and count == len(FASHION) else [str(label) for label in range(count)]
    return from_arrays(folder, pixels, labels, names)


def find_folder(folder):
    for place in (folder, folder / "raw", folder / "MNIST" / "raw", folder / "FashionMNIST" / "raw"):
        if find_file(place, "train-images", 3):
            return place
    raise ReportError(INPUT, f"{folder}: contains no train-images-idx3-ubyte, also with .gz; give the folder with the four files")


def find_file(folder, name, dimensions):
    names = [f"{name}{mark}idx{dimensions}-ubyte{suffix}" for mark in "-." for suffix in ("", ".gz")]
    return next((folder / each for each in names if (folder / each).is_file()), None)


def read_idx(folder, name, dimensions):
    """Returns the array of uint8 with this number of dimensions in an IDX file."""
    path = find_file(folder, name, dimensions)
    if path is None:
        raise ReportError(INPUT, f"{folder}: contains no {name}-idx{dimensions}-ubyte, also with .gz")
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, ValueError) as error:
        raise cannot_read(path, error) from error
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
        raise ReportError(INPUT, f"{path}: is no IDX file of uint8 with {dimensions} dimension(s); get a fresh copy")
    shape = tuple(int(extent) for extent in np.frombuffer(content[4:head], ">u4"))
    if len(content) != head + np.prod(shape, dtype=object):
        raise ReportError(INPUT, f"{path}: has {len(content) - head} values instead of {' x '.join(map(str, shape))}; get a fresh copy")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
