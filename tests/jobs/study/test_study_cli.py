# SPDX-License-Identifier: BSD-3-Clause
"""Tests of lockstep-study: its commands, help texts and errors of the command line."""

import os
import subprocess
import sys

import pytest
from in_process import COMMANDS, call
from lockstep_study.cli import main
from lockstep_study.machine import mpi_environment
from study_command import ROOT, environment_with, show


def lockstep_study(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **variables):
    """Runs lockstep-study as a program."""
    return subprocess.run(
        [ROOT / "analysis" / "run-python", "--modules", "sys", "lockstep_study", *words],
        stdout=stdout,
        stderr=stderr,
        text=True,
        env=environment_with(variables),
    )


def test_show_prints_what_the_program_would_start(table, tmp_path):
    words = ["show", "--dir", str(tmp_path), str(table)]
    ended = lockstep_study(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == show(*words[1:]).stdout and len(ended.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    "words, is_help",
    [(["--help"], True), (["show", "--help"], True), (["show", "none.tsv"], False)],
)
def test_a_full_device_changes_no_status_and_has_one_line(words, is_help):
    """Python itself would try to write again at the end of the process, and exit with 120."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        of_stdout = lockstep_study(*words, stdout=full)
        of_stderr = lockstep_study(*words, stderr=full)
    assert of_stdout.returncode == 1 and of_stdout.stderr.count("\n") == 1
    assert ("a file or stdout: No space left" in of_stdout.stderr) == is_help
    assert (of_stderr.returncode, bool(of_stderr.stdout)) == (0 if is_help else 1, is_help)


def test_environment_is_that_of_mpirun(capsys):
    assert main(["environment", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert dict(line.split("=", 1) for line in lines) == mpi_environment(3, os.environ)
    for words in ([], ["x"], ["1", "2"]):
        assert main(["environment", *words]) == 1
        assert "the number of ranks is missing" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]], ids=" ".join)
def test_help_lists_the_commands(capsys, words):
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in ("run", "submit", "status", "show"))
    assert "\n  task" not in text


def test_unknown_command_is_one_error(capsys):
    assert main(["fly"]) == 1
    assert capsys.readouterr().err == (
        "lockstep-study fly: unknown command fly; the commands are run, submit, status, show,"
        " environment\n"
    )


@pytest.mark.parametrize(
    "script, name",
    [
        ("study", "jobs/study"),
        ("submit", "jobs/slurm/submit"),
        ("status", "jobs/slurm/status"),
        ("", "lockstep-study show"),
    ],
)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_a_command_names_its_options(script, name, option):
    ended = call(script, option, environment=os.environ)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(f"usage: {name} [") and max(map(len, lines)) <= 110
    options = {"study": "--launcher", "submit": "--at-once", "status": "DIR", "": "--grid"}
    assert options[script] in ended.stdout


def test_errors_name_the_command_that_was_started(capsys):
    assert main(["show"]) == 1
    assert capsys.readouterr().err.startswith("lockstep-study show: the table is missing")
    for script, command in COMMANDS.items():
        if script in ("study", "submit"):
            ended = call(script, "--unknown", environment=os.environ)
            assert ended.stderr == f"{script}: unknown option --unknown; see --help\n", command


@pytest.mark.parametrize(
    "words, message",
    [
        (["a.tsv", "b.tsv"], "more than one table: b.tsv; see --help"),
        (["--repeats", "-1"], "--repeats: must be a positive integer of at most five digits"),
        (["--repeats", "100000"], "--repeats: must be a positive integer of at most five digits"),
        (["--repeats", "1x"], "--repeats: must be a positive integer of at most five digits"),
        (["--repeat", "1"], "unknown option --repeat; see --help"),
        (["--dir"], "--dir: expected one argument; see --help"),
        (["--grid"], "--grid: expected at least one argument; see --help"),
    ],
)
def test_invalid_command_line_is_one_error(words, message):
    ended = call("study", *words, environment=os.environ)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"study: {message}") and ended.stderr.count("\n") == 1


def test_package_uses_only_the_standard_library():
    """It also runs on login nodes, where Python has no other packages."""
    code = f"import sys; sys.path.insert(0, '{ROOT}/analysis'); import lockstep_study.cli"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
