"""Output into one folder. Each file is written completely or not at all.

A manifest in the folder lists the kind and the digest of each file that was written. A later run
of the program removes the listed files of the kinds that it writes if it did not write them again,
so that no outdated tables remain. It never removes a file that was changed or is not listed.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError
from lockstep_report.tables import RENDERERS

MANIFEST = ".lockstep-report.json"
# Kinds of files.
TABLE, CHECK, FIGURE, PAGE, PREDICTION = "table", "check", "figure", "page", "prediction"


class Folder:
    """The folder of --out, to which files of these `kinds` are written. Raises `ReportError`
    (output) if the folder or a file cannot be written."""

    def __init__(self, path, *kinds):
        self.path = Path(path)
        self.kinds = kinds
        self.written = []
        self.removed = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.failure(self.path, error) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise ReportError(OUTPUT, f"{self.path}: cannot be written (no permission); "
                                      "give another folder with --out")
        self.manifest = read_manifest(self.path / MANIFEST)

    @staticmethod
    def failure(path, error):
        return ReportError(OUTPUT, f"{path}: cannot be written ({error.strerror or error}); "
                                   "give another folder with --out")

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
        temporary = self.path / f".{secrets.token_hex(8)}.partial"
        try:
            with temporary.open("xb") as file:  # fails if the name exists, also as a link
                for part in parts:
                    hashed.update(part)
                    file.write(part)
            temporary.replace(target)
        except OSError as error:
            raise self.failure(target, error) from error
        finally:
            temporary.unlink(missing_ok=True)  # if it was not renamed
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
                raise self.failure(path, error) from error
            del self.manifest[name]
        text = json.dumps({"files": self.manifest}, indent=1, sort_keys=True)
        self.replace(MANIFEST, [f"{text}\n".encode()], hashlib.sha256())


def write_file(path, text):
    """Writes the file `path` completely or not at all. Raises `ReportError` (output)."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise ReportError(OUTPUT, f"{path}: cannot be written ({error.strerror or error}); give "
                                  "another file") from error
    finally:
        try:
            temporary.unlink(missing_ok=True)  # if it was not renamed
        except OSError:
            pass


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
