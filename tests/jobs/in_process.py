# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of lockstep-study in this process, with the settings of the scripts in jobs
that start them."""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile
from dataclasses import dataclass
from unittest.mock import patch

from lockstep_study.cli import main

# Script that starts a command -> the command.
COMMANDS = {
    "study": "run",
    "submit": "submit",
    "status": "status",
    "task": "task",
    "report": "report",
    "": "show",
}
NUMBERS = {"stdout": 1, "stderr": 2}


@dataclass(frozen=True)
class Ended:
    """How a command ended: the attributes of a completed process that the tests read."""

    returncode: int
    stdout: str
    stderr: str


def call(script, *words, environment, folder="."):
    """Runs the command of a script with these variables, in this folder."""
    settings = {**environment, "LOCKSTEP_COMMAND": script}
    before, handler = os.getcwd(), signal.getsignal(signal.SIGTERM)
    with tempfile.TemporaryDirectory() as place:
        files = {name: pathlib.Path(place, name) for name in NUMBERS}
        with patch.dict(os.environ, settings, clear=True), redirected(files):
            os.chdir(folder)
            try:
                status = main([COMMANDS[script], *map(str, words)])
            except SystemExit as ended:  # --help
                status = ended.code or 0
            finally:
                os.chdir(before)
                signal.signal(signal.SIGTERM, handler)
        texts = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    return Ended(status, **texts)


@contextlib.contextmanager
def redirected(files):
    """Redirects the standard streams, also those of child processes, to files."""
    with contextlib.ExitStack() as stack:
        for name, path in files.items():
            number, saved = NUMBERS[name], os.dup(NUMBERS[name])
            file = stack.enter_context(open(path, "a", encoding="utf-8", errors="replace"))
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, number)
            stack.enter_context(patch.object(sys, name, file))
            os.dup2(file.fileno(), number)
        yield


def write_program(path, text):
    """Writes a program, for example a stub that a command starts."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
