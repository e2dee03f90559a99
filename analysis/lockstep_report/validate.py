"""Checks a run file: missing or malformed parts of the format, and impossible values."""

from pathlib import Path

import h5py
import numpy as np

from lockstep_report import format as fmt
from lockstep_report.read import check_header, open_run, read_attributes, read_dataset


def problems(path):
    """Returns one line per problem of the file `path`; an empty list if the file is valid. Raises
    `ReportError` if it is not a run file."""
    path = Path(path)
    with open_run(path) as file:
        attributes = check_header(path, file)
        required = fmt.ROOT_ATTRIBUTES
        if str(attributes["format_version"]) != "1":
            required += fmt.VERSION_2_ATTRIBUTES
        found = [f"attribute {name} of the root is missing"
                 for name in required if name not in attributes]
        status = attributes.get("status")
        if status is not None and status not in fmt.STATUSES:
            found.append(f'status is "{status}", one of {", ".join(fmt.STATUSES)} is needed')
        for name in fmt.GROUPS:
            if name not in file and not (name in ("steps", "epochs", "buckets")
                                         and ("ladder" in file or "allreduce" in file)):
                found.append(f"group /{name} is missing")
        if "config" in file and not read_attributes(file["config"]):
            found.append("group /config has no attributes: the options are not recorded")
        for spec in expected(file):
            found += dataset_problems(file, spec)
        return found + number_problems(file)


def expected(file):
    specs = [s for s in fmt.TRAINING if s.path.split("/")[0] in file]
    if "buckets" in file:
        specs += fmt.BUCKETS if len(file["buckets"]) else ()  # empty if no gradients were reduced
    specs += fmt.LADDER if "ladder" in file else ()
    specs += fmt.ALLREDUCE if "allreduce" in file else ()
    return specs


def dataset_problems(file, spec):
    if spec.path not in file and not spec.required:
        return []
    if spec.path not in file or not isinstance(file[spec.path], h5py.Dataset):
        return [f"dataset /{spec.path} is missing"]
    dataset = file[spec.path]
    found = [f"/{spec.path} has no attribute {name}"
             for name in ("units", "long_name") if name not in dataset.attrs]
    if dataset.ndim != len(spec.dimensions):
        return [*found, f"/{spec.path} has {dataset.ndim} dimensions, "
                        f"({', '.join(spec.dimensions)}) is needed"]
    for axis, scale in enumerate(spec.dimensions):
        found += scale_problems(file, dataset, spec.path, axis, scale)
    return found


def scale_problems(file, dataset, path, axis, scale):
    if scale not in file:
        return [f"scale /{scale} is missing in the root (dimension {axis} of /{path})"]
    if file[scale].shape != (dataset.shape[axis],):
        return [f"/{path} has {dataset.shape[axis]} along {scale}, /{scale} has "
                f"{file[scale].shape[0]}"]
    try:
        attached = [item.name for item in dataset.dims[axis].values()]
    except RuntimeError:
        attached = []
    return [] if f"/{scale}" in attached else [
        f"/{path}: the scale /{scale} is not attached to dimension {axis}"]


def number_problems(file):
    found = []
    for path in ("steps/phase_seconds", "buckets/start_seconds", "buckets/end_seconds"):
        if path in file and file[path].size:
            values = file[path][()]
            if not np.all(np.isfinite(values)):
                found.append(f"/{path} holds values that are not finite")
            elif values.min() < 0:
                found.append(f"/{path} holds negative times")
    if "phase" in file and tuple(read_dataset(file["phase"])) != fmt.PHASES:
        found.append(f"/phase is not ({', '.join(fmt.PHASES)})")
    start, end = (file.get(f"buckets/{name}_seconds") for name in ("start", "end"))
    if start is not None and end is not None and start.shape == end.shape and start.size:
        if np.any(end[()] < start[()]):
            found.append("/buckets/end_seconds lies before /buckets/start_seconds in places")
    if "steps/images" in file and file["steps/images"].size:
        if np.min(file["steps/images"][()]) <= 0:
            found.append("/steps/images holds steps without images")
    return found
