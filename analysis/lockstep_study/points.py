# SPDX-License-Identifier: BSD-3-Clause
"""A study is a list of points; a point is a command of lockstep, or a Python program that records
its run, on a number of ranks."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep_study.errors import StudyError

WRITERS = ("allreduce", "ladder", "layers", "stack", "train")  # commands that write a run file
ROOT = Path(__file__).resolve().parents[2]  # of the repository or of an installation
GIVEN = ("output", "seed", "checkpoint-dir", "resume")  # options that the study gives
MOST_POINTS = 1000
LONGEST_NAME = 100
LONGEST_COMMAND = 4000


@dataclass(frozen=True)
class Point:
    """One line of a table. `words`: the command and its options."""

    name: str
    ranks: int
    words: tuple

    @property
    def command(self):
        return self.words[0]

    @property
    def is_program(self):
        """Whether the point is a Python program instead of a command of lockstep."""
        return self.command.endswith(".py")

    @property
    def trains(self):
        return self.command == "train"


def make_point(name, ranks, words):
    """Returns the point, or raises StudyError with what is wrong with it."""
    text = " ".join(words)
    if len(name) > LONGEST_NAME:
        raise StudyError(f"the name has {len(name)} characters; the limit is {LONGEST_NAME}")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise StudyError(
            f"the name '{name}' has characters other than letters, digits, '.', '_' and '-'"
        )
    if not re.fullmatch(r"[1-9][0-9]{0,5}", ranks):
        raise StudyError(f"the number of ranks is '{ranks}'")
    if len(text) > LONGEST_COMMAND:
        raise StudyError(f"the command has {len(text)} characters; the limit is {LONGEST_COMMAND}")
    if not words or not (words[0] in WRITERS or re.fullmatch(r"[^-].*\.py", words[0])):
        raise StudyError(
            f"'{text}' is not a command of lockstep that writes a run file"
            f" ({', '.join(WRITERS)}), or a Python program (*.py), with its options"
        )
    if words[0].endswith(".py") and not (ROOT / words[0]).is_file():
        raise StudyError(f"there is no program {words[0]} in {ROOT}")
    for word in words[1:]:
        refuse_given(word.partition("=")[0])
    return Point(name, int(ranks), tuple(words))


def refuse_given(option):
    """Raises StudyError for an option, such as --seed, that the study gives."""
    if option.startswith("--") and option[2:] in GIVEN:
        raise StudyError(f"{option} is given by the program that runs the study")


def integer(text, most_digits=18):
    """Returns the number that the digits of a text are; 0 for another or a longer text, or None."""
    return int(text) if re.fullmatch(f"[0-9]{{1,{most_digits}}}", text or "") else 0


def option_value(words, *options):
    """Returns the value of the first of the options in a command; None if it has none of them."""
    for word, value in zip(words, [*words[1:], None]):
        name, equals, attached = word.partition("=")
        if name in options:
            return attached if equals else value
    return None


def as_table(points):
    """Returns the points as the text of a table that `read_table` reads."""
    return "".join(f"{point.name}\t{point.ranks}\t{' '.join(point.words)}\n" for point in points)
