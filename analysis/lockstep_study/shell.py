# SPDX-License-Identifier: BSD-3-Clause
"""Commands as text for a shell."""

import re
import shlex

PLAIN = re.compile(r"[A-Za-z0-9_=:.,/%@+-]+")
SPECIAL = re.compile(r"[^A-Za-z0-9_=:.,/%@+-]")


def quoted(word):
    """Returns a word as a shell reads it back."""
    if PLAIN.fullmatch(word):
        return word
    if word and word.isascii() and word.isprintable():
        return SPECIAL.sub(r"\\\g<0>", word)
    return shlex.quote(word)


def command_line(words):
    """Returns a command in one line."""
    return " ".join(quoted(str(word)) for word in words)
