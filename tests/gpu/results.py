"""The files in which the results come back: a report, a JSON file, and one archive per part.

The files are rewritten after every step of a part, so that a call that is cut off loses only the
running step. A machine may return only few and small files (here: 8 files of 16 MiB, 64 MiB in
total), so a call has at most MAX_PARTS parts, and an archive at most ARCHIVE_BYTES."""

import json
import os
import pathlib
import tarfile

MAX_PARTS = 6
ARCHIVE_BYTES = 10 * 2**20
LOG_BYTES = 2**20  # of a longer text file, the archive has only the end
TEXT_SUFFIXES = {".out", ".err", ".log"}
REPORT, NUMBERS = "acceptance.md", "acceptance.json"


def archive_name(number):
    return f"part-{number}.tar.gz"


def replace_file(path, text):
    """Writes `text` to a temporary file and renames it to `path`, which is never incomplete."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def snapshot(folder):
    """Returns {file: modification time} of all files in a folder."""
    times = {}
    for path in pathlib.Path(folder).rglob("*"):
        try:
            if path.is_file():
                times[path] = path.stat().st_mtime_ns
        except OSError:  # a program removed or renamed the file
            continue
    return times


def shorten(path, limit):
    """Keeps only the last `limit` bytes of a text file that no program writes any more."""
    if path.suffix not in TEXT_SUFFIXES or path.stat().st_size <= limit:
        return
    with open(path, "rb") as file:
        file.seek(-limit, os.SEEK_END)
        end = file.read()
    path.write_bytes(b"(the beginning of this file was removed)\n" + end)


def pack(archive, files, limit=ARCHIVE_BYTES):
    """Writes `files`, {name in the archive: path}, to `archive` in this order. Returns the names of
    the files that it leaves out because the archive would exceed `limit` bytes, or because they
    cannot be read."""
    partial, left_out = archive.with_suffix(".partial"), []
    with open(partial, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for name, path in files.items():
            try:
                # The compressed size of the next file is not known; its size is an upper bound.
                if raw.tell() + path.stat().st_size > limit:
                    left_out.append(name)
                else:
                    tar.add(path, name, recursive=False)
            except OSError:
                left_out.append(name)
    partial.replace(archive)
    return left_out


class Results:
    """Writes the results of a call to the folder `out`."""

    def __init__(self, out, cache):
        self.out, self.cache = out, cache
        self.cached = {}
        self.content = {}

    def begin_part(self):
        """Records which engines are in the cache: the archive of a part has the new ones."""
        self.cached = snapshot(self.cache)

    def save(self, number, folder, part):
        """Writes the archive of the part `number` from its `folder` and from the engines that it
        added to the cache, and the JSON file. `part` is the JSON object of the part."""
        replace_file(folder / f"part-{number}.json", json.dumps(part, indent=1, default=str))
        for path in snapshot(folder):
            shorten(path, LOG_BYTES)
        own = sorted(snapshot(folder), key=lambda path: (path.suffix != ".json",
                                                          path.stat().st_size))
        files = {f"part-{number}/{path.relative_to(folder)}": path for path in own}
        # The small table of engines precedes the compiled plans, which can be built again.
        engines = sorted(path for path, time in snapshot(self.cache).items()
                         if self.cached.get(path) != time)
        engines.sort(key=lambda path: path.suffix != ".json")
        files |= {f"cache/{path.relative_to(self.cache)}": path for path in engines}
        part["left_out"] = pack(self.out / archive_name(number), files)
        self.content.setdefault("parts", {})[str(number)] = part
        self.write_numbers()

    def write_numbers(self):
        replace_file(self.out / NUMBERS, json.dumps(self.content, indent=1, default=str))


def restore_cache(source, cache):
    """Fills the folder `cache` with the engines of an earlier call. `source` is one of its archives
    or the folder that holds them. Returns the number of files. Raises OSError."""
    source = pathlib.Path(source)
    archives = sorted(source.glob("part-*.tar.gz")) if source.is_dir() else [source]
    if not archives:
        raise OSError(f"{source} has no part-N.tar.gz")
    count = 0
    for archive in archives:  # later parts have the newer table of engines
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    parts = pathlib.PurePosixPath(member.name).parts
                    if not member.isfile() or parts[:1] != ("cache",) or ".." in parts:
                        continue
                    path = cache.joinpath(*parts[1:])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())
                    count += 1
        except (tarfile.TarError, EOFError) as error:
            raise OSError(f"{archive}: {error}") from None
    return count
