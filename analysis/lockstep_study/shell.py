# SPDX-License-Identifier: BSD-3-Clause
"""Commands as text for a shell."""

import re
import shlex

PLAIN = re.compile(r"[A-Za-z0-9_=:.,/%@+-]+")
SPECIAL = re.compile(r"[^A-Za-z0-9_=:.,/%@+-]")


def quoted(word):
    """Returns a word in one line, as bash reads it back."""
    if PLAIN.fullmatch(word):
        return word
    if word and word.isascii() and word.isprintable():
        return SPECIAL.sub(r"\\\g<0>", word)
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(escaped, word))}'"


def escaped(character):
    """Returns a character as in a word $'...' of bash."""
    if character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def command_line(words):
    """Returns a command in one line."""
    return " ".join(quoted(str(word)) for word in words)
