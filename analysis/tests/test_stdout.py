# SPDX-License-Identifier: BSD-3-Clause
"""Tests the standard output of lockstep-report: its errors and its encoding."""

import json
import os

import pytest
from programs import run_report
from synthetic import phases, write_run


@pytest.fixture
def run(tmp_path):
    """Path of a run of 2 epochs."""
    return write_run(
        tmp_path / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2, batch=10
    )


@pytest.mark.parametrize(
    "command",
    [
        ["summary", "RUN"],
        ["tables", "RUN", "--json"],
        ["watch", "RUN", "--once"],
        ["validate", "RUN"],
        ["watch", "RUN", "--json"],
        ["report", "RUN", "--out", "OUT"],
        ["summary", "RUN", "none.h5"],
        ["--help"],
        ["--version"],
    ],
)
def test_a_full_device_for_stdout_is_an_output_error(command, run, tmp_path):
    words = [{"RUN": run, "OUT": tmp_path / "out"}.get(word, word) for word in command]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run_report(*words, stdout=full)
    *others, last = done.stderr.splitlines()
    assert (done.returncode, len(others)) == (6, "none.h5" in command)
    assert (
        last == "lockstep-report: stdout: cannot be written (No space left on device); free disk "
        "space or redirect it to another file"
    )


def test_a_full_device_for_stderr_does_not_change_the_status(run):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run_report("summary", run, "none.h5", stderr=full)
    assert done.returncode == 3 and "An epoch takes" in done.stdout


@pytest.mark.parametrize("command", [["summary"], ["summary", "--json"], ["watch"]])
def test_a_closed_pipe_for_stdout_is_no_error(command, run):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = run_report(*command, run, stdout=closed)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_stdout_is_an_output_error_and_closed_stderr_is_none(run):
    def with_closed(stream, *words):
        return run_report(*words, starter=["bash", "-c", f'exec "$@" {stream}>&-', "-"])

    done = with_closed(1, "summary", run)
    assert (done.returncode, done.stderr) == (
        6,
        "lockstep-report: stdout: is closed; redirect it to a file, or to /dev/null\n",
    )
    done = with_closed(2, "summary", "none.h5", "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert "An epoch takes" in with_closed(0, "summary", run).stdout


@pytest.mark.parametrize(
    "encoding, shown",
    [("ascii", r"\xe9\u65e5.h5"), ("latin-1", r"é\u65e5.h5"), ("utf-8", "é日.h5")],
)
def test_characters_that_stdout_lacks_are_escaped(encoding, shown, run, tmp_path):
    path = tmp_path / "é日.h5"
    os.link(run, path)
    for command in ("summary", "index"):
        done = run_report(
            command, path, environment={"PYTHONIOENCODING": encoding}, encoding=encoding
        )
        assert done.returncode == 0 and not done.stderr and shown in done.stdout
        done = run_report(
            command, path, "--json", environment={"PYTHONIOENCODING": encoding}, encoding=encoding
        )
        values = json.loads(done.stdout)
        assert path.name in (values["run"] if command == "summary" else values[0]["file"])
