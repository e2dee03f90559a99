# SPDX-License-Identifier: BSD-3-Clause
"""Tests that files of PyTorch and of other programs are read, and damaged files are refused."""

import argparse
import os
import pathlib

import numpy as np
import pytest
from conversions import NEEDS_PYTORCH, convert, with_prefix
from lockstep_weights import files


class Harmful:
    """An object whose unpickling writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


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
