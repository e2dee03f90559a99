"""Paths of run files on the command line: files, and directories of files."""

from pathlib import Path

from lockstep_report.errors import INPUT, ReportError


def run_files(names):
    """The files that `names` mean: a directory stands for the *.h5 files in it, sorted by name."""
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
    """`name`, for a command that reads one file. A directory is an error."""
    path = Path(name)
    if path.is_dir():
        example = next(iter(sorted(path.glob("*.h5"))), path / "RUN.h5")
        raise ReportError(INPUT, f"{path}: is a directory; give one run file, such as {example}")
    return name
