"""Checks the kinds, types and dimensions of the objects in a run file, so that its readers can rely on them."""

import h5py

from lockstep_report import schema

OPTION_GROUPS = ("/config", "/environment", "/results")  # one attribute per option or quantity


def structure_problems(file, attributes):
    """Returns one line per object that has another kind, type or number of dimensions than the schema states; objects that are
    missing or that the schema does not name are no problem. `attributes`: those of the root."""
    found = [f"the attribute {spec.name} of the root is not of type {spec.type}"
             for spec in schema.attributes("/") if spec.name in attributes and not has_type(attributes[spec.name], spec.type)]
    for group in schema.GROUPS:
        if group.path not in file:
            continue
        if not isinstance(file[group.path], h5py.Group):
            found.append(f"{group.path} is not a group")
        elif group.path in OPTION_GROUPS:
            found += [f"the attribute {name} of {group.path} is not a single value"
                      for name, value in file[group.path].attrs.items() if not is_single(value)]
    return found or [problem for spec in schema.DATASETS for problem in dataset_structure(file, spec)]


def has_type(value, required):
    """Returns whether the value of an attribute, as `read.plain` returns it, has the type that the schema requires."""
    if required == "string":
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool)


def is_single(value):
    return not isinstance(value, (h5py.Empty, h5py.Reference, h5py.RegionReference)) and getattr(value, "size", 1) == 1


def dataset_structure(file, spec):
    path = spec.path_in(file)
    if path is None:
        return []
    dataset = file[path]
    if not isinstance(dataset, h5py.Dataset):
        return [f"{path} is not a dataset"]
    if dataset.shape is None:
        return [f"{path} has no values"]
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    if is_text != spec.is_text or not is_text and dataset.dtype.kind not in "iuf":
        return [f"{path} has the type {dataset.dtype}, {spec.type} is needed"]
    if dataset.ndim != len(spec.dimensions):
        return [f"{path} has {dataset.ndim} dimensions, ({', '.join(spec.dimensions)}) is needed"]
    return []
