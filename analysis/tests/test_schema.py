# SPDX-License-Identifier: BSD-3-Clause
"""Tests the schema of the run file."""

import h5py
import numpy as np
import pytest
from lockstep_report.runfile import schema
from lockstep_report.runfile.validate import problems
from synthetic import dataset, phases, write_ladder, write_run

TYPES = {"int64", "uint64", "float64", "string", "string64"}


def test_every_path_is_listed_once():
    paths = [spec.path for spec in schema.DATASETS]
    assert len(paths) == len(set(paths))
    names = [(spec.path, spec.name) for spec in schema.ATTRIBUTES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("spec", schema.DATASETS, ids=lambda spec: spec.path)
def test_datasets_are_complete(spec):
    assert spec.type in TYPES
    assert spec.units and spec.description
    assert spec.group in {"", *(group.path for group in schema.GROUPS)}
    for name in spec.dimensions:
        assert schema.dataset(f"/{name}").dimensions == (name,), "a dimension scale"
    assert not spec.values or spec.is_text


def test_a_version_requires_the_datasets_that_it_added(tmp_path):
    size = {"part": 1, "first_step": 0, "steps_per_epoch": 10, "images_per_epoch": 100}
    old = write_run(tmp_path / "1.h5", phases(10, [0.1] * 6), 10)
    new = write_run(tmp_path / "2.h5", phases(10, [0.1] * 6), 10, attributes=size)
    assert problems(old) == problems(new) == []
    with h5py.File(new, "r+") as file:
        del file["ranks/host"]
        del file.attrs["part"]
    assert problems(new) == [
        "attribute part of the root is missing",
        "dataset /ranks/host is missing: no command can use the file",
    ]


def test_optional_datasets_may_be_missing_but_not_malformed(tmp_path):
    path = write_run(tmp_path / "1.h5", phases(10, [0.1] * 6), 10)
    with h5py.File(path, "r+") as file:
        assert "epochs/energy_joules" not in file
        dataset(file, "/epochs/energy_joules", np.array([["5"]]))
    (problem,) = problems(path)
    assert "/epochs/energy_joules has the type object, float64 is needed" in problem


def test_values_that_are_not_in_the_schema_are_reported(tmp_path):
    path = write_ladder(tmp_path / "l.h5")
    with h5py.File(path, "r+") as file:
        file["ladder/status"][0] = "fine"
    (problem,) = problems(path)
    assert problem.startswith('/ladder/status has the value "fine"')
