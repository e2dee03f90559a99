"""Paths of run files on the command line: files or directories."""

from pathlib import Path

from lockstep_report.errors import INPUT, ReportError


def run_files(names):
    """Returns the paths of the files `names`. A directory is replaced by the *.h5 files in it,
    sorted by name. Raises `ReportError` if a directory has none."""
    found = []
    for path in map(Path, names):
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(path.glob("*.h5"))
        if not inside:
            raise ReportError(INPUT, f"{path}: is a directory without *.h5 files; give run files, "
                                     "or the directory that holds them")
        found += inside
    return found


def one_file(name):
    """Returns `name`, for a command that reads one file. Raises `ReportError` for a directory."""
    path = Path(name)
    if path.is_dir():
        example = next(iter(sorted(path.glob("*.h5"))), path / "RUN.h5")
        raise ReportError(INPUT, f"{path}: is a directory; give one run file, such as {example}")
    return name
