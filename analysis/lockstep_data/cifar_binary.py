# SPDX-License-Identifier: BSD-3-Clause
"""Verifies the files of the binary version of CIFAR-10. jobs/download-cifar10 runs this file by its
path, before any package is installed, so it uses only the standard library.

    cifar_binary.py FOLDER   prints the first difference from the published data, or nothing
"""

import stat
import sys
from collections import Counter
from pathlib import Path

BATCHES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
IMAGES_PER_CLASS = {"train": 5000, "test": 1000}
CLASSES = 10
NAMES = "batches.meta.txt"
RECORD_BYTES = 1 + 3 * 32 * 32  # label and pixels
BATCH_BYTES = 10_000 * RECORD_BYTES
MAX_NAMES_BYTES = 4096


def first_difference(folder):
    """Returns the first difference of the files in `folder` from the published data in one line, or
    an empty text."""
    try:
        return wrong_files(folder) or wrong_names(folder) or wrong_labels(folder)
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"


def wrong_files(folder):
    """Compares types and sizes without reading: a file can be a device, or huge and sparse."""
    for name in [*BATCHES["train"], *BATCHES["test"], NAMES]:
        status = (folder / name).lstat()
        if not stat.S_ISREG(status.st_mode):
            return f"{name} is not a regular file"
        if name == NAMES:
            if status.st_size > MAX_NAMES_BYTES:
                return f"{name} has {status.st_size} bytes, more than ten class names"
        elif status.st_size != BATCH_BYTES:
            return f"{name} has {status.st_size} bytes instead of {BATCH_BYTES}"
    return ""


def wrong_names(folder):
    names = (folder / NAMES).read_text(encoding="utf-8").split()
    return "" if len(names) == CLASSES else f"{NAMES} does not have ten class names"


def wrong_labels(folder):
    for split, batches in BATCHES.items():
        labels = Counter()
        for name in batches:
            labels.update((folder / name).read_bytes()[::RECORD_BYTES])
        images = IMAGES_PER_CLASS[split]
        if labels != dict.fromkeys(range(CLASSES), images):
            return f"the {split} labels are not {images} of each class"
    return ""


if __name__ == "__main__":
    difference = first_difference(Path(sys.argv[1]))
    if difference:
        print(difference)
