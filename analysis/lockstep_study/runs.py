# SPDX-License-Identifier: BSD-3-Clause
"""The files of a run, which is one repeat of a point, in the folder of the results.

NAME-REPEAT.PART.h5       run files; PART is a number, or the job, task and restart of a batch job
NAME-REPEAT.started       the experiment of a run that has started
NAME-REPEAT.done          the name of the run file and the experiment of a complete run
NAME-REPEAT.memory        the run does not fit in memory
NAME-REPEAT.failed        why the run failed
checkpoints/NAME-REPEAT   its checkpoints
"""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from lockstep_study.errors import StudyError
from lockstep_study.experiment import changes, experiment
from lockstep_study.points import Point
from lockstep_study.programs import RUN_PYTHON
from lockstep_study.shell import command_line

PARTS = r"(?:\.(?:[0-9_]+|part[0-9]+))+\.h5"  # end of the name of a run file
FIND_COMPLETE = """
import sys, h5py
for name in sys.argv[1:]:
    try:
        with h5py.File(name) as file:
            if file.attrs["status"] in ("complete", b"complete"):
                sys.exit(print(name))
    except (OSError, KeyError):
        pass
sys.exit(1)"""


TEXT = {"encoding": "utf-8", "errors": "surrogateescape"}


class Run:
    """Repeat `repeat` of `point` in the folder `directory`."""

    def __init__(self, point: Point, repeat: int, directory: Path):
        self.point, self.repeat, self.directory = point, repeat, directory
        self.name = f"{point.name}-{repeat}"

    def path(self, suffix):
        return self.directory / f"{self.name}.{suffix}"

    @property
    def is_done(self):
        return self.path("done").exists()

    @property
    def too_large(self):
        return self.path("memory").exists()

    @property
    def run_file(self):
        """The name of the run file of a complete run."""
        return first_line(self.path("done"))

    def files(self):
        """Returns the run files, also unfinished ones, and the folder of the checkpoints."""
        pattern = re.compile(re.escape(self.name) + PARTS + r"(\.partial.*)?")
        names = {
            path.name: path for path in self.directory.glob("*") if pattern.fullmatch(path.name)
        }
        files = [names[name] for name in sorted(names, key=lambda name: (".partial" in name, name))]
        folder = self.directory / "checkpoints" / self.name
        with suppress(OSError):
            files += [folder] if any(folder.iterdir()) else []
        return files

    def next_file(self):
        """Returns the run file of the next attempt on this machine."""
        part = 0
        while any(path.name.startswith(f"{self.name}.{part}.h5") for path in self.files()):
            part += 1
        return self.path(f"{part}.h5")

    def mark_started(self, text):
        self.path("memory").unlink(missing_ok=True)
        self.path("failed").unlink(missing_ok=True)
        replace_text(self.path("started"), text)

    def mark_complete(self, file):
        """Marks the run as complete. Of the checkpoints, only the last one with the final weights
        is kept. Raises StudyError if there is no run file, for example because of --dry-run."""
        if not file.exists():
            raise StudyError(f"the command of {self.name} wrote no run file")
        started = self.path("started")
        try:
            text = started.read_text(**TEXT) if started.exists() else ""
            replace_text(self.path("done"), f"{file.name}\n{text}")
        except OSError as error:
            raise StudyError(f"cannot write {self.path('done')}: {error.strerror}") from None
        for suffix in ("started", "memory", "failed"):
            self.path(suffix).unlink(missing_ok=True)
        self.remove_earlier_checkpoints()

    def remove_earlier_checkpoints(self):
        folder = self.directory / "checkpoints" / self.name
        checkpoints = folder.glob("checkpoint-*.h5")
        for path in sorted(checkpoints, key=number_of)[:-1]:
            with suppress(OSError):
                path.unlink()

    def mark_too_large(self):
        shutil.copyfile(self.path("started"), self.path("memory"))

    def mark_failed(self, reason):
        with suppress(OSError):  # a full disk is reported by the run itself
            replace_text(self.path("failed"), f"{reason}\n")

    def complete_after_kill(self, programs):
        """Marks the run as complete if one of its run files is, because the study was killed before
        it noticed that; lockstep would not train again, and would write no run file. Returns
        whether it did."""
        files = [path for path in self.files() if path.suffix == ".h5"]
        if not files:
            return False
        answer = programs.run(RUN_PYTHON, "--modules", "h5py", "-c", FIND_COMPLETE, *files)
        names = answer.stdout.splitlines()
        if answer.returncode != 0 or not names:
            return False
        self.mark_complete(Path(names[-1]))
        return True


class Comparison:
    """Compares runs in a folder with the present command. `launcher`: text that describes it."""

    def __init__(self, commands, launcher, notes):
        self.commands, self.launcher, self.notes = commands, launcher, notes

    def experiment(self, run):
        return experiment(self.commands, run.point, run.repeat, self.launcher)

    def mark_started(self, run):
        """Marks a run as started, without its experiment if the program cannot name it."""
        try:
            run.mark_started(self.experiment(run))
        except StudyError:
            run.mark_started("")

    def is_complete(self, run):
        """Returns True if the run is complete, False if it is not, and None, with a note, if its
        experiment cannot be compared with the present one. Raises StudyError that names the changes
        if the experiments differ, also for an interrupted run, because its checkpoint and its run
        files would be continued. A note says that a marker without an experiment was not compared.
        """
        files, state, marker = run.files(), "complete", run.path("done")
        if marker.exists():
            if not (run.run_file and (run.directory / run.run_file) in files):
                text = f"{marker} names the run file '{run.run_file}', which does not exist"
                raise StudyError(refusal(text, marker, files))
            saved = marker.read_text(**TEXT).partition("\n")[2]
        else:
            state, marker = "interrupted", run.path("started")
            if not files:
                return False
            saved = marker.read_text(**TEXT) if marker.exists() else ""
        if not saved.strip():
            self.notes.say_once(
                "marker",
                f"{marker} does not contain the options and the build of the run (the program was"
                f" not available when it started, or the file was deleted): it counts as {state},"
                " but was not compared with the present options",
            )
            return state == "complete"
        try:
            present = self.experiment(run)
        except StudyError as error:
            text = f"{marker} was not compared with the present options: {error}"
            self.notes.say_once("marker", text)
            return None
        found = changes(saved, present)
        if found:
            text = f"{run.name} is {state}, but the present command changes {found}"
            raise StudyError(refusal(text, marker, files))
        return state == "complete"


def replace_text(path, text):
    """Writes a file so that an error leaves the old one as it was."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(text, **TEXT)
    except OSError as error:  # those of write have no name
        raise OSError(error.errno, error.strerror, str(new)) from None
    new.replace(path)


def runs_of(points, repeats, directory):
    """Returns the runs of the points, the repeats of a point one after the other."""
    return [Run(point, repeat, directory) for point in points for repeat in range(1, repeats + 1)]


def refusal(text, marker, files):
    """Returns an error message with the command that deletes the old run."""
    remedy = command_line(["rm", "-rf", marker, *files])
    return f"{text}; use another --dir, or delete the old run: {remedy}"


def number_of(path):
    return [int(number) for number in re.findall("[0-9]+", path.name)]


def first_line(path):
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8").partition("\n")[0]
    return ""


def note_other_points(directory, points, notes):
    """Says which points the report will include although `points` lacks them."""
    others = other_points(directory, points)
    if others:
        notes.say(
            f"the report will include points that are not in the table: {' '.join(others)} (in"
            f" {directory})"
        )


def other_points(directory, points):
    """Returns the names of points whose run files are in the folder, but which `points` lacks."""
    names = {point.name for point in points}
    found = []
    for path in sorted(directory.glob("*.h5")):
        match = re.fullmatch(f"(.+)-[0-9]+{PARTS}", path.name)
        if match and match[1] not in names and match[1] not in found:
            found.append(match[1])
    return found
