# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the lines that a study prints about its runs."""

import os
import pty
import re
import shutil
import subprocess

import pytest
from lockstep_study.points import Point
from lockstep_study.progress import Progress, clock
from lockstep_study.runs import Run
from study_command import RUN, STUDY, environment_with, study

TWELVE = [Run(Point(f"p{i}", 1, ("train",)), 1, None) for i in range(12)]


def without_times(text):
    return re.sub(r" *[0-9.]+ s\b", " S s", text)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1:00 min"),
        (125.4, "2:05 min"),
        (3599.4, "59:59 min"),
        (3599.6, "1:00:00 h"),
        (3723, "1:02:03 h"),
        (90000, "25:00:00 h"),
    ],
)
def test_durations_are_printed_as_on_a_clock(seconds, text):
    assert clock(seconds) == text


def test_one_line_per_run_states_how_it_ended(table, tmp_path, program):
    """The output of the run itself is in its log."""
    stub = program(check="exit 0", experiment='echo "build=1"')
    path = tmp_path / "lockstep"
    text = "An epoch takes 2.5 s\\nlockstep: warning: slow\\n"
    path.write_text(path.read_text().replace("touch", f"printf '{text}'; touch"), encoding="utf-8")
    ended = study("--repeats", 2, *RUN, "--dir", tmp_path / "out", table, **stub)
    assert without_times(ended.stdout).splitlines() == [
        "4 runs: about S s, and 2 of unknown duration",
        "[1/4] one-1  complete S s  epoch S s",
        "  warning: slow",
        "[2/4] two-1  complete S s  epoch S s",
        "repeat 1 of 2 after S s; 2 runs to go, about S s",
        "[3/4] one-2  complete S s  epoch S s",
        "[4/4] two-2  complete S s  epoch S s",
    ]
    log = (tmp_path / "out" / "logs" / "one-2.log").read_text(encoding="utf-8")
    assert log.startswith("$ env 1_STARTED=1 ") and log.endswith(" warning: slow\n")
    again = study("--repeats", 2, *RUN, "--dir", tmp_path / "out", table, **stub)
    assert [line.split() for line in again.stdout.splitlines()] == [
        [f"[{number}/4]", name, "complete", f"{name}.0.h5"]
        for number, name in enumerate(["one-1", "two-1", "one-2", "two-2"], 1)
    ]


def test_line_of_a_run_states_its_efficiency(tmp_path, program):
    """Every run computes 100 images per second."""
    stub = program()
    path = tmp_path / "lockstep"
    text = "Total img/sec on 2 ranks: 100.0\\n"
    path.write_text(path.read_text().replace("touch", f"printf '{text}'; touch"), encoding="utf-8")
    words = [*RUN, "--dir", tmp_path / "out", "--grid", "ranks=1,4", "global-batch=8"]
    lines = study(*words, **stub).stdout.splitlines()
    assert without_times(lines[1]) == "[1/2] n1-1  complete S s"
    assert without_times(lines[2]) == "[2/2] n4-1  complete S s  efficiency 0.25"


@pytest.mark.parametrize(
    "status, state, details",
    [
        (4, "too large", "one-1 does not fit in memory"),
        (75, "stopped", ""),
        (5, "failed", "it broke"),
    ],
)
def test_line_of_a_run_that_does_not_complete(table, tmp_path, program, status, state, details):
    stub = program(status)
    path = tmp_path / "lockstep"
    text = "lockstep: warning: odd\\nlockstep: it broke\\nmpirun: one rank failed\\n"
    path.write_text(path.read_text().replace("touch", f"printf '{text}'; touch"), encoding="utf-8")
    ended = study(*RUN, "--dir", tmp_path / "out", table, **stub)
    line = without_times(ended.stdout.splitlines()[1])
    assert line == f"[1/2] one-1  {state} S s  {details}".rstrip()


def progress(estimates=None, is_terminal=False):
    shown = Progress(12, {} if estimates is None else estimates)
    shown.is_terminal = is_terminal
    return shown


@pytest.mark.parametrize(
    "estimates, text",
    [
        ([30] * 12, "12 runs: about 6 min"),
        ([30] * 4 + [None] * 8, "12 runs: about 2 min, and 8 of unknown duration"),
        ([None] * 12, "12 runs: duration unknown"),
        ([0.6] + [0] * 11, "12 runs: about 1 s"),
    ],
)
def test_first_line_estimates_the_study(capsys, estimates, text):
    progress({run.point: value for run, value in zip(TWELVE, estimates)}).head(TWELVE)
    assert capsys.readouterr().out == f"{text}\n"


def test_duration_of_a_complete_run_is_the_estimate_of_its_repeats(capsys):
    shown = progress({TWELVE[0].point: 1000, TWELVE[1].point: 500})
    shown.learn(TWELVE[0], 10)
    shown.repeat_ended(1, 3, [TWELVE[0]] * 2 + [TWELVE[1]])
    assert capsys.readouterr().out.endswith("; 3 runs to go, about 9 min\n")
    shown.repeat_ended(3, 3, [])
    assert capsys.readouterr().out == ""


def test_terminal_shows_the_present_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = progress({TWELVE[0].point: 120}, is_terminal=True)
    shown.number = 1
    shown.name_width = 6
    shown.now(TWELVE[0], 65, "2/3")
    assert capsys.readouterr().out == "\r\x1b[K[ 1/12] p0-1    running 1:05 min  of ab"
    shown.now(TWELVE[1], 5, "")
    assert capsys.readouterr().out == "\r\x1b[K[ 1/12] p1-1    running 5.0 s"
    shown.ended(TWELVE[0], "complete", 5, "x\x1b[2J")
    assert capsys.readouterr().out == "\r\x1b[K[ 1/12] p0-1    complete      5.0 s  x?[2J\n"
    shown.is_terminal = False
    shown.now(TWELVE[0], 65, "2/3")
    assert capsys.readouterr().out == ""


def test_a_terminal_that_does_not_know_its_size_has_80_columns(capsys, monkeypatch):
    """Python before 3.11 returns the size 0 of such a terminal."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((0, 0)))
    shown = progress({}, is_terminal=True)
    shown.now(TWELVE[0], 5, "2/3")
    assert capsys.readouterr().out.endswith("running 5.0 s  epoch 2/3")
    shown.name_width = 80
    shown.now(TWELVE[0], 5, "2/3")
    assert len(capsys.readouterr().out) == len("\r\x1b[K") + 79


def test_study_in_a_terminal_shows_the_epochs(table, tmp_path, program):
    table.write_text("one\t1\ttrain\n", encoding="utf-8")
    stub = program()
    path = tmp_path / "lockstep"
    text = "epoch 1/2: 4 steps\\nepoch 2/2: 4 steps\\n"
    path.write_text(
        path.read_text().replace("touch", f"printf '{text}'; sleep 1; touch"), encoding="utf-8"
    )
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [STUDY, *RUN, "--dir", tmp_path / "out", table],
        env=environment_with(stub),
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=subprocess.DEVNULL,
    )
    os.close(end)
    text = b""
    try:
        while data := os.read(terminal, 4096):
            text += data
    except OSError:  # the other end of the terminal was closed
        pass
    os.close(terminal)
    assert process.wait() == 0
    assert re.search(rb"\r\x1b\[K\[1/1\] one-1  running [0-9.]+ s  epoch 2/2", text)
    assert re.search(rb"\r\x1b\[K\[1/1\] one-1  complete +[0-9.]+ s\r\n", text)
