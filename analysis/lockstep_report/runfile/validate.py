"""Checks a run file against the schema: missing or malformed parts, and impossible values."""

from pathlib import Path

import numpy as np

from lockstep_report.runfile import schema
from lockstep_report.runfile.contradictions import NO_BANDWIDTH, NO_TABLES, absences, contradictions
from lockstep_report.runfile.hdf5_access import errors_of_hdf5, open_run, read_attributes, read_dataset, safe_objects
from lockstep_report.runfile.read import TABLES, check_header
from lockstep_report.runfile.structure import structure_problems

TRAINING_GROUPS = ("/steps", "/epochs", "/buckets")


def problems(path):
    """Returns one line per problem of the file `path`; an empty list if the file is valid. Raises
    `ReportError` if it is not a run file, or has objects that would read other files."""
    path = Path(path)
    with errors_of_hdf5(path), open_run(path) as file:
        attributes = check_header(path, file)
        found = structure_problems(safe_objects(path, file), attributes)
        if found:  # the other checks rely on it
            return found
        found = attribute_problems(attributes) + group_problems(file)
        for spec in expected(file):
            found += dataset_problems(file, spec)
        found += number_problems(file)
        # Values are compared only if the datasets have the right shapes.
        return found or contradictions(file)


def notes(path):
    """Returns one line per optional part that the valid file `path` lacks."""
    path = Path(path)
    with errors_of_hdf5(path), open_run(path) as file:
        return absences(file)


def attribute_problems(attributes):
    found = []
    for spec in schema.attributes("/"):
        value = attributes.get(spec.name)
        if value is None and spec.required:
            found.append(f"attribute {spec.name} of the root is missing")
        elif value is not None and spec.values and value not in spec.values:
            found.append(f'{spec.name} is "{value}", one of {", ".join(spec.values)} is needed')
    return found


def group_problems(file):
    found = []
    has_tables = any(name in file for name in TABLES)
    for spec in schema.GROUPS:
        if spec.path in file or not spec.required:
            continue
        if spec.path not in TRAINING_GROUPS or not has_tables:
            found.append(f"group {spec.path} is missing")
    if "config" in file and not read_attributes(file["config"]):
        found.append("group /config has no attributes: the options are not recorded")
    return found


def expected(file):
    """Returns the datasets of the groups in the file. /buckets is empty if no gradients were reduced."""
    return [spec for group in schema.GROUPS if group.path in file
            and (group.path != "/buckets" or len(file[group.path]))
            for spec in schema.datasets(group.path)]


def dataset_problems(file, spec):
    path = spec.path
    if path not in file:
        return [f"dataset {path} is missing: no command can use the file"] if spec.required else []
    dataset = file[path]
    found = [f"{path} has no attribute {name}" for name in ("units", "long_name") if name not in dataset.attrs]
    if spec.values:
        unknown = sorted(set(read_dataset(file[path])) - set(spec.values))
        found += [f'{path} has the value "{value}", one of {", ".join(spec.values)} is needed' for value in unknown]
    for axis, scale in enumerate(spec.dimensions):
        found += scale_problems(file, dataset, path, axis, scale)
    return found


def scale_problems(file, dataset, path, axis, scale):
    if scale not in file:
        return [f"scale /{scale} is missing in the root (dimension {axis} of {path})"]
    if file[scale].shape != (dataset.shape[axis],):
        return [f"{path} has {dataset.shape[axis]} along {scale}, /{scale} has {file[scale].shape[0]}"]
    # The list of the scale, not that of the dataset, which HDF5 stores in a heap without checksums.
    attached = file[scale].attrs.get("REFERENCE_LIST", ())
    if getattr(getattr(attached, "dtype", None), "names", None) and any(
            dimension == axis and refers_to(file, place, dataset) for place, dimension in attached):
        return []
    return [f"{path}: the scale /{scale} is not attached to dimension {axis}"]


def refers_to(file, reference, dataset):
    try:
        return file[reference] == dataset
    except (ValueError, KeyError):  # the dataset to which it refers was deleted
        return False


def number_problems(file):
    found = []
    for path, consequence in (("/steps/phase_seconds", NO_TABLES),
                              ("/buckets/start_seconds", NO_BANDWIDTH),
                              ("/buckets/end_seconds", NO_BANDWIDTH)):
        if path in file and file[path].size:
            values = file[path][()]
            if not np.all(np.isfinite(values)):
                found.append(f"{path} has values that are not finite: {consequence}")
            elif values.min() < 0:
                found.append(f"{path} has negative times: {consequence}")
    if "phase" in file and tuple(read_dataset(file["phase"])) != schema.PHASES:
        found.append(f"/phase is not ({', '.join(schema.PHASES)}): {NO_TABLES}")
    start, end = (file.get(f"buckets/{name}_seconds") for name in ("start", "end"))
    if start is not None and end is not None and start.shape == end.shape and start.size:
        if np.any(end[()] < start[()]):
            found.append(f"/buckets/end_seconds is less than /buckets/start_seconds in some rows: {NO_BANDWIDTH}")
    if "steps/images" in file and file["steps/images"].size:
        if np.min(file["steps/images"][()]) <= 0:
            found.append("/steps/images has steps without images: images/s are wrong")
    return found
