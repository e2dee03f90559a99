"""Files that are written: into one folder, each complete or not at all.

The folder keeps a list of what was written: the kind of each file and its digest. A later run
removes the files of that list which are of a kind that it writes and which it did not write again,
so that no table of other runs stays among the new ones. A file that was changed since, or that the
list does not name, is never removed.
"""

import hashlib
import json
import os
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError
from lockstep_report.tables import RENDERERS

MANIFEST = ".lockstep-report.json"
TABLE, CHECK, FIGURE, PAGE = "table", "check", "figure", "page"  # kinds of files


class Folder:
    """The folder of --out, for a run that writes files of these `kinds`. Every failure to write is
    a `ReportError` (output)."""

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
        """Writes text or bytes through a temporary file beside the target."""
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        target = self.replace(name, data)
        self.written.append(target)
        self.manifest[name] = {"kind": kind, "sha256": hashlib.sha256(data).hexdigest()}
        return target

    def replace(self, name, data):
        target = self.path / name
        temporary = target.with_name(f".{name}.partial")
        try:
            temporary.write_bytes(data)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self.failure(target, error) from error
        return target

    def write_table(self, table, kind=TABLE):
        for suffix, render in RENDERERS.items():
            self.write(f"{table.name}.{suffix}", render(table), kind)

    def finish(self):
        """Removes the files of earlier runs that this run did not replace, and saves the list."""
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
        self.replace(MANIFEST, f"{text}\n".encode())


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_manifest(path):
    """{name: {"kind", "sha256"}}; empty without a list. Names that lead out of the folder are
    left out."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {name: {"kind": str(entry["kind"]), "sha256": str(entry["sha256"])}
                for name, entry in files.items() if name == Path(name).name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
