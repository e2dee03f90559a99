# SPDX-License-Identifier: BSD-3-Clause
"""The text of a table: files that are not text, and characters that no command contains."""

import os
import re
import unicodedata

from lockstep_study.errors import StudyError
from lockstep_study.points import ROOT
from lockstep_study.shell import quoted

MOST_BYTES = 1_000_000
# First bytes -> what the file is.
OTHER_FILES = {
    b"PK\x03\x04": "a ZIP archive, for example a workbook (.xlsx, .ods)",
    b"\xd0\xcf\x11\xe0": "a workbook or a document of Microsoft Office",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF document",
    b"{\\rt": "an RTF document",
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
GZIP = b"\x1f\x8b"

ODD = re.compile(r"[^A-Za-z0-9._:/@,=+% -]")
ADVICE = {  # characters -> what is wrong with a line that contains one of them
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212": (
        "it contains the dash of a word processor; replace it by - or --"
    ),
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\"'`": (
        "it contains a quotation mark; remove it, because no value contains blanks"
    ),
    "\\": "it contains '\\'; write paths with '/', for example /mnt/c/data for C:\\data",
    "\t": "its command contains a tab; separate options by blanks",
    "#": "a comment behind the command; write it in a line of its own",
}
INVISIBLE = ("Cf", "Zs", "Zl", "Zp")


def refuse_characters(text):
    """Raises StudyError if a text contains a character that no point contains."""
    found = ODD.search(text)
    if not found:
        return
    odd = found[0]
    for characters, advice in ADVICE.items():
        if odd in characters:
            raise StudyError(advice)
    if odd in "~$":
        raise StudyError(
            f"'{odd}' is not expanded; write the whole path, or give the option after --: --"
            " --data cifar10:$HOME/cifar10"
        )
    if "\udc80" <= odd <= "\udcff":  # a byte that could not be decoded
        raise StudyError("it is not encoded in UTF-8; save the table in this encoding")
    if unicodedata.category(odd) in INVISIBLE or "\x80" <= odd <= "\x9f":
        raise StudyError(
            "it contains a no-break space or another invisible character; replace it by a blank"
        )
    if odd.isascii():
        raise StudyError(
            f"it contains the character '{odd}'"
            if odd.isprintable()
            else "it contains a control character"
        )
    rest = re.match(r"[^\x00-\x7f]+", text[found.start() :])[0]
    raise StudyError(f"it contains '{rest}'; use characters of ASCII")


def read_text(path):
    """Returns the text of a table; bytes that are not UTF-8 become surrogates. Raises StudyError
    if the file is not a text."""
    check_name(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_kind(path, file.read(4))
        if size > MOST_BYTES:
            raise StudyError(f"{path} has {size} bytes; the limit of a table is {MOST_BYTES} bytes")
        file.seek(0)
        content = file.read(MOST_BYTES)
    if b"\0" in content:
        raise StudyError(f"{path} contains NUL bytes; it must be a text file")
    return content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def check_name(path):
    """Raises StudyError if there is no file with this name that can be read."""
    if "\\" in path and not os.path.exists(path):
        raise StudyError(
            f"cannot read {path}; write its path with '/', for example /mnt/c/Users for C:\\Users"
        )
    if not os.path.exists(path) and not os.path.isabs(path) and (ROOT / path).is_file():
        raise StudyError(f"cannot read {path} in {os.getcwd()}; use {quoted(str(ROOT / path))}")
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise StudyError(f"cannot read {path}; a table is a file such as jobs/studies/weak.tsv")


def check_kind(path, start):
    """Raises StudyError if the first bytes of a file are not those of a text."""
    if start in OTHER_FILES:
        raise StudyError(
            f"{path} is {OTHER_FILES[start]}; a table is plain text: save the sheet as text"
            " separated by tabs"
        )
    name = quoted(path)
    if start.startswith(GZIP):
        raise StudyError(f"{path} is a gzip archive; unpack it: gunzip <{name} >{name}.txt")
    if start.startswith(UTF_16):
        raise StudyError(
            f"{path} is encoded in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name} >{name}.txt"
        )
