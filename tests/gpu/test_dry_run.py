# SPDX-License-Identifier: BSD-3-Clause
"""Dry runs of the acceptance test with stubs of all programs, and the end of a call by a signal."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import dry_run  # noqa: E402
from measures import parse_json_lines  # noqa: E402
from running import Runner  # noqa: E402
from schedule import CALLS  # noqa: E402

PYTORCH = HERE.parent / "bench" / "pytorch_gpu.py"


def running_processes(folder):
    """Returns the command lines of the running processes that contain the path of `folder`."""
    lines = subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True).stdout
    return [line for line in lines.splitlines() if f"{folder}/" in line]


@pytest.mark.parametrize("call", CALLS)
def test_scenarios_of_a_call_have_the_expected_results(call):
    assert dry_run.run(call, None) == 0


def test_call_that_is_cut_off_keeps_its_results_and_ends_its_programs(tmp_path):
    command, variables = dry_run.command_of(
        dry_run.Scenario("", "first-contact", faults=("hang:--engines timed",)), tmp_path)
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any("--engines timed" in line for line in running_processes(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert "**Not complete:**" in (tmp_path / "out" / "acceptance.md").read_text()
    content = json.loads((tmp_path / "out" / "acceptance.json").read_text())
    assert content["parts"]["1"]["verdict"] == "correct"
    with tarfile.open(tmp_path / "out" / "logs.tar.gz") as tar:
        assert "part-1/steps-fp32-32.h5" in tar.getnames()
    assert not running_processes(tmp_path)


def test_command_that_ignores_sigterm_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr("running.GRACE_SECONDS", 1.0)
    script = tmp_path / "ignores-sigterm.sh"
    script.write_text("trap '' TERM\nif [ $# -eq 0 ]; then setsid sh \"$0\" child & fi\nsleep 300 & wait\n")
    outcome = Runner(tmp_path, dict(os.environ)).run("ignores-sigterm", ["sh", str(script)], 1.0)
    assert outcome.timed_out and outcome.status is None
    assert not running_processes(tmp_path)


def test_options_of_the_program_are_checked():
    text = ("Group:\n  --device NAME  device of\n                 a rank: cpu,\n                 cuda [cpu]\n"
            "  --json         JSON\n")
    assert not dry_run.option_mistakes(["train", "--device", "cuda", "--json"], text)
    assert dry_run.option_mistakes(["train", "--device", "gpu", "--jsn"], text) == [
        "--device gpu: the values are cpu,\n                 cuda", "--jsn is not an option of train"]


@pytest.mark.requires("PYTORCH_2")
@pytest.mark.parametrize("command, key", [
    (["losses", "--order", "order.npy", "--weights", "weights.h5"], "losses"),
    (["accuracy", "--rates", "rates.npy"], "test_accuracy"), (["speed"], "all_ready")])
def test_pytorch_code_runs_on_the_cpu(tmp_path, command, key):
    random = np.random.default_rng(1)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = random.integers(0, 256, (4, 3073), np.uint8)  # four images
        records[:, 0] %= 10
        records.tofile(tmp_path / name)
    np.save(tmp_path / "order.npy", np.arange(4).reshape(2, 2))
    np.save(tmp_path / "rates.npy", np.full(2, 0.01))
    result = subprocess.run(
        [sys.executable, str(PYTORCH), *command, "--device", "cpu", "--data", ".", "--batch", "2",
         "--train-samples", "4", "--test-samples", "4"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    values = parse_json_lines(result.stdout)
    assert result.returncode == 0 and key in values, result.stderr
    assert "failed" not in values
