"""Reads a run file into a `Run` of plain numpy arrays."""

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from lockstep_report import format as fmt
from lockstep_report.errors import INPUT, ReportError


@dataclass(frozen=True)
class Run:
    """One run file. Times in seconds; shapes in the order of the file's dimensions."""

    path: Path
    attributes: dict  # of the root
    config: dict  # every option as resolved; names with '-' or '_' are found by `option`
    environment: dict
    results: dict
    ranks: dict  # name -> (rank)
    phases: tuple
    epoch: np.ndarray  # (step), from 1
    images: np.ndarray  # (step), over all ranks
    loss: np.ndarray  # (step)
    phase_seconds: np.ndarray  # (step, rank, phase)
    epochs: dict  # name -> (epoch)
    bucket_bytes: np.ndarray  # (bucket)
    bucket_start: np.ndarray  # (step, rank, bucket), since the step's start
    bucket_end: np.ndarray  # (step, rank, bucket)
    ladder: dict = field(default_factory=dict)  # name -> (point)
    allreduce: dict = field(default_factory=dict)  # name -> (message[, repeat])

    @property
    def status(self):
        return str(self.attributes.get("status", "unknown"))

    @property
    def rank_count(self):
        return len(self.ranks.get("rank", ())) or self.phase_seconds.shape[1]

    @property
    def has_steps(self):
        return len(self.epoch) > 0

    def option(self, name, default=""):
        """The resolved option `name`, as text; `default` where the file does not have it."""
        for spelling in (name, name.replace("-", "_")):
            if spelling in self.config:
                return str(self.config[spelling])
        return default

    def number(self, name):
        """The resolved option `name` as a whole number above 0, otherwise None."""
        try:
            value = int(float(self.option(name)))
        except ValueError:
            return None
        return value if value > 0 else None


def read_run(path):
    """Reads `path`. Raises `ReportError` (input) where it is no complete run file."""
    path = Path(path)
    with open_run(path) as file:
        attributes = check_header(path, file)
        try:
            return read_groups(path, file, attributes)
        except (OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise ReportError(INPUT, f"{path}: cannot be read ({reason})") from error


def open_run(path):
    """The open file; one that is still being written is opened for reading beside its writer."""
    if not path.is_file():
        raise ReportError(INPUT, f"{path}: no such file; give the path of a run file")
    try:
        readable = h5py.is_hdf5(str(path))
        path.open("rb").close()
    except OSError as error:
        raise ReportError(INPUT, f"{path}: cannot be read ({error.strerror})") from error
    failure = None
    for options in ({}, {"swmr": True, "libver": "latest"}):
        try:
            return h5py.File(path, "r", **options)
        except OSError as error:
            failure = failure or error
    if not readable:
        raise ReportError(INPUT, f"{path}: not an HDF5 file; give a run file of lockstep")
    reason = str(failure).splitlines()[0]
    raise ReportError(INPUT, f"{path}: damaged or cut-off HDF5 file ({reason})")


def check_header(path, file):
    attributes = read_attributes(file)
    found = attributes.get("format")
    if found != fmt.FORMAT:
        what = f'its format is "{found}"' if found else 'it has no attribute "format"'
        raise ReportError(INPUT, f'{path}: not a run file ({what}, "{fmt.FORMAT}" is needed)')
    version = str(attributes.get("format_version", "missing"))
    if version.split(".")[0] != str(fmt.FORMAT_VERSION):
        raise ReportError(
            INPUT,
            f"{path}: run file of version {version}; this lockstep-report reads version "
            f"{fmt.FORMAT_VERSION}",
        )
    return attributes


def read_groups(path, file, attributes):
    if "ladder" in file:
        read_columns(path, file, fmt.LADDER)  # says which one is missing
    allreduce = read_columns(path, file, fmt.ALLREDUCE) if "allreduce" in file else {}
    trained = "steps/phase_seconds" in file or not ("ladder" in file or allreduce)
    if trained:
        columns = read_columns(path, file, fmt.TRAINING)
    else:
        columns = {}
    rank_count = len(columns.get("ranks/rank", ()))
    phases = tuple(read_dataset(file["phase"])) if "phase" in file else fmt.PHASES
    steps = columns.get("steps/epoch", np.zeros(0, int))
    if trained and columns["steps/phase_seconds"].shape != (len(steps), rank_count, len(phases)):
        raise ReportError(
            INPUT,
            f"{path}: /steps/phase_seconds has shape {columns['steps/phase_seconds'].shape}, "
            f"(step, rank, phase) = {(len(steps), rank_count, len(phases))} is needed",
        )
    buckets = read_buckets(path, file, len(steps), rank_count)
    return Run(
        path=path,
        attributes=attributes,
        config=read_attributes(file["config"]) if "config" in file else {},
        environment=read_attributes(file["environment"]) if "environment" in file else {},
        results=read_attributes(file["results"]) if "results" in file else {},
        ranks=by_last_name(file, "ranks"),
        phases=phases,
        epoch=np.asarray(steps, dtype=int),
        images=np.asarray(columns.get("steps/images", ()), dtype=int),
        loss=np.asarray(columns.get("steps/loss", ()), dtype=float),
        phase_seconds=np.asarray(
            columns.get("steps/phase_seconds", np.zeros((0, rank_count, len(phases)))), dtype=float
        ),
        epochs=by_last_name(file, "epochs"),
        bucket_bytes=buckets[0],
        bucket_start=buckets[1],
        bucket_end=buckets[2],
        ladder=by_last_name(file, "ladder"),
        allreduce={name.split("/")[1]: values for name, values in allreduce.items()},
    )


def read_buckets(path, file, steps, ranks):
    """(bytes, start, end); without buckets (nothing was reduced) all have length 0."""
    none = np.zeros((steps, ranks, 0))
    if "buckets/bytes" not in file or file["buckets/bytes"].shape[0] == 0:
        return np.zeros(0, dtype=int), none, none
    columns = read_columns(path, file, fmt.BUCKETS)
    return tuple(columns[spec.path] for spec in fmt.BUCKETS)


def read_columns(path, file, specs):
    columns = {}
    for spec in specs:
        if spec.path not in file:
            if not spec.required:
                continue
            raise ReportError(
                INPUT,
                f"{path}: dataset /{spec.path} is missing; "
                f"'lockstep-report validate' lists all that is",
            )
        columns[spec.path] = read_dataset(file[spec.path])
    return columns


def by_last_name(file, group):
    """All datasets of a group, by their name in it."""
    if group not in file:
        return {}
    return {n: read_dataset(d) for n, d in file[group].items() if isinstance(d, h5py.Dataset)}


def read_dataset(dataset):
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return dataset.asstr()[()]
    return dataset[()]


def read_attributes(node):
    return {name: plain(value) for name, value in node.attrs.items()}


def plain(value):
    """An attribute as a Python value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return plain(value.flat[0]) if value.size == 1 else [plain(v) for v in value.flat]
    if isinstance(value, np.generic):
        return plain(value.item())
    return value
