# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the check of all points before the first one starts."""

import pytest
from in_process import write_program
from lockstep_study.checks import reason_of
from lockstep_study.report import notes_of
from lockstep_study.table import read_table
from study_command import RUN, calls, study

EXIT = 'case "$*" in *" 1K "*) echo "lockstep: rank 0 on vm: no data" >&2; exit {} ;; esac; exit 0'


def test_point_that_lockstep_rejects_is_left_out_and_listed(table, tmp_path, program):
    out = tmp_path / "out"
    command = ["--repeats", 2, *RUN, "--dir", out, table]
    ended = study(*command, **program(check=EXIT.format(3)))
    reason = "no data"
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        f"study: two will not run: {reason}",
        "study: rejected points: two",
    ]
    assert [call[0] for call in calls(tmp_path)] == ["train", "train"]
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("2 runs: ") and [line[:11] for line in lines[1:]] == [
        "[1/2] one-1",
        "repeat 1 of",
        "[2/2] one-2",
    ]
    assert (out / "two-2.failed").read_text(encoding="utf-8") == f"{reason}\n"
    assert notes_of(out, read_table(str(table))) == [f"runs that failed: two (2 runs) ({reason})"]
    ended = study(*command, **program())  # the data was corrected
    assert ended.returncode == 0 and len(calls(tmp_path)) == 4
    assert notes_of(out, read_table(str(table))) == []


def test_invalid_option_of_a_point_ends_the_study(table, tmp_path, program):
    ended = study(*RUN, "--dir", tmp_path / "out", table, **program(check=EXIT.format(2)))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == ("study: two (allreduce --max-bytes 1K): no data\n")
    assert not (tmp_path / "calls").exists() and not list((tmp_path / "out").glob("*.failed"))


@pytest.mark.parametrize("status", [1, 4, 127])
def test_other_failures_of_the_check_do_not_prevent_the_run(table, tmp_path, program, status):
    ended = study(*RUN, "--dir", tmp_path / "out", table, **program(check=EXIT.format(status)))
    assert (ended.returncode, ended.stderr) == (0, "") and len(calls(tmp_path)) == 2


def test_check_starts_the_ranks_with_the_options(table, tmp_path, program):
    launcher = tmp_path / "launcher"
    write_program(launcher, f'#!/bin/bash\necho "$@" >>"{tmp_path}/starts"\nshift\nexec "$@"\n')
    stub = program(5)
    words = ["--launcher", f"{launcher} RANKS", "--no-report", "--dir", tmp_path / "out", table]
    study(*words, "--", "--max-bytes", "2K", **stub)
    starts = (tmp_path / "starts").read_text(encoding="utf-8").splitlines()
    lockstep = stub["LOCKSTEP_BIN"]
    assert {line for line in starts if "--dry-run" in line} == {
        f"1 {lockstep} train --batch-per-rank 8 --epochs 2 --max-bytes 2K --dry-run",
        f"2 {lockstep} allreduce --max-bytes 2K --dry-run",
    }


@pytest.mark.parametrize("ranks, is_checked", [(32, True), (33, False)])
def test_check_starts_no_more_ranks_than_the_machine_can(
    table, tmp_path, program, monkeypatch, ranks, is_checked
):
    """A table for a cluster is printed on a notebook."""
    monkeypatch.setattr("lockstep_study.machine.processors", lambda: 2)
    table.write_text(f"one\t{ranks}\tallreduce\n", encoding="utf-8")
    stub = program(check=f'echo "$@" >>"{tmp_path}/checks"; exit 0')
    ended = study("--dry-run", *RUN, "--dir", tmp_path / "out", table, **stub)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "checks").exists() == is_checked


def test_complete_points_are_not_checked(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program()).returncode == 0
    ended = study(*command, **program(check="exit 3"))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_dry_run_names_rejected_points(table, tmp_path, program):
    out = tmp_path / "out"
    ended = study("--dry-run", *RUN, "--dir", out, table, **program(check=EXIT.format(3)))
    lines = ended.stdout.splitlines()
    assert ended.returncode == 1 and lines[1].endswith(" # will not run: no data")
    assert lines[2] == "# 1 run: duration unknown; 1 run rejected"
    assert ended.stderr == "study: two will not run: no data\n"
    assert not out.exists()


def test_ranks_without_processors_of_their_own_are_noted(table, tmp_path, program, monkeypatch):
    monkeypatch.setattr("lockstep_study.checks.processors", lambda: 1)
    launcher = tmp_path / "mpirun"
    write_program(launcher, '#!/bin/bash\nexec "${@:5}"\n')
    words = ["--no-report", "--dir", tmp_path / "out", table]
    ended = study(*words, **program(), PATH=f"{tmp_path}:/usr/bin:/bin")
    assert ended.stderr == (
        "study: two: more ranks than the 1 processor of this machine, so their times and speedups"
        " do not describe the program\n"
    )
    own = study("--launcher", "env RANKS", *words, **program())
    assert "more ranks" not in own.stderr


DASHES = "-" * 74  # around the messages of mpirun
NO_SLOTS = "There are not enough slots for"


@pytest.mark.parametrize(
    "text, reason",
    [
        (
            "lockstep: warning: slow\nlockstep: no data\nmpirun: a rank failed\n",
            "no data",
        ),
        ("lockstep: first\nlockstep: second\n", "first"),
        ("an error\nmpirun: it failed\n\n", "mpirun: it failed"),
        ("lockstep: \x1b[2J\n", "?[2J"),
        ("lockstep: rank 3 on node-1: no data\n", "no data"),
        (f"x\n{DASHES}\nThere are not enough slots for\nthe 2 ranks\n{DASHES}\n", NO_SLOTS),
        (f"lockstep: warning: slow\n{DASHES}\n{NO_SLOTS}\n{DASHES}\n", NO_SLOTS),
        (f"lockstep: no data\n{DASHES}\n{NO_SLOTS}\n{DASHES}\n", "no data"),
        ("lockstep: warning: slow\n", "lockstep: warning: slow"),
        ("", ""),
    ],
)
def test_reason_is_the_message_of_lockstep(text, reason):
    assert reason_of(text) == reason
