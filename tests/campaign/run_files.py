# SPDX-License-Identifier: BSD-3-Clause
"""Samples of run files for the tests that damage them, and their reader."""

import pathlib
import subprocess
import sys
import traceback
from dataclasses import fields

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "analysis"))

import numpy as np  # noqa: E402
from lockstep_report.errors import ReportError  # noqa: E402
from lockstep_report.runfile.read import read_run  # noqa: E402
from lockstep_report.runfile.validate import problems  # noqa: E402

FILES = ("run.h5", "run.part2.h5", "failed.h5", "running.h5.partial", "sweep.h5")


def write_samples(program, folder):
    """Writes FILES to a new folder with record_sample; returns {name: content}."""
    folder.mkdir()
    subprocess.run([program, folder], check=True)
    return {name: (folder / name).read_bytes() for name in FILES}


def values_of(path):
    """Returns everything that lockstep-report reads from the file, except its path."""
    run = read_run(path)
    return {field.name: getattr(run, field.name) for field in fields(run) if field.name != "path"}


def is_equal(a, b):
    """Compares values of runs; NaN equals NaN."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(is_equal(a[name], b[name]) for name in a)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_equal, a, b))
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    return type(a) is type(b) and (a == b or a != a and b != b)


def read(path):
    """Reads and validates the file. Returns its values, None if it is reported as invalid, or the
    text of a crash."""
    values = None
    try:
        try:
            values = values_of(path)
        finally:
            problems(path)  # must not crash; what it reports does not matter here
    except ReportError:
        pass
    except Exception as error:  # noqa: BLE001
        place = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"crash: {type(error).__name__}: {error}"
            f" ({pathlib.Path(place.filename).name}:{place.lineno})"
        )
    return values
