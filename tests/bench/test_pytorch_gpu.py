# SPDX-License-Identifier: BSD-3-Clause
"""Runs pytorch_gpu.py on a CPU."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent / "pytorch_gpu.py"
OPTIONS = [
    *("--device", "cpu"),
    *("--data", "."),
    *("--batch", "2"),
    *("--train-samples", "4"),
    *("--test-samples", "4"),
]
VARIANTS = ("eager", "graph", "host", "compile_default", "compile", "compile_graph")


def write_cifar(folder):
    """Writes files of CIFAR-10 with four images each."""
    random = np.random.default_rng(1)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = random.integers(0, 256, (4, 3073), np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / name)


@pytest.mark.requires("PYTORCH_2")
@pytest.mark.parametrize(
    "command, key",
    [
        (["losses", "--order", "order.npy", "--weights", "weights.h5"], "losses"),
        (["accuracy", "--rates", "rates.npy"], "test_accuracy"),
        (["speed", "--rounds", "2", "--turns", "touch turn-{round}"], "is_complete"),
    ],
)
def test_program_trains_on_a_cpu(tmp_path, command, key):
    write_cifar(tmp_path)
    np.save(tmp_path / "order.npy", np.arange(4).reshape(2, 2))
    np.save(tmp_path / "rates.npy", np.full(2, 0.01))
    process = subprocess.run(
        [sys.executable, PROGRAM, *command, *OPTIONS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    assert key in lines[-1] and not any("failed" in line for line in lines)
    if command[0] == "speed":
        rounds = [(line["round"], line.get("variant", "turn")) for line in lines[:-1]]
        assert rounds[:7] == [(1, name) for name in (*VARIANTS, "turn")]
        assert rounds[7:] == [(2, name) for _, name in rounds[6::-1]]
        assert (tmp_path / "turn-1").exists() and (tmp_path / "turn-2").exists()


def test_last_line_states_why_pytorch_cannot_be_imported(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open')\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.run(
        [sys.executable, "-B", PROGRAM, "versions"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        timeout=60,
    )
    assert process.returncode != 0
    assert process.stderr.splitlines()[-1] == "OSError: libtorch.so: cannot open"
