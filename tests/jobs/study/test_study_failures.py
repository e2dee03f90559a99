# SPDX-License-Identifier: BSD-3-Clause
"""Tests of failed runs, and of reports of studies with failed runs."""

import os

import pytest
from in_process import write_program
from lockstep_study.points import Point
from lockstep_study.programs import Programs
from lockstep_study.report import write_report
from study_command import RUN, calls, study


def test_failed_runs_are_listed_and_the_others_run(table, tmp_path, program):
    result = study(*RUN, "--dir", tmp_path / "out", table, **program(5))
    assert result.returncode == 1
    assert (
        result.stderr.splitlines()[-1] == "study: failed runs: one-1 (status 5), two-1 (status 5)"
    )
    assert len(calls(tmp_path)) == 2 and not list((tmp_path / "out").glob("*.done"))
    assert result.stdout.splitlines()[-2:] == [
        f"{name} (status 5): no message; its output is in {tmp_path}/out/logs"
        for name in ("one-1", "two-1")
    ]


def test_run_that_does_not_fit_in_memory_is_no_failure(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    result = study(*command, **program(4))
    assert result.returncode == 0, result.stderr
    assert "one-1 does not fit in memory" in result.stdout and len(calls(tmp_path)) == 2
    assert sorted(path.name for path in (tmp_path / "out").glob("*.memory")) == [
        "one-1.memory",
        "two-1.memory",
    ]
    assert study(*command, **program(3)).returncode == 1  # a later failure is not hidden
    assert not list((tmp_path / "out").glob("*.memory"))
    assert study(*command, **program()).returncode == 0 and len(calls(tmp_path)) == 6  # now it fits
    assert (
        not list((tmp_path / "out").glob("*.memory")) and (tmp_path / "out" / "one-1.done").exists()
    )


def test_report_names_points_that_do_not_fit_in_memory(tmp_path):
    for name in ("one-1.0.h5", "big-2.memory", "big-1.memory", "big-10-1.memory"):
        (tmp_path / name).touch()
    python = tmp_path / "python"
    write_program(python, f'#!/bin/sh\n[ "$2" = --check ] || echo "$@" >>"{tmp_path}/calls"\n')
    programs = Programs(os.environ | {"LOCKSTEP_PYTHON": str(python)})
    points = [Point(name, 1, ("train",)) for name in ("one", "big", "big-10")]
    assert write_report(tmp_path, programs, points)
    lines = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 and all(
        line.endswith(" --note points that do not fit in memory: big, big-10") for line in lines
    )


@pytest.mark.parametrize("status", [0, 5])
def test_report_that_fails_is_listed_after_the_failed_runs(table, tmp_path, program, status):
    """The stub writes empty files, which are no run files. If the runs fail, a stub of Python fails
    instead of the report."""
    python = tmp_path / "python"
    write_program(
        python, '#!/bin/sh\n[ "$2" = --check ] || { echo not an HDF5 file >&2; exit 1; }\n'
    )
    stubs = program(status) | ({"LOCKSTEP_PYTHON": str(python)} if status else {})
    result = study(*RUN[:-1], "--dir", tmp_path / "out", table, **stubs)
    assert result.returncode == 1
    runs = "one-1 (status 5), two-1 (status 5), " if status else ""
    assert result.stderr.splitlines()[-1] == f"study: failed runs: {runs}the report"
    assert "not an HDF5 file" in result.stderr


def test_study_without_run_files_has_no_report(table, tmp_path):
    stub = tmp_path / "lockstep"
    write_program(stub, "#!/bin/bash\nexit 6\n")
    result = study(*RUN[:-1], "--dir", tmp_path / "out", table, LOCKSTEP_BIN=str(stub))
    assert result.stderr.splitlines() == ["study: failed runs: one-1 (status 6), two-1 (status 6)"]
    assert "report" not in result.stdout and not (tmp_path / "out" / "report").exists()
