# SPDX-License-Identifier: BSD-3-Clause
"""Writes the file that `lockstep --data hdf5:FILE` reads. It is FILE.partial until it is complete.
All datasets have their final size and place from the beginning, so a process that is killed leaves
a file that the next one continues.
"""

import errno
import os
import sys
from pathlib import Path

import h5py
import numpy as np
from lockstep_report.errors import INPUT, OUTPUT, USAGE, ReportError, errno_of, reason_of
from lockstep_report.output import require_new

from lockstep_data.images import SPLITS
from lockstep_data.progress import Progress

BLOCK = 256  # images
DONE = "imported"  # attribute and datasets of a file that is not complete
MOST_NAMES = 10  # of unreadable images in the message


def write_images(images, path, mean=None, std=None):
    """Writes `images` to the new file `path`, with these normalisation values or those of the
    training images. Raises `ReportError`: output if the file exists or cannot be written, input if
    images cannot be read.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    require_new(path)
    channels = images.shape[0]
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) != channels:
            raise ReportError(
                USAGE, f"--{name}: {len(values)} values, but the images have {channels} channel(s)"
            )
    try:
        with open_partial(partial, images) as file:
            failures = import_images(file, images)
            if failures:
                raise unreadable(failures)
            found = statistics(file["train/images"])
            for name, values, given in zip(("mean", "std"), found, (mean, std)):
                file[name][:] = values if given is None else given
            del file.attrs[DONE], file[DONE]
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        require_new(path)  # a program may have written it during the import
        os.replace(partial, path)
    except OSError as error:
        raise ReportError(
            OUTPUT,
            f"{path}: cannot be written ({reason_of(error)}); free disk space, or give another"
            " file",
        ) from error


def open_partial(path, images):
    """Opens the file of an earlier, interrupted import of the same images, or creates it."""
    if path.exists():
        try:
            file = h5py.File(path, "r+", libver="v108")
        except OSError as error:
            if errno_of(error) == errno.EAGAIN:
                raise ReportError(
                    OUTPUT, f"{path}: another lockstep-data writes it; give another file"
                ) from error
            raise ReportError(
                OUTPUT,
                f"{path}: is no file of an interrupted import ({reason_of(error)}); remove it",
            ) from error
        if file.attrs.get(DONE) == images.identity:
            return file
        is_import = DONE in file.attrs
        file.close()
        if not is_import:
            raise ReportError(OUTPUT, f"{path}: is no file of an interrupted import; remove it")
        print(
            "lockstep-data: starts again, because the images or options differ from those of"
            f" {path}",
            file=sys.stderr,
        )
        path.unlink()
    with h5py.File(path, "x", libver="v108") as file:
        create(file, images)
    return h5py.File(path, "r+", libver="v108")


def create(file, images):
    file.attrs[DONE] = images.identity
    names = np.array([name.encode("utf-8") for name in images.class_names])
    file["class_names"] = names.astype(h5py.string_dtype("utf-8", max(1, names.dtype.itemsize)))
    for name in ("mean", "std"):
        file[name] = np.zeros(images.shape[0])
    for split in SPLITS:
        count = len(images.labels[split])
        file[f"{split}/labels"] = images.labels[split]
        reserve(file, f"{split}/images", (count, *images.shape))
        file[f"{DONE}/{split}"] = np.zeros(count, np.uint8)


def reserve(file, name, shape):
    """Creates a dataset of uint8 with its final size in the file."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U8LE, h5py.h5s.create_simple(shape), plan)


def import_images(file, images):
    """Reads the images that the file lacks. Returns a text for each that cannot be read."""
    progress = Progress(sum(len(labels) for labels in images.labels.values()))
    complete, failures = sum(int(file[f"{DONE}/{split}"][:].sum()) for split in SPLITS), []
    progress.show(complete)
    for split in SPLITS:
        done = file[f"{DONE}/{split}"]
        for first in range(0, len(done), BLOCK):
            last = min(first + BLOCK, len(done))
            present = done[first:last]
            if present.all():
                continue
            pixels, failed = images.read(split, first, last)
            file[f"{split}/images"][first:last] = pixels
            file.flush()
            now = np.ones(last - first, np.uint8)
            now[list(failed)] = 0
            done[first:last] = now
            file.flush()
            failures += failed.values()
            complete += int(now.sum()) - int(present.sum())
            progress.show(complete)
    return failures


def unreadable(failures):
    names = "; ".join(failures[:MOST_NAMES]) + ("; ..." if len(failures) > MOST_NAMES else "")
    return ReportError(
        INPUT,
        f"cannot read {len(failures)} image(s): {names}; remove or replace "
        "them, and run the command again; it reads replaced images only",
    )


def statistics(pixels):
    """Returns the mean and the standard deviation of each channel over all pixels, which are scaled
    to [0, 1]."""
    channels = pixels.shape[1]
    counts = np.zeros((channels, 256), np.int64)
    for first in range(0, len(pixels), BLOCK):
        block = pixels[first : first + BLOCK]
        for channel in range(channels):
            counts[channel] += np.bincount(block[:, channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ values
    deviation = np.sqrt((share * (values - mean[:, None]) ** 2).sum(axis=1))
    return mean, np.where(deviation > 0, deviation, 1)
