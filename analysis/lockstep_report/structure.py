"""Checks that the datasets of a run file have the types and dimensions of the schema, so that the
other modules can rely on them."""

import h5py

from lockstep_report import schema
from lockstep_report.errors import INPUT, ReportError

# A file that is being written can have more rows of one dataset than of another.
GROWING = ("step", "epoch", "sample", "point")


def check_structure(path, items, attributes):
    """Raises `ReportError` (input) for the first dataset of the schema that has another type or
    number of dimensions, or another length along a dimension than an earlier one.
    `items`: {path in the file: group or dataset}; `attributes`: those of the root."""
    for spec in schema.attributes("/"):
        value = attributes.get(spec.name)
        if spec.type == "int64" and value is not None and not isinstance(value, int):
            raise error_of(path, f"attribute {spec.name} is not an integer")
        if isinstance(value, list):
            raise error_of(path, f"attribute {spec.name} has several values")
    lengths = {}  # dimension -> (length, path of the dataset)
    for spec in schema.DATASETS:
        place = spec.path_in(items)
        if place is not None:
            check_dataset(path, items[place], place, spec, lengths)


def check_dataset(path, dataset, place, spec, lengths):
    if not isinstance(dataset, h5py.Dataset):
        raise error_of(path, f"{place} is not a dataset")
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    if is_text != spec.is_text or not is_text and dataset.dtype.kind not in "iuf":
        raise error_of(path, f"{place} has the type {dataset.dtype}, {spec.type} is needed")
    if dataset.ndim != len(spec.dimensions):
        raise error_of(path, f"{place} has {dataset.ndim} dimensions, "
                             f"({', '.join(spec.dimensions)}) is needed")
    for name, length in zip(spec.dimensions, dataset.shape):
        known, other = lengths.setdefault(name, (length, place))
        if known != length and name not in GROWING:
            raise error_of(path, f"{place} has {length:,} along {name}, {other} has {known:,}")


def error_of(path, text):
    return ReportError(INPUT, f"{path}: {text}; 'lockstep-report validate' lists all problems")
