# SPDX-License-Identifier: BSD-3-Clause
"""Errors and notes, one line each on stderr."""

import os
import sys

FAILURE = 1  # exit status of every error


class StudyError(Exception):
    """An error that ends the command. The message is one line: what failed, why, what to do."""


class Notes:
    """Prints notes of the program `name` to stderr."""

    def __init__(self, name):
        self.name = name
        self.said = set()

    def say(self, text):
        try:
            print(f"{self.name}: {one_line(text)}", file=sys.stderr, flush=True)
        except OSError:  # nothing could report it
            discard(sys.stderr)

    def say_once(self, subject, text):
        """Prints the first note about a subject."""
        if subject not in self.said:
            self.said.add(subject)
            self.say(f"{text} (further points are not listed)")


def discard(stream):
    """Discards what a stream has not written and all further output of it: Python would try again
    at the end of the process, and change the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def one_line(text):
    """Returns `text` with every character that ends a line or controls a terminal replaced."""
    return "".join(character if character.isprintable() else "?" for character in text)
