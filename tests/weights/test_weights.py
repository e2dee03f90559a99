# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lockstep-weights with the program and with PyTorch: the networks of analysis/examples
load what it writes, and it reads what they save. Tests without the marker need neither PyTorch nor
safetensors."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [
    str(ROOT / "build" / "python-packages"),
    str(ROOT / "analysis" / "examples"),
]  # jobs/setup --dev writes the first
from lockstep_weights import files  # noqa: E402
from lockstep_weights.cli import main  # noqa: E402
from lockstep_weights.networks import NETWORKS  # noqa: E402

NEEDS_PYTORCH = pytest.mark.requires("PYTORCH")
LARGE = ("vgg16-imagenet",)  # 553 MB


def networks(names=NETWORKS):
    return [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in names]


def lockstep(*arguments):
    """Runs the program on the CPU with one thread and returns its output."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_")
    }
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(
        [os.environ["LOCKSTEP_BIN"], *map(str, arguments), "--threads=1"],
        env=environment | variables,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def convert(*arguments):
    return main([str(argument) for argument in arguments])


def random_state(name, classes=10, seed=1):
    """Returns a state of the network with values that a trained network could have, and in which no
    two tensors are equal."""
    random, state = np.random.default_rng(seed), {}
    for tensor, shape in NETWORKS[name].tensors(3, classes).items():
        values = random.standard_normal(shape, np.float32)
        if len(shape) > 1:
            values *= np.float32(np.sqrt(2 / np.prod(shape[1:])))
        elif tensor.endswith(("running_var", "weight")):
            values = 1 + np.abs(values) / 4
        state[tensor] = values
    return state


def save_npz(path, state):
    np.savez(path, **state)
    return path


# --- the program
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", networks())
def test_the_program_has_the_same_tensors(name, tmp_path):
    """The program needs all tensors of the file, and has no more parameters."""
    shapes = NETWORKS[name].tensors(3, 10)
    state = {tensor: np.zeros(shape, np.float32) for tensor, shape in shapes.items()}
    files.write(tmp_path / "weights.h5", files.hdf5_bytes(state))
    size = 224 if name == "vgg16-imagenet" else 32
    output = lockstep(
        "evaluate",
        f"--model={name}",
        f"--data=synthetic:12@3x{size}x{size}/10",
        f"--init-from={tmp_path}/weights.h5",
        "--dry-run",
    )
    parameters = sum(array.size for tensor, array in state.items() if "running_" not in tensor)
    assert re.search(rf"{name}, {parameters:,} parameters", output), output


@pytest.mark.parametrize(
    "change, status, error",
    [
        (
            {"linear.weight": (10, 500)},
            3,
            "not the weights of resnet18-cifar: linear.weight has the shape 10x500 where 10x512",
        ),
        (
            {"layer4.0.conv2.weight": None},
            3,
            "it lacks 1 tensor, such as layer4.0.conv2.weight (512x512x3x3)",
        ),
        (
            {"linear.weight": None},
            3,
            "it lacks 1 tensor, such as linear.weight (10x512); --partial takes all other tensors",
        ),
        (
            {"head.bias": (3,)},
            3,
            "it has 1 tensor that the network lacks, such as head.bias; --partial",
        ),
        (
            {f"layer{i}.0.bn1.weight": (7,) for i in range(1, 5)},
            3,
            "no network of Lockstep; the most similar is resnet18-cifar",
        ),
        (
            lambda name: "running_" in name,
            2,
            "either resnet18-gn-cifar, which --network resnet18-gn-cifar states, or batch norm",
        ),
    ],
)
def test_another_state_is_an_error(change, status, error, tmp_path, capsys):
    state = random_state("resnet18-cifar")
    if callable(change):
        state = {name: array for name, array in state.items() if not change(name)}
    else:
        for name, shape in change.items():
            state.pop(name, None)
            if shape:
                state[name] = np.zeros(shape, np.float32)
    assert (
        convert("from-pytorch", save_npz(tmp_path / "a.npz", state), "-o", tmp_path / "a.h5")
        == status
    )
    assert error in capsys.readouterr().err and not (tmp_path / "a.h5").exists()


def test_partial_takes_the_features_and_names_the_rest(tmp_path, capsys):
    state = random_state("vgg16")
    features = {name: array for name, array in state.items() if name.startswith("features")}
    heads = {
        f"classifier.{index}.bias": np.ones(4, np.float32) for index in (0, 3, 6)
    }  # as in torchvision's vgg16_bn
    source = save_npz(tmp_path / "a.npz", features | heads)
    assert (
        convert("from-pytorch", source, "-o", tmp_path / "a.h5", "--partial", "--classes", 7) == 0
    )
    output = capsys.readouterr().out
    assert (
        "vgg16 with 7 classes" in output
        and "not taken: classifier.0.bias, classifier.3.bias, classifier.6.bias" in output
    )
    assert "set to 0: classifier.weight, classifier.bias" in output
    written = files.read_lockstep(tmp_path / "a.h5")
    assert all(np.array_equal(written[name], array) for name, array in features.items())
    assert written["classifier.weight"].shape == (7, 512) and not written["classifier.weight"].any()


def with_prefix(prefix, state):
    return {f"{prefix}{name}": array for name, array in state.items()}


def flattened(state):
    return {
        f"ema_{name.replace('.', '_')}": array
        for name, array in with_prefix("backbone.", state).items()
    }


@pytest.mark.parametrize(
    "saved, options, place, line",
    [
        (
            lambda state, average: with_prefix("model.", state) | {"criterion.weight": np.ones(10)},
            (),
            ", model",
            "not taken: criterion.weight",
        ),
        (
            lambda state, average: (
                with_prefix("net.model.", state)
                | with_prefix("net.head.", {str(i): np.ones(2) for i in range(9)})
            ),
            (),
            ", model",
            "not taken: head.0",
        ),
        (
            lambda state, average: (
                with_prefix("model.", state) | with_prefix("model_ema.", average)
            ),
            (),
            ", model",
            "other weights, which --state NAME takes: model_ema",
        ),
        (
            lambda state, average: (
                with_prefix("model.", average) | with_prefix("model_ema.", state)
            ),
            ("--state", "model_ema"),
            ", model_ema",
            "not taken: model.conv1.weight",
        ),
        (
            lambda state, average: (
                with_prefix("model_ema.", state) | {"criterion.weight": np.ones(10)}
            ),
            (),
            ", model_ema",
            "not taken",
        ),
        (
            lambda state, average: with_prefix("backbone.", state) | flattened(average),
            (),
            "",
            "not taken: ema_backbone_conv1_weight",
        ),
        (
            lambda state, average: with_prefix("module.", state) | {"n_averaged": np.array(3)},
            (),
            "",
            "not taken: n_averaged",
        ),
        (
            lambda state, average: {
                name.replace("layer1.", "layer1._fsdp_wrapped_module.").replace(
                    "conv2.", "conv2._orig_mod."
                ): array
                for name, array in state.items()
            },
            (),
            "",
            "classes from",
        ),
    ],
)
def test_the_weights_of_the_network_are_found_beside_others(
    saved, options, place, line, tmp_path, capsys
):
    state, average = random_state("resnet18-cifar"), random_state("resnet18-cifar", seed=2)
    source = save_npz(tmp_path / "a.npz", saved(state, average))
    assert convert("from-pytorch", source, "-o", tmp_path / "a.h5", *options) == 0
    written, output = files.read_lockstep(tmp_path / "a.h5"), capsys.readouterr().out
    assert all(np.array_equal(written[name], array) for name, array in state.items())
    assert f"resnet18-cifar with 10 classes from {source}{place}\n" in output and line in output


@pytest.mark.parametrize(
    "change, options, status, error",
    [
        (
            lambda state: with_prefix("student.", state) | with_prefix("teacher.", state),
            (),
            3,
            "has several states: student, teacher; choose one with --state",
        ),
        (lambda state: state, ("--state", "ema"), 2, "--state ema: the file has no such state"),
        (
            lambda state: state | {"bn1.running_var": np.full(64, np.nan)},
            (),
            3,
            "bn1.running_var has values that are NaN or infinite",
        ),
        (
            lambda state: state | {"linear.bias": np.full(10, np.inf, np.float16)},
            (),
            3,
            "linear.bias has values that are NaN or infinite",
        ),
        (
            lambda state: state,
            ("--classes", "7"),
            3,
            "linear.weight has the shape 10x512 where 7x512 is needed",
        ),
        (
            lambda state: (
                with_prefix(
                    "model.", {name: state[name] for name in state if name != "conv1.weight"}
                )
                | {"loss.weight": np.ones(3)}
            ),
            (),
            3,
            "the most similar is resnet18-cifar: it lacks 1 tensor, such as conv1.weight",
        ),
    ],
)
def test_weights_that_cannot_be_meant_are_errors(change, options, status, error, tmp_path, capsys):
    source = save_npz(tmp_path / "a.npz", change(random_state("resnet18-cifar")))
    assert convert("from-pytorch", source, "-o", tmp_path / "a.h5", *options) == status
    assert error in capsys.readouterr().err and not (tmp_path / "a.h5").exists()


def test_the_files_of_an_index_are_one_state(tmp_path, capsys):
    state = random_state("resnet18-cifar")
    parts = {name: f"{index % 2}.npz" for index, name in enumerate(state)}
    for file in ("0.npz", "1.npz"):
        save_npz(tmp_path / file, {name: state[name] for name in state if parts[name] == file})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": parts}))
    assert convert("from-pytorch", index, "-o", tmp_path / "a.h5") == 0
    assert all(
        np.array_equal(files.read_lockstep(tmp_path / "a.h5")[name], array)
        for name, array in state.items()
    )
    for change, error in (
        ({"linear.bias": "2.npz"}, "lacks 2.npz of its 3 files"),
        ({"linear.bias": "1.npz", "x": "0.npz"}, ""),
        ({"x": index.name}, "x: not in the files"),
    ):
        index.write_text(json.dumps({"weight_map": parts | change}))
        assert convert("from-pytorch", index, "-o", tmp_path / "b.h5") == 3
        assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, error",
    [
        (
            ".metadata",
            (
                "a checkpoint of torch.distributed.checkpoint (FSDP), one file per process; convert"
                " it: python3 -m "
            ),
        ),
        (
            "model.safetensors",
            "a folder; give the file with the weights in it, for example model.safetensors",
        ),
        ("x", "a folder; give"),
    ],
)
def test_a_folder_is_an_error_that_says_what_to_give(name, error, tmp_path, capsys):
    (tmp_path / name).touch()
    assert convert("from-pytorch", tmp_path, "-o", tmp_path / "a.h5") == 3
    assert error in capsys.readouterr().err


def test_outputs_replace_no_file(tmp_path, capsys):
    source = save_npz(tmp_path / "a.npz", random_state("resnet18-cifar"))
    assert convert("from-pytorch", source, "-o", source) == 6
    assert convert("from-pytorch", source, "-o", tmp_path / "missing" / "a.h5") == 6
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    "module, name", [("torch", "a.pth"), ("safetensors.torch", "a.safetensors")]
)
def test_a_missing_library_is_named(module, name, tmp_path, capsys, monkeypatch):
    if module != "torch":
        monkeypatch.setitem(sys.modules, "torch", argparse)  # any module
    monkeypatch.setitem(sys.modules, module, None)
    files.write(tmp_path / "a.h5", files.hdf5_bytes(random_state("resnet18-cifar")))
    assert convert("to-pytorch", tmp_path / "a.h5", "-o", tmp_path / name) == 2
    assert f"{name} needs {module}: " in capsys.readouterr().err


# --- PyTorch
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


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


class Harmful:
    """An object whose unpickling writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def state(torch):
    return OrderedDict(
        (name, torch.from_numpy(array)) for name, array in random_state("resnet18-cifar").items()
    )


SAVED = {
    "checkpoint of kuangliu/pytorch-cifar": lambda state, torch: {
        "net": {f"module.{name}": tensor for name, tensor in state.items()},
        "acc": 95.1,
        "epoch": 199,
    },
    "checkpoint of torchvision's scripts": lambda state, torch: {
        "model": state,
        "args": argparse.Namespace(lr=0.1, data=pathlib.Path("data")),
        "best": np.float64(0.9),
    },
    "checkpoint of pytorch/examples": lambda state, torch: {
        "state_dict": state,
        "best_acc1": torch.tensor(0.9),
    },
    "model of Lightning and torch.compile": lambda state, torch: {
        "state_dict": {f"model._orig_mod.{name}": tensor for name, tensor in state.items()}
    },
    "averaged model": lambda state, torch: {
        "module.module." + name: tensor for name, tensor in state.items()
    },
    "checkpoint of timm": lambda state, torch: {
        "state_dict": with_prefix("module.", state),
        "state_dict_ema": twice(state),
    },
    "average of torchvision's scripts": lambda state, torch: {
        "model_ema": with_prefix("module.", state) | {"n_averaged": torch.ones(())},
        "model": twice(state),
    },
    "nested": lambda state, torch: {
        "epoch": 1,
        "model": {"state_dict": with_prefix("module.", state)},
    },
    "two states": lambda state, torch: {"model_state_dict": state, "ema": state},
    "optimizer": lambda state, torch: {
        "model_state": state,
        "optimizer": {
            "state": {0: {"momentum_buffer": torch.ones(3)}},
            "param_groups": [{"lr": 0.1}],
        },
    },
    "parameters": lambda state, torch: {
        name: torch.nn.Parameter(tensor) for name, tensor in state.items()
    },
    "channels last": lambda state, torch: {
        name: tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
        for name, tensor in state.items()
    },
    "before PyTorch 1.6": lambda state, torch: state,
}


def twice(state):
    return {name: 2 * tensor for name, tensor in state.items()}


@NEEDS_PYTORCH
@pytest.mark.parametrize("form", SAVED)
def test_files_of_other_programs_are_read(form, state, torch, tmp_path):
    torch.save(
        SAVED[form](state, torch),
        tmp_path / "a.pth",
        _use_new_zipfile_serialization=form != "before PyTorch 1.6",
    )
    chosen = ("--state", "model_ema") if form.startswith("average of") else ()
    assert convert("from-pytorch", tmp_path / "a.pth", "-o", tmp_path / "a.h5", *chosen) == 0
    written = files.read_lockstep(tmp_path / "a.h5")
    assert all(np.array_equal(written[name], tensor) for name, tensor in state.items())


@NEEDS_PYTORCH
@pytest.mark.parametrize("is_archive", [True, False])
def test_code_in_a_file_is_not_executed(is_archive, state, torch, tmp_path, capsys):
    torch.save(
        {"net": state, "x": Harmful(tmp_path / "executed")},
        tmp_path / "a.pth",
        _use_new_zipfile_serialization=is_archive,
    )
    status = convert("from-pytorch", tmp_path / "a.pth", "-o", tmp_path / "a.h5")
    assert not (tmp_path / "executed").exists()
    assert status == (0 if is_archive else 3)
    torch.load(tmp_path / "a.pth", weights_only=False)  # the file is harmful
    assert (tmp_path / "executed").exists()


@NEEDS_PYTORCH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floating_point_types_are_converted_to_float32(dtype, state, torch, tmp_path):
    import safetensors.torch as safetensors

    half = {name: tensor.to(getattr(torch, dtype)) for name, tensor in state.items()}
    torch.save(half, tmp_path / "a.pth")
    safetensors.save_file(half, tmp_path / "a.safetensors")
    for source in ("a.pth", "a.safetensors"):
        assert convert("from-pytorch", tmp_path / source, "-o", tmp_path / f"{source}.h5") == 0
        written = files.read_lockstep(tmp_path / f"{source}.h5")
        assert all(np.array_equal(written[name], tensor.float()) for name, tensor in half.items())


def cut(data):
    return data[: len(data) // 2]


def flipped(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@NEEDS_PYTORCH
@pytest.mark.parametrize(
    "suffix, damage",
    [
        (".pth", cut),
        (".pth", flipped),
        (".pth", lambda data: b"\x80\x02"),
        (".safetensors", cut),
        (".h5", cut),
    ],
)
def test_a_damaged_file_is_an_error(suffix, damage, state, torch, tmp_path, capsys):
    source = tmp_path / f"a{suffix}"
    content = {name: tensor.numpy() for name, tensor in state.items()}
    files.write(
        str(source),
        (
            files.hdf5_bytes(content)
            if suffix == ".h5"
            else files.require_writer(str(source))(content)
        ),
    )
    source.write_bytes(damage(source.read_bytes()))
    command, target = ("to-pytorch", "b.pth") if suffix == ".h5" else ("from-pytorch", "b.h5")
    assert convert(command, source, "-o", tmp_path / target) == 3
    error = capsys.readouterr().err
    assert "damaged" in error and len(error.splitlines()) == 1 and not (tmp_path / target).exists()


@NEEDS_PYTORCH
@pytest.mark.parametrize(
    "content, error",
    [
        (
            lambda torch: torch.nn.Linear(2, 2),
            "an object of the type torch.nn.modules.linear.Linear; save one alone",
        ),
        (lambda torch: [torch.ones(2)], "an object of the type builtins.list"),
        (
            lambda torch: {"student": {"a": torch.ones(2)}, "teacher": {"a": torch.ones(2)}},
            "has several states: student, teacher",
        ),
        (
            lambda torch: {"model": torch.nn.Linear(2, 2), "epoch": 3},
            "only model (an object of the type torch.nn.modules.linear.Linear), epoch",
        ),
        (
            lambda torch: {"optimizer": {"state": {0: torch.ones(2)}}, "epoch": 3},
            "has no weights, only optimizer, epoch; save one alone",
        ),
        (
            lambda torch: {"a": torch.arange(3)},
            "a is no dense tensor of floating-point numbers (its type is int64)",
        ),
        (
            lambda torch: {"a": torch.eye(3).to_sparse()},
            "a is no dense tensor of floating-point numbers (",
        ),
    ],
)
def test_a_file_without_a_state_is_an_error(content, error, torch, tmp_path, capsys):
    torch.save(content(torch), tmp_path / "a.pth")
    assert convert("from-pytorch", tmp_path / "a.pth", "-o", tmp_path / "a.h5") == 3
    assert error in capsys.readouterr().err
