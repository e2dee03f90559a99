# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what commands print on the console and as JSON."""

import json
import subprocess
from typing import NamedTuple

import h5py
import pytest
from command_line import (
    BIN,
    HANG,
    MPIRUN,
    environment,
    expect_failure,
    messages_of,
    start,
    start_ranks,
    train,
)


def test_help_has_groups_defaults_and_examples():
    text = start("train", "--help").stdout
    for words in (
        "Optimiser:",
        "--lr RATE",
        "[0.1 (sgd)",
        "mpirun -n 2 lockstep train",
        "--help-all",
    ):
        assert words in text
    assert start("--help").returncode == 0


def test_dry_run_writes_no_files(tmp_path):
    result = start(
        *train("--dry-run", output=tmp_path / "run.h5", checkpoint_dir=tmp_path / "ckpt")
    )
    assert result.returncode == 0 and "11,173,962 parameters" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_json_output_is_one_object():
    result = start(*train("--json", batch_per_rank=8, bucket_mib="0.3"))
    found = json.loads(result.stdout)
    assert messages_of(result) == []
    assert (found["config"]["batch-per-rank"], found["config"]["bucket-mib"]) == ("8", "0.3")
    assert found["results"]["steps"] == 2
    assert found["results"]["images_per_second"] > 0
    assert found["results"]["last_test_accuracy"] is None


class Command(NamedTuple):
    """A command, its options, and the key of its results in the JSON object."""

    name: str
    options: str
    results: str


COMMANDS = (
    Command("train", " ".join(train(batch_per_rank=8)[1:]), "results"),
    Command("evaluate", "--init-from CHECKPOINT --data synthetic:24 --threads 1", "results"),
    Command(
        "ladder", "--ladder-start 2 --steps 1 --data synthetic:12 --threads 1", results="ladder"
    ),
    Command("allreduce", "--max-bytes 16K --repeats 2 --threads 1", "allreduce"),
    Command("plan", "--batch-per-rank 2 --data synthetic:24 --threads 1", "memory_bytes"),
    Command("layers", "--layer relu@1x4x4x4 --threads 1", "layers"),
    Command("stack", "--layer linear:1024-1024@1 --memory-limit 150MB --threads 1", "stack"),
    Command("info", "", "devices"),
)


def expect_json(command, *arguments):
    """Checks that the command prints one object on stdout; returns it."""
    result = start(command, *arguments, "--json")
    # Two steps train nothing.
    messages = [
        line for line in messages_of(result) if "the test loss" not in line or command != "evaluate"
    ]
    assert (result.returncode, messages) == (0, []), command
    found = json.loads(result.stdout)
    assert found["command"] == command
    assert (found["learning_rate"] is None) == (command not in ("train", "plan")), command
    return found


@pytest.mark.slow
def test_every_command_prints_json(tmp_path):
    """Every command prints one object on stdout and exits with status 0, also with --dry-run (which
    info lacks)."""
    assert start(*train("--quiet", checkpoint_dir=tmp_path)).returncode == 0
    checkpoint = next(tmp_path.glob("checkpoint-*"))
    for command, options, results in COMMANDS:
        arguments = [checkpoint if word == "CHECKPOINT" else word for word in options.split()]
        assert expect_json(command, *arguments)[results], command
        if command != "info":
            expect_json(command, *arguments, "--dry-run")


def test_progress_line_appears_only_on_a_terminal():
    def output(command):  # bytes, because text mode converts carriage returns to newlines
        return subprocess.run(command, env=environment(), capture_output=True, timeout=HANG).stdout

    run = [BIN, *train(steps=3)]
    under_mpirun = [*MPIRUN, "-n", "1", *run]
    for command in (run, under_mpirun):
        on_terminal = output(["script", "-qec", " ".join(command), "/dev/null"])
        assert b"\repoch 1, step 1/12" in on_terminal and b" left" in on_terminal
        assert b" left" not in output(command)


def test_suspicious_data_options_and_results_cause_warnings_that_the_run_file_keeps(tmp_path):
    """After three steps, the running statistics of batch norm differ too much from the batch
    statistics."""
    path = tmp_path / "run.h5"
    result = start(
        *train(
            "--quiet",
            steps=3,
            evaluate_every=0,
            conv_algorithm="direct",
            lr=3,
            warmup_epochs=0.25,
            output=path,
        )
    )
    assert result.returncode == 0
    batch, warm_up, loss = messages_of(result)
    assert (
        "over 2 images per rank" in batch and "--warmup-epochs 0.25: the run of 3 steps" in warm_up
    )
    assert "is above ln(10) = 2.3026" in loss and "lower --lr" in loss
    with h5py.File(path) as file:
        stored = b"\n".join(
            [file["environment"].attrs["warnings"], file["results"].attrs["warnings"]]
        ).decode()
    assert [f"lockstep: warning: {line}" for line in stored.splitlines()] == [batch, warm_up, loss]
    assert (
        messages_of(
            start(
                *train(
                    "--quiet",
                    steps=1,
                    evaluate_every=0,
                    conv_algorithm="direct",
                    lr=0,
                    classes=10000,
                    batch_per_rank=8,
                )
            )
        )
        == []
    )


def test_header_counts_the_kernels_of_convolutions_only():
    """resnet18-cifar has 20 convolutions with three directions each, except that the first one has
    no backward data."""
    result = start(*train(steps=1, conv_algorithm="winograd"))
    line = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["convolutions"])
    assert (
        sum(int(entry.split()[0]) for entry in line.split(None, 1)[1].split(", ")) == 3 * 20 - 1
    ), line
    assert "statistics" not in line


@pytest.mark.parametrize(
    "arguments",
    [
        train(),
        train("--json"),
        ["--help"],
        ["--version"],
        ["info"],
        ["plan", "--batch-per-rank=2", "--json"],
        ["allreduce", "--max-bytes=16K", "--repeats=2"],
        ["ladder", "--dry-run"],
    ],
    ids=" ".join,
)
def test_lost_standard_output_is_an_error(arguments):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [BIN, *arguments], env=environment(), text=True, stdout=full, stderr=subprocess.PIPE
        )
    assert "standard output (No space left on device)" in expect_failure(result, 6)


@pytest.mark.parametrize(
    "redirection, reason", [(">&-", "Bad file descriptor"), ("| true", "Broken pipe")]
)
def test_run_without_standard_output_is_complete(tmp_path, redirection, reason):
    command = (
        f"{BIN} {' '.join(train(output=tmp_path / 'run.h5'))} {redirection}; exit"
        " ${PIPESTATUS[0]}"
    )
    result = subprocess.run(
        ["bash", "-c", command], env=environment(), text=True, capture_output=True
    )
    assert f"standard output ({reason})" in expect_failure(result, 6)
    with h5py.File(tmp_path / "run.h5") as file:
        assert file.attrs["status"] == b"complete"


def test_closed_streams_do_not_receive_the_contents_of_files(tmp_path):
    command = f"{BIN} {' '.join(train('--quiet', output=tmp_path / 'run.h5'))} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], env=environment()).returncode == 0
    with h5py.File(tmp_path / "run.h5") as file:
        assert file.attrs["status"] == b"complete"


def test_json_is_separate_from_the_output_of_libraries():
    result = start_ranks((2, train("--json")), env={"ONEDNN_VERBOSE": "1"})
    assert json.loads(result.stdout)["results"]["steps"] == 2
    assert "onednn_verbose" in result.stderr


def test_output_that_is_standard_output_is_an_error(tmp_path):
    with open(tmp_path / "run.h5", "w") as stdout:
        result = subprocess.run(
            [BIN, *train("--json", "--overwrite", output=tmp_path / "run.h5")],
            env=environment(),
            text=True,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
    assert "--output and standard output name the same file" in expect_failure(result, 2)


def test_quiet_prints_nothing():
    result = start(*train("--quiet", batch_per_rank=8))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
