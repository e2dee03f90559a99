# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the command line: exit statuses, messages and output files for valid and invalid input.

LOCKSTEP_BIN is the path of the program. LOCKSTEP_MPIRUN is the command that starts ranks; its words
may be separated by spaces or semicolons.
"""

import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

BIN = os.environ["LOCKSTEP_BIN"]
WITH_FAULTS = (
    os.environ["LOCKSTEP_BUILD"] + "/tests/campaign/lockstep_with_faults"
)  # the program with the option --inject
HANG = 1800  # seconds; limits of time are against hangs, also on a machine with other load
MPIRUN = (
    os.environ.get("LOCKSTEP_MPIRUN", "mpirun --oversubscribe --bind-to none")
    .replace(";", " ")
    .split()
)


def train(*arguments, **options):
    """Returns the arguments of a `lockstep train` run of about one second. `options` override the
    defaults; an option with the value None is omitted."""
    values = {
        "data": "synthetic:24",
        "batch_per_rank": 2,
        "steps": 2,
        "threads": 1,
        "loader_threads": 1,
        "evaluate_every": "never",
    } | options
    named = [
        f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None
    ]
    return ["train", *named, *map(str, arguments)]


def environment():
    """Returns the environment of this process without the variables of Lockstep."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    return inherited | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def start(*arguments, cwd=None, env=None, program=BIN):
    """Runs lockstep without mpirun; returns the completed process."""
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=cwd,
        env=environment() | (env or {}),
        text=True,
        capture_output=True,
        timeout=HANG,
    )


def start_ranks(*programs, cwd=None, env=None):
    """Runs mpirun with one application context per (ranks, arguments); returns the completed
    process."""
    command = [*MPIRUN]
    for ranks, arguments in programs:
        command += [] if command == MPIRUN else [":"]
        command += ["-n", str(ranks), BIN, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment() | (env or {}),
        text=True,
        capture_output=True,
        timeout=HANG,
    )


def messages_of(result):
    """Returns the lines that Lockstep wrote to stderr, without those of mpirun and without the
    warning that other processes took the processors."""
    return [
        line
        for line in result.stderr.splitlines()
        if line.startswith("lockstep: ") and "lacked a processor" not in line
    ]


def expect_failure(result, status):
    """Checks that the run failed with this status and a single error message; returns the message.
    Without injected faults, all ranks know the error and end without MPI_Abort, which prints seven
    lines."""
    assert result.returncode == status, f"{result.stdout}{result.stderr}"
    lines = [line for line in messages_of(result) if not line.startswith("lockstep: warning: ")]
    assert len(lines) == 1, result.stderr
    assert BIN not in result.args or "MPI_ABORT was invoked" not in result.stderr
    return lines[0]


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


# --- options
# -------------------------------------------------------------------------------------------------


# One error of each layer that checks options; the unit tests of the layer have the others.
@pytest.mark.parametrize(
    "arguments, words",
    [
        (["trian"], ["'train'"]),  # command line
        (
            ["train", "--batch-per-rank", "2", "--config", "/dev/zero"],
            ["/dev/zero", "more than 1.00 MB"],
        ),  # file of options
        (["train", "--batch-per-rank", "2", "--global-batch", "2"], ["both"]),  # configuration
        (["train", "--batch-per-rank", "2", "--classes", "5"], ["--classes", "10"]),  # dataset
        (["train", "--batch-per-rank", "2", "--precision", "tf32"], ["tf32"]),  # backend
        (["evaluate"], ["--init-from"]),  # command
    ],
)
def test_invalid_options_are_errors(arguments, words):
    line = expect_failure(start(*arguments), 2)
    for word in words:
        assert word in line


def test_global_batch_that_is_not_a_multiple_of_the_ranks_is_an_error():
    line = expect_failure(start_ranks((2, ["train", "--global-batch", "3"])), 2)
    assert "--global-batch 3" in line and "2 ranks" in line


def test_more_threads_than_processors_cause_a_warning():
    threads = os.cpu_count() + 1  # not more, because the dry run starts all threads
    result = start(*train("--dry-run", threads=threads, batch_per_rank=8))
    assert result.returncode == 0
    assert len(messages_of(result)) == 1 and f"{threads} threads" in messages_of(result)[0]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_threads_that_openmp_binds_compute_on_all_processors():
    def line_of(env):
        result = start(
            "train", "--data", "synthetic:24", "--batch-per-rank", "8", "--dry-run", env=env
        )
        assert result.returncode == 0 and messages_of(result) == []
        return next(line for line in result.stdout.splitlines() if line.startswith("  binding"))

    assert line_of({"OMP_PROC_BIND": "true"}) == line_of({})


def test_run_file_has_the_warnings_about_threads(tmp_path):
    cores = len(os.sched_getaffinity(0))
    for threads, expected in ((1, ""), (cores + 1, f"{cores + 1} threads share {cores} processor")):
        path = tmp_path / f"{threads}.h5"
        assert (
            start(
                *train(
                    threads=threads, steps=1, batch_per_rank=8, conv_algorithm="direct", output=path
                )
            ).returncode
            == 0
        )
        with h5py.File(path) as file:
            warnings = file["environment"].attrs["warnings"].decode()
        assert warnings.startswith(expected) and bool(warnings) == bool(expected)


# --- data
# ----------------------------------------------------------------------------------------------------


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


# --- output
# --------------------------------------------------------------------------------------------------


def test_existing_output_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "run.h5"
    path.write_text("existing")
    assert "--overwrite" in expect_failure(start(*train(output=path)), 6)
    assert path.read_text() == "existing"
    assert "is no run file" in expect_failure(start(*train("--overwrite", output=path)), 6)
    assert path.read_text() == "existing"
    assert sorted(tmp_path.iterdir()) == [path]
    path.write_text("")
    for steps in (1, 2):
        assert start(*train("--overwrite", output=path, steps=steps)).returncode == 0
        with h5py.File(path) as file:
            assert len(file["steps/loss"]) == steps


@pytest.mark.parametrize("name", ["missing/run.h5", "file/run.h5"])
def test_output_path_that_cannot_be_created_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / name) in expect_failure(start(*train(output=tmp_path / name)), 6)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_invalid_weights_file_is_an_error(tmp_path):
    path = tmp_path / "weights.h5"
    assert str(path) in expect_failure(start(*train(init_from=path)), 3)
    path.write_text("not HDF5")
    assert str(path) in expect_failure(start(*train(init_from=path)), 3)


# --- ranks
# ---------------------------------------------------------------------------------------------------


def test_locks_of_other_programs_do_not_prevent_reading(tmp_path):
    assert start(*train("--quiet", checkpoint_dir=tmp_path)).returncode == 0
    checkpoint = next(tmp_path.glob("checkpoint-*"))
    with open(checkpoint) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = start(
            *train("--quiet", batch_per_rank=8, init_from=checkpoint, output=tmp_path / "run.h5"),
            env={"HDF5_USE_FILE_LOCKING": "TRUE"},
        )
    assert (result.returncode, result.stderr) == (0, "")


def test_different_options_on_two_ranks_are_an_error():
    line = expect_failure(start_ranks((1, train(seed=1)), (1, train(seed=2))), 2)
    assert "seed is '1' on rank 0 but '2' on rank 1" in line


def test_invalid_option_on_one_rank_ends_all_ranks():
    line = expect_failure(start_ranks((1, train()), (1, train(lr="x"))), 2)
    assert "rank 1 on " in line and "--lr x" in line


def test_insufficient_memory_is_reported_before_the_training():
    line = expect_failure(start("train", "--batch-per-rank", "16", "--memory-limit", "100MB"), 4)
    assert "100 MB" in line


def test_non_finite_loss_ends_the_run_and_is_recorded(tmp_path):
    path = tmp_path / "run.h5"
    line = expect_failure(start(*train(steps=6, lr=1e30, output=path)), 5)
    assert "step" in line and "--lr" in line
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"failed"
        assert b"not finite" in file.attrs["failure"]


# --- console and JSON output
# ---------------------------------------------------------------------------------


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


@pytest.mark.slow
def test_every_command_prints_json(tmp_path):
    """Every command prints one object on stdout and exits with status 0, also with --dry-run (which
    info lacks)."""
    assert start(*train("--quiet", checkpoint_dir=tmp_path)).returncode == 0
    checkpoint = next(tmp_path.glob("checkpoint-*"))
    commands = {
        "train": train(batch_per_rank=8),
        "evaluate": [
            "evaluate",
            "--init-from",
            checkpoint,
            "--data",
            "synthetic:24",
            "--threads",
            "1",
        ],
        "ladder": [
            "ladder",
            "--ladder-start",
            "2",
            "--steps",
            "1",
            "--data",
            "synthetic:12",
            "--threads",
            "1",
        ],
        "allreduce": ["allreduce", "--max-bytes", "16K", "--repeats", "2", "--threads", "1"],
        "plan": ["plan", "--batch-per-rank", "2", "--data", "synthetic:24", "--threads", "1"],
        "layers": ["layers", "--layer", "relu@1x4x4x4", "--threads", "1"],
        "stack": [
            "stack",
            "--layer",
            "linear:1024-1024@1",
            "--memory-limit",
            "150MB",
            "--threads",
            "1",
        ],
        "info": ["info"],
    }
    results = {
        "train": "results",
        "evaluate": "results",
        "ladder": "ladder",
        "allreduce": "allreduce",
        "plan": "memory_bytes",
        "layers": "layers",
        "stack": "stack",
        "info": "devices",
    }
    for command, arguments in commands.items():
        for dry_run in ([], ["--dry-run"]):
            if dry_run and command == "info":
                continue
            result = start(*arguments, "--json", *dry_run)
            # Two steps train nothing.
            messages = [
                line
                for line in messages_of(result)
                if "the test loss" not in line or command != "evaluate"
            ]
            assert (result.returncode, messages) == (0, []), command
            found = json.loads(result.stdout)
            assert found["command"] == command
            assert dry_run or found[results[command]], command
            assert (found["learning_rate"] is None) == (command not in ("train", "plan")), command


def test_run_file_has_the_phases_of_both_ranks(tmp_path):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train(steps=None, epochs=1, output=path)))
    assert result.returncode == 0, result.stderr
    assert "Total img/sec on 2 CPU rank(s): " in result.stdout
    assert "Img/sec per CPU rank: " in result.stdout
    with h5py.File(path) as file:
        assert file["steps/phase_seconds"].shape == (6, 2, 6)
        assert (file["steps/images"][:] == 4).all()


def test_profile_is_in_the_output_the_run_file_and_the_trace(tmp_path):
    path, trace = tmp_path / "run.h5", tmp_path / "trace.json"
    result = start_ranks((2, train("--json", steps=1, output=path, profile=2, trace=trace)))
    assert result.returncode == 0, result.stderr
    profile = json.loads(result.stdout)["profile"]
    assert profile["steps"] == 2
    assert profile["step_seconds"] > 0 and profile["step_seconds_without_profile"] > 0
    rows = {(row["name"], row["phase"]): row for row in profile["operations"]}
    assert rows["conv1", "backward weights"]["calls"] == 1
    assert rows["all-reduce", "all-reduce"]["bytes"] == pytest.approx(4 * 11_173_962, rel=1e-5)
    with h5py.File(path) as file:
        assert list(file["profile/name"].asstr()) == [row["name"] for row in profile["operations"]]
        assert file["profile/seconds"].shape == (len(profile["operations"]), 2)
        assert set(file["profile/ceiling"].asstr()) <= {"compute", "memory", "cache", "none"}
        assert file["results"].attrs["profile_step_seconds"] == profile["step_seconds"]
        assert len(file["steps/loss"]) == 1, "profiled steps are not part of the training"
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} >= {
        "steps",
        "compute",
        "communication",
    }


def test_profile_describes_its_cost():
    result = start(*train(profile=1))
    assert result.returncode == 0, result.stderr
    assert re.search(r"convolution 3x3, 3x32x32 -> 64x32x32 +forward +1 +\d", result.stdout)
    assert re.search(
        r"Cost of the profile: a step takes .* with it and .* without \([+-]", result.stdout
    )


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({"trace": "t.json"}, 2, "--trace requires --profile"),
        ({"profile": -1}, 2, "--profile"),
        ({"profile": 1, "trace": "/nowhere/t.json"}, 6, "/nowhere"),
        (
            {"profile": 1, "trace": "./t.h5", "output": "t.h5"},
            2,
            "--trace and --output name the same file",
        ),
        (
            {"output": "t.h5", "init_from": "./t.h5"},
            2,
            "--output and --init-from name the same file",
        ),
    ],
)
def test_wrong_profile_options_are_refused(options, status, text):
    assert text in expect_failure(start(*train(**options)), status)


def test_existing_trace_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("mine")
    assert "--overwrite" in expect_failure(start(*train(profile=1, trace=path)), 6)
    assert "is no trace" in expect_failure(start(*train("--overwrite", profile=1, trace=path)), 6)
    assert path.read_text() == "mine"
    path.write_text('{"traceEvents": []}')
    assert start(*train("--overwrite", profile=1, trace=path)).returncode == 0
    assert json.loads(path.read_text())["traceEvents"]


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


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_plan_measures_each_operation_and_its_roofline_bound(precision):
    result = start(
        "plan",
        "--measure",
        "--model",
        "resnet18-cifar",
        "--batch-per-rank",
        "2",
        "--threads",
        "1",
        "--precision",
        precision,
        "--json",
    )
    bound = json.loads(result.stdout)["floor"]
    assert all(
        0 <= row["bound_seconds"] <= row["seconds_of_ranks"][0] for row in bound["operations"]
    )
    assert 0 < bound["floor_seconds"] < bound["seconds"]
    assert " in fp32," in bound["ceiling_source"] or f" in {precision}," in bound["ceiling_source"]
    assert bound["flops_per_second"] > 1e8 and bound["bytes_per_second"] > 1e8
    phases = {row["phase"] for row in bound["operations"]}
    assert phases == {
        "forward",
        "backward data",
        "backward weights",
        "backward",
        "recompute",
        "update",
    }
    assert (
        sum(row["calls"] for row in bound["operations"] if "convolution" in row["operation"]) == 59
    )
    assert (
        sum(row["seconds_of_ranks"][0] for row in bound["operations"]) <= bound["seconds"] * 1.001
    )


@pytest.mark.parametrize(
    "ranks, batch, algorithm, message_bytes",
    [
        (1, 4, "auto", 0),
        (1, 16, "auto", 0),
        (2, 8, "shared-memory", 0),
        (2, 8, "direct", 16_000_000),
    ],
)
def test_plan_estimates_the_peak_memory(ranks, batch, algorithm, message_bytes):
    # The estimate has a constant for libraries and resident pages of code. Their memory depends on
    # the build and the processor: the estimate was up to 9 MB above the peak and 1 MB below it. MPI
    # libraries allocate memory for messages, which the estimate does not contain
    # (docs/performance.md): up to 12.5 MB were seen with two ranks on one host. Named algorithms:
    # those that are chosen by timing can differ between the two commands, and with them the memory.
    tolerance = 12_000_000
    options = [
        "--data",
        "synthetic:64",
        "--batch-per-rank",
        batch,
        "--threads",
        "1",
        "--conv-algorithm",
        "winograd",
        "--all-reduce",
        algorithm,
    ]
    planned = json.loads(start_ranks((ranks, ["plan", *options, "--json"])).stdout)
    found = json.loads(start_ranks((ranks, ["train", *options, "--steps", "2", "--json"])).stdout)
    missing = found["results"]["peak_memory_bytes"] - planned["memory_bytes"]["total"]
    assert -tolerance < missing < tolerance + message_bytes


def test_plan_estimates_the_memory_of_checkpoints(tmp_path):
    options = [
        "--data",
        "synthetic:64",
        "--batch-per-rank",
        4,
        "--threads",
        "1",
        "--checkpoint-dir",
        tmp_path / "ckpt",
        "--checkpoint-every",
        "2-steps",
    ]
    planned = json.loads(start("plan", *options, "--json").stdout)["memory_bytes"]
    found = json.loads(start("train", *options, "--steps", "6", "--json").stdout)
    peak = found["results"]["peak_memory_bytes"]
    assert planned["checkpoint"] > 2 * 4 * 11_173_962  # parameters and momentum of ResNet-18
    assert abs(planned["total"] - peak) < 0.1 * peak


def test_ladder_ends_with_an_out_of_memory_point_and_status_0(tmp_path):
    path = tmp_path / "ladder.h5"
    # Between the estimates of the first two points: the process itself is larger with sanitizers
    # and on some processors.
    estimates = [
        json.loads(
            start(
                "plan",
                "--data",
                "synthetic:200",
                "--threads",
                "1",
                "--evaluate-every",
                "never",
                "--batch-per-rank",
                batch,
                "--json",
            ).stdout
        )["memory_bytes"]["total"]
        for batch in (2, 8)
    ]
    result = start(
        "ladder",
        "--ladder-start",
        "2",
        "--steps",
        "1",
        "--data",
        "synthetic:200",
        "--threads",
        "1",
        "--memory-limit",
        sum(estimates) // 2,
        "--output",
        path,
    )
    assert result.returncode == 0, result.stderr
    assert "out of memory" in result.stdout
    with h5py.File(path) as file:
        status = [s.decode() if isinstance(s, bytes) else s for s in file["ladder/status"][:]]
        assert status == ["complete", "out_of_memory"]
        assert (file["ladder/batch_per_rank"][:] == 2 * 4 ** np.arange(len(status))).all()


LADDER = [
    "ladder",
    "--ladder-start",
    "2",
    "--steps",
    "1",
    "--data",
    "synthetic:600",
    "--threads",
    "1",
]


def points_of(path):
    """Returns the columns of the ladder in a run file for its complete points."""
    with h5py.File(path, swmr=True) as file:
        if "ladder" not in file:
            return {}
        count = len(file["point"])
        return {name: column[:count].tolist() for name, column in file["ladder"].items()}


def test_run_file_of_a_killed_ladder_has_the_complete_points(tmp_path):
    path = tmp_path / "ladder.h5"
    process = subprocess.Popen(
        [BIN, *LADDER, "--output", path], env=environment(), stdout=subprocess.PIPE, text=True
    )
    rows = (line for line in process.stdout if re.match(r"\d+ ", line))
    (
        next(rows),
        next(rows),
    )  # each row is printed before its point is written, so the file has at least one point
    process.kill()
    process.communicate(timeout=HANG)
    points = points_of(tmp_path / "ladder.h5.partial")
    assert points["batch_per_rank"][0] == 2 and points["status"][0] == b"complete"
    assert 0 < points["training_seconds"][0] <= points["epoch_seconds"][0]
    assert points["steps"][0] == 1 and points["is_extrapolated"][0] == 1


def test_ladder_with_a_non_finite_loss_fails(tmp_path):
    path = tmp_path / "ladder.h5"
    result = start(
        "ladder",
        "--steps",
        "6",
        "--lr",
        "1e30",
        "--ladder-start",
        "2",
        "--data",
        "synthetic:24",
        "--threads",
        "1",
        "--output",
        path,
    )
    assert "not finite" in expect_failure(result, 5)
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"failed" and b"not finite" in file.attrs["failure"]


def test_ladder_reports_that_the_first_batch_is_too_large():
    text = start(*LADDER, "--memory-limit", "100MB").stdout
    assert (
        "Even the smallest batch, 2 images per rank, needs more memory than the limit of 100 MB per"
        " rank" in text
    )


def test_allreduce_prints_the_columns_of_nccl_tests():
    result = start_ranks((2, ["allreduce", "-b", "4K", "-e", "16K", "-f", "2", "-n", "3"]))
    assert result.returncode == 0, result.stderr
    assert "algbw" in result.stdout and "#wrong" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if " direct " in line]
    assert [row[0] for row in rows] == ["4096", "8192", "16384"]
    assert all(
        float(row[-2]) <= float(row[6]) <= float(row[-1]) for row in rows
    )  # shortest, median and longest repeat
    average = re.search(r"# Avg bus bandwidth    : (\S+) GB/s \(direct\)", result.stdout)[1]
    assert float(average) == pytest.approx(sum(float(row[8]) for row in rows) / 3, abs=0.002)


def test_allreduce_with_one_rank_prints_no_bandwidth():
    result = start("allreduce", "--max-bytes", "16K", "--repeats", "3", "--link-gbit", "10")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if " mpi-blocking " in line]
    assert len(rows) == 3 and all(
        row[7:10] == ["-", "-", "0"] and row[-1] == "-" for row in rows
    ), result.stdout
    assert "With one rank nothing is communicated" in result.stdout
    found = json.loads(start("allreduce", "--max-bytes", "1K", "--repeats", "3", "--json").stdout)
    assert found["allreduce"][0]["busbw_bytes_per_second"] is None


def test_bucket_bytes_depend_on_the_communication_data_type(tmp_path):
    sums = {}
    for dtype in ("fp32", "bf16"):
        path = tmp_path / f"{dtype}.h5"
        assert (
            start_ranks(
                (2, train(output=path, all_reduce="direct", gradient_dtype=dtype))
            ).returncode
            == 0
        )
        with h5py.File(path) as file:
            sums[dtype] = int(file["buckets/bytes"][:].sum())
    assert 4 * 11173962 <= sums["fp32"] < 4 * 11174100  # the parameters plus padding
    assert sums["bf16"] == sums["fp32"] // 2


def cuda_line():
    return next(line for line in start("info").stdout.splitlines() if line.startswith("  cuda"))


def test_info_reports_whether_cuda_is_available():
    # The build has no CUDA backend, or the machine has no GPU or driver, or both are available.
    assert re.search(
        "not available: .*(no CUDA backend|use --device cpu)|compute capability", cuda_line()
    )
    if "not available" in cuda_line():
        assert "use --device cpu" in expect_failure(
            start("plan", "--device", "cuda", "--batch-per-rank", "8"), 2
        )


def test_info_has_the_description_of_a_gpu_that_is_available():
    found = json.loads(start("info", "--json").stdout)
    if "not available" in found["devices"]["cuda"]:
        assert "device_descriptions" not in found
        return
    description = found["device_descriptions"][
        "cuda"
    ]  # in the format of src/backend/cuda/device/descriptions
    assert description["deviceName"] and description["multiProcessorCount"] > 0


def test_plan_for_a_target_gpu():
    plan = ["plan", "--for", "rtx8000", "--precision", "fp16", "--batch-per-rank", "8"]
    result = start(*plan, "--json")
    if "no CUDA backend" in cuda_line():
        line = expect_failure(result, 2)
        assert "--for rtx8000" in line and "no CUDA backend" in line and "--preset cuda" in line
        assert "--device" not in line
        return
    found = json.loads(result.stdout)
    assert {kernel["phase"] for kernel in found["kernels"]} >= {
        "forward",
        "backward data",
        "backward weights",
    }
    assert found["memory_bytes"]["activations"] > 0
    assert "72 multiprocessors" in expect_failure(start(*plan, "--batch-norm-sms", "73"), 2)
    assert "h200" in expect_failure(start("plan", "--for", "v100", "--batch-per-rank", "8"), 2)


# --- stopping and resuming
# -----------------------------------------------------------------------------------


def datasets(path):
    """Returns {name: values} of all datasets of an HDF5 file."""
    values = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: values.update({name: item[()]}) if hasattr(item, "shape") else None
        )
    return values


def test_resumed_run_computes_the_same_bits(tmp_path):
    """With --deterministic, the three processes use the same kernels; without it, each selects
    kernels by timing."""
    assert (
        start(*train("--deterministic", steps=6, checkpoint_dir=tmp_path / "whole")).returncode == 0
    )
    for steps in (3, 6):
        assert (
            start(
                *train(
                    "--deterministic", steps=steps, checkpoint_dir=tmp_path / "parts", resume="auto"
                )
            ).returncode
            == 0
        )
    whole, resumed = (sorted((tmp_path / name).iterdir())[-1] for name in ("whole", "parts"))
    assert whole.name == resumed.name
    expected, found = datasets(whole), datasets(resumed)
    assert expected.keys() == found.keys() and len(expected) > 100
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_saves_a_checkpoint(tmp_path, number):
    """Until then, no other run can use the directory."""
    directory, path = tmp_path / "ckpt", tmp_path / "run.h5"
    process = subprocess.Popen(
        [
            BIN,
            *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps", output=path),
        ],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # `nohup` ignores it
    deadline = time.monotonic() + HANG
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    second = start(*train(checkpoint_dir=directory, resume="auto"))
    assert f"is used by another run (process {process.pid} on " in expect_failure(second, 6)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=HANG)
    assert process.returncode == 75, stderr
    assert "--resume auto" in stderr
    assert all(path.name.startswith("checkpoint-") for path in directory.iterdir())
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"preempted"
        assert file["steps/loss"].shape[0] > 0


def test_killed_rank_ends_the_job(tmp_path):
    directory = tmp_path / "ckpt"
    process = subprocess.Popen(
        [
            *MPIRUN,
            "-n",
            "2",
            BIN,
            *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps"),
        ],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + HANG
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=HANG)
    assert process.returncode != 0
