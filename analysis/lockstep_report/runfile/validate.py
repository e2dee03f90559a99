# SPDX-License-Identifier: BSD-3-Clause
"""Checks a run file against the schema: missing or malformed parts, and impossible values."""

import re
from pathlib import Path

import numpy as np

from lockstep_report.runfile import schema
from lockstep_report.runfile.contradictions import (
    NO_BANDWIDTH, NO_TABLES, WRONG_ACCURACY, WRONG_READINGS, absences, contradictions, is_complete)
from lockstep_report.runfile.hdf5_access import errors_of_hdf5, open_run, read_attributes, read_dataset, safe_objects
from lockstep_report.runfile.read import TABLES, check_header
from lockstep_report.runfile.structure import structure_problems

TRAINING_GROUPS = ("/steps", "/epochs", "/buckets")
LOSSES = ("/steps/loss", "/epochs/train_loss")  # numbers if a run ended normally
# (datasets, smallest number, largest number, may be NaN, consequence of another number). The first line for a
# dataset applies; infinite numbers are always wrong.
RANGES = (
    ("/steps/phase_seconds", 0, np.inf, False, NO_TABLES),
    ("/buckets/(start|end)_seconds", 0, np.inf, False, NO_BANDWIDTH),
    ("/steps/images", 1, np.inf, True, "images/s are wrong"),
    ("/epochs/(train|test)_accuracy", 0, 1, True, WRONG_ACCURACY),
    ("/epochs/utilisation", 0, 1, True, WRONG_READINGS),
    ("/epochs/clock_offset_seconds", -np.inf, np.inf, True, WRONG_READINGS),
    ("/steps/(start|end)_seconds", -np.inf, np.inf, True, NO_TABLES),
    ("|".join(LOSSES), 0, np.inf, True, WRONG_ACCURACY),
    ("/steps/.*", 0, np.inf, True, NO_TABLES),
    ("/epochs/.*", 0, np.inf, True, WRONG_READINGS),
    ("/allreduce/.*", 0, np.inf, True, "the table of sweeps and the fits are wrong"),
    ("/ladder/.*", 0, np.inf, True, "the table of the batch ladder is wrong"),
    ("/telemetry/.*", 0, np.inf, True, "the table and the figure of the telemetry are wrong"),
    ("/profile/.*", 0, np.inf, True, "the tables of the profile are wrong"))


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
    for spec in schema.attributes("/"):
        value = attributes.get(spec.name)
        if value is None and spec.required:
            yield f"attribute {spec.name} of the root is missing"
        elif value is not None and spec.values and value not in spec.values:
            yield f'{spec.name} is "{value}", one of {", ".join(spec.values)} is needed'


def group_problems(file):
    has_tables = any(name in file for name in TABLES)
    for spec in schema.GROUPS:
        if spec.path in file or not spec.required:
            continue
        if spec.path not in TRAINING_GROUPS or not has_tables:
            yield f"group {spec.path} is missing"
    if "config" in file and not read_attributes(file["config"]):
        yield "group /config has no attributes: the options are not recorded"


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
    """Yields one line for each dataset with a number outside its range, and one if the phases are others."""
    if "phase" in file and tuple(read_dataset(file["phase"])) != schema.PHASES:
        yield f"/phase is not ({', '.join(schema.PHASES)}): {NO_TABLES}"
    for spec in schema.DATASETS:
        path = spec.path
        rule = next((rule for rule in RANGES if re.fullmatch(rule[0], path)), None)
        if rule is None or path not in file or file[path].dtype.kind not in "if":
            continue
        _, low, high, may_be_nan, consequence = rule
        numbers = file[path][()]
        is_wrong = np.isinf(numbers) | (numbers < low) | (numbers > high)
        if not may_be_nan or path in LOSSES and is_complete(file):
            is_wrong |= np.isnan(numbers)
        if is_wrong.any():
            limits = f"from {low} to {high}" if high < np.inf else f"a number from {low:g} on"
            yield f"{path} has {numbers[is_wrong].flat[0]:.4g}, which is not {limits}: {consequence}"