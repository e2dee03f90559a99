# SPDX-License-Identifier: BSD-3-Clause
"""Tests with PyTorch: the networks of analysis/examples load what lockstep-weights writes, and the
program computes the same losses and logits."""

import re
from functools import partial

import numpy as np
import pytest
from conversions import LARGE, NEEDS_PYTORCH, convert, lockstep, networks, random_state
from lockstep_weights import files
from lockstep_weights.networks import NETWORKS


def model_of(name, style):
    import networks as classes
    from torch import nn

    names = {"kuangliu": ("shortcut", "linear"), "torchvision": ("downsample", "fc")}[style]
    resnets = {
        "resnet18-cifar": classes.ResNet18,
        "resnet34-cifar": classes.ResNet34,
        "resnet18-gn-cifar": partial(classes.ResNet18, norm=partial(nn.GroupNorm, 32)),
        "resnet18-imagenet": partial(classes.ResNet18, stem="imagenet"),
    }
    vggs = {
        "vgg11": classes.VGG11,
        "vgg13": classes.VGG13,
        "vgg16": classes.VGG16,
        "vgg19": classes.VGG19,
        "vgg16-imagenet": classes.VGG16ImageNet,
    }
    return (
        resnets[name](classes=10, names=names).eval()
        if name in resnets
        else vggs[name](classes=10).eval()
    )


def styles(names=NETWORKS):
    return [
        pytest.param(*each.values, style, marks=each.marks)
        for each in networks(names)
        for style in NETWORKS[each.values[0]].styles
    ]


@NEEDS_PYTORCH
@pytest.mark.parametrize("name, style", styles())
def test_weights_are_the_same_bits_after_both_conversions(name, style, torch, tmp_path):
    files.write(tmp_path / "a.h5", files.hdf5_bytes(random_state(name)))
    network = ("--network", name)  # without running statistics, it is not recognised
    for suffix in (".pth", ".safetensors"):
        there, back = tmp_path / f"b{suffix}", tmp_path / f"c{suffix}.h5"
        assert convert("to-pytorch", tmp_path / "a.h5", "-o", there, "--style", style) == 0
        if suffix == ".pth":
            state = torch.load(there)
            assert set(state) == set(model_of(name, style).state_dict())
            model_of(name, style).load_state_dict(state)
        assert convert("from-pytorch", there, "-o", back, *(network if "-gn-" in name else ())) == 0
        written = files.read_lockstep(back)
        assert all(
            np.array_equal(written[tensor], array) for tensor, array in random_state(name).items()
        )


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with 24 random images in the layout of CIFAR-10."""
    folder = tmp_path_factory.mktemp("images")
    records = np.random.default_rng(3).integers(0, 256, (24, 3073), np.uint8)
    records[:, 0] %= 10
    for name in ("data_batch_1.bin", "test_batch.bin"):
        records.tofile(folder / name)
    return folder


def loss_of(folder, name, weights):
    output = lockstep(
        "evaluate",
        f"--model={name}",
        f"--data=cifar10:{folder}",
        f"--init-from={weights}",
        "--json",
    )
    return float(re.search(r'"test_loss": (\S+)', output)[1].rstrip(","))


@NEEDS_PYTORCH
@pytest.mark.parametrize("name, style", styles([name for name in NETWORKS if name not in LARGE]))
def test_the_loss_is_that_of_pytorch(name, style, torch, images, tmp_path):
    """Both directions: PyTorch saves the weights of its model, and the program computes the same
    loss with them. The tolerance is that of rounding: each of about twenty layers of float32 sums
    contributes about 1e-6."""
    import cifar10

    model = model_of(name, style)
    files.write(tmp_path / "a.h5", files.hdf5_bytes(random_state(name)))
    convert("to-pytorch", tmp_path / "a.h5", "-o", tmp_path / "a.pth", "--style", style)
    model.load_state_dict(torch.load(tmp_path / "a.pth"))
    pixels, labels = cifar10.read(images, "test")
    with torch.no_grad():
        expected = torch.nn.functional.cross_entropy(
            model(cifar10.normalise(pixels)), labels
        ).item()
    torch.save(model.state_dict(), tmp_path / "b.pth")
    assert (
        convert("from-pytorch", tmp_path / "b.pth", "-o", tmp_path / "b.h5", "--network", name) == 0
    )
    assert loss_of(images, name, tmp_path / "b.h5") == pytest.approx(expected, rel=1e-5)


@NEEDS_PYTORCH
def test_the_logits_are_those_of_pytorch(torch, images, tmp_path):
    """The loss of an image with label c is the negative logarithm of the softmax of its logits at
    c."""
    import cifar10

    model = model_of("resnet18-cifar", "kuangliu")
    model.load_state_dict(
        {name: torch.from_numpy(array) for name, array in random_state("resnet18-cifar").items()},
        strict=False,
    )
    torch.save(model.state_dict(), tmp_path / "a.pth")
    convert("from-pytorch", tmp_path / "a.pth", "-o", tmp_path / "a.h5")
    record = np.fromfile(images / "test_batch.bin", np.uint8)[:3073]
    with torch.no_grad():
        expected = (
            model(cifar10.normalise(cifar10.read(images, "test", 1)[0])).log_softmax(1)[0].numpy()
        )
    found = []
    for label in range(10):
        folder = tmp_path / str(label)
        folder.mkdir()
        record[0] = label
        for name in ("data_batch_1.bin", "test_batch.bin"):
            record.tofile(folder / name)
        found.append(-loss_of(folder, "resnet18-cifar", tmp_path / "a.h5"))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.ptp(expected))
