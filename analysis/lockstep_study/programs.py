# SPDX-License-Identifier: BSD-3-Clause
"""The programs of a study, and what their help says about their options."""

import os
import re
import shutil
import subprocess

from lockstep_study.errors import StudyError, one_line
from lockstep_study.machine import mpi_environment
from lockstep_study.points import ROOT, WRITERS

BUILT = ROOT / "build" / "cpu" / "bin" / "lockstep"
RUN_PYTHON = ROOT / "analysis" / "run-python"
START = ROOT / "analysis" / "start.py"
# A row of `lockstep help options`: names, default, commands, affects.
OPTION_ROW = re.compile(r"^\|([^|]*)\|[^|]*\|([^|]*)\|([^|]*)\|", re.MULTILINE)
OPTION_NAMES = re.compile(r"\s*(?:(-[a-z]),?\s+)?(--[a-z-]+)")


class Options:
    """The options of programs. `used_by`: {option: commands}; `letters`: {letter: option};
    `affecting_time`: options that affect the time of a step."""

    def __init__(self):
        self.used_by, self.letters, self.affecting_time = {}, {}, set()
        self.commands = set()  # whose options are known

    def add_table(self, table):
        """Adds the options in the output of `lockstep help options`."""
        for names, commands, affects in OPTION_ROW.findall(table.replace("`", "")):
            found = OPTION_NAMES.match(names)
            if not found:
                continue
            letter, name = found.groups()
            users = re.findall(r"[a-z]+", commands)
            self.used_by.setdefault(name, set()).update(WRITERS if "all" in users else users)
            if letter:
                self.letters[letter] = name
            if "time" in affects or "both" in affects:
                self.affecting_time.add(name)
        if self.letters:
            self.commands.update(WRITERS)

    def add_program(self, command, help_text):
        """Adds the options in the help of a Python program."""
        for name in re.findall(r"--[a-z][a-z-]*", help_text):
            self.used_by.setdefault(name, set()).add(command)
        self.commands.add(command)

    def uses(self, command, option):
        """Returns whether a command has an option; True if no command is known to have it."""
        return command in self.used_by.get(option, (command,))

    def with_names(self, words):
        """Returns the words with names instead of letters of options."""
        found = []
        for word in words:
            name = self.letters.get(word[:2]) if re.match("-[a-z]", word) else None
            if name:
                word = name + (f"={word[2:]}" if word[2:] else "")
            found.append(word)
        return found


class Programs:
    """Starts lockstep, and Python programs that record their runs, in the environment of the study.
    `container`: the command that starts a program in a container; `has_image`: whether the jobs of
    the study start one."""

    def __init__(self, environment, container=(), has_image=False):
        self.environment = environment
        self.container = list(container)
        self.has_image = bool(container) or has_image
        self.options = Options()
        self.python = None
        self.outputs = {}  # of `lockstep help`: they do not change
        self.is_known = {}  # command -> result of `read_options`

    def lockstep(self):
        """Returns the program: LOCKSTEP_BIN, lockstep of the PATH, or the build in build/cpu; that
        of the PATH of the container if there is one."""
        given = self.environment.get("LOCKSTEP_BIN")
        if given or self.has_image:
            return given or "lockstep"
        return shutil.which("lockstep", path=self.environment.get("PATH")) or str(BUILT)

    def is_present(self):
        return bool(self.container) or self.find(self.lockstep()) is not None

    def find(self, program):
        return shutil.which(program, path=self.environment.get("PATH", os.defpath))

    def run(self, *words, **settings):
        """Runs a program in the container; returns the completed process, with status 127 if the
        program cannot be started and 124 if it took too long."""
        command = [*self.container, *map(str, words)]
        settings = {"env": self.environment, "capture_output": True, "text": True, **settings}
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, errors="replace", **settings)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"{command[0]} took too long")
        except OSError as error:
            text = f"{command[0]}: {error.strerror}"
            return subprocess.CompletedProcess(command, 127, "", text)

    def environment_of(self, ranks):
        """Returns the environment in which mpirun starts so many ranks on this machine."""
        return self.environment | mpi_environment(ranks, self.environment)

    def help(self, *words):
        """Returns the completed process of `lockstep help`."""
        if words not in self.outputs:
            self.outputs[words] = self.run(self.lockstep(), "help", *words)
        return self.outputs[words]

    def read_options(self, command):
        """Reads the options of a command. Returns False if its program cannot run here."""
        if command not in self.is_known:
            self.is_known[command] = self.add_options(command)
        return self.is_known[command]

    def add_options(self, command):
        options = self.options
        if not options.commands.intersection(WRITERS):
            # Also for Python programs: options of lockstep must not be taken for theirs.
            options.add_table(self.help("options").stdout)
        if command.endswith(".py") and command not in options.commands:
            try:
                python = self.recording_python()
            except StudyError:
                return False
            answer = self.run(*python, ROOT / command, "--help")
            if answer.returncode == 0:
                options.add_program(command, answer.stdout)
        return command in options.commands

    def recording_python(self):
        """Returns the command that starts Python programs with PyTorch and h5py."""
        if self.has_image:
            return ["python3", str(START)]
        if self.python is None:
            self.python = self.find_python("torch,h5py")
        return self.python

    def find_python(self, modules):
        """Returns the command that starts Python programs that need these modules."""
        answer = self.run(RUN_PYTHON, "--modules", modules, "--find", "")
        if answer.returncode != 0:
            raise StudyError(last_line(answer.stderr).partition(": ")[2])
        return answer.stdout.splitlines()


def last_line(text):
    """Returns the last line of a text that is not empty, safe for a terminal."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1].strip()) if lines else ""


def shell_status(code):
    """Returns the exit status of a shell for the return code of a process: 128 + N for signal N."""
    return code if code >= 0 else 128 - code
