"""The program from outside: exit statuses, messages and files of every kind of bad input, and of good ones.

LOCKSTEP_BIN names the program, LOCKSTEP_MPIRUN how to start ranks (words separated by ;).
"""

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
MPIRUN = os.environ.get("LOCKSTEP_MPIRUN", "mpirun --oversubscribe --bind-to none").replace(";", " ").split()


def train(*arguments, **options):
    """`lockstep train` on a set so small that it takes a second; `options` override, None leaves one out."""
    chosen = {"data": "synthetic:24", "batch_per_rank": 2, "steps": 2, "threads": 1, "loader_threads": 1,
              "evaluate_every": "never"} | options
    named = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items() if value is not None]
    return ["train", *named, *map(str, arguments)]


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    return clean | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMP_WAIT_POLICY": "passive"}


def start(*arguments, cwd=None, env=None):
    return subprocess.run([BIN, *map(str, arguments)], cwd=cwd, env=environment() | (env or {}), text=True,
                          capture_output=True, timeout=120)


def start_ranks(*programs, cwd=None):
    """mpirun with one program after another: (ranks, arguments)."""
    command = [*MPIRUN]
    for ranks, arguments in programs:
        command += [] if command == MPIRUN else [":"]
        command += ["-n", str(ranks), BIN, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(), text=True, capture_output=True, timeout=120)


def our_lines(result):
    """What Lockstep itself said on stderr; mpirun adds lines of its own."""
    return [line for line in result.stderr.splitlines() if line.startswith("lockstep: ")]


def the_failure(result, status):
    """The one line of a run that must have failed with this status."""
    assert result.returncode == status, result.stdout + result.stderr
    lines = [line for line in our_lines(result) if not line.startswith("lockstep: warning: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.fixture
def cifar(tmp_path):
    """A tiny set in CIFAR-10's layout. Real files hold 10,000 records each, and so do these."""
    folder = tmp_path / "cifar"
    folder.mkdir()
    records = np.zeros((10000, 3073), np.uint8)
    records[:, 0] = np.arange(10000) % 10
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records.tofile(folder / name)
    (folder / "batches.meta.txt").write_text(
        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n")
    return folder


# --- options -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, words", [
    (["trian"], ["'train'"]),
    (["train", "--batch-per-rank", "2", "--epoch", "1"], ["--epoch", "'epochs'"]),
    (["train", "--batch-per-rank", "two"], ["--batch-per-rank", "whole number"]),
    (["train", "--batch-per-rank", "-2"], ["--batch-per-rank"]),
    (["train", "--batch-per-rank", "2", "--model", "resnet50"], ["resnet50", "resnet18-cifar"]),
    (["train", "--batch-per-rank", "2", "--reducer", "overlapp"], ["'overlap'"]),
    (["train", "--batch-per-rank", "2", "--data", "imagenet"], ["imagenet", "cifar10:DIR"]),
    (["train"], ["--batch-per-rank", "--global-batch"]),
    (["train", "--batch-per-rank", "2", "--global-batch", "2"], ["both"]),
    (["train", "--batch-per-rank", "2", "--train-samples", "25", "--data", "synthetic:24"], ["25"]),
    (["train", "--batch-per-rank", "2", "--device", "cuda"], ["cuda", "--device cpu"]),
    (["train", "--batch-per-rank", "2", "--precision", "fp16"], ["fp16", "bf16"]),
    (["train", "--batch-per-rank", "2", "--precision", "tf32"], ["tf32"]),
    (["train", "--batch-per-rank", "2", "--classes", "5"], ["--classes", "10"]),
    (["train", "--batch-per-rank", "2", "--resume", "auto"], ["--checkpoint-dir"]),
    (["evaluate"], ["--init-from"]),
    (["allreduce", "--min-bytes", "1"], ["--min-bytes"]),
])
def test_bad_options(arguments, words):
    line = the_failure(start(*arguments), 2)
    for word in words:
        assert word in line


def test_a_batch_that_does_not_fit_the_ranks():
    line = the_failure(start_ranks((2, ["train", "--global-batch", "3"])), 2)
    assert "--global-batch 3" in line and "2 ranks" in line


def test_too_many_threads_are_a_warning():
    result = start(*train("--dry-run", threads=999))
    assert result.returncode == 0
    assert len(our_lines(result)) == 1 and "999 threads" in our_lines(result)[0]


# --- data ----------------------------------------------------------------------------------------------------

def test_fewer_images_than_the_global_batch():
    line = the_failure(start(*train(batch_per_rank=25)), 3)
    assert "25 images" in line and "24 training images" in line


def test_data_files_that_are_missing(tmp_path):
    line = the_failure(start(*train(data=f"cifar10:{tmp_path}/none")), 3)
    assert f"{tmp_path}/none" in line and "download" in line


@pytest.mark.parametrize("damage", ["missing", "truncated", "oversized", "mislabelled"])
def test_data_files_that_are_damaged(cifar, damage):
    victim = cifar / "data_batch_3.bin"
    content = victim.read_bytes()
    if damage == "missing":
        victim.unlink()
    elif damage == "truncated":
        victim.write_bytes(content[:-1])
    elif damage == "oversized":
        victim.write_bytes(content + b"\0")
    else:
        victim.write_bytes(content[:3073] + b"\x0b" + content[3074:])
    line = the_failure(start(*train(data=f"cifar10:{cifar}")), 3)
    assert "data_batch_3.bin" in line


def test_data_that_are_damaged_on_one_rank_alone(cifar, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in cifar.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes()[:5000])
    begin = time.monotonic()
    result = start_ranks((1, train(data=f"cifar10:{cifar}")), (1, train(data=f"cifar10:{damaged}")))
    line = the_failure(result, 3)
    assert "rank 1 on " in line
    assert time.monotonic() - begin < 60


def test_data_that_differ_between_ranks(cifar, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for file in cifar.iterdir():
        content = file.read_bytes()
        (other / file.name).write_bytes(content[:-1] + b"\1" if file.suffix == ".bin" else content)
    line = the_failure(
        start_ranks((1, train(data=f"cifar10:{cifar}")), (1, train(data=f"cifar10:{other}"))), 2)
    assert "digest" in line and "rank 1" in line


# --- output --------------------------------------------------------------------------------------------------

def test_a_run_file_that_exists_stays(tmp_path):
    path = tmp_path / "run.h5"
    path.write_text("precious")
    assert "--overwrite" in the_failure(start(*train(output=path)), 6)
    assert path.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == [path]
    assert start(*train("--overwrite", output=path)).returncode == 0
    with h5py.File(path) as file:
        assert file.attrs["status"] == "complete"


@pytest.mark.parametrize("place", ["missing/run.h5", "file/run.h5"])
def test_an_output_that_cannot_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / place) in the_failure(start(*train(output=tmp_path / place)), 6)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_weights_that_are_no_weights(tmp_path):
    path = tmp_path / "weights.h5"
    assert str(path) in the_failure(start(*train(init_from=path)), 3)
    path.write_text("not HDF5")
    assert str(path) in the_failure(start(*train(init_from=path)), 3)


# --- ranks ---------------------------------------------------------------------------------------------------

def test_ranks_with_different_options():
    line = the_failure(start_ranks((1, train(seed=1)), (1, train(seed=2))), 2)
    assert "seed is '1' on rank 0 but '2' on rank 1" in line


def test_a_rank_with_a_bad_option_ends_all():
    line = the_failure(start_ranks((1, train()), (1, train(lr="x"))), 2)
    assert "rank 1 on " in line and "--lr x" in line


def test_out_of_memory_is_said_before_anything_is_done():
    line = the_failure(start("train", "--batch-per-rank", "16", "--memory-limit", "100MB"), 4)
    assert "100 MB" in line


def test_a_loss_that_is_not_finite(tmp_path):
    path = tmp_path / "run.h5"
    line = the_failure(start(*train(steps=6, lr=1e30, output=path)), 5)
    assert "step" in line and "--lr" in line
    with h5py.File(path) as file:
        assert file.attrs["status"] == "failed"
        assert "not finite" in file.attrs["failure"]


# --- what people and programs see ----------------------------------------------------------------------------

def test_help_names_groups_defaults_and_examples():
    text = start("train", "--help").stdout
    for words in ("Optimiser:", "--lr RATE", "[0.1]", "mpirun -n 2 lockstep train", "Exit status"):
        assert words in text
    assert start("--help").returncode == 0


def test_a_dry_run_leaves_nothing(tmp_path):
    result = start(*train("--dry-run", output=tmp_path / "run.h5", checkpoint_dir=tmp_path / "ckpt"))
    assert result.returncode == 0 and "11,173,962 parameters" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_json_is_one_object_and_nothing_else():
    result = start(*train("--json"))
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert found["config"]["batch-per-rank"] == "2"
    assert found["results"]["steps"] == 2
    assert found["results"]["images_per_second"] > 0
    assert found["results"]["last_test_accuracy"] is None


def test_two_ranks_train_and_write_every_rank_s_times(tmp_path):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train(steps=None, epochs=1, output=path)))
    assert result.returncode == 0, result.stderr
    assert "Total img/sec on 2 CPU rank(s): " in result.stdout
    assert "Img/sec per CPU rank: " in result.stdout
    with h5py.File(path) as file:
        assert file["steps/phase_seconds"].shape == (6, 2, 6)
        assert (file["steps/images"][:] == 4).all()


def test_progress_moves_on_a_terminal_alone():
    def output(command):  # as bytes: Python would turn carriage returns into ends of lines
        return subprocess.run(command, env=environment(), capture_output=True, timeout=120).stdout

    run = [BIN, *train(steps=3)]
    under_mpirun = [*MPIRUN, "-n", "1", *run]
    for command in (run, under_mpirun):
        shown = output(["script", "-qec", " ".join(command), "/dev/null"])
        assert b"\repoch 1, step 1/12" in shown and b" left" in shown
        assert b" left" not in output(command)


def test_quiet_is_quiet():
    result = start(*train("--quiet"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_plan_measures_each_operation_against_the_machine():
    result = start("plan", "--measure", "--model", "resnet18-cifar", "--batch-per-rank", "2", "--threads", "1", "--json")
    floor = json.loads(result.stdout)["floor"]
    assert floor["flops_per_second"] > 1e8 and floor["bytes_per_second"] > 1e8
    phases = {row["phase"] for row in floor["operations"]}
    assert phases == {"forward", "backward data", "backward weights", "backward", "update"}
    assert sum(row["count"] for row in floor["operations"] if "convolution" in row["operation"]) == 59
    assert sum(row["seconds"] for row in floor["operations"]) <= floor["seconds"] * 1.001


@pytest.mark.parametrize("ranks, batch", [(1, 4), (1, 16), (2, 8)])
def test_plan_foretells_the_peak(ranks, batch):
    options = ["--data", "synthetic:64", "--batch-per-rank", batch, "--threads", "1"]
    planned = json.loads(start_ranks((ranks, ["plan", *options, "--json"])).stdout)
    found = json.loads(start_ranks((ranks, ["train", *options, "--steps", "2", "--json"])).stdout)
    peak = found["results"]["peak_memory_bytes"]
    assert abs(planned["memory_bytes"]["total"] - peak) < 0.1 * peak


def test_the_ladder_ends_in_a_row_not_in_a_failure(tmp_path):
    path = tmp_path / "ladder.h5"
    result = start("ladder", "--ladder-start", "2", "--steps", "1", "--data", "synthetic:200", "--threads", "1",
                   "--memory-limit", "280MB", "--output", path)
    assert result.returncode == 0, result.stderr
    assert "out of memory" in result.stdout
    with h5py.File(path) as file:
        status = [s.decode() if isinstance(s, bytes) else s for s in file["ladder/status"][:]]
        assert status[-1] == "out_of_memory" and set(status[:-1]) == {"ok"} and len(status) > 1
        assert (file["ladder/batch_per_rank"][:] == 2 * 4 ** np.arange(len(status))).all()


def test_allreduce_prints_the_columns_of_nccl_tests():
    result = start_ranks((2, ["allreduce", "--max-bytes", "16K", "--repeats", "3"]))
    assert result.returncode == 0, result.stderr
    assert "algbw" in result.stdout and "#wrong" in result.stdout and "pieces" in result.stdout


def cuda_line():
    return next(line for line in start("info").stdout.splitlines() if line.startswith("  cuda"))


def test_info_says_what_is_not_there():
    # A build without CUDA, one with it on a machine without a GPU or driver, or the GPU.
    assert re.search("not available: .*(no CUDA backend|use --device cpu)|compute capability", cuda_line())


def test_plan_for_a_gpu_that_is_not_here():
    result = start("plan", "--for", "rtx8000", "--precision", "fp16", "--batch-per-rank", "8", "--json")
    if "no CUDA backend" in cuda_line():
        assert result.returncode == 2 and "no CUDA backend" in result.stderr
        return
    found = json.loads(result.stdout)
    assert {kernel["phase"] for kernel in found["kernels"]} >= {"forward", "backward data", "backward weights"}
    assert found["memory_bytes"]["activations"] > 0
    refused = start("plan", "--for", "v100", "--batch-per-rank", "8")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1


# --- stopping and going on -----------------------------------------------------------------------------------

def tensors(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if hasattr(item, "shape") else None)
    return found


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    """Repeatable, so that the three processes compute by the same kernels: they choose theirs by timing otherwise."""
    assert start(*train("--deterministic", steps=6, checkpoint_dir=tmp_path / "whole")).returncode == 0
    for steps in (3, 6):
        assert start(*train("--deterministic", steps=steps, checkpoint_dir=tmp_path / "parts",
                            resume="auto")).returncode == 0
    whole, resumed = (sorted((tmp_path / name).iterdir())[-1] for name in ("whole", "parts"))
    assert whole.name == resumed.name
    expected, found = tensors(whole), tensors(resumed)
    assert expected.keys() == found.keys() and len(expected) > 100
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name


def test_a_signal_saves_a_checkpoint(tmp_path):
    directory, path = tmp_path / "ckpt", tmp_path / "run.h5"
    process = subprocess.Popen(
        [BIN, *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps", output=path)], env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 75, stderr
    assert "--resume auto" in stderr
    with h5py.File(path) as file:
        assert file.attrs["status"] == "preempted"
        assert file["steps/loss"].shape[0] > 0


def test_a_killed_rank_ends_the_job(tmp_path):
    directory = tmp_path / "ckpt"
    process = subprocess.Popen(
        [*MPIRUN, "-n", "2", BIN, *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps")],
        env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
