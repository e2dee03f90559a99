# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays in one .npz file. The names are those of MedMNIST, or those of the files of Keras."""

import zipfile

import numpy as np

from lockstep_data.images import SPLITS, from_arrays
from lockstep_report.errors import INPUT, ReportError, cannot_read

NAMES = (("{split}_images", "{split}_labels"), ("x_{split}", "y_{split}"))
MOST_CHANNELS = 3


def read_numpy(path):
    """Returns the images of a .npz file. Raises `ReportError` (input)."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise ReportError(INPUT, f"{path}: contains one array; {advice()}")
            return read_arrays(path, arrays)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise cannot_read(path, error) from error


def advice():
    return "write numpy.savez(FILE, train_images=..., train_labels=..., test_images=..., test_labels=...)"


def read_arrays(path, arrays):
    names = next((pair for pair in NAMES if pair[0].format(split="train") in arrays), NAMES[0])
    found = {}
    for split in SPLITS:
        for name in (pattern.format(split=split) for pattern in names):
            if name not in arrays:
                raise ReportError(INPUT, f"{path}: has no array {name}, only {', '.join(arrays) or 'none'}; {advice()}")
            found[name] = arrays[name]
    pixels = {split: channels_first(path, names[0].format(split=split), found) for split in SPLITS}
    labels = {split: one_label_each(path, names[1].format(split=split), found) for split in SPLITS}
    if "class_names" in arrays:
        class_names = [str(name) for name in arrays["class_names"].ravel()]
    else:
        class_names = [str(label) for label in range(max(2, *(int(own.max(initial=0)) + 1 for own in labels.values())))]
    return from_arrays(path, pixels, labels, class_names)


def channels_first(path, name, arrays):
    """Returns an array (N, H, W), (N, H, W, C) or (N, C, H, W) as (N, C, H, W)."""
    array = arrays[name]
    if array.dtype != np.uint8:
        raise ReportError(INPUT, f"{path}: {name} is {array.dtype}, not uint8; write values from 0 to 255 as uint8")
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] <= MOST_CHANNELS:
        return array.transpose(0, 3, 1, 2)
    if array.ndim == 4 and array.shape[1] <= MOST_CHANNELS:
        return array
    raise ReportError(INPUT, f"{path}: {name} has the shape {array.shape}, not (N, H, W), (N, H, W, C) or (N, C, H, W) with up "
                             f"to {MOST_CHANNELS} channels")


def one_label_each(path, name, arrays):
    array = arrays[name]
    if not np.issubdtype(array.dtype, np.integer) or array.size != len(array):
        raise ReportError(INPUT, f"{path}: {name} is {array.dtype} of the shape {array.shape}, not one integer per image")
    return array.reshape(-1).astype(np.int64)
