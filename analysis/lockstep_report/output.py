"""Output files. Each file is written completely or not at all, and never replaces an input.

A manifest in the folder of --out lists the kind and the digest of each file that was written. A later run
of the program removes the listed files of the kinds that it writes if it did not write them again,
so that no outdated tables remain. It never removes a file that was changed or is not listed.
"""

import hashlib
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import h5py

from lockstep_report.errors import OUTPUT, ReportError, reason_of
from lockstep_report.tables import RENDERERS

MANIFEST = ".lockstep-report.json"
# Kinds of files.
TABLE, CHECK, FIGURE, PAGE, PREDICTION = "table", "check", "figure", "page", "prediction"


class Folder:
    """The folder of --out, to which files of these `kinds` are written. Raises `ReportError`
    (output) if the folder or a file cannot be written, or a file would replace one of the files
    `inputs`."""

    def __init__(self, path, *kinds, inputs=()):
        self.path = Path(path)
        self.kinds = kinds
        self.inputs = inputs
        self.written = []
        self.removed = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.failure(self.path, reason_of(error)) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise self.failure(self.path, "no permission")
        self.manifest = read_manifest(self.path / MANIFEST)

    @staticmethod
    def failure(path, reason):
        return ReportError(OUTPUT, f"{path}: cannot be written ({reason}); give another folder with "
                                   "--out")

    def write(self, name, content, kind):
        """Writes text, bytes, or an iterator of bytes to a temporary file in the folder and renames
        it to `name`."""
        if isinstance(content, (bytes, str)):
            content = [content if isinstance(content, bytes) else content.encode("utf-8")]
        hashed = hashlib.sha256()
        target = self.replace(name, content, hashed)
        self.written.append(target)
        self.manifest[name] = {"kind": kind, "sha256": hashed.hexdigest()}
        return target

    def replace(self, name, parts, hashed):
        target = self.path / name
        if is_input(target, self.inputs):
            raise self.failure(target, IS_INPUT)
        try:
            write_and_rename(target, parts, hashed)
        except OSError as error:
            raise self.failure(target, reason_of(error)) from error
        return target

    def write_table(self, table, kind=TABLE):
        for suffix, render in RENDERERS.items():
            self.write(f"{table.name}.{suffix}", render(table), kind)

    def finish(self):
        """Removes outdated files of earlier runs of the program and saves the manifest."""
        current = {path.name for path in self.written}
        for name, entry in list(self.manifest.items()):
            if name in current or entry["kind"] not in self.kinds:
                continue
            path = self.path / name
            try:
                if path.is_file() and not path.is_symlink() and digest(path) == entry["sha256"]:
                    path.unlink()
                    self.removed.append(path)
            except OSError as error:
                raise self.failure(path, reason_of(error)) from error
            del self.manifest[name]
        text = json.dumps({"files": self.manifest}, indent=1, sort_keys=True)
        self.replace(MANIFEST, [f"{text}\n".encode()], hashlib.sha256())


class File:
    """The single output file of a command. Raises `ReportError` (output) if it cannot be written, or
    if it exists and is not a regular file, is an HDF5 file, or is one of the files `inputs`."""

    def __init__(self, path, inputs):
        self.path = Path(path)
        reason = self.obstacle(inputs)
        if reason:
            raise self.failure(reason)

    def obstacle(self, inputs):
        """Returns why the file must not be written; None if it may be."""
        try:
            # Renaming would replace a symbolic link, such as /dev/stdout, and not its target.
            if not stat.S_ISREG(self.path.lstat().st_mode):
                return "it is not a regular file"
            with self.path.open("rb"):  # its errors are clearer than those of HDF5
                if self.path.suffix == ".h5" or h5py.is_hdf5(str(self.path)):
                    return "it is an HDF5 file"
        except FileNotFoundError as error:
            return None if self.path.parent.is_dir() else reason_of(error)
        except OSError as error:
            return reason_of(error)
        return IS_INPUT if is_input(self.path, inputs) else None

    def failure(self, reason):
        return ReportError(OUTPUT, f"{self.path}: cannot be written ({reason}); give another file")

    def write(self, text):
        try:
            write_and_rename(self.path, [text.encode("utf-8")], hashlib.sha256())
        except OSError as error:
            raise self.failure(reason_of(error)) from error


IS_INPUT = "it is an input of the command"


def is_input(path, inputs):
    """Returns whether `path` and one of the paths `inputs` are the same file."""
    for name in inputs:
        with suppress(OSError):
            if os.path.samefile(path, name):
                return True
    return False


def write_and_rename(target, parts, hashed):
    """Writes the bytes `parts` to a temporary file in the same folder and renames it to `target`.
    Adds the bytes to `hashed`."""
    temporary = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with temporary.open("xb") as file:  # fails if the name exists, also as a link
            for part in parts:
                hashed.update(part)
                file.write(part)
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # if it was not renamed


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_manifest(path):
    """Returns {name: {"kind", "sha256"}}; empty if the manifest is missing or damaged. Names of
    files outside the folder are omitted."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {name: {"kind": str(entry["kind"]), "sha256": str(entry["sha256"])}
                for name, entry in files.items() if name == Path(name).name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
