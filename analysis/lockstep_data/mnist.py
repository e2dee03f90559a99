# SPDX-License-Identifier: BSD-3-Clause
"""The IDX files of MNIST (http://yann.lecun.com/exdb/mnist), which Fashion-MNIST, KMNIST and EMNIST
use as well."""

import gzip
from pathlib import Path

import numpy as np
from lockstep_report.errors import INPUT, ReportError, cannot_read
from lockstep_report.runfile.file_kind import HEAD, kind_of, remedy
from lockstep_report.runfile.settings import some_of

from lockstep_data.images import from_arrays

# The second is that of EMNIST: emnist-letters-test-images-idx3-ubyte.
NAMES = {
    "train": ("train",),
    "test": ("t10k", "test"),
}
FASHION = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]


def read_mnist(folder):
    """Returns the images of the four files in `folder`, or in the folder MNIST/raw,
    FashionMNIST/raw or raw in it, where torchvision stores them. Raises `ReportError` (input)."""
    place = find_folder(Path(folder))
    pixels = {split: read_idx(place, split, "images", 3)[:, None] for split in NAMES}
    labels = {split: read_idx(place, split, "labels", 1).astype(np.int64) for split in NAMES}
    is_fashion = "fashion" in str(place.absolute()).lower()
    count = max(10, *(int(own.max(initial=0)) + 1 for own in labels.values()))
    names = (
        FASHION if is_fashion and count == len(FASHION) else [str(label) for label in range(count)]
    )
    return from_arrays(folder, pixels, labels, names)


def find_folder(folder):
    for place in (
        folder,
        folder / "raw",
        *(folder / name / "raw" for name in ("MNIST", "FashionMNIST", "KMNIST", "EMNIST")),
    ):
        if find_files(place, "train", "images", 3):
            return place
    raise ReportError(
        INPUT,
        f"{folder}: contains no train-images-idx3-ubyte, also with .gz; give the folder with the"
        " four files",
    )


def find_files(folder, split, content, dimensions):
    """Returns the files by the names of MNIST (one of several equal ones) or, if there are none,
    with a prefix, as those of EMNIST."""
    ends = [f"{mark}idx{dimensions}-ubyte{suffix}" for mark in "-." for suffix in ("", ".gz")]
    names = [f"{name}-{content}{end}" for name in NAMES[split] for end in ends]
    plain = [folder / name for name in names if (folder / name).is_file()]
    return plain[:1] or sorted(path for name in names for path in folder.glob(f"*-{name}"))


def read_idx(folder, split, content, dimensions):
    """Returns the array of uint8 with this number of dimensions in an IDX file."""
    name = f"{NAMES[split][0]}-{content}-idx{dimensions}-ubyte"
    found = find_files(folder, split, content, dimensions)
    if not found:
        raise ReportError(INPUT, f"{folder}: contains no {name}, also with .gz")
    if len(found) > 1:
        raise ReportError(
            INPUT,
            f"{folder}: has several files of {split} {content}:"
            f" {some_of([path.name for path in found])}; give a folder with those of one dataset",
        )
    path = found[0]
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, ValueError) as error:
        raise cannot_read(path, error) from error
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
        kind = kind_of(content[:HEAD])
        raise ReportError(
            INPUT,
            f"{path}: is no IDX file of uint8 with {dimensions} dimension(s), but {kind}; "
            f"{remedy(kind, 'get a fresh copy')}",
        )
    shape = tuple(int(extent) for extent in np.frombuffer(content[4:head], ">u4"))
    if len(content) != head + np.prod(shape, dtype=object):
        raise ReportError(
            INPUT,
            f"{path}: has {len(content) - head} values instead of {' x '.join(map(str, shape))};"
            " get a fresh copy",
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
