# SPDX-License-Identifier: BSD-3-Clause
"""Writes the report of a study with lockstep-report, with notes about the runs that it lacks."""

import re
import subprocess

from lockstep_study.programs import RUN_PYTHON, last_line


def write_report(directory, programs, points):
    """Writes the report of the run files in a folder: tables and figures to DIR/report, and the
    page DIR/report.html. Does nothing if the folder has no run files. Returns whether it
    succeeded."""
    if not any(directory.glob("*.h5")):
        return True
    print("\n== report", flush=True)
    notes = [word for note in notes_of(directory, points) for word in ("--note", note)]
    command = [*programs.container, RUN_PYTHON, "lockstep_report"]
    succeeded = True
    for form in (
        ["report", directory, "--out", directory / "report"],
        ["html", directory, "-o", directory / "report.html"],
    ):
        ended = subprocess.run([*command, *form, *notes], env=programs.environment)
        succeeded = succeeded and ended.returncode == 0
    return succeeded


def notes_of(directory, points):
    """Returns notes about those of the points that do not fit in memory, their runs that failed,
    with the reasons, and those that have started and are not complete."""
    names = {point.name for point in points}
    too_large, failed, started = (
        [run for run in runs_with(directory, suffix) if point_of(run) in names]
        for suffix in ("memory", "failed", "started")
    )
    failed = [run for run in failed if run not in too_large]
    started = [run for run in started if run not in (*too_large, *failed)]
    notes = []
    if too_large:
        points = dict.fromkeys(map(point_of, too_large))
        notes.append(f"points that do not fit in memory: {', '.join(points)}")
    by_reason = {}
    for name in failed:
        text = (directory / f"{name}.failed").read_text(encoding="utf-8", errors="replace")
        by_reason.setdefault(last_line(text), []).append(name)
    notes += [f"runs that failed: {by_point(names)} ({why})" for why, names in by_reason.items()]
    if started:
        notes.append(
            f"runs that did not finish (their epochs count only if no repeat is complete):"
            f" {', '.join(started)}"
        )
    return notes


def point_of(run):
    """Returns the name of the point of a run."""
    return re.sub("-[0-9]*$", "", run)


def by_point(names):
    """Returns the names of runs as text: a point with several of them is named once."""
    points = {}
    for name in names:
        points.setdefault(point_of(name), []).append(name)
    return ", ".join(
        f"{point} ({len(runs)} runs)" if len(runs) > 1 else runs[0]
        for point, runs in points.items()
    )


def runs_with(directory, suffix):
    """Returns the names of the runs that have a file with this suffix, in natural order."""
    return sorted((path.stem for path in directory.glob(f"*.{suffix}")), key=natural)


def natural(name):
    parts = re.split("([0-9]+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
