# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the notes of the report about runs that it lacks, and of the report of a study."""

import os

import pytest
from in_process import write_program
from lockstep_study.points import Point
from lockstep_study.programs import Programs
from lockstep_study.report import notes_of, write_report
from lockstep_study.runs import other_points
from study_command import RUN, calls, study


@pytest.fixture
def python(tmp_path):
    """A stub of Python with all modules, which appends its arguments to `calls`."""
    path = tmp_path / "python"
    write_program(
        path,
        f'#!/bin/sh\n[ "$2" != --check ] || exit 0\necho "$@" >>"{tmp_path}/calls"\n'
        '[ "$3" != "$FAILING" ]\n',
    )
    return {"LOCKSTEP_PYTHON": str(path)}


def test_notes_state_why_runs_are_absent(tmp_path):
    for name, text in {
        "big-2.memory": "",
        "big-1.memory": "",
        "big-1.started": "",
        "a-10.failed": "x\nlockstep: no data\n",
        "a-9.failed": "lockstep: no data\n",
        "c-2.failed": "lockstep: no data\n",
        "a-9.started": "",
        "b-1.failed": "killed \x1b[2J\n",
        "c-1.started": "",
        "d-1.done": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "removed-1.failed").touch()  # of a point that the table no longer has
    points = [Point(name, 1, ("train",)) for name in ("a", "b", "big", "c", "d")]
    assert notes_of(tmp_path, points) == [
        "points that do not fit in memory: big",
        "runs that failed: a (2 runs), c-2 (lockstep: no data)",
        "runs that failed: b-1 (killed ?[2J)",
        "runs that did not finish (their epochs count only if no repeat is complete): c-1",
    ]


@pytest.mark.parametrize("failing, succeeded", [("", True), ("report", False), ("html", False)])
def test_report_has_tables_and_a_page(tmp_path, python, failing, succeeded):
    folder = tmp_path / "out"
    folder.mkdir()
    programs = Programs(os.environ | python | {"FAILING": failing})
    assert write_report(folder, programs, []) and not (tmp_path / "calls").exists()
    (folder / "a-1.0.h5").touch()
    assert write_report(folder, programs, []) == succeeded
    assert [" ".join(call[1:]) for call in calls(tmp_path)] == [
        f"lockstep_report report {folder} --out {folder}/report",
        f"lockstep_report html {folder} -o {folder}/report.html",
    ]


def test_report_follows_the_runs(table, tmp_path, python, program):
    stub = program()
    ended = study(*RUN[:-1], "--dir", tmp_path / "out", table, **stub, **python)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("\n\n== report\n")
    assert [call[1] for call in calls(tmp_path)[2:]] == ["lockstep_report"] * 2


def test_points_of_other_tables_are_found_by_their_run_files(tmp_path):
    for name in ("a-1.0.h5", "b-1-2.77_3.0.h5", "b-1-1.0.h5", "c-1.part1.0.h5", "d.h5", "e-1.h5"):
        (tmp_path / name).touch()
    point = type("Named", (), {"name": "a"})
    assert other_points(tmp_path, [point]) == ["b-1", "c"]
