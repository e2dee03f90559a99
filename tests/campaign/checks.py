# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the files that a training has left: checkpoints and run files.

Trainings with the same ranks, hosts and options compute the same bits, so a checkpoint is valid if
its values are those of the checkpoint that an uninterrupted run wrote at the same step.
"""

import hashlib
import pathlib
import re
import sys

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.errors import ReportError  # noqa: E402
from lockstep_report.runfile.validate import problems  # noqa: E402

CHECKPOINT = re.compile(r"checkpoint-(\d+)\.h5")
COUNTERS = ("step", "batches_tracked", "global_batch", "seed", "data_digest", "ranks")
STEP_VALUES = ("epoch", "learning_rate", "loss", "images", "sent_bytes", "received_bytes")
EPOCH_VALUES = ("test_loss", "test_accuracy", "parameter_hash")


def steps_of(directory):
    """Returns the steps of the checkpoints that are in the directory under their final names, in
    ascending order."""
    if not directory.is_dir():
        return []
    return sorted(
        int(m[1]) for entry in directory.iterdir() if (m := CHECKPOINT.fullmatch(entry.name))
    )


def temporary_files(directory):
    """Returns the names of incomplete checkpoints."""
    return (
        sorted(entry.name for entry in directory.iterdir() if entry.name.startswith("."))
        if directory.is_dir()
        else []
    )


def digest(path):
    """Returns a digest of all tensors and of the position of a checkpoint, without what differs
    between runs (its id)."""
    sum_of_all = hashlib.sha256()
    with h5py.File(path) as file:

        def add(name, item):
            if isinstance(item, h5py.Dataset):
                sum_of_all.update(f"{name} {item.shape} {item.dtype}\n".encode())
                sum_of_all.update(item[()].tobytes())

        file.visititems(add)
        for name in COUNTERS:
            sum_of_all.update(f"{name} {file.attrs[name]}\n".encode())
    return sum_of_all.hexdigest()


def run_files(folder):
    """Returns the run files of all parts of a run, in their order, without files that are empty or
    being prepared."""

    def part(path):
        found = re.search(r"\.part(\d+)\.", path.name)
        return int(found[1]) if found else 1

    found = [path for path in folder.glob("run.*") if path.name.endswith((".h5", ".h5.partial"))]
    return sorted((path for path in found if size_of(path) > 0), key=part)


def size_of(path):
    """Returns the size of a file; 0 if a job has renamed it in the meantime."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def partial(folder):
    """Returns whether a run file of the folder is not complete."""
    return any(path.suffix == ".partial" for path in run_files(folder))


def problems_of_run_file(path):
    """Returns why lockstep-report does not accept the file; an empty list if it does."""
    try:
        return [f"{path.name}: {line}" for line in problems(path)]
    except (ReportError, OSError, KeyError, ValueError, RuntimeError) as error:
        return [f"{path.name}: {error}"]


def values_of(path):
    """Returns the first step of a run file and its values that do not depend on time: {step: row}
    and {epoch: row}."""

    def rows(group, names, file):
        columns = [file[group][name][()] for name in names]
        return [
            tuple(
                column[i].tobytes() if hasattr(column[i], "tobytes") else column[i]
                for column in columns
            )
            for i in range(len(columns[0]))
        ]

    with h5py.File(path) as file:
        first = int(file.attrs["first_step"])
        steps = {first + i: row for i, row in enumerate(rows("steps", STEP_VALUES, file))}
        epochs = dict(
            zip(file["epoch"][()].tolist(), rows("epochs", EPOCH_VALUES, file), strict=True)
        )
    return first, steps, epochs


def joined_values(folder):
    """Returns the values of all parts of a run. The rows of a later part replace those of an
    earlier one, because a run that was killed repeats the steps after its newest checkpoint."""
    steps, epochs = {}, {}
    for path in run_files(folder):
        _, more_steps, more_epochs = values_of(path)
        steps |= more_steps
        epochs |= more_epochs
    return steps, epochs
