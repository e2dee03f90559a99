# SPDX-License-Identifier: BSD-3-Clause
"""Measures how lockstep-report scales: one large run file, and many small ones.

    python3 analysis/bench/scale.py [--steps 100000] [--ranks 64] [--files 1000] [--folder DIR]

Makes the files in a temporary folder (about 1 GB), runs each command in a process of its own, and
prints its time, processor time and peak memory. The large file has the phases, clocks, messages and
buckets of each step and telemetry, in epochs of 98 steps. No test compares the times.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

OWN_PATH = str(Path(__file__).resolve().parents[1])
sys.path[:0] = [OWN_PATH, f"{OWN_PATH}/tests"]

import synthetic  # noqa: E402  (of the tests)
from lockstep_report.runfile import schema  # noqa: E402

PHASES = len(synthetic.PHASES)


def append(file, path, shape, rows, values):
    """Appends `values` to the dataset `path`, which is created with chunks of `rows` rows, with
    checksums as in the files of the program."""
    spec = schema.dataset(path)
    if path not in file:
        file.create_dataset(
            path,
            shape=(0, *shape),
            maxshape=(None, *shape),
            dtype="f8",
            chunks=(rows, *shape),
            fletcher32=True,
        )
        file[path].attrs.update({"units": spec.units, "long_name": spec.description})
    dataset = file[path]
    dataset.resize(len(dataset) + len(values), axis=0)
    dataset[-len(values) :] = values


def write_large(path, steps, ranks, epoch_steps, buckets=4):
    """Writes a training run with `steps` steps in epochs of `epoch_steps`."""
    generator = np.random.default_rng(1)
    rows = min(epoch_steps, 1024)
    phases = np.tile([1e-4, 1e-4, 1e-2, 2e-2, 3e-3, 1e-3], (rows, ranks, 1))
    epochs = max(1, steps // epoch_steps)
    options = {
        "model": "resnet18-cifar",
        "device": "cpu",
        "precision": "fp32",
        "threads": "1",
        "reducer": "overlap",
        "batch-per-rank": str(512 // ranks),
        "train-samples": str(512 * epoch_steps),
    }
    with h5py.File(path, "w", libver="latest") as file:
        synthetic.header(
            file,
            config=options,
            attributes={
                "part": 1,
                "first_step": 0,
                "format_version": 3,
                "steps_per_epoch": epoch_steps,
                "images_per_epoch": 512 * epoch_steps,
            },
        )
        synthetic.dataset(file, "/rank", np.arange(ranks))
        synthetic.dataset(file, "/phase", synthetic.PHASES)
        synthetic.dataset(file, "/bucket", np.arange(buckets))
        synthetic.dataset(file, "/buckets/bytes", [11_000_000] * buckets)
        synthetic.write_ranks(file, ranks)
        columns = {
            "epoch": np.minimum(np.arange(steps) // epoch_steps + 1, epochs),
            "learning_rate": np.full(steps, 0.1),
            "loss": np.linspace(2.3, 0.1, steps),
            "images": np.full(steps, 512),
        }
        synthetic.dataset(file, "/step", np.arange(1, steps + 1))
        synthetic.dataset(file, "/epoch", np.arange(1, epochs + 1))
        synthetic.dataset(file, "/clock_reading", ["begin", "end"])
        for name, values in columns.items():
            synthetic.dataset(file, f"/steps/{name}", values)
        for name in (
            "train_loss",
            "train_accuracy",
            "test_loss",
            "test_accuracy",
            "seconds",
            "evaluation_seconds",
        ):
            synthetic.dataset(file, f"/epochs/{name}", np.linspace(0.5, 0.9, epochs))
        synthetic.dataset(file, "/epochs/parameter_hash", np.full(epochs, "0" * 16))
        for name in ("clock_offset_seconds", "clock_error_seconds"):
            synthetic.dataset(file, f"/epochs/{name}", np.zeros((epochs, ranks, 2)))
        write_telemetry(file, ranks, 0.05 * steps)
        for first in range(0, steps, rows):
            count = min(rows, steps - first)
            noise = generator.exponential(1e-3, (count, ranks, PHASES))
            append(file, "/steps/phase_seconds", (ranks, PHASES), rows, phases[:count] + noise)
            start = 0.05 * (first + np.arange(count))[:, None] + np.zeros(ranks)
            for name in ("start_seconds", "end_seconds", "sent_bytes", "received_bytes"):
                append(file, f"/steps/{name}", (ranks,), rows, start)
            # Ranks start the buckets in the order of the backward pass.
            begin = 0.015 + 0.005 * np.arange(buckets) + np.sort(noise[:, :, :buckets], axis=2)
            append(file, "/buckets/start_seconds", (ranks, buckets), rows, begin)
            append(file, "/buckets/end_seconds", (ranks, buckets), rows, begin + 0.006)
    return path


def write_telemetry(file, ranks, seconds, samples=1000):
    """Writes `samples` samples of each rank over `seconds`, with growing counters."""
    total = samples * ranks
    synthetic.dataset(file, "/sample", np.arange(total))
    synthetic.dataset(file, "/interface", np.arange(2))
    synthetic.dataset(file, "/telemetry/interface_name", np.array([["eth0", "ib0"]] * ranks))
    rising = np.repeat(np.linspace(0, seconds, samples), ranks)
    for spec in schema.datasets("/telemetry"):
        if spec.name == "rank":
            synthetic.dataset(file, spec.path, np.tile(np.arange(ranks), samples))
        elif spec.dimensions == ("sample",):
            synthetic.dataset(file, spec.path, rising)
        elif spec.dimensions == ("sample", "interface"):
            synthetic.dataset(file, spec.path, np.stack([rising, rising], axis=1))


def write_many(folder, count):
    """Writes `count` run files of 1, 2, 4 or 8 ranks with 100 steps each."""
    for number in range(count):
        ranks = 2 ** (number % 4)
        path = folder / f"run-{number:04d}.h5"
        if number < 4:
            times = synthetic.phases(100, *[(0.0, 0.0, 0.01, 0.02, 0.0, 0.0)] * ranks)
            synthetic.write_run(
                path,
                times,
                32 * ranks,
                epochs=2,
                bucket_bytes=[1000] * 4,
                attributes={
                    "part": 1,
                    "first_step": 0,
                    "steps_per_epoch": 50,
                    "images_per_epoch": 1600 * ranks,
                },
            )
            continue
        shutil.copy(folder / f"run-{number % 4:04d}.h5", path)
        with h5py.File(path, "r+") as file:
            file.attrs["run_id"] = str(number)
            file["config"].attrs["seed"] = str(number)


def measure(name, arguments):
    """Runs lockstep-report (or Python code) and prints its time and peak memory."""
    command = [sys.executable, "-m", "lockstep_report", *map(str, arguments)]
    if arguments[0] == "-c":
        command = [sys.executable, *map(str, arguments)]
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": OWN_PATH, "MPLBACKEND": "Agg"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    failed = "" if status == 0 else f"  FAILED (status {os.waitstatus_to_exitcode(status)})"
    processor = usage.ru_utime + usage.ru_stime
    print(
        f"{name:<44}{seconds:>8.2f} s{processor:>8.2f} s of processor"
        f"{usage.ru_maxrss / 1024:>8.0f} MiB{failed}",
        flush=True,
    )


def measure_all(options, folder):
    path = write_large(folder / "large.h5", options.steps, options.ranks, epoch_steps=98)
    print(
        f"{options.ranks} ranks x {options.steps:,} steps x {PHASES} phases: "
        f"{path.stat().st_size / 1e6:,.0f} MB"
    )
    measure("  lr.open", ["-c", f"import lockstep_report as lr; lr.open({str(path)!r})"])
    for command in (
        ["summary", path],
        ["report", path, "--out", folder / "report"],
        ["html", path, "-o", folder / "page.html"],
    ):
        measure(f"  {command[0]}", command)
    path.unlink()
    many = folder / "many"
    many.mkdir()
    write_many(many, options.files)
    print(f"{options.files:,} run files")
    measure("  index", ["index", many])
    measure("  tables", ["tables", many, "--out", folder / "tables"])
    measure("  html", ["html", many, "-o", folder / "page.html"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--folder", help="parent of the temporary folder [$TMPDIR]")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure_all(options, Path(folder))
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
