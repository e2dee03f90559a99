# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays in one .npz file. The names are those of MedMNIST, those of the files of Keras, or
similar ones."""

import re
import zipfile

import numpy as np
from lockstep_report.errors import INPUT, ReportError, cannot_read
from lockstep_report.runfile.file_kind import NUMPY_ZIP, kind_of, read_head, wrong_kind
from lockstep_report.runfile.settings import some_of

from lockstep_data.images import SPLITS, TEST_NAMES, TRAIN_NAMES, from_arrays, note_on_test

ROLES = {
    "images": {"images", "image", "x", "data", "imgs", "features"},
    "labels": {"labels", "label", "y", "targets", "target"},
}
ONE_ARRAY = b"\x93NUMPY"  # begin of a .npy file
MOST_CHANNELS = 3
BLOCK = 1024  # images
TOLERANCE = 1e-3  # of pixels from 0 to 255: the rounding of x / 255 in float32 is below it


def read_numpy(path):
    """Returns the images of a .npz file. Raises `ReportError` (input)."""
    try:
        head = read_head(path)
        if kind_of(head) != NUMPY_ZIP and not head.startswith(ONE_ARRAY):
            raise wrong_kind(path, "arrays of NumPy (.npz)", kind_of(head), advice())
        with open(path, "rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise ReportError(INPUT, f"{path}: contains one array; {advice()}")
            with arrays:
                return read_arrays(path, arrays)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise ReportError(
                INPUT,
                f"{path}: cannot be read (an array of Python objects); write it with the type of"
                " its values, for example numpy.array(labels.tolist())",
            ) from error
        raise cannot_read(path, error) from error


def advice():
    return (
        "write numpy.savez(FILE, train_images=..., train_labels=..., test_images=...,"
        " test_labels=...)"
    )


def words_of(name):
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def meaning_of(name):
    """Returns (split, role) of an array by the parts of its name: ("train", "images") of x_train,
    X_train, trainX, train_data; None for the part that it does not tell."""
    parts = words_of(name)
    split = next((part for part in parts if part in TRAIN_NAMES + TEST_NAMES), None)
    role = next((role for role, names in ROLES.items() for part in parts if part in names), None)
    return ("train" if split in TRAIN_NAMES else split), role


def named_by_meaning(path, names):
    """Returns {meaning: name}; of several arrays with the same meaning, the one with the shortest
    name: x_train before x_train_mean."""
    found = {}
    for name in sorted(names, key=lambda name: len(words_of(name))):
        meaning = meaning_of(name)
        other = found.setdefault(meaning, name)
        if other != name and None not in meaning and len(words_of(other)) == len(words_of(name)):
            raise ReportError(
                INPUT,
                f"{path}: {other} and {name} may both be the {' '.join(meaning)}; give a file with"
                " one of them",
            )
    return found


def read_arrays(path, arrays):
    named = named_by_meaning(path, arrays)
    tests = [name for name in TEST_NAMES if (name, "images") in named]
    place = {"train": "train", "test": tests[0] if tests else "test"}
    names = {(split, role): named.get((place[split], role)) for split in SPLITS for role in ROLES}
    missing = next((meaning for meaning, name in names.items() if name is None), None)
    if missing is not None:
        raise ReportError(
            INPUT,
            f"{path}: has no array {'_'.join(missing)}, only {some_of(list(arrays)) or 'none'};"
            f" {advice()}",
        )
    pixels = {
        split: channels_first(path, names[split, "images"], arrays[names[split, "images"]])
        for split in SPLITS
    }
    labels = {
        split: one_label_each(path, names[split, "labels"], arrays[names[split, "labels"]])
        for split in SPLITS
    }
    class_names = (
        [str(name) for name in arrays["class_names"].ravel()] if "class_names" in arrays else None
    )
    labels, class_names = with_numbers(path, labels, class_names)
    images = from_arrays(path, pixels, labels, class_names)
    images.notes += note_on_test(tests)
    images.notes += [
        f"{name} is read as (N, H, W, C)"
        for name in (names[split, "images"] for split in SPLITS)
        if max(arrays[name].shape[1::2]) <= MOST_CHANNELS and arrays[name].ndim == 4
    ]
    return images


def with_numbers(path, labels, names):
    """Returns the labels as numbers and the names of the classes. Labels that are texts are names
    of classes."""
    if labels["train"].dtype.kind == labels["test"].dtype.kind == "U":
        names = names or sorted({*labels["train"].tolist(), *labels["test"].tolist()})
        number = {name: index for index, name in enumerate(names)}
        unknown = [text for own in labels.values() for text in own.tolist() if text not in number]
        if unknown:
            raise ReportError(INPUT, f"{path}: the label {unknown[0]} is not in class_names")
        return {
            split: np.array([number[text] for text in own.tolist()], np.int64)
            for split, own in labels.items()
        }, names
    if "U" in (labels["train"].dtype.kind, labels["test"].dtype.kind):
        raise ReportError(
            INPUT,
            f"{path}: the labels of one set are texts, those of the other numbers; write both as"
            " integers",
        )
    return labels, names or [
        str(label)
        for label in range(max(2, *(int(own.max(initial=0)) + 1 for own in labels.values())))
    ]


def channels_first(path, name, array):
    """Returns an array (N, H, W), (N, H, W, C) or (N, C, H, W) as uint8 (N, C, H, W)."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] <= MOST_CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 4 or array.shape[1] > MOST_CHANNELS:
        raise ReportError(
            INPUT,
            f"{path}: {name} has the shape {array.shape}, not (N, H, W), (N, H, W, C) or (N, C, H,"
            f" W) with up to {MOST_CHANNELS} channels; reshape it",
        )
    return array if array.dtype == np.uint8 else as_bytes(path, name, array)


def as_bytes(path, name, array):
    """Returns pixels of another type as uint8 if that loses nothing: integers from 0 to 255, or
    these divided by 255."""
    if array.dtype.kind not in "iuf" or not array.size:
        raise ReportError(
            INPUT,
            f"{path}: {name} is {array.dtype}, not uint8; write values from 0 to 255 as uint8",
        )
    least, most = array.min(), array.max()
    if least >= 0 and most <= 255:
        factors = (255, 1) if array.dtype.kind == "f" and most <= 1 else (1,)
        for factor in factors:
            pixels = rounded(array, factor)
            if pixels is not None:
                return pixels
    how = f"numpy.rint(255 * {name})" if least >= 0 and most <= 1 else f"numpy.rint({name})"
    if not (np.isfinite(least) and np.isfinite(most)) or least < 0 or most > 255:
        how = f"({name} * std + mean) * 255, which undoes a normalisation,"
    raise ReportError(
        INPUT,
        f"{path}: {name} is {array.dtype} with values from {least:g} to {most:g}, not uint8; write"
        f" {how} as uint8",
    )


def rounded(array, factor):
    """Returns the values times `factor` as uint8; None if they are no integers."""
    pixels = np.empty(array.shape, np.uint8)
    for first in range(0, len(array), BLOCK):
        scaled = array[first : first + BLOCK] * np.float64(factor)
        nearest = np.rint(scaled)
        if np.abs(scaled - nearest).max() > TOLERANCE:
            return None
        pixels[first : first + BLOCK] = nearest
    return pixels


def one_label_each(path, name, array):
    """Returns one label per image, as int64 or text: an array (N) or (N, 1), or (N, classes) with
    one 1 per row."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.ndim == 2 and array.shape[1] > 1 and is_one_hot(array):
        return array.argmax(axis=1).astype(np.int64)
    if array.size != len(array) or array.dtype.kind not in "biufU":
        raise wrong_labels(path, name, array)
    array = array.reshape(-1)
    if array.dtype.kind == "U":
        return array
    if not np.array_equal(array, np.rint(array)):
        raise wrong_labels(path, name, array)
    return array.astype(np.int64)


def is_one_hot(array):
    return array.dtype.kind in "biuf" and bool(
        np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()
    )


def wrong_labels(path, name, array):
    return ReportError(
        INPUT,
        f"{path}: {name} is {array.dtype} of the shape {array.shape}, not one integer per image;"
        " write one label from 0 to the number of classes - 1 for each",
    )
