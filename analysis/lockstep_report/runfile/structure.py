# SPDX-License-Identifier: BSD-3-Clause
"""Checks the kinds, types and dimensions of the objects in a run file, so that its readers can rely on them."""

import h5py

from lockstep_report.runfile import schema

OPTION_GROUPS = ("/config", "/environment", "/results")  # one attribute per option or quantity
# A file that is being written can have more rows of one dataset than of another.
GROWING = ("step", "epoch", "sample", "point")


def structure_problems(items, attributes):
    """Returns one line per object that has another kind, type, number of dimensions or length than
    the schema states; objects that are missing or that the schema does not name are no problem.
    `items`: {path in the file: group or dataset}; `attributes`: those of the root."""
    found = [f"the attribute {spec.name} of the root is not of type {spec.type}"
             for spec in schema.attributes("/")
             if spec.name in attributes and not has_type(attributes[spec.name], spec.type)]
    for group in schema.GROUPS:
        if group.path not in items:
            continue
        if not isinstance(items[group.path], h5py.Group):
            found.append(f"{group.path} is not a group")
        elif group.path in OPTION_GROUPS:
            found += [f"the attribute {name} of {group.path} is not a single value"
                      for name, value in items[group.path].attrs.items() if not is_single(value)]
    datasets = [(spec, items[spec.path]) for spec in schema.DATASETS if spec.path in items]
    found = found or [problem for entry in datasets for problem in dataset_problems(*entry)]
    return found or list(length_problems(datasets))


def has_type(value, required):
    """Returns whether the value of an attribute, as `plain` returns it, has the type that the schema requires."""
    if required == "string":
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool)


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
        return [f"{spec.path} has {dataset.ndim} dimensions, ({', '.join(spec.dimensions)}) is needed"]
    return []


def length_problems(datasets):
    """Yields one line per dataset that has another length along a dimension than an earlier one."""
    lengths = {}  # dimension -> (length, path of the dataset)
    for spec, dataset in datasets:
        for name, length in zip(spec.dimensions, dataset.shape):
            known, other = lengths.setdefault(name, (length, spec.path))
            if known != length and name not in GROWING:
                yield f"{spec.path} has {length:,} along {name}, {other} has {known:,}"