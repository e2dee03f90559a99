# SPDX-License-Identifier: BSD-3-Clause
"""Runs lockstep-data in the tests, and checks the file that it writes."""

import h5py
import numpy as np
from lockstep_data.cli import main

RANDOM = np.random.default_rng(1)


def pixels(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def convert(tmp_path, *arguments, status=0):
    """Returns the content of the written file as {path: array}; None if the exit status is not
    0."""
    path = tmp_path / "out.h5"
    assert main([*map(str, arguments), "-o", str(path)]) == status
    if status:
        assert not path.exists()
        return None
    assert not path.with_name("out.h5.partial").exists()
    return contents(path)


def contents(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update(
                {name: item[()]} if isinstance(item, h5py.Dataset) else {}
            )
        )
        assert not file.attrs
    return found


def error_of(capsys):
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("lockstep-data: "), lines
    return lines[0]


def check(found, train_pixels, train_labels, test_pixels, test_labels, names):
    assert sorted(found) == [
        "class_names",
        "mean",
        "std",
        "test/images",
        "test/labels",
        "train/images",
        "train/labels",
    ]
    for name, expected in (
        ("train/images", train_pixels),
        ("train/labels", train_labels),
        ("test/images", test_pixels),
        ("test/labels", test_labels),
    ):
        np.testing.assert_array_equal(found[name], expected)
    assert found["train/images"].dtype == np.uint8
    assert [name.decode() for name in found["class_names"]] == names
    scaled = train_pixels / 255
    np.testing.assert_allclose(found["mean"], scaled.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(found["std"], scaled.std((0, 2, 3)), rtol=1e-12)
