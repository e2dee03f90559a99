# SPDX-License-Identifier: BSD-3-Clause
"""Reads CIFAR-10 from the published binary files; normalises and augments images in PyTorch as
Lockstep does."""

import pathlib

import numpy
import torch

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
STD = torch.tensor([0.2023, 0.1994, 0.2010]).view(1, 3, 1, 1)


def read(folder, split, count=None):
    """Returns the first `count` images (N, 3, 32, 32) uint8 and labels (N,) int64 of `split`,
    "train" or "test". The files are in `folder`, or in its subfolder cifar-10-batches-bin, as in
    the archive."""
    folder = pathlib.Path(folder).expanduser()
    if (folder / "cifar-10-batches-bin").is_dir():
        folder /= "cifar-10-batches-bin"
    names = ["test_batch.bin"] if split == "test" else [f"data_batch_{i}.bin" for i in range(1, 6)]
    records = numpy.concatenate(
        [numpy.fromfile(folder / name, numpy.uint8).reshape(-1, 3073) for name in names]
    )[:count]
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
    return images, torch.from_numpy(records[:, 0].astype(numpy.int64))


def normalise(images):
    """Converts uint8 images to float32, normalised with the mean and standard deviation of
    CIFAR-10."""
    return (images.float() / 255 - MEAN) / STD


def augment(images, generator):
    """Pads by 4 black pixels, crops 32x32 at a random position, and flips horizontally with
    probability 1/2."""
    count = len(images)
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    top, left = (torch.randint(0, 9, (count,), generator=generator) for _ in range(2))
    flip = torch.rand(count, generator=generator) < 0.5
    rows = torch.arange(32).view(1, 32) + top.view(-1, 1)
    columns = torch.arange(32).view(1, 32)
    columns = torch.where(flip.view(-1, 1), 31 - columns, columns) + left.view(-1, 1)
    index = torch.arange(count).view(-1, 1, 1)
    return padded.permute(0, 2, 3, 1)[index, rows.unsqueeze(2), columns.unsqueeze(1)].permute(
        0, 3, 1, 2
    )
