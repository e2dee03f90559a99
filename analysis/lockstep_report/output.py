"""Files that are written: into one folder, each complete or not at all."""

import os
from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError
from lockstep_report.tables import RENDERERS


class Folder:
    """The folder of --out. Every failure to write is a `ReportError` (output)."""

    def __init__(self, path):
        self.path = Path(path)
        self.written = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.failure(self.path, error) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise ReportError(OUTPUT, f"{self.path}: cannot be written (no permission); "
                                      "give another folder with --out")

    @staticmethod
    def failure(path, error):
        return ReportError(OUTPUT, f"{path}: cannot be written ({error.strerror or error}); "
                                   "give another folder with --out")

    def write(self, name, content):
        """Text or bytes, by way of a temporary file beside it."""
        target = self.path / name
        temporary = target.with_name(f".{name}.partial")
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        try:
            temporary.write_bytes(data)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self.failure(target, error) from error
        self.written.append(target)
        return target

    def write_table(self, table):
        for suffix, render in RENDERERS.items():
            self.write(f"{table.name}.{suffix}", render(table))
