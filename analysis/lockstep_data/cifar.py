# SPDX-License-Identifier: BSD-3-Clause
"""The versions of CIFAR-10 and CIFAR-100 for Python (https://www.cs.toronto.edu/~kriz/cifar.html):
pickles, in a folder or a tar archive."""

import io
import pickle
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from lockstep_report.errors import INPUT, ReportError, cannot_read
from lockstep_report.runfile.file_kind import (
    HEAD,
    OTHER,
    PICKLE,
    kind_of,
    kind_of_file,
    remedy,
    wrong_kind,
)

from lockstep_data.images import from_arrays


class Layout(NamedTuple):
    """The files of a dataset, and the keys in them."""

    train: tuple  # files of the training images
    test: str  # file of the test images
    meta: str  # file of the names
    labels: bytes
    label_names: bytes

    def files(self):
        return (*self.train, self.test, self.meta)


CIFAR10 = Layout(
    tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test_batch",
    "batches.meta",
    b"labels",
    b"label_names",
)
CIFAR100 = Layout(("train",), "test", "meta", b"fine_labels", b"fine_label_names")
LAYOUTS = (CIFAR10, CIFAR100)


def read_cifar(source):
    """Returns the images of a folder with the files, a folder that contains it, or a tar archive of
    it. Raises `ReportError` (input)."""
    files = read_files(Path(source))
    layout = next((layout for layout in LAYOUTS if layout.train[0] in files), None)
    if layout is None:
        raise ReportError(
            INPUT,
            f"{source}: contains neither data_batch_1 (CIFAR-10) nor train (CIFAR-100); give the "
            "folder or archive of the version for Python",
        )
    missing = [name for name in layout.files() if name not in files]
    if missing:
        raise ReportError(INPUT, f"{source}: lacks {', '.join(missing)}; get a fresh copy")
    pixels, labels = {}, {}
    for split, names in (("train", layout.train), ("test", [layout.test])):
        batches = [batch(source, name, files[name], layout.labels) for name in names]
        pixels[split] = np.concatenate([images for images, _ in batches])
        labels[split] = np.concatenate([own for _, own in batches])
    names = load(source, layout.meta, files[layout.meta]).get(layout.label_names, [])
    texts = [as_text(source, layout.meta, name) for name in names]
    return from_arrays(source, pixels, labels, texts)


def as_text(source, file, name):
    if not isinstance(name, (bytes, str)):
        raise damaged(source, file, "a class name is no text")
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def read_files(source):
    """Returns {file name: content}."""
    try:
        if source.is_dir():
            folders = [source, *sorted(path for path in source.iterdir() if path.is_dir())]
            found = next(
                (
                    folder
                    for folder in folders
                    if (folder / "data_batch_1").is_file() or (folder / "meta").is_file()
                ),
                source,
            )
            wanted = {*CIFAR10.files(), *CIFAR100.files()}
            return {
                path.name: path.read_bytes()
                for path in found.iterdir()
                if path.name in wanted and path.is_file()
            }
        with tarfile.open(source) as archive:
            return {
                PurePosixPath(member.name).name: archive.extractfile(member).read()
                for member in archive
                if member.isfile()
            }
    except (OSError, EOFError, tarfile.TarError) as error:
        kind = kind_of_file(source)
        if kind is not None and "archive" not in kind:
            raise wrong_kind(
                source, "CIFAR for Python", kind, "give its folder or tar archive"
            ) from error
        raise cannot_read(source, error) from error


def batch(source, name, content, label_key):
    """Returns the pixels (images, 3, 32, 32) and the labels of a file."""
    values = load(source, name, content)
    labels = values.get(label_key)
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise damaged(source, name, f"it has no list {label_key.decode()!r}")
    pixels = array_bytes(values.get(b"data"))
    if pixels is None or len(pixels) != len(labels) * 3072:
        raise damaged(
            source, name, f"it does not have 3072 pixels for each of its {len(labels)} labels"
        )
    return np.frombuffer(pixels, np.uint8).reshape(-1, 3, 32, 32), np.array(labels, np.int64)


def damaged(source, name, what, advice="get a fresh copy"):
    return ReportError(INPUT, f"{source}: {name} is damaged ({what}); {advice}")


class Captured:
    """Takes the place of each object in a pickle: it keeps what the pickle states about the object,
    and executes nothing."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.state = ()

    def __setstate__(self, state):
        self.state = state if isinstance(state, tuple) else ()


def encode(text, encoding):
    """Takes the place of `_codecs.encode`, by which Python 3 pickles bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


class Unpickler(pickle.Unpickler):
    """Reads pickles without importing or executing code."""

    def find_class(self, module, name):
        if (module, name) == ("_codecs", "encode"):
            return encode
        if module.partition(".")[0] == "numpy":
            return Captured
        raise pickle.UnpicklingError(f"it needs {module}.{name}, which is not part of an array")


def load(source, name, content):
    """Returns the dictionary that a pickle contains."""
    kind = kind_of(content[:HEAD])
    if kind not in (PICKLE, OTHER):
        raise damaged(source, name, f"it is {kind}", remedy(kind, "get a fresh copy"))
    try:
        values = Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise any exception
        raise damaged(source, name, str(error) or type(error).__name__) from error
    if not isinstance(values, dict):
        raise damaged(source, name, "it contains no dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in values.items()}


def array_bytes(array):
    """Returns the bytes of a captured array of uint8 in the order of C; None if it is none."""
    if not isinstance(array, Captured):
        return None
    if len(array.state) == 5:  # version, shape, type, order, content of multiarray._reconstruct
        kind, is_fortran, content = array.state[2:]
    elif len(array.arguments) == 4:  # content, type, shape, order of numpy.core.numeric._frombuffer
        content, kind = array.arguments[:2]
        is_fortran = array.arguments[3] != "C"
    else:
        return None
    is_bytes = isinstance(kind, Captured) and kind.arguments[:1] in ((b"u1",), ("u1",))
    return (
        content if is_bytes and not is_fortran and isinstance(content, (bytes, bytearray)) else None
    )
