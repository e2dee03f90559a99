# SPDX-License-Identifier: BSD-3-Clause
"""The kind of a file, recognised by its content, for errors about files of a wrong kind; and texts
in the encodings of editors and spreadsheets. The kinds are in file_kinds.json, which the program
reads too."""

import json
import os
import re
import shlex
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError, cannot_read

HEAD = 2**16  # bytes that are read to recognise the kind

HDF5, CHECKPOINT = "an HDF5 file", "a checkpoint of Lockstep"
CSV, JSON, TEXT = "a CSV table", "a JSON text", "a text"
NCCL_TESTS = "an output of nccl-tests"
OSU, IMB = "an output of the OSU benchmarks", "an output of the Intel MPI benchmarks"
HTML, EMPTY, ZEROS = "an HTML page", "an empty file", "a file of zero bytes"
ZIP, PYTORCH = "a ZIP archive", "a ZIP archive of PyTorch"
NUMPY_ZIP = "a ZIP archive of NumPy arrays (.npz)"
NUMPY, PICKLE, SAFETENSORS = "a NumPy array", "a Python pickle", "a safetensors file"
OTHER = "a binary file of an unknown format"

# [{"kind", "advice": what leads on with such a file, "for_all_readers": whatever was wanted
# instead, "signs": [SIGN]}]. A sign has `bytes` (each character is a byte) at the place `at`, or
# `has` among the first `within` bytes; of a text, which `plain_text` returns, `begins` or
# `has_words`. All parts of a sign must be found, and the first kind with a sign is right.
KINDS = json.loads(Path(__file__).with_name("file_kinds.json").read_text(encoding="utf-8"))
ADVICE = {row["kind"]: row["advice"] for row in KINDS if "advice" in row}
FOR_ALL_READERS = {row["kind"] for row in KINDS if row.get("for_all_readers")}
UNICODE_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def kind_of(head):
    """Returns the kind of a file that begins with the bytes `head` (up to `HEAD`): "a ZIP
    archive"."""
    if not head:
        return EMPTY
    found = first_kind(lambda sign: is_of_bytes(sign) and is_found(sign, head))
    if found or not head.strip(b"\0"):
        return found or ZEROS
    text = decoded(head)
    return OTHER if any(c < " " and c not in "\t\n\r\f\x1b" for c in text) else kind_of_text(text)


def first_kind(is_sign):
    return next((row["kind"] for row in KINDS if any(map(is_sign, row["signs"]))), None)


def is_of_bytes(sign):
    return "bytes" in sign or "within" in sign


def is_found(sign, head):
    return (
        head.startswith(sign.get("bytes", "").encode("latin-1"), sign.get("at", 0))
        and sign.get("has", "").encode("latin-1") in head[: sign.get("within", 0)]
    )


def kind_of_text(text):
    plain = plain_text(text)
    found = first_kind(
        lambda sign: (
            not is_of_bytes(sign)
            and plain.startswith(sign.get("begins", ""))
            and all(word in plain for word in sign.get("has_words", ()))
        )
    )
    return found or (CSV if has_columns(text) else TEXT)


def plain_text(text):
    """Returns the text in lower case with one blank for each sequence of blanks and line ends, none
    at its begin, and a line end at its end."""
    return re.sub(r"[ \t-\r]+", " ", text).strip(" ").lower() + "\n"


def has_columns(text):
    """Returns whether the first lines have the same separators."""
    lines = [line for line in text.splitlines()[:20] if line.strip() and line[0] != "#"][:2]
    return len(lines) == 2 and any(
        lines[0].count(mark) and lines[1].count(mark) >= lines[0].count(mark) for mark in ",;\t"
    )


def decoded(data):
    """Returns the text of the bytes `data`, whose end may be cut off: by their byte-order mark, in
    UTF-8, or in Latin-1."""
    for mark, encoding in UNICODE_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8")
        return data.decode("latin-1")


def wrong_kind(path, wanted, kind, advice=""):
    """Returns the error of a file of another kind. `advice`: what to do if the kind does not say
    it."""
    advice = ADVICE.get(kind, advice).replace("FILE", shlex.quote(os.fspath(path)))
    ending = f"; {advice}" if advice else ""
    return ReportError(INPUT, f"{path}: not {wanted}, but {kind}{ending}")


def remedy(kind, advice):
    """Returns what to do about a file of this kind: `advice` of its reader, unless the kind says it
    to all readers."""
    return ADVICE[kind] if kind in FOR_ALL_READERS else advice


def other_kind(path, wanted, kind, advice):
    """Returns the error of a file of another kind than that which a reader wants. `advice`: as for
    `remedy`."""
    return ReportError(INPUT, f"{path}: not {wanted}, but {kind}; {remedy(kind, advice)}")


def read_head(path):
    """Returns the first `HEAD` bytes of a file. Raises `OSError`."""
    with open(path, "rb") as file:
        return file.read(HEAD)


def kind_of_file(path):
    """Returns the kind of the regular file `path`; None if there is none that can be read."""
    try:
        return kind_of(read_head(path)) if os.path.isfile(path) else None
    except OSError:
        return None


def read_text(path, wanted, kinds, advice):
    """Returns the text of the file `path`. Raises `ReportError` (input) if it cannot be read or is
    of none of the `kinds`; the error says that it is not `wanted`, and `advice`."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
            kind = kind_of(head)
            if kind not in kinds:
                raise wrong_kind(path, wanted, kind, advice)
            return decoded(head + file.read())
    except IsADirectoryError as error:
        raise wrong_kind(path, wanted, "a folder") from error
    except OSError as error:
        raise cannot_read(path, error) from error
