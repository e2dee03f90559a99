# SPDX-License-Identifier: BSD-3-Clause
"""The files in which the results come back: a report, a JSON file, and two archives.

A machine may return only few and small files, so the archives have a size limit."""

import tarfile

ARCHIVE_BYTES = 15 * 2**20
REPORT, NUMBERS = "acceptance.md", "acceptance.json"
LOGS, CACHE = "logs.tar.gz", "cache.tar.gz"


def replace_file(path, text):
    """Writes `text` to a temporary file and renames it to `path`, which is never incomplete."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def pack(archive, folders, limit=ARCHIVE_BYTES):
    """Writes the files in `folders` to `archive`, small files first. Names are relative to the parent
    of the folder. Returns the names of the files that it leaves out because the archive would exceed
    `limit` bytes."""
    files = [(path.stat().st_size, str(path.relative_to(folder.parent)), path)
             for folder in folders for path in folder.rglob("*") if path.is_file()]
    partial, left_out = archive.with_suffix(".partial"), []
    with open(partial, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for size, name, path in sorted(files):
            # The compressed size of the next file is not known; its size is an upper bound.
            if raw.tell() + size > limit:
                left_out.append(name)
            else:
                tar.add(path, name)
    partial.replace(archive)
    return left_out
