# SPDX-License-Identifier: BSD-3-Clause
"""Tests of datasets that are missing, damaged, different on two ranks, or of other shapes."""

import json

import h5py
import numpy as np
import pytest
from command_line import expect_failure, start, start_ranks, train


@pytest.fixture
def cifar(tmp_path):
    """A folder with files in the format of CIFAR-10, with 10,000 black images each."""
    folder = tmp_path / "cifar"
    folder.mkdir()
    records = np.zeros((10000, 3073), np.uint8)
    records[:, 0] = np.arange(10000) % 10
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records.tofile(folder / name)
    (folder / "batches.meta.txt").write_text(
        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"
    )
    return folder


def test_global_batch_larger_than_the_data_is_an_error():
    line = expect_failure(start(*train(batch_per_rank=25)), 3)
    assert "25 images" in line and "24 training images" in line


def test_missing_data_folder_is_an_error(tmp_path):
    line = expect_failure(start(*train(data=f"cifar10:{tmp_path}/none")), 3)
    assert f"{tmp_path}/none" in line and "download" in line


def test_truncated_data_file_is_an_error(cifar):
    damaged = cifar / "data_batch_3.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    line = expect_failure(start(*train(data=f"cifar10:{cifar}")), 3)
    assert "data_batch_3.bin" in line


def test_damaged_data_on_one_rank_end_all_ranks(cifar, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in cifar.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes()[:5000])
    result = start_ranks((1, train(data=f"cifar10:{cifar}")), (1, train(data=f"cifar10:{damaged}")))
    line = expect_failure(result, 3)
    assert "rank 1 on " in line


def test_different_data_on_two_ranks_are_an_error(cifar, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for file in cifar.iterdir():
        content = file.read_bytes()
        (other / file.name).write_bytes(content[:-1] + b"\1" if file.suffix == ".bin" else content)
    line = expect_failure(
        start_ranks((1, train(data=f"cifar10:{cifar}")), (1, train(data=f"cifar10:{other}"))), 2
    )
    assert "digest" in line and "rank 1" in line


@pytest.mark.parametrize(
    "model, source, classes",
    [
        ("resnet18-cifar", "synthetic:24@1x12x20/3", 3),
        ("resnet18-imagenet", "synthetic:24@4x40x24/12", 12),
        ("vgg11", "synthetic:24@3x32x33/100", 100),
    ],
)
def test_networks_are_built_for_the_images_and_classes_of_the_data(model, source, classes):
    result = start(*train("--json", model=model, data=source, steps=1, evaluate_every=0))
    found = json.loads(result.stdout)
    assert found["config"]["classes"] == str(classes)
    assert found["results"]["last_test_accuracy"] is not None


def test_images_that_are_too_small_for_the_network():
    line = expect_failure(start(*train(model="vgg11", data="synthetic:24@3x16x16")), 2)
    assert "vgg11" in line and "16 x 16" in line


def test_the_run_file_contains_the_numbers_of_images(tmp_path):
    for options, numbers in (
        ({}, ("24", "4")),
        ({"train_samples": 10, "test_samples": 3}, ("10", "3")),
    ):
        path = tmp_path / "run.h5"
        assert start(*train("--overwrite", output=path, **options)).returncode == 0
        with h5py.File(path) as file:
            assert (
                tuple(
                    file["config"].attrs[f"{part}-samples"].decode() for part in ("train", "test")
                )
                == numbers
            )


def test_cifar100(tmp_path):
    records = np.zeros((300, 3074), np.uint8)
    records[:, 1] = np.arange(300) % 100
    for name in ("train.bin", "test.bin"):
        records.tofile(tmp_path / name)
    result = start(*train("--json", data=f"cifar100:{tmp_path}", steps=1))
    assert json.loads(result.stdout)["config"]["classes"] == "100"
    records[7, 1] = 100
    records.tofile(tmp_path / "train.bin")
    assert "train.bin: record 7" in expect_failure(start(*train(data=f"cifar100:{tmp_path}")), 3)
