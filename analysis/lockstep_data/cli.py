# SPDX-License-Identifier: BSD-3-Clause
"""Command-line interface: lockstep-data SOURCE ... -o FILE"""

import argparse
import sys

from lockstep_report.arguments import commands_of, run, share
from lockstep_report.escaping import one_line

from lockstep_data import plausibility
from lockstep_data.data_file import write_images

INTERRUPTED = 130  # 128 + SIGINT


def main(arguments=None):
    """Runs one command and returns the exit status."""
    try:
        return run(parser(), arguments)
    except KeyboardInterrupt:
        print("lockstep-data: interrupted; the same command continues", file=sys.stderr)
        return INTERRUPTED


def parser():
    top, sources = commands_of(
        "lockstep-data",
        "Converts images into the HDF5 file that lockstep --data hdf5:FILE reads.",
        "Layout of the file: docs/options.md. Exit status: 0 done, 2 bad option, 3 bad or missing"
        " input, 6 output cannot be written, 130 interrupted.",
        metavar="SOURCE",
    )
    add(
        sources,
        "cifar-python",
        "SRC",
        "CIFAR-10 or CIFAR-100, version for Python: folder or .tar.gz",
        cifar,
    )
    add_folder(sources)
    add(
        sources,
        "mnist",
        "DIR",
        "folder with the IDX files of MNIST, Fashion-MNIST, KMNIST or EMNIST, compressed or not",
        mnist,
    )
    add(
        sources,
        "numpy",
        "FILE",
        ".npz with train_images, train_labels, test_images, test_labels (uint8; one integer per"
        " image), optionally class_names; or x_train, y_train, x_test, y_test, or val instead of"
        " test",
        numpy,
    )
    return top


def add_folder(sources):
    command = add(
        sources,
        "folder",
        "DIR",
        "folder with one subfolder of images per class, or with such folders train and test "
        "(or val)",
        folder,
    )
    command.add_argument(
        "--size",
        type=size,
        required=True,
        metavar="N|HxW",
        help="size to which images are scaled and cropped, for example 32 or 48x64",
    )
    command.add_argument(
        "--channels", type=int, choices=(1, 3), default=3, help="1: grey, 3: red, green, blue [3]"
    )
    command.add_argument(
        "--test-share",
        type=share,
        default=0.2,
        metavar="SHARE",
        help="share of the test images of each class if there is no folder test or val [0.2]",
    )
    command.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="S",
        help="seed of this choice and of the order of the images [1]",
    )


def add(sources, name, place, text, read):
    """Adds the source `name`, whose images `read(options)` returns."""
    command = sources.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.add_argument("source", metavar=place)
    command.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="file to write; it must not exist"
    )
    for value, meaning in (("mean", "mean"), ("std", "standard deviation")):
        command.add_argument(
            f"--{value}",
            type=fractions,
            metavar="X,...",
            help=f"{meaning} for each channel, of pixels from 0 to 1 [that of the training images]",
        )
    command.set_defaults(command=lambda options: convert(read(options), options))
    return command


def convert(images, options):
    write_images(images, options.output, options.mean, options.std)
    count = {split: len(labels) for split, labels in images.labels.items()}
    print(
        one_line(
            f"{options.output}: {count['train']:,} training and {count['test']:,} test images of "
            f"{'x'.join(map(str, images.shape))} in {len(images.class_names)} classes; "
            f"use it with lockstep train --data hdf5:{options.output}"
        )
    )
    for note in images.notes:
        print(one_line(note))
    for warning in plausibility.warnings_of(options.output):
        print(one_line(f"lockstep-data: warning: {warning}"), file=sys.stderr)


def cifar(options):
    from lockstep_data.cifar import read_cifar

    return read_cifar(options.source)


def folder(options):
    from lockstep_data.folder import read_folder

    return read_folder(
        options.source, options.size, options.channels, options.test_share, options.seed
    )


def mnist(options):
    from lockstep_data.mnist import read_mnist

    return read_mnist(options.source)


def numpy(options):
    from lockstep_data.numpy_file import read_numpy

    return read_numpy(options.source)


def size(text):
    sides = [int(side) for side in text.lower().split("x")]
    if len(sides) > 2 or not all(1 <= side <= 4096 for side in sides):
        raise argparse.ArgumentTypeError("the size must be N or HxW, from 1 to 4096")
    return sides[0], sides[-1]


def fractions(text):
    values = [float(part) for part in text.split(",")]
    if not all(0 <= value <= 1 for value in values):
        raise argparse.ArgumentTypeError("the values must be between 0 and 1")
    return values
