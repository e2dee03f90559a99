# SPDX-License-Identifier: BSD-3-Clause
"""The kind of a file, recognised by its content, for errors about files of a wrong kind; and texts in
the encodings of editors and spreadsheets."""

import os
import re
import shlex

from lockstep_report.errors import INPUT, ReportError, cannot_read

HEAD = 2**16  # bytes that are read to recognise the kind

HDF5, CHECKPOINT = "an HDF5 file", "a checkpoint of Lockstep"
CSV, JSON, NCCL_TESTS, TEXT = "a CSV table", "a JSON text", "an output of nccl-tests", "a text"
HTML, EMPTY = "an HTML page", "an empty file"
PYTORCH, NUMPY_ZIP = "a ZIP archive of PyTorch", "a ZIP archive of NumPy arrays (.npz)"
PICKLE, SAFETENSORS = "a Python pickle", "a safetensors file"
OTHER = "a binary file of an unknown format"

SIGNATURES = (  # (place in the file, bytes, kind)
    (0, b"\x89HDF\r\n\x1a\n", HDF5), (0, b"PK\x05\x06", "a ZIP archive"), (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"), (0, b"\xfd7zXZ\x00", "an xz archive"), (0, b"%PDF", "a PDF document"),
    *((0, bytes((0x80, protocol)), PICKLE) for protocol in range(2, 6)), (257, b"ustar", "a tar archive"),
    (5, b'\0\0\0{"', SAFETENSORS))  # the length of a JSON header in 8 bytes, then the header
NCCL_TEXT = re.compile(r"#\s+size\s+count\s+type\b.*\balgbw\s+busbw")
NCCL_START = re.compile(r"\bnccl-tests version \S|\bCollective test starting:|\bnThread \d+ nGpus \d+ minBytes \d")
NCCL_JSON = re.compile(r'\{\s*"version"\s*:.*("results"|"nccl_version"|_perf\b)', re.DOTALL)
UNICODE_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MARKUP = (("<!doctype html", HTML), ("<html", HTML), ("<?xml", "an XML text"))
JSON_BEGIN = re.compile(r'\{\s*(["}]|$)|\[\s*(["\[{\]\d-]|true|false|null)')  # no section "[train]" of an INI file

# What leads on with a file of this kind, whatever was wanted instead.
ADVICE = {
    "a folder": "give the files in it",
    EMPTY: "its writer ended early, or the disk was full; write it again",
    "a ZIP archive": "save the sheet of a workbook (.xlsx) as CSV, or unpack it: python3 -m zipfile -e FILE .",
    "a tar archive": "unpack it: tar -xf FILE",
    "a gzip archive": "unpack it: gzip -dc FILE >FILE.unpacked",
    "a bzip2 archive": "unpack it: bzip2 -dc FILE >FILE.unpacked",
    "an xz archive": "unpack it: xz -dc FILE >FILE.unpacked",
    HTML: "probably an error or login page of a download; download the file again",
    CHECKPOINT: "give the run file of the training (--output)",
    **dict.fromkeys((PYTORCH, NUMPY_ZIP, SAFETENSORS), "convert weights with lockstep-weights from-pytorch"),
    CSV: "epoch times are given with --csv",
    NCCL_TESTS: "give it to `report`, or to `predict` with --network",
    HDF5: "give run files without an option, and sweeps with --network",
}


def kind_of(head):
    """Returns the kind of a file that begins with the bytes `head` (up to `HEAD`): "a ZIP archive"."""
    if head.startswith(b"PK\x03\x04"):
        name = head[30:230]  # of the first member
        return PYTORCH if b"data.pkl" in name else NUMPY_ZIP if b".npy" in name else "a ZIP archive"
    for place, signature, kind in SIGNATURES:
        if head.startswith(signature, place):
            return kind
    if not head:
        return EMPTY
    text = decoded(head)
    return OTHER if any(c < " " and c not in "\t\n\r\f\x1b" for c in text) else kind_of_text(text)


def kind_of_text(text):
    begin = text.lstrip().lower()
    if NCCL_TEXT.search(text) or NCCL_START.search(text) or NCCL_JSON.match(begin):
        return NCCL_TESTS
    for mark, kind in MARKUP:
        if begin.startswith(mark):
            return kind
    if JSON_BEGIN.match(begin):
        return JSON
    lines = [line for line in text.splitlines()[:20] if line.strip() and line[0] != "#"][:2]
    has_columns = len(lines) == 2 and any(
        lines[0].count(mark) and lines[1].count(mark) >= lines[0].count(mark) for mark in ",;\t")
    return CSV if has_columns else TEXT


def decoded(data):
    """Returns the text of the bytes `data`, whose end may be cut off: by their byte-order mark, in UTF-8, or in Latin-1."""
    for mark, encoding in UNICODE_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 and error.reason == "unexpected end of data":
            return data[:error.start].decode("utf-8")
        return data.decode("latin-1")


def wrong_kind(path, wanted, kind, advice=""):
    """Returns the error of a file of another kind. `advice`: what to do if the kind does not say it."""
    advice = ADVICE.get(kind, advice).replace("FILE", shlex.quote(os.fspath(path)))
    return ReportError(INPUT, f"{path}: not {wanted}, but {kind}; {advice}")


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
    """Returns the text of the file `path`. Raises `ReportError` (input) if it cannot be read or is of
    none of the `kinds`; the error says that it is not `wanted`, and `advice`."""
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
