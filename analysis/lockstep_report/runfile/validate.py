# SPDX-License-Identifier: BSD-3-Clause
"""Checks a run file against the schema: missing or malformed parts, impossible values, values that
contradict each other, and what a report lacks because a dataset is not in the file. Each problem is
one line."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lockstep_report.runfile import schema
from lockstep_report.runfile.hdf5_access import (
    errors_of_hdf5,
    open_run,
    read_attributes,
    read_dataset,
    safe_objects,
)
from lockstep_report.runfile.read import TABLES, check_header, structure_problems

CLOCK_TOLERANCE = 1e-3  # seconds; a rank reads its clock once between two steps
EPOCH_TOLERANCE = 0.1  # share; /epochs/seconds is measured by rank 0 only
BYTES_PER_VALUE = {"fp32": 4, "bf16": 2, "fp16": 2}
NO_TABLES = "tables 1 to 3 and the scaling tables lack the run"
NO_BANDWIDTH = "tables 2 and 3 have wrong all-reduce times and bandwidths"
WRONG_STEPS = "the timed steps and the epoch time are wrong"
WRONG_READINGS = "the tables of accuracies, readings and pipeline stages are wrong"
WRONG_ACCURACY = "the accuracy table and the learning curves are wrong"
# What a report lacks if a training run on several ranks (or on any number) has no such dataset.
ABSENT = (
    ("/buckets/start_seconds", True, "table 2 lacks the all-reduce time, table 3 lacks the run"),
    (
        "/buckets/call_seconds",
        True,
        (
            "on CPUs, table 2 lacks the hidden communication, and table 3 has "
            "only one bound of the bandwidth"
        ),
    ),
    ("/epochs/clock_offset_seconds", True, "the table of waiting and transfer lacks the run"),
    ("/steps/sent_bytes", True, "the table of reducers lacks the bytes that the ranks sent"),
    ("/epochs/test_accuracy", False, "the accuracy table and the learning curves lack the run"),
    ("/epochs/energy_joules", False, "table 1 lacks the energy per image"),
    (
        "/telemetry/seconds",
        False,
        "the table and the figure of the telemetry lack the run (--telemetry)",
    ),
    (
        "/profile/seconds",
        False,
        "the tables and the figure of the profile lack the run (--profile)",
    ),
)
TRAINING_GROUPS = ("/steps", "/epochs", "/buckets")
LOSSES = ("/steps/loss", "/epochs/train_loss")  # numbers if a run ended normally


class Range(NamedTuple):
    """The numbers that datasets can have. Infinite numbers are always wrong."""

    pattern: str  # of the paths of the datasets
    low: float
    high: float
    may_be_nan: bool
    consequence: str  # of another number

    @property
    def text(self):
        if self.high < np.inf:
            return f"from {self.low} to {self.high}"
        return f"a number from {self.low:g} on"


# The first line for a dataset applies.
RANGES = (
    Range("/steps/phase_seconds", 0, np.inf, False, NO_TABLES),
    Range("/buckets/(start|end)_seconds", 0, np.inf, False, NO_BANDWIDTH),
    Range("/steps/images", 1, np.inf, True, "images/s are wrong"),
    Range("/epochs/(train|test)_accuracy", 0, 1, True, WRONG_ACCURACY),
    Range("/epochs/utilisation", 0, 1, True, WRONG_READINGS),
    Range("/epochs/clock_offset_seconds", -np.inf, np.inf, True, WRONG_READINGS),
    Range("/steps/(start|end)_seconds", -np.inf, np.inf, True, NO_TABLES),
    Range("|".join(LOSSES), 0, np.inf, True, WRONG_ACCURACY),
    Range("/steps/.*", 0, np.inf, True, NO_TABLES),
    Range("/epochs/.*", 0, np.inf, True, WRONG_READINGS),
    Range("/allreduce/.*", 0, np.inf, True, "the table of sweeps and the fits are wrong"),
    Range("/ladder/.*", 0, np.inf, True, "the table of the batch ladder is wrong"),
    Range("/telemetry/.*", 0, np.inf, True, "the table and the figure of the telemetry are wrong"),
    Range("/profile/.*", 0, np.inf, True, "the tables of the profile are wrong"),
)


def notes(path):
    """Returns one line per optional part that the valid file `path` of a training lacks, with the
    consequence for a report."""
    path = Path(path)
    with errors_of_hdf5(path), open_run(path) as file:
        if not len(values(file, "/steps/epoch")):
            return []
        several = file["steps/phase_seconds"].shape[1] > 1
        return [
            f"{path} {'has no values' if path in file else 'is missing'}: {consequence}"
            for path, needs_ranks, consequence in ABSENT
            if (several or not needs_ranks) and not np.isfinite(values(file, path)).any()
        ]


def values(file, path):
    """Returns the dataset; an empty array if the file lacks it."""
    return read_dataset(file[path]) if path in file else np.zeros(0)


def is_complete(file):
    return read_attributes(file).get("status") == "complete"


def counts_of_steps(file):
    """/steps against /epoch and steps_per_epoch."""
    epochs, listed = values(file, "/steps/epoch"), values(file, "/epoch")
    if len(epochs) and np.any(np.diff(epochs) < 0):
        yield f"/steps/epoch decreases: {WRONG_STEPS}"
    if np.any(np.diff(listed) <= 0):
        yield f"/epoch does not increase: {WRONG_ACCURACY}"
    unlisted, without_steps = np.setdiff1d(epochs, listed), np.setdiff1d(listed, epochs)
    if len(unlisted) and is_complete(file):
        yield (
            f"/steps/epoch has steps of epoch {unlisted[0]}, which /epoch does not list: these"
            " steps are not used"
        )
    if len(without_steps) and len(epochs):
        yield (
            f"/epoch lists epoch {without_steps[0]}, of which /steps has no steps: the tables have"
            " no times of it"
        )
    yield from epoch_lengths(file, epochs)


def epoch_lengths(file, epochs):
    """The number of steps of each epoch against steps_per_epoch. The epochs of other programs can
    have different lengths; a report uses the longest."""
    attributes = read_attributes(file)
    size = attributes.get("steps_per_epoch", 0)
    if size <= 0:
        return
    numbers, counts = np.unique(epochs, return_counts=True)
    is_inner = (numbers > numbers[:1]) & (numbers < numbers[-1:]) & ("program" not in attributes)
    is_wrong = (counts > size) | is_inner & (counts < size)
    for number, count in zip(numbers[is_wrong], counts[is_wrong]):
        yield (
            f"/steps/epoch has {count} steps of epoch {number}, steps_per_epoch is"
            f" {size}: {WRONG_STEPS}"
        )


def images_of_epochs(file):
    """/steps/images against images_per_epoch, in epochs with all their steps."""
    epochs, images = values(file, "/steps/epoch"), values(file, "/steps/images")
    attributes = read_attributes(file)
    steps, size = (attributes.get(f"{name}_per_epoch", 0) for name in ("steps", "images"))
    if min(steps, size) > 0 and len(images) == len(epochs):
        numbers, rows, counts = np.unique(epochs, return_inverse=True, return_counts=True)
        sums = np.bincount(rows, images, len(numbers))
        for row in np.flatnonzero((counts == steps) & (sums != size))[:1]:
            yield (
                f"/steps/images has {sums[row]:,.0f} images in epoch {numbers[row]}, "
                f"images_per_epoch is {size:,}: images/s and the scaled times are wrong"
            )


def phase_sums(file):
    """/steps/phase_seconds against the starts of the steps and the times of the epochs."""
    phases, epochs = values(file, "/steps/phase_seconds"), values(file, "/steps/epoch")
    if len(phases) != len(epochs) or not phases.size:
        return
    sums = phases.sum(axis=2)
    starts = values(file, "/steps/start_seconds")
    if starts.shape == sums.shape:
        inside = np.flatnonzero(np.diff(epochs) == 0)
        for step, rank in first_above(sums[inside], np.diff(starts, axis=0)[inside]):
            step = int(inside[step])
            yield (
                f"/steps/phase_seconds: the phases of rank {rank} in step {step + 1} of the file"
                " are longer than the time to the next start in /steps/start_seconds: the phase"
                " times of table 2 are wrong"
            )
    listed, seconds = values(file, "/epoch"), values(file, "/epochs/seconds")
    for number, measured in zip(listed, seconds):
        # The epoch is timed on rank 0. The first step of another rank contains its wait for rank 0.
        whole = sums[epochs == number, 0].sum()
        if np.isfinite(measured) and whole > (1 + EPOCH_TOLERANCE) * measured + 0.1:
            yield (
                f"/epochs/seconds has {measured:.4g} s for epoch {number}, the phases of "
                f"rank 0 add up to {whole:.4g} s: the epoch time of table 1 is wrong"
            )
            break


def bucket_times(file):
    """The ends of the all-reduces against their starts and the step times, and the time in their
    calls against both."""
    phases = values(file, "/steps/phase_seconds")
    calls, start, end = (
        values(file, f"/buckets/{name}_seconds") for name in ("call", "start", "end")
    )
    if not end.size or start.shape != end.shape or end.shape[:2] != phases.shape[:2]:
        return
    if np.any(end < start):
        yield (
            f"/buckets/end_seconds is less than /buckets/start_seconds in some rows: {NO_BANDWIDTH}"
        )
    for step, rank in first_above(end.max(axis=2), phases.sum(axis=2)):
        yield (
            f"/buckets/end_seconds: an all-reduce of rank {rank} ends after step {step + 1} of the"
            f" file: {NO_BANDWIDTH}"
        )
    if calls.shape != end.shape:
        return
    for step, rank, bucket in first_above(calls, end - start):
        yield (
            f"/buckets/call_seconds: rank {rank} is longer in calls of bucket {bucket} than from"
            f" its start to its end in step {step + 1} of the file: {NO_BANDWIDTH}"
        )


def bucket_sizes(file):
    """/buckets/bytes against the data type of the gradients, and against their number, if the
    program records it: the buckets divide one buffer, and ranks of one host may read float32 from
    it."""
    sizes = values(file, "/buckets/bytes").astype(int)
    width = BYTES_PER_VALUE.get(texts_of(file, "/config").get("gradient-dtype", "fp32"), 0)
    elements = texts_of(file, "/environment").get("gradient-elements", "")
    if not len(sizes) or not width:
        return
    if np.any(sizes % width) or np.any(sizes == 0):
        yield (
            f"/buckets/bytes is not a multiple of the {width} bytes of a gradient, or is 0:"
            f" {NO_BANDWIDTH}"
        )
    elif elements.isdecimal() and sizes.sum() not in (
        width * int(elements),
        BYTES_PER_VALUE["fp32"] * int(elements),
    ):
        yield (
            f"/buckets/bytes add up to {sizes.sum():,} bytes, the {int(elements):,} elements of the"
            f" gradients need {width * int(elements):,}: {NO_BANDWIDTH}"
        )
    elif elements.isdecimal() and (len(set(sizes[:-1].tolist())) > 1 or sizes[-1] > sizes[0]):
        yield (
            f"/buckets/bytes: only the last bucket may differ, and only be smaller: {NO_BANDWIDTH}"
        )


def texts_of(file, group):
    """Returns {name: text} of the attributes of a group, with names in the notation of the command
    line."""
    found = read_attributes(file[group]) if group in file else {}
    return {name.replace("_", "-"): str(value) for name, value in found.items()}


def rank_numbers(file):
    """/rank and the hosts of the ranks."""
    ranks, hosts, local = (
        values(file, f"/ranks/{name}") for name in ("rank", "host", "local_rank")
    )
    if len(ranks) and not np.array_equal(ranks, np.arange(len(ranks))):
        yield "/ranks/rank is not 0, 1, 2, ...: rows of ranks and hosts are wrong"
    if (
        len(hosts)
        and len(hosts) == len(local)
        and len(set(zip(hosts.tolist(), local.tolist()))) < len(hosts)
    ):
        yield "/ranks/local_rank has equal numbers on one host: the number of hosts may be wrong"


def first_above(times, limits):
    """Returns [index] of the first time above its limit and the tolerance of the clocks; [] without
    one."""
    with np.errstate(invalid="ignore"):
        return np.argwhere(times - limits > CLOCK_TOLERANCE)[:1].tolist()


def problems(path):
    """Returns one line per problem of the file `path`; an empty list if the file is valid. Raises
    `ReportError` if it is not a run file, or has objects that would read other files."""
    path = Path(path)
    with errors_of_hdf5(path), open_run(path) as file:
        attributes = check_header(path, file)
        found = structure_problems(safe_objects(path, file), attributes)
        if found:  # the other checks rely on it
            return found
        found = [*attribute_problems(attributes), *group_problems(file)]
        for group in schema.GROUPS:
            # Empty if no gradients were reduced.
            if group.path in file and (group.path != "/buckets" or len(file[group.path])):
                found += [
                    line
                    for spec in schema.datasets(group.path)
                    for line in problems_of_dataset(file, spec)
                ]
        # Values are compared only if the datasets have the right shapes.
        comparisons = (
            counts_of_steps,
            images_of_epochs,
            phase_sums,
            bucket_times,
            bucket_sizes,
            rank_numbers,
        )
        return found or [line for compare in comparisons for line in compare(file)]


def attribute_problems(attributes):
    for spec in schema.attributes("/"):
        value = attributes.get(spec.name)
        if value is None and spec.required:
            yield f"attribute {spec.name} of the root is missing"
        elif value is not None and spec.values and value not in spec.values:
            yield f'{spec.name} is "{value}", one of {", ".join(spec.values)} is needed'


def group_problems(file):
    has_tables = any(name in file for name in TABLES)
    for spec in schema.GROUPS:
        if (
            spec.required
            and spec.path not in file
            and not (has_tables and spec.path in TRAINING_GROUPS)
        ):
            yield f"group {spec.path} is missing"
    if "config" in file and not read_attributes(file["config"]):
        yield "group /config has no attributes: the options are not recorded"
    if "phase" in file and tuple(read_dataset(file["phase"])) != schema.PHASES:
        yield f"/phase is not ({', '.join(schema.PHASES)}): {NO_TABLES}"


def problems_of_dataset(file, spec):
    path = spec.path
    if path not in file:
        if spec.required:
            yield f"dataset {path} is missing: no command can use the file"
        return
    dataset = file[path]
    yield from (
        f"{path} has no attribute {name}"
        for name in ("units", "long_name")
        if name not in dataset.attrs
    )
    if spec.values:
        for value in sorted(set(read_dataset(dataset)) - set(spec.values)):
            yield f'{path} has the value "{value}", one of {", ".join(spec.values)} is needed'
    for axis, scale in enumerate(spec.dimensions):
        yield from scale_problems(file, dataset, path, axis, scale)
    if not spec.is_text:
        yield from number_problems(file, dataset, path)


def scale_problems(file, dataset, path, axis, scale):
    if scale not in file:
        return [f"scale /{scale} is missing in the root (dimension {axis} of {path})"]
    if file[scale].shape != (dataset.shape[axis],):
        return [
            f"{path} has {dataset.shape[axis]} along {scale}, /{scale} has {file[scale].shape[0]}"
        ]
    # The list of the scale, not that of the dataset, which HDF5 stores in a heap without checksums.
    attached = file[scale].attrs.get("REFERENCE_LIST", ())
    if getattr(getattr(attached, "dtype", None), "names", None) and any(
        dimension == axis and refers_to(file, place, dataset) for place, dimension in attached
    ):
        return []
    return [f"{path}: the scale /{scale} is not attached to dimension {axis}"]


def refers_to(file, reference, dataset):
    try:
        return file[reference] == dataset
    except (ValueError, KeyError):  # the dataset to which it refers was deleted
        return False


def number_problems(file, dataset, path):
    """Yields a line if a number of the dataset is outside its range."""
    limits = limits_of(path)
    if limits is None:
        return
    numbers = dataset[()]
    is_wrong = np.isinf(numbers) | (numbers < limits.low) | (numbers > limits.high)
    if not limits.may_be_nan or path in LOSSES and is_complete(file):
        is_wrong |= np.isnan(numbers)
    if is_wrong.any():
        first = numbers[is_wrong].flat[0]
        yield f"{path} has {first:.4g}, which is not {limits.text}: {limits.consequence}"


def limits_of(path):
    """Returns the first of RANGES for a dataset; None without one."""
    return next((limits for limits in RANGES if re.fullmatch(limits.pattern, path)), None)
