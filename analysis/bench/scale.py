# SPDX-License-Identifier: BSD-3-Clause
"""Measures how lockstep-report scales: one large run file, two small ones, and many of them.

    python3 analysis/bench/scale.py [--steps 100000] [--ranks 64] [--epoch-steps 98] [--files 1000]
    python3 analysis/bench/scale.py --against TREE --rounds 5
    python3 analysis/bench/scale.py --epoch-steps 100000 --memory 1024

Makes the files in a temporary folder (about 1 GB), runs each command in a process of its own, and
prints its time, processor time and peak memory. The large file has the phases, clocks, messages and
buckets of each step and telemetry. With --against, the commands alternate between this tree and
another one, with the same files, and the medians and their ratios are printed. With --memory, the
large file grows until a report of it needs more memory. No test compares the times.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

OWN_PATH = str(Path(__file__).resolve().parents[1])
sys.path[:0] = [OWN_PATH, f"{OWN_PATH}/tests"]

import synthetic  # noqa: E402  (of the tests)
from lockstep_report.runfile import schema  # noqa: E402

PHASES = len(synthetic.PHASES)
PHASE_SECONDS = np.array([1e-4, 1e-4, 1e-2, 2e-2, 3e-3, 1e-3])
# Bytes of a chunk of the files of the program; more and less for indivisible numbers of steps.
CHUNK_BYTES, MOST_CHUNK_BYTES, LEAST_CHUNK_BYTES = 16 * 2**20, 256 * 2**20, 2**20
OF_EPOCHS = (
    "train_loss",
    "train_accuracy",
    "test_loss",
    "test_accuracy",
    "seconds",
    "evaluation_seconds",
)


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


def steps_per_chunk(epoch_steps, row_bytes):
    """Returns the number of steps per chunk of the files of the program: an epoch, or an equal part
    of it."""
    part = equal_part(epoch_steps, row_bytes, CHUNK_BYTES)
    if part == epoch_steps or part * row_bytes >= LEAST_CHUNK_BYTES:
        return part
    return equal_part(epoch_steps, row_bytes, MOST_CHUNK_BYTES)


def equal_part(steps, row_bytes, most_bytes):
    parts = steps * row_bytes // most_bytes + 1
    while parts < steps and steps % parts:
        parts += 1
    return steps // min(parts, steps)


def write_large(path, steps, ranks, epoch_steps, buckets=4):
    """Writes a training run with `steps` steps in epochs of `epoch_steps`."""
    with h5py.File(path, "w", libver="latest") as file:
        write_header(file, ranks, epoch_steps, buckets)
        write_columns(file, steps, ranks, max(1, steps // epoch_steps), epoch_steps)
        write_telemetry(file, ranks, 0.05 * steps)
        write_times(file, steps, ranks, epoch_steps, buckets)
    return path


def write_header(file, ranks, epoch_steps, buckets):
    options = {
        "model": "resnet18-cifar",
        "device": "cpu",
        "precision": "fp32",
        "threads": "1",
        "reducer": "overlap",
        "batch-per-rank": str(max(1, 512 // ranks)),
        "train-samples": str(512 * epoch_steps),
    }
    attributes = {
        "part": 1,
        "first_step": 0,
        "format_version": 3,
        "steps_per_epoch": epoch_steps,
        "images_per_epoch": 512 * epoch_steps,
    }
    synthetic.header(file, config=options, attributes=attributes)
    synthetic.dataset(file, "/rank", np.arange(ranks))
    synthetic.dataset(file, "/phase", synthetic.PHASES)
    synthetic.dataset(file, "/bucket", np.arange(buckets))
    synthetic.dataset(file, "/buckets/bytes", [11_000_000] * buckets)
    synthetic.write_ranks(file, ranks)


def write_columns(file, steps, ranks, epochs, epoch_steps):
    """Writes the datasets with one value per step or per epoch."""
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
    for name in OF_EPOCHS:
        synthetic.dataset(file, f"/epochs/{name}", np.linspace(0.5, 0.9, epochs))
    synthetic.dataset(file, "/epochs/parameter_hash", np.full(epochs, "0" * 16))
    for name in ("clock_offset_seconds", "clock_error_seconds"):
        synthetic.dataset(file, f"/epochs/{name}", np.zeros((epochs, ranks, 2)))


def write_times(file, steps, ranks, epoch_steps, buckets):
    """Writes the datasets (step, rank, ...)."""
    generator = np.random.default_rng(1)
    rows = steps_per_chunk(epoch_steps, 8 * ranks * max(PHASES, buckets))
    for first in range(0, steps, rows):
        count = min(rows, steps - first)
        noise = generator.exponential(1e-3, (count, ranks, PHASES))
        append(file, "/steps/phase_seconds", (ranks, PHASES), rows, PHASE_SECONDS + noise)
        start = 0.05 * (first + np.arange(count))[:, None] + np.zeros(ranks)
        for name in ("start_seconds", "end_seconds", "sent_bytes", "received_bytes"):
            append(file, f"/steps/{name}", (ranks,), rows, start)
        # Ranks start the buckets in the order of the backward pass.
        begin = 0.015 + 0.005 * np.arange(buckets) + np.sort(noise[:, :, :buckets], axis=2)
        append(file, "/buckets/start_seconds", (ranks, buckets), rows, begin)
        append(file, "/buckets/end_seconds", (ranks, buckets), rows, begin + 0.006)


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


@dataclass(frozen=True)
class Usage:
    """What one process used."""

    seconds: float
    processor_seconds: float  # user and system
    mib: float  # peak of the resident memory
    status: int

    def text(self):
        failed = "" if self.status == 0 else f"  FAILED (status {self.status})"
        return (
            f"{self.seconds:>8.2f} s{self.processor_seconds:>8.2f} s of processor"
            f"{self.mib:>7.0f} MiB{failed}"
        )


class Bench:
    """Runs commands with each of the `trees` in turn, `rounds` times."""

    def __init__(self, trees, rounds, folder):
        self.trees = trees
        self.rounds = rounds
        # With the bytecode of the modules, as in an installed package.
        self.environment = {
            **os.environ,
            "MPLBACKEND": "Agg",
            "PYTHONPYCACHEPREFIX": f"{folder}/pyc",
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, tree, arguments):
        """Runs lockstep-report, or Python code after "-c"."""
        module = [] if arguments[0] == "-c" else ["-m", "lockstep_report"]
        begin = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *module, *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            env={**self.environment, "PYTHONPATH": f"{tree}/analysis"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        return Usage(
            time.monotonic() - begin,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / 1024,
            os.waitstatus_to_exitcode(status),
        )

    def measure(self, name, arguments):
        """Prints the medians of a command, and their ratios to those of the last tree. Returns
        those of the first tree."""
        found = [[] for _ in self.trees]
        for _ in range(self.rounds):
            for usages, tree in zip(found, self.trees):
                usages.append(self.run(tree, arguments))
        own, *others = map(median_usage, found)
        print(f"  {name:<12}{own.text()}", flush=True)
        for other in others:
            print(f"  {'against':>12}{other.text()}  ratios {ratios(own, other)}", flush=True)
        return own


def median_usage(usages):
    return Usage(
        statistics.median(u.seconds for u in usages),
        statistics.median(u.processor_seconds for u in usages),
        statistics.median(u.mib for u in usages),
        max((u.status for u in usages), key=abs),
    )


def ratios(own, other):
    """Returns the ratios of the time, the processor time and the memory as text."""
    return (
        f"{own.seconds / other.seconds:.2f}, "
        f"{own.processor_seconds / other.processor_seconds:.2f}, {own.mib / other.mib:.2f}"
    )


def measure_imports(bench):
    """Measures the libraries, which no command can do without."""
    print("imports")
    for tree in bench.trees:  # compiles the modules
        bench.run(tree, ["--help"])
        bench.run(tree, ["-c", "import h5py, matplotlib.figure, xarray"])
    bench.measure("h5py", ["-c", "import h5py"])
    bench.measure("matplotlib", ["-c", "import h5py, matplotlib.figure"])
    bench.measure("xarray", ["-c", "import h5py, xarray"])


def measure_run(bench, folder, steps, ranks, epoch_steps):
    """Measures the commands on one run file. Returns the `Usage` of the report."""
    path = write_large(folder / "large.h5", steps, ranks, epoch_steps)
    print(
        f"{ranks} ranks x {steps:,} steps x {PHASES} phases in epochs of {epoch_steps:,} steps: "
        f"{path.stat().st_size / 1e6:,.1f} MB",
        flush=True,
    )
    code = f"import lockstep_report as lr; lr.open({json.dumps(str(path))})"
    bench.measure("lr.open", ["-c", code])
    bench.measure("summary", ["summary", path])
    bench.measure("html", ["html", path, "-o", folder / "page.html"])
    report = bench.measure("report", ["report", path, "--out", folder / "report"])
    path.unlink()
    return report


def measure_many(bench, folder, count):
    many = folder / "many"
    many.mkdir()
    write_many(many, count)
    print(f"{count:,} run files")
    bench.measure("index", ["index", many])
    bench.measure("tables", ["tables", many, "--out", folder / "tables"])
    bench.measure("html", ["html", many, "-o", folder / "page.html"])


def measure_growth(bench, folder, options):
    """Measures files with twice as many steps until a report needs more than the memory."""
    steps = options.steps
    while True:
        epoch_steps = steps if options.epoch_steps == options.steps else options.epoch_steps
        used = measure_run(bench, folder, steps, options.ranks, epoch_steps)
        if used.status or used.mib > options.memory:
            print(f"more than {options.memory} MiB, or failed")
            return
        steps *= 2


def measure_all(bench, folder, options):
    measure_imports(bench)
    measure_run(bench, folder, 100, 2, 50)
    measure_run(bench, folder, options.steps, options.ranks, options.epoch_steps)
    if options.files:
        measure_many(bench, folder, options.files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--epoch-steps", type=int, default=98)
    parser.add_argument("--files", type=int, default=1000, help="0: only the single files")
    parser.add_argument("--folder", help="parent of the temporary folder [$TMPDIR]")
    parser.add_argument("--against", metavar="TREE", help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--memory", type=int, metavar="MIB", help="grow until a report needs more")
    options = parser.parse_args()
    trees = [Path(OWN_PATH).parent, *([options.against] if options.against else [])]
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(trees, options.rounds, folder)
        measure = measure_growth if options.memory else measure_all
        measure(bench, Path(folder), options)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
