# SPDX-License-Identifier: BSD-3-Clause
"""Tests that lockstep-data writes what the program reads."""

import os
import pathlib
import pickle
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command_line import expect_failure, start, start_ranks, train

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = [f"data_batch_{i}" for i in range(1, 6)]
OF_CIFAR10 = ["--mean", "0.4914,0.4822,0.4465", "--std", "0.2023,0.1994,0.2010"]


def convert(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "lockstep_data", *map(str, arguments)],
        cwd=cwd,
        text=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "analysis")},
    )


def write_version_for_python(folder, pixels, labels):
    """Writes equal parts of the images to the six files of CIFAR-10."""
    folder.mkdir()
    for name, images, own in zip(
        [*BATCHES, "test_batch"], np.split(pixels, 6), np.split(labels, 6)
    ):
        (folder / name).write_bytes(pickle.dumps({b"data": images, b"labels": own.tolist()}, 2))
    (folder / "batches.meta").write_bytes(
        pickle.dumps({b"label_names": [b"class%d" % i for i in range(10)]}, 2)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with random images in the binary version of CIFAR-10 (bin) and, converted from that
    for Python, in own.h5."""
    folder = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(1)
    pixels, labels = (
        random.integers(0, 256, (48, 3072), np.uint8),
        random.integers(0, 10, 48, np.uint8),
    )
    write_version_for_python(folder / "py", pixels, labels)
    (folder / "bin").mkdir()
    for name, records in zip(
        [*BATCHES, "test_batch"], np.split(np.hstack([labels[:, None], pixels]), 6)
    ):
        records.tofile(folder / "bin" / f"{name}.bin")
    result = convert("cifar-python", "py", "-o", "own.h5", *OF_CIFAR10, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


def losses(folder, source, output):
    result = start(
        *train(
            "--deterministic", f"--output={output}", data=source, evaluate_every=1, batch_per_rank=8
        ),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    with h5py.File(folder / output) as file:
        return (
            file["steps/loss"][()].tolist(),
            file["epochs/test_loss"][()].tolist(),
            file["environment"].attrs["data_digest"],
        )


def test_converted_images_give_the_same_losses(folder):
    own = losses(folder, "hdf5:own.h5", "run-own.h5")
    assert own == losses(folder, "cifar10:bin", "run-bin.h5") and len(set(own[0])) == 2


def test_ranks_may_read_equal_images_from_different_files(folder):
    options = train(data="cifar10:bin"), train(data="hdf5:own.h5")
    assert start_ranks(*((1, each) for each in options), cwd=folder).returncode == 0


@pytest.mark.parametrize(
    "name, at, words",
    [("test/images", (3, 2, 1, 0), "digest of the images"), ("std", 1, "normalisation")],
)
def test_ranks_with_different_files_are_refused(name, at, words, folder, tmp_path):
    other = tmp_path / "other.h5"
    other.write_bytes((folder / "own.h5").read_bytes())
    with h5py.File(other, "r+") as file:
        file[name][at] = (
            file[name][at] / 2 if file[name][at] > 1 or name == "std" else file[name][at] + 1
        )
    result = start_ranks(
        (1, train(data="hdf5:own.h5")), (1, train(data=f"hdf5:{other}")), cwd=folder
    )
    assert words in expect_failure(result, 2)


@pytest.mark.parametrize("shape, model", [((1, 28, 28), "resnet18-cifar"), ((3, 64, 64), "vgg11")])
def test_the_documented_layout_is_trained_on(shape, model, tmp_path):
    """The example of the documentation writes the file."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    example = re.search(r"writes it with h5py:\n\n```python\n(.*?)```", page, re.DOTALL)[1]
    random = np.random.default_rng(1)
    images = {
        f"{split}_images": random.integers(0, 256, (8, *shape), np.uint8)
        for split in ("train", "test")
    }
    labels = {f"{split}_labels": np.arange(8) % 2 for split in ("train", "test")}
    assert len(example.splitlines()) == 5
    exec(
        example.replace("own.h5", str(tmp_path / "own.h5")),
        {"h5py": h5py, "numpy": np, **images, **labels},
    )
    result = start(*train(data=f"hdf5:{tmp_path}/own.h5", model=model, steps=1, evaluate_every=1))
    assert result.returncode == 0, result.stderr


def test_errors_have_the_status_of_inputs(folder, tmp_path):
    own = tmp_path / "own.h5"
    own.write_bytes((folder / "own.h5").read_bytes()[:3000])
    line = expect_failure(start(*train(data=f"hdf5:{own}")), 3)
    assert "own.h5" in line and "lockstep-data" in line


def test_own_images_are_a_suggestion(folder):
    assert "did you mean --data hdf5:own.h5?" in expect_failure(
        start(*train(data="own.h5"), cwd=folder), 2
    )
