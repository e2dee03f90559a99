# SPDX-License-Identifier: BSD-3-Clause
"""Reads a run file, whose objects must have the kinds, types and dimensions of the schema, into a
`Run` of plain NumPy arrays."""

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import h5py
import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.runfile import schema
from lockstep_report.runfile.file_kind import CHECKPOINT, wrong_kind
from lockstep_report.runfile.hdf5_access import (
    errors_of_hdf5,
    open_run,
    read_attributes,
    read_dataset,
    safe_objects,
)
from lockstep_report.runfile.stored import IN_MEMORY_BYTES, stored_rows

OPTION_GROUPS = ("/config", "/environment", "/results")  # one attribute per option or quantity
# A file that is being written can have more rows of one dataset than of another.
GROWING = ("step", "epoch", "sample", "point")


def structure_problems(items, attributes):
    """Returns one line per object that has another kind, type, number of dimensions or length than
    the schema states; objects that are missing or that the schema does not name are no problem.
    `items`: {path in the file: group or dataset}; `attributes`: those of the root."""
    found = [
        f"the attribute {spec.name} of the root is not of type {spec.type}"
        for spec in schema.attributes("/")
        if spec.name in attributes
        and not isinstance(attributes[spec.name], str if spec.type == "string" else int)
    ]
    for path in (group.path for group in schema.GROUPS if group.path in items):
        if not isinstance(items[path], h5py.Group):
            found.append(f"{path} is not a group")
        elif path in OPTION_GROUPS:
            found += [
                f"the attribute {name} of {path} is not a single value"
                for name, value in items[path].attrs.items()
                if not is_single(value)
            ]
    datasets = [(spec, items[spec.path]) for spec in schema.DATASETS if spec.path in items]
    found = found or [problem for entry in datasets for problem in dataset_problems(*entry)]
    return found or list(length_problems(datasets))


def is_single(value):
    is_other = isinstance(value, (h5py.Empty, h5py.Reference, h5py.RegionReference))
    return not is_other and getattr(value, "size", 1) == 1


def dataset_problems(spec, dataset):
    if not isinstance(dataset, h5py.Dataset):
        return [f"{spec.path} is not a dataset"]
    if dataset.shape is None:
        return [f"{spec.path} has no values"]
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    if is_text != spec.is_text or not is_text and dataset.dtype.kind not in "iuf":
        return [f"{spec.path} has the type {dataset.dtype}, {spec.type} is needed"]
    if dataset.ndim != len(spec.dimensions):
        return [
            f"{spec.path} has {dataset.ndim} dimensions, ({', '.join(spec.dimensions)}) is needed"
        ]
    return []


def length_problems(datasets):
    """Yields one line per dataset that has another length along a dimension than an earlier one."""
    lengths = {}  # dimension -> (length, path of the dataset)
    for spec, dataset in datasets:
        for name, length in zip(spec.dimensions, dataset.shape):
            known, other = lengths.setdefault(name, (length, spec.path))
            if known != length and name not in GROWING:
                yield f"{spec.path} has {length:,} along {name}, {other} has {known:,}"


TABLES = ("ladder", "allreduce", "layers", "stack")  # groups of commands that do not train
EPOCH_SIZE = ("steps_per_epoch", "images_per_epoch")  # attributes of the root
OPTIONAL = ("telemetry", "profile")  # groups of training runs with these options
STEP_COLUMNS = {  # fields of a run with one row per step, from datasets
    "epoch": "/steps/epoch",
    "images": "/steps/images",
    "loss": "/steps/loss",
    "learning_rate": "/steps/learning_rate",
    "step_start": "/steps/start_seconds",
    "phase_seconds": "/steps/phase_seconds",
    "bucket_start": "/buckets/start_seconds",
    "bucket_end": "/buckets/end_seconds",
}


@dataclass(frozen=True)
class Run:
    """A run: one file, or several parts joined by `input_files.join`. Times are in seconds; the
    shapes in parentheses name the dimensions of the file. Large arrays (step, rank, ...) are
    `Rows`, which are read from the file when they are indexed."""

    path: Path
    attributes: dict  # attributes of the root
    config: dict  # resolved options as texts, with names in the notation of the command line
    environment: dict
    results: dict
    ranks: dict  # name -> (rank)
    step: np.ndarray  # (step), number of earlier steps of the run
    part_of_step: np.ndarray  # (step), index into `parts`
    epoch: np.ndarray  # (step), epoch of the step, from 1
    images: np.ndarray  # (step), over all ranks
    loss: np.ndarray  # (step)
    learning_rate: np.ndarray  # (step)
    step_start: np.ndarray  # (step, rank), on the clock of the rank; NaN if not recorded
    phase_seconds: np.ndarray  # (step, rank, phase)
    epoch_numbers: np.ndarray  # (epoch), from 1
    epochs: dict  # name -> (epoch[, rank[, clock_reading]])
    bucket_bytes: np.ndarray  # (bucket)
    bucket_start: np.ndarray  # (step, rank, bucket), relative to the start of the step
    bucket_end: np.ndarray  # (step, rank, bucket)
    bucket_calls: np.ndarray = None  # (step, rank, bucket), seconds in calls; None if not recorded
    traffic: dict = field(default_factory=dict)  # "sent", "received" -> (step, rank), bytes
    ladder: dict = field(default_factory=dict)  # name -> (point)
    allreduce: dict = field(default_factory=dict)  # name -> (message[, repeat])
    telemetry: dict = field(default_factory=dict)  # name -> (sample[, interface]); single files
    step_end: np.ndarray = None  # (step, rank), on the clock of the telemetry; single files
    profile: dict = field(default_factory=dict)  # name -> (operation[, rank])
    layers: dict = field(default_factory=dict)  # name -> (layer[, repeat])
    stack: dict = field(default_factory=dict)  # name -> (row[, repeat])
    parts: tuple = ()  # the runs that were joined; empty for a single file
    named_folders: int = 0  # number of folders in `file_name`
    # What other modules computed from the run and use several times; not of a run that is made
    # from this one.
    known: dict = field(default_factory=dict, init=False, compare=False, repr=False)
    phases = schema.PHASES

    @cached_property
    def starts_part(self):
        """(step), True for the first step of each process."""
        return np.diff(self.part_of_step, prepend=-1) > 0

    @property
    def has_tables(self):
        """Whether the run has measurements other than training steps."""
        return any(getattr(self, name) for name in TABLES)

    @property
    def status(self):
        return str(self.attributes.get("status", "unknown"))

    @property
    def run_id(self):
        return str(self.attributes.get("run_id", ""))

    @property
    def rank_count(self):
        return len(self.ranks["rank"])

    @property
    def host_names(self):
        return tuple(sorted({str(name) for name in self.ranks["hostname"] if name}))

    @property
    def host_count(self):
        """Number of hosts, 0 if it is unknown; containers on several hosts can have equal host
        names."""
        return len(set(self.ranks["host"].tolist()))

    @property
    def device_names(self):
        return tuple(sorted({str(name) for name in self.ranks["device_name"] if name}))

    @property
    def has_steps(self):
        return len(self.epoch) > 0

    @property
    def file_name(self):
        """File name for tables and figures, with folders if other runs have the same one."""
        return one_line("/".join(self.path.parts[-1 - self.named_folders :]))

    @property
    def label(self):
        """File name with the number of parts if several were joined."""
        return f"{self.file_name} ({len(self.parts)} parts)" if self.parts else self.file_name

    def integer(self, name):
        """Returns the root attribute `name` as an integer; 0 if the file lacks it."""
        return int(self.attributes.get(name, 0))

    def option(self, name, default=""):
        """Returns the resolved option `name` as a string; `default` if the file lacks it."""
        return self.config.get(name, default)

    def number(self, name, kind=int):
        """Returns the resolved option `name` as an integer or `float`; None if it is not a positive
        number."""
        try:
            value = kind(float(self.option(name)))
        except (ValueError, OverflowError):
            return None
        return value if value > 0 else None

    @property
    def link_gbit(self):
        """Rate of the link between the ranks in Gbit/s, as it was given with --link-gbit; None if
        not given."""
        return self.number("link-gbit", float)

    def link_rate(self, given=None):
        """Returns the rate of the link between the ranks in Gbit/s, `given` or that of the run;
        None if it is unknown, or if all ranks are on one host."""
        return None if self.host_count == 1 else given or self.link_gbit

    @property
    def stage_count(self):
        """Number of stages of the pipeline; 1 without a pipeline."""
        return self.number("pipeline-stages") or 1


def read_run(path, in_memory=IN_MEMORY_BYTES):
    """Reads the single file `path`. Datasets (step, rank, ...) of more than `in_memory` bytes are
    read when they are used. Raises `ReportError` (input) if it is not a valid run file."""
    path = Path(path)
    with checked_objects(path) as (attributes, items):
        texts = {
            group: read_attributes(items[group]) if group in items else {}
            for group in OPTION_GROUPS
        }
        return run_of(path, attributes, texts, read_tables(path, items, in_memory))


@contextmanager
def checked_objects(path):
    """Opens the run file `path` and gives the attributes of its root and {path in the file: group
    or dataset}. Raises `ReportError` (input) if it is not a valid run file, or cannot be read while
    it is open."""
    with errors_of_hdf5(path), open_run(path) as file:
        attributes = check_header(path, file)
        items = safe_objects(path, file)
        for problem in structure_problems(items, attributes):
            raise ReportError(
                INPUT, f"{path}: {problem}; 'lockstep-report validate' lists all problems"
            )
        yield attributes, items


def check_header(path, file):
    """Returns the attributes of the root. Raises `ReportError` for a wrong format or version."""
    attributes = read_attributes(file)
    found = attributes.get("format")
    if found == "lockstep-checkpoint":
        raise wrong_kind(path, "a run file", CHECKPOINT)
    if found != schema.FORMAT:
        what = f'its format is "{found}"' if found else 'it has no attribute "format"'
        raise ReportError(INPUT, f'{path}: not a run file ({what}, "{schema.FORMAT}" is needed)')
    version = attributes.get("format_version", "missing")
    if version != schema.VERSION:
        raise ReportError(
            INPUT,
            f"{path}: run file of version {version}; this lockstep-report reads only "
            f"version {schema.VERSION}",
        )
    return attributes


def read_tables(path, items, in_memory):
    """Returns {group: {name: values}} of the datasets of the schema, without rows that were being
    written. Larger datasets (step, rank, ...) than `in_memory` bytes are `Rows`. The group `epochs`
    also has the numbers of the epochs (`epoch`). Raises `ReportError` (input) if a required dataset
    is missing."""
    has_tables = any(f"/{name}" in items for name in TABLES)
    has_training = "/steps/phase_seconds" in items or not has_tables
    has_buckets = "/buckets/bytes" in items and len(items["/buckets/bytes"]) > 0
    is_required = {
        "ranks": True,
        "steps": has_training,
        "epochs": has_training,
        "buckets": has_buckets,
        **{name: f"/{name}" in items for name in (*TABLES, *OPTIONAL)},
    }
    sizes = complete_sizes(items)
    tables = {group: {} for group in is_required}
    for group, columns in tables.items():
        for spec in schema.datasets(f"/{group}"):
            if spec.path in items:
                columns[spec.name] = dataset_rows(
                    path, spec, items[spec.path], sizes[spec.dimensions[0]], in_memory
                )
            elif spec.required and is_required[group]:
                raise ReportError(
                    INPUT,
                    f"{path}: dataset {spec.path} is missing; 'lockstep-report validate' lists "
                    "everything that is missing",
                )
            elif spec.required and spec.group in items:
                columns[spec.name] = missing_values(spec, sizes)
    if has_training and (
        "/phase" not in items or tuple(read_dataset(items["/phase"])) != schema.PHASES
    ):
        raise ReportError(INPUT, f"{path}: /phase is not ({', '.join(schema.PHASES)})")
    numbers = items["/epoch"][: sizes["epoch"]] if "/epoch" in items else ()
    tables["epochs"]["epoch"] = np.asarray(numbers, dtype=int)
    return tables


def complete_sizes(items):
    """Returns {dimension: length}: that of the shortest dataset, because a file that is being
    written can have more rows of one dataset than of another. Steps after the last epoch of /epoch
    are of an epoch that was being written.
    """
    sizes = {}
    for spec in schema.DATASETS:
        if spec.path in items and (spec.path == "/epoch" or not spec.is_scale):
            for name, length in zip(spec.dimensions, items[spec.path].shape):
                sizes[name] = min(length, sizes.get(name, length))
    if "/steps/epoch" in items:
        listed = items["/epoch"][: sizes["epoch"]] if "/epoch" in items else ()
        is_listed = np.isin(items["/steps/epoch"][: sizes["step"]], listed)
        sizes["step"] = 1 + max(np.flatnonzero(is_listed), default=-1)
    return sizes


def dataset_rows(path, spec, dataset, count, in_memory):
    """Returns the first `count` rows of a dataset."""
    if spec.dimensions[:2] == ("step", "rank") and dataset.nbytes > in_memory:
        chunk = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
        shape = (count, *dataset.shape[1:])
        return stored_rows(partial(open_run, path), spec.path, shape, chunk)
    values = read_dataset(dataset)[:count]
    return values if spec.is_text else values.astype(spec.type)


def missing_values(spec, sizes):
    """Returns the values of a dataset of numbers that is not in the file; `sizes`: {dimension:
    length}."""
    value = np.nan if spec.type == "float64" else 0
    return np.full([sizes.get(name, 0) for name in spec.dimensions], value, dtype=spec.type)


def run_of(path, attributes, texts, tables):
    """Returns the run with these attributes of the root, `texts`: {group: attributes} of
    OPTION_GROUPS, and `tables`: {group: {name: values}}. Raises `ReportError` (input) if it has
    steps, and no size of an epoch.
    """
    tables = dict.fromkeys(("steps", "epochs", "buckets", *TABLES, *OPTIONAL), {}) | tables
    steps, epochs, buckets = (tables[name] for name in ("steps", "epochs", "buckets"))
    sizes = sizes_of(tables)
    if sizes["step"] and min(attributes.get(name, 0) for name in EPOCH_SIZE) <= 0:
        raise ReportError(
            INPUT, f"{path}: has steps, but {' or '.join(EPOCH_SIZE)} is 0 or missing"
        )

    def column(place):
        """Returns the dataset; if it is not recorded, zeros or NaN."""
        spec = schema.dataset(place)
        columns = tables[spec.group[1:]]
        return columns[spec.name] if spec.name in columns else missing_values(spec, sizes)

    return Run(
        path=path,
        attributes=attributes,
        environment=texts["/environment"],
        results=texts["/results"],
        ranks=tables["ranks"],
        config={name.replace("_", "-"): str(value) for name, value in texts["/config"].items()},
        step=int(attributes.get("first_step", 0)) + np.arange(sizes["step"]),
        part_of_step=np.zeros(sizes["step"], dtype=int),
        **{name: column(place) for name, place in STEP_COLUMNS.items()},
        step_end=steps.get("end_seconds"),
        epoch_numbers=epochs.get("epoch", np.zeros(0, dtype=int)),
        epochs={name: values for name, values in epochs.items() if name != "epoch"},
        bucket_bytes=column("/buckets/bytes"),
        bucket_calls=buckets.get("call_seconds"),
        traffic=traffic_datasets(steps),
        **{name: tables[name] for name in (*TABLES, *OPTIONAL)},
    )


def sizes_of(tables):
    """Returns {dimension: length}."""
    return {
        "step": len(tables["steps"].get("epoch", ())),
        "rank": len(tables["ranks"]["rank"]),
        "phase": len(schema.PHASES),
        "bucket": len(tables["buckets"].get("bytes", ())),
    }


def traffic_datasets(steps):
    """Returns {"sent", "received": bytes (step, rank)} as far as they are recorded."""
    names = ("sent", "received")
    return {name: steps[f"{name}_bytes"] for name in names if f"{name}_bytes" in steps}
