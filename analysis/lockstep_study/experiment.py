# SPDX-License-Identifier: BSD-3-Clause
"""The experiment of a run: what makes it comparable with another one. It is stored beside the run,
so that the same command continues or skips it, and another command is refused."""

import hashlib

from lockstep_study.errors import StudyError
from lockstep_study.points import ROOT
from lockstep_study.programs import last_line


def experiment(commands, point, repeat, launcher):
    """Returns the experiment as lines NAME=VALUE: the launcher, and what `lockstep help experiment`
    prints for the command (build, ranks, options that affect results or times); for a Python
    program, its options and the digest of all Python files in its folder, because it may import
    them. Raises StudyError if the program rejects the options or cannot run here."""
    if point.is_program:
        words = commands.merge(point).words
        return (
            f"launcher={launcher}\nranks={point.ranks}\nprogram={digest(words[0])}\n"
            f"options={' '.join(words)}\n"
        )
    program, *words = commands.full(point, repeat, "run.h5", ".")
    answer = commands.programs.help("experiment", str(point.ranks), *words)
    if answer.returncode != 0:
        if not commands.programs.is_present():
            raise StudyError("no lockstep program was found; set LOCKSTEP_BIN")
        raise StudyError(last_line(answer.stderr) or f"{program} help experiment failed")
    return f"launcher={launcher}\n{answer.stdout}".rstrip("\n") + "\n"


def digest(program):
    """Returns the SHA-256 of the Python files in the folder of a program, in the order of names."""
    files = sorted((ROOT / program).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def changes(saved, present):
    """Returns what differs between two experiments, as text."""
    before = dict(line.partition("=")[::2] for line in saved.splitlines())
    after = dict(line.partition("=")[::2] for line in present.splitlines())
    return ", ".join(
        f"{name} from '{before.get(name, '')}' to '{value}'"
        for name, value in after.items()
        if before.get(name, "") != value
    )
