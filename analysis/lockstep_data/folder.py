# SPDX-License-Identifier: BSD-3-Clause
"""A folder with one subfolder of images per class."""

import functools
import hashlib
import os
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from lockstep_report.errors import INPUT, ReportError, cannot_read, reason_of, require_module
from lockstep_report.runfile.file_kind import kind_of_file
from lockstep_report.runfile.settings import some_of

from lockstep_data.images import SPLITS, TEST_NAMES, TRAIN_NAMES, Images, note_on_test

SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


def read_folder(folder, size, channels=3, test_share=0.2, seed=1):
    """Returns the images of a folder, scaled and cropped to `size` (height, width). If it has the
    subfolders train and test (or val), these contain the classes; otherwise the share `test_share`
    of each class are test images. The order of the images is random, so that the first N are of all
    classes. Raises `ReportError` (input).
    """
    pillow = require_module(
        "PIL.Image", "reading images", "install python3-pil (Debian) or pip install pillow"
    )
    folder = Path(folder)
    train, tests = parts_of(folder)
    names, files = images_of(train)
    notes = note_on_test([place.name.lower() for place in tests]) + note_on_depth(
        train, names, files
    )
    if tests:
        test_files, absent = test_images_of(folder, train, tests[0], names)
        notes += [f"{tests[0].name} has no images of {', '.join(absent)}"] if absent else []
    else:
        files, test_files = divided(names, files, test_share, seed)
    listed = {
        split: in_random_order(own, f"{seed} {split}")
        for split, own in zip(SPLITS, (files, test_files))
    }
    for split, own in listed.items():
        if not own:
            raise ReportError(
                INPUT, f"{folder}: there are no {split} images; add images or change --test-share"
            )
    labels = {
        split: np.array([label for _, label in own], np.int64) for split, own in listed.items()
    }
    return Images(
        (channels, *size),
        names,
        labels,
        reader(listed, functools.partial(load_image, pillow, size, channels), (channels, *size)),
        digest_of(folder, listed, size, channels),
        notes,
    )


def divided(names, files, test_share, seed):
    """Returns the training and the test images of each class; `test_share` of the images of a
    class, chosen at random, are test images."""
    shuffled = [
        random.Random(f"{seed} {name}").sample(own, len(own)) for name, own in zip(names, files)
    ]
    counts = [max(1, round(len(own) * test_share)) if len(own) > 1 else 0 for own in files]
    test_files = [own[:count] for own, count in zip(shuffled, counts)]
    return [own[count:] for own, count in zip(shuffled, counts)], test_files


def reader(listed, load, shape):
    """Returns a function that returns images of a split and the failures {index: text}; an image
    that cannot be read is black."""

    def read(split, first, last):
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            loaded = list(threads.map(load, (path for path, _ in listed[split][first:last])))
        failures = {index: value for index, value in enumerate(loaded) if isinstance(value, str)}
        blank = np.zeros(shape, np.uint8)
        images = [blank if index in failures else value for index, value in enumerate(loaded)]
        return np.stack(images), failures

    return read


def digest_of(folder, listed, size, channels):
    """Returns a digest of the names of the images, their labels and the size."""
    images = [
        (str(path.relative_to(folder)), label) for own in listed.values() for path, label in own
    ]
    identity = repr((size, channels, images))
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()


def in_random_order(files, seed):
    """Returns (path, label) of the files of all classes."""
    pairs = [(path, label) for label, own in enumerate(files) for path in own]
    return random.Random(seed).sample(pairs, len(pairs))


def subfolders(folder):
    try:
        return {
            path.name: path
            for path in sorted(folder.iterdir())
            if path.is_dir() and not path.name.startswith((".", "__MACOSX"))
        }
    except OSError as error:
        raise cannot_read(folder, error) from error


def parts_of(folder):
    """Returns the folder of the training classes and a list of those of test classes, the preferred
    one first."""
    found = {name.lower(): place for name, place in subfolders(folder).items()}
    train = next((found[name] for name in TRAIN_NAMES if name in found), None)
    if train is None:
        return folder, []
    return train, [found[name] for name in TEST_NAMES if name in found]


def note_on_depth(folder, names, files):
    """Returns a list with a text if no class has images of its own, so that its subfolders may be
    the classes."""
    deeper = [
        path.relative_to(folder / name).parts[0]
        for name, own in zip(names, files)
        for path in own
        if path.parent != folder / name
    ]
    if len(deeper) < sum(map(len, files)):
        return []
    return [
        f"all images of the classes {some_of(names)} are in subfolders of them:"
        f" {some_of(sorted(set(deeper)))}; if these are the classes, name the folders of {folder}"
        " train and test"
    ]


def test_images_of(folder, train, test, names):
    """Returns a list of image files for each class of `names`, and the classes of which `test` has
    none. Classes have the numbers of the training classes, whatever folders `test` has."""
    test_names, test_files = images_of(test, require_all=False)
    if not {*test_names} <= {*names}:
        different = ", ".join(sorted({*names} ^ {*test_names}))
        raise ReportError(
            INPUT,
            f"{folder}: {train.name} and {test.name} have different classes: {different}; name the"
            " folders of a class alike",
        )
    files = dict(zip(test_names, test_files))
    return [files.get(name, []) for name in names], [name for name in names if not files.get(name)]


def images_of(folder, require_all=True):
    """Returns the names of the classes, sorted, and a list of image files for each, also in deeper
    folders. `require_all`: there must be two classes, and images of each."""
    classes = subfolders(folder)
    if len(classes) < (2 if require_all else 1):
        raise ReportError(
            INPUT,
            f"{folder}: has {len(classes)} subfolder(s); make one subfolder of images per class",
        )
    files = [
        sorted(
            path
            for path in place.rglob("*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
        for place in classes.values()
    ]
    for name, own in zip(classes, files):
        if not own and require_all:
            raise ReportError(
                INPUT,
                f"{folder / name}: contains no images ({', '.join(sorted(SUFFIXES))}); add some or"
                " remove it",
            )
    return list(classes), files


def load_image(pillow, size, channels, path):
    """Returns the pixels (channels, height, width) of an image; a text with its path and the reason
    if it cannot be read. The image is scaled to cover `size` and cropped at its centre."""
    from PIL import ImageOps  # not before `require_module`

    try:
        with warnings.catch_warnings(), pillow.open(path) as image:
            warnings.simplefilter("ignore")  # about large images and transparent palettes
            if image.mode.startswith(("I", "F")):  # `convert` would clip the values
                return f"{path} (more than 8 bits per channel)"
            upright = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
        fitted = ImageOps.fit(upright, size[::-1], pillow.Resampling.BILINEAR)
    except Exception as error:  # Pillow raises exceptions of many types for damaged images
        reason = (
            f"not an image, but {kind_of_file(path)}"
            if type(error).__name__ == "UnidentifiedImageError"
            else reason_of(error)
        )
        return f"{path} ({reason})"
    return np.asarray(fitted).reshape(*size, channels).transpose(2, 0, 1)
