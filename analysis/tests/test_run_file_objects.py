# SPDX-License-Identifier: BSD-3-Clause
"""Tests of run files while they are written, and of objects that a run file must not contain."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import failure
from lockstep_report.errors import ReportError
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.validate import problems


def test_strings_of_fixed_length_and_bytes_are_read(runs):
    with h5py.File(runs[0], "r+") as file:
        del file["ranks/hostname"]
        file["ranks/hostname"] = np.array([b"host"], dtype="S8")
        file.attrs["status"] = np.bytes_(b"complete")
    run = read_run(runs[0])
    assert run.ranks["hostname"][0] == "host" and run.status == "complete"


def test_a_file_is_read_while_it_is_written(runs):
    with h5py.File(runs[0], "r+", libver="latest") as file:
        file.swmr_mode = True
        text = subprocess.run(
            [sys.executable, "-m", "lockstep_report", "summary", runs[0]],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
    assert text.returncode == 0, text.stderr
    assert "An epoch takes" in text.stdout


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_file_without_writer_is_not_opened_in_swmr_mode(runs, monkeypatch, tmp_path, bit):
    """HDF5 would retry for minutes to read damaged metadata. The damage may be in the byte 11 of
    the file, which states whether it has a writer."""
    damaged = tmp_path / "damaged.h5"
    with h5py.File(runs[0]) as old, h5py.File(damaged, "w", libver="latest") as new:
        for name in old:
            old.copy(name, new)
    content = bytearray(damaged.read_bytes()[:-64])
    content[11] ^= 1 << bit
    damaged.write_bytes(content)
    options, original = [], h5py.File
    monkeypatch.setattr(h5py, "File", lambda *a, **o: options.append(o) or original(*a, **o))
    with pytest.raises(ReportError, match="damaged or cut-off"):
        read_run(damaged)
    assert options == [{"locking": False}]


def without_values(file):
    del file["steps/loss"]
    file["steps/loss"] = h5py.Empty("f8")


def group_for_a_dataset(file):
    del file["steps/loss"]
    file.create_group("steps/loss")


def dataset_for_a_group(file):
    del file["config"]
    file["config"] = 1


def complex_numbers(file):
    values = file["steps/loss"][()]
    del file["steps/loss"]
    file["steps/loss"] = values.astype(complex)


def scalar(file):
    del file["epoch"]
    file["epoch"] = 1


def text_for_a_number(file):
    file.attrs["first_step"] = "many"


def list_of_options(file):
    file["config"].attrs["all-reduce"] = [1, 2]


@pytest.mark.parametrize(
    "change, words",
    [
        (without_values, "/steps/loss has no values"),
        (group_for_a_dataset, "/steps/loss is not a dataset"),
        (dataset_for_a_group, "/config is not a group"),
        (complex_numbers, "/steps/loss has the type complex128"),
        (scalar, "/epoch has 0 dimensions"),
        (text_for_a_number, "attribute first_step of the root is not of type int64"),
        (list_of_options, "attribute all-reduce of /config is not a single value"),
    ],
)
def test_objects_of_another_kind_are_refused(runs, change, words):
    with h5py.File(runs[0], "r+") as file:
        change(file)
    with pytest.raises(ReportError, match=words):
        read_run(runs[0])
    assert len(problems(runs[0])) == 1 and words in problems(runs[0])[0]


def soft_link(file):
    file["environment/elsewhere"] = h5py.SoftLink("/steps")


def external_link(file):
    file["steps/elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")


def external_storage(file):
    file.create_dataset("steps/elsewhere", (16,), "u1", external=[("/etc/passwd", 0, 16)])


def virtual_storage(file):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
    file.create_virtual_dataset("steps/elsewhere", layout)


def large_shape(file):
    file.create_dataset("steps/elsewhere", (1 << 40,), "f8", chunks=(1024,))


def group_in_itself(file):
    file["steps/elsewhere"] = file["steps"]


@pytest.mark.parametrize(
    "add, words",
    [
        (soft_link, "is a link"),
        (external_link, "is a link"),
        (external_storage, "stored in other files"),
        (virtual_storage, "stored in other files"),
        (large_shape, "more than a file of this size"),
        (group_in_itself, "several names"),
    ],
)
def test_hostile_objects_are_refused_with_their_path(runs, tmp_path, capfd, add, words):
    with h5py.File(runs[0], "a") as file:
        add(file)
    status, line = failure(capfd, "tables", runs[0], "--out", tmp_path / "out")
    assert status == 3
    assert runs[0] in line and words in line
