# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lockstep-weights: the networks of the program, and states that are found or refused."""

import argparse
import json
import re
import sys

import numpy as np
import pytest
from conversions import convert, lockstep, networks, random_state, with_prefix
from lockstep_weights import files
from lockstep_weights.networks import NETWORKS


def save_npz(path, state):
    np.savez(path, **state)
    return path


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
    # As in torchvision's vgg16_bn.
    heads = {f"classifier.{index}.bias": np.ones(4, np.float32) for index in (0, 3, 6)}
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
