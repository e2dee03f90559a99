# SPDX-License-Identifier: BSD-3-Clause
"""Files of images that lockstep-data reads."""

import pickle

import numpy as np
from data_command import pixels

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
RANDOM = np.random.default_rng(1)


def write_cifar(place, protocol=2, per_file=3):
    """Writes the files of CIFAR-10; returns (pixels, labels) of the training and the test
    images."""
    place.mkdir(parents=True)
    images, labels = pixels(6 * per_file, 3, 32, 32), RANDOM.integers(0, 10, 6 * per_file)
    for at, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        part = slice(at * per_file, (at + 1) * per_file)
        values = {
            b"data": images[part].reshape(per_file, -1),
            b"labels": labels[part].tolist(),
            b"filenames": [b"x.png"],
        }
        (place / name).write_bytes(pickle.dumps(values, protocol))
    (place / "batches.meta").write_bytes(
        pickle.dumps({b"label_names": [name.encode() for name in NAMES]}, protocol)
    )
    count = 5 * per_file
    return (images[:count], labels[:count]), (images[count:], labels[count:])
