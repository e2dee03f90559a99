# SPDX-License-Identifier: BSD-3-Clause
"""Output files and standard output. Each file is written completely or not at all, and replaces
neither an input nor a file of another kind.

A manifest in the folder of --out lists the kind and the digest of each file that was written. A
later run of the program replaces listed files, and removes those of the kinds that it writes if it
did not write them again, so that no outdated tables remain. It never removes a file that was
changed or is not listed.
"""

import io
import json
import os
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError, reason_of
from lockstep_report.escaping import one_line
from lockstep_report.runfile.file_kind import CSV, EMPTY, HTML, TEXT, kind_of, read_head
from lockstep_report.runfile.names import has_run_name
from lockstep_report.tables.table import RENDERERS

MANIFEST = ".lockstep-report.json"
# Kinds of files.
TABLE, CHECK, FIGURE = "table", "check", "figure"
PAGE, PREDICTION = "page", "prediction"
ANOTHER_FILE = "give another file"
SUFFIXES = {HTML: (".html", ".htm"), CSV: (".csv",)}


@contextmanager
def errors_of_output(path, advice="give another folder with --out"):
    """Raises `ReportError` (output) for the errors of the operating system, and of `check_target`,
    about `path`."""
    try:
        yield
    except OSError as error:
        raise ReportError(
            OUTPUT, f"{path}: cannot be written ({reason_of(error)}); {advice}"
        ) from error


class Folder:
    """The folder of --out, to which files of these `kinds` are written. Raises `ReportError`
    (output) if the folder or a file cannot be written, or a file would replace one of the files
    `inputs`, another output, or a file that is not in the manifest."""

    def __init__(self, path, *kinds, inputs=()):
        self.path = Path(path)
        self.kinds = kinds
        self.inputs = inputs
        self.written = []
        with errors_of_output(path):
            if not self.path.exists():
                check_name(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise OSError("no permission")
        self.manifest = read_manifest(self.path / MANIFEST)

    def write(self, name, content, kind):
        """Writes text, bytes, or an iterator of bytes to a temporary file in the folder and renames
        it to `name`."""
        if isinstance(content, (bytes, str)):
            content = [content if isinstance(content, bytes) else content.encode("utf-8")]
        target = self.path / name
        with errors_of_output(target):
            if not target.is_symlink():
                check_target(target, self.inputs, self.check_own)
            # Before the file exists, so that it is listed if the program is killed.
            if name not in self.manifest:
                self.manifest[name] = {"kind": kind, "sha256": ""}
                self.save()
            self.manifest[name] = {"kind": kind, "sha256": write_and_rename(target, content)}
        self.written.append(target)
        return target

    def check_own(self, target):
        """Raises `OSError` if `target` is not a file of an earlier run of the program."""
        if is_one_of(target, self.written):
            raise OSError("another output has this name; rename one of the inputs")
        if target.name not in self.manifest:
            raise OSError(f"it is not in the list {MANIFEST} of written files; delete it")

    def subfolder(self, name):
        return Folder(self.path / name, *self.kinds)

    def save(self):
        text = json.dumps({"files": self.manifest}, indent=1, sort_keys=True)
        with errors_of_output(self.path / MANIFEST):
            write_and_rename(self.path / MANIFEST, [f"{text}\n".encode()])

    def write_tables(self, tables, kind=TABLE):
        for table in tables:
            for suffix, render in RENDERERS.items():
                self.write(f"{table.name}.{suffix}", render(table), kind)

    def listing(self):
        return "\n".join(one_line(str(path)) for path in self.written)

    def finish(self):
        """Removes outdated files of earlier runs of the program and saves the manifest."""
        for name, entry in list(self.manifest.items()):
            path = self.path / name
            if entry["kind"] in self.kinds and path not in self.written:
                with errors_of_output(path):
                    if (
                        path.is_file()
                        and not path.is_symlink()
                        and sha256(path.read_bytes()).hexdigest() == entry["sha256"]
                    ):
                        path.unlink()
                del self.manifest[name]
        self.save()


class File:
    """The single output file of a command, of the kind `kind`. Raises `ReportError` (output) if it
    cannot be written, or if it exists and is not a regular file, is of another kind, or is one of
    the files `inputs`.
    """

    def __init__(self, path, inputs, kind):
        self.path = Path(path)
        self.kind = kind
        with errors_of_output(path, ANOTHER_FILE):
            # Renaming would replace a symbolic link, such as /dev/stdout, and not its target.
            check_target(self.path, inputs, self.check_own)

    def check_own(self, path):
        """Raises `OSError` if the file is of another kind."""
        found = kind_of(read_head(path))
        is_text_of_kind = found == TEXT and path.suffix.lower() in ("", *SUFFIXES[self.kind])
        if found not in (self.kind, EMPTY) and not is_text_of_kind:
            raise OSError(f"it is {found}")

    def write(self, text):
        with errors_of_output(self.path, ANOTHER_FILE):
            write_and_rename(self.path, [text.encode("utf-8")])


def require_new(path):
    """Raises `ReportError` (output) if `path` exists, for commands that replace no file."""
    with errors_of_output(path, f"delete it, or {ANOTHER_FILE}"):
        if os.path.lexists(path):
            raise OSError("it exists")


def check_target(path, inputs, check_own):
    """Raises `OSError` if no output may be written to `path`. `check_own(path)` does so for an
    existing regular file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return check_name(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    if is_one_of(path, inputs):
        raise OSError("it is an input of the command")
    if is_one_of(path, (1, 2)):  # descriptors of stdout and stderr
        raise OSError("it is stdout or stderr of the command")
    check_own(path)
    if not found.st_mode & 0o222:
        raise OSError("it is write-protected")
    return check_name(path)


def check_name(path):
    """Raises `OSError` if the name is that of a run file."""
    if has_run_name(path.name):
        raise OSError("its name is that of a run file")


def is_one_of(path, others):
    """Returns whether `path` and one of the paths or descriptors `others` are the same file."""
    for other in others:
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.stat(other)):
                return True
    return False


def write_and_rename(target, parts):
    """Writes `parts` to a temporary file in the folder of `target`, renames it, and returns the
    digest."""
    hashed, temporary = sha256(), target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with temporary.open("xb") as file:  # fails if the name exists, also as a link
            for part in parts:
                hashed.update(part)
                file.write(part)
        temporary.replace(target)
        return hashed.hexdigest()
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # if it was not renamed


def read_manifest(path):
    """Returns {name: {"kind", "sha256"}} of files in the folder; empty if the manifest is missing
    or damaged."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {
            name: {"kind": str(entry["kind"]), "sha256": str(entry["sha256"])}
            for name, entry in files.items()
            if name == Path(name).name
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


class ErrorStream(io.FileIO):
    """A stream that drops what cannot be written: no other stream could report it."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError:
            return len(data)


@contextmanager
def stderr_without_errors():
    """Replaces stderr by a stream without errors, also those at the end of the process, which would
    change the exit status."""
    given = sys.stderr
    if type(given) is not io.TextIOWrapper:  # it is closed, or of a notebook or test
        yield
        return
    raw = ErrorStream(given.fileno(), "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw), given.encoding, given.errors, line_buffering=True
    )
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = given


def with_stdout(command, errors):
    """Returns the exit status of `command()`. Escapes characters that the encoding of stdout lacks.
    If stdout cannot be written, appends an error to `errors` and returns its status; a pipe that
    its reader (head, less) has closed is no error."""
    is_closed = sys.stdout is None  # as by >&-
    for name in ("stdout", "stderr"):  # otherwise an input would get the descriptor
        if getattr(sys, name) is None:
            # It stays open until the process ends.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another class
        sys.stdout.reconfigure(errors="backslashreplace")
    status = 0
    try:
        status = command()
        print(end="", flush=True)  # reports errors of stdout here, not at the end of the process
    except OSError as error:
        if error.filename is not None:  # not an error of stdout
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            status = OUTPUT
            errors.append(
                ReportError(
                    OUTPUT,
                    f"stdout: cannot be written ({reason_of(error)}); free disk space or redirect"
                    " it to another file",
                )
            )
    if is_closed:
        errors.append(
            ReportError(OUTPUT, "stdout: is closed; redirect it to a file, or to /dev/null")
        )
    return status or (OUTPUT if is_closed else 0)
