# SPDX-License-Identifier: BSD-3-Clause
"""The command `lockstep-report watch`: follows a run while it writes its file.

The program appends to PATH.partial after each epoch, or each point of a ladder, and renames the
file to PATH when the run ends. `/epoch` is written last, so an epoch that is listed is complete.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lockstep_report.arguments import finish
from lockstep_report.errors import INPUT, ReportError, reason_of
from lockstep_report.escaping import one_line
from lockstep_report.measure.window import timed_seconds
from lockstep_report.runfile.read import Run, read_run
from lockstep_report.runfile.settings import plural, setting_of, setting_texts
from lockstep_report.tables.export.trackers import OF_EPOCHS, TRACKERS, Log
from lockstep_report.tables.table import json_text

POLL_SECONDS = 1.0
MOST_MISSES = 5  # successive polls in which the file cannot be read, before this is an error
QUIET_FACTOR = 5  # a run is reported as quiet after this many times its longest epoch, and
QUIET_SECONDS = 60  # not before this time
USUAL_COLUMNS = 80  # of a terminal
EPOCH_TEXTS = {
    "seconds": "{:.2f} s",
    "images_per_second": "{:,.1f} images/s",
    "train_loss": "loss {:.4f}",
    "train_accuracy": "train {:.2%}",
    "test_accuracy": "test {:.2%}",
}


def add(commands):
    command = commands.add_parser(
        "watch",
        help="print each epoch of a running job",
        description=(
            "Prints one line per epoch (or point of a ladder) of a run, and waits for the "
            "next one until the run ends."
        ),
        epilog=(
            "Exit status: 0 if the run is complete; 3 if it ended otherwise. If the file does not"
            " change for long, the program reports this and continues to wait, because the run may"
            " have been killed."
        ),
    )
    command.add_argument(
        "run",
        metavar="RUN.h5",
        help="run file; while the run is in progress, the program reads RUN.h5.partial",
    )
    command.add_argument("--once", action="store_true", help="print the present state and exit")
    command.add_argument(
        "--log",
        choices=TRACKERS,
        metavar="TRACKER",
        help=(
            f"also log steps and epochs as they arrive, to {', '.join(TRACKERS)}; needs its library"
        ),
    )
    finish(command, watch, "print one JSON object per line")


def watch(options):
    output = Output(sys.stdout, options.json)
    log = Log(options.log) if options.log else None
    status = None
    try:
        status = Watch(Path(options.run), output, options.once, log).follow()
    except KeyboardInterrupt:
        status = 130
    finally:
        output.clear()
        if log:
            log.finish(status == 0)
    return status


class Output:
    """Prints one line per event, as text or JSON. On a terminal, a last line shows what the program
    waits for; it is replaced, so that a log file never has it."""

    def __init__(self, stream, is_json=False):
        self.stream = stream
        self.is_json = is_json
        self.shown = ""

    def event(self, kind, values, text):
        self.clear()
        print(
            json_text({"event": kind, **values}, None) if self.is_json else one_line(text),
            file=self.stream,
            flush=True,
        )

    def waiting(self, text):
        if not self.is_json and self.stream.isatty() and text != self.shown:
            self.clear()
            # A terminal may not know its size; Python before 3.11 then returns 0.
            columns = shutil.get_terminal_size().columns or USUAL_COLUMNS
            self.shown = one_line(text)[: columns - 1]
            print(self.shown, end="", file=self.stream, flush=True)

    def clear(self):
        if self.shown:
            print("\r\x1b[K", end="", file=self.stream, flush=True)
            self.shown = ""


@dataclass
class Watch:
    """Reads the file whenever it changes and prints what is new."""

    path: Path
    output: Output
    once: bool = False
    log: Log = None
    sleep: Callable = time.sleep
    clock: Callable = time.monotonic
    run: Run = None
    printed: int = 0  # epochs or points
    longest: float = 0.0  # epoch, in seconds
    misses: int = 0
    is_reported_quiet: bool = False

    @property
    def final(self):
        """The path of the file when the run has ended."""
        return self.path.with_name(self.path.name.removesuffix(".partial"))

    @property
    def partial(self):
        return self.final.with_name(self.final.name + ".partial")

    def follow(self):
        """Returns the exit status when the run has ended."""
        seen, changed = None, self.clock()
        while True:
            file = self.partial if os.path.exists(self.partial) else self.final
            state = state_of(file)
            if state is None and self.once:
                raise ReportError(INPUT, f"{self.final}: no such file, nor {self.partial.name}")
            if state not in (None, seen) and self.read(file):
                seen, changed = state, self.clock()
                self.is_reported_quiet = False
                self.print_new()
                if self.run.status != "running":
                    return self.end()
                if self.once:
                    return 0
            self.wait(state is not None, self.clock() - changed)

    def wait(self, has_file, quiet):
        """Waits until the next poll. `quiet`: seconds since the last change of the file."""
        if has_file:
            longest = f" (longest so far: {self.longest:.1f} s)" if self.longest else ""
            self.output.waiting(f"waiting for {self.printed + 1}: {quiet:.0f} s{longest}")
        else:
            self.output.waiting(f"waiting for {self.partial.name}")
        limit = max(QUIET_SECONDS, QUIET_FACTOR * self.longest)
        if has_file and quiet > limit and not self.is_reported_quiet:
            self.is_reported_quiet = True
            self.output.event(
                "quiet",
                {"seconds": quiet},
                f"no change for {quiet:.0f} s: the run "
                "may have been killed, or its file system shows changes late",
            )
        self.sleep(POLL_SECONDS)

    def read(self, file):
        """Reads the run, and returns whether it could be read; not if the file is just being
        renamed or created."""
        try:
            run = read_run(file)
        except ReportError:
            self.misses += 1
            if self.misses > MOST_MISSES or self.once:
                raise
            return False
        self.misses = 0
        if self.run is None:
            self.output.event("run", *head_of(run))
        elif self.run.run_id != run.run_id:
            raise ReportError(INPUT, f"{self.path}: another run replaced the one that was watched")
        self.run = run
        return True

    def print_new(self):
        rows = ladder_rows if self.run.ladder else epoch_rows
        for kind, values, text in rows(self.run, self.printed):
            self.longest = max(self.longest, values["seconds"] or 0.0)
            self.output.event(kind, values, text)
            self.printed += 1
        if self.log:
            self.log.update(self.run)

    def end(self):
        failure = str(self.run.attributes.get("failure", ""))
        text = f"{self.final.name}: {self.run.status}" + (f" ({failure})" if failure else "")
        self.output.event("end", {"status": self.run.status, "failure": failure or None}, text)
        return 0 if self.run.status == "complete" else INPUT


def head_of(run):
    """Returns (values, text) about a run that is watched."""
    name = run.path.name.removesuffix(".partial")
    setting = list(filter(None, setting_texts(setting_of(run))))
    values = {
        "run": name,
        "run_id": run.run_id,
        "ranks": run.rank_count,
        "hosts": run.host_count,
        "setting": setting,
        "epochs": run.number("epochs"),
    }
    return values, f"{name}: " + ", ".join([plural(run.rank_count, "rank"), *setting])


class FileState(NamedTuple):
    """What changes if a file is written or replaced."""

    path: Path
    inode: int
    size: int
    modified_ns: int


def state_of(path):
    """Returns a value that changes with the file; None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReportError(INPUT, f"{path}: cannot be read ({reason_of(error)})") from error
    return FileState(path, found.st_ino, found.st_size, found.st_mtime_ns)


def epoch_rows(run, first):
    """Yields ("epoch", values, text) of the epochs from the index `first` on."""
    for row, number in enumerate(run.epoch_numbers[first:].tolist(), first):
        steps = np.flatnonzero(run.epoch == number)
        times, _, phases = timed_seconds(run, steps)
        seconds, exposed = times.sum(), phases[:, run.phases.index("exposed_communication")]
        slowest, host = None, None
        if run.rank_count > 1 and len(steps):
            slowest = int(np.argmax(phases.sum(axis=1) - exposed))
            host = str(run.ranks["hostname"][slowest])
        values = {
            "epoch": number,
            "steps": len(steps),
            "seconds": float(seconds) if len(steps) else None,
            "images_per_second": per_second(run.images[steps].sum(), seconds),
            **results_of_epoch(run, row),
            "exposed_communication_share": per_second(exposed.mean(), seconds),
            "slowest_rank": slowest,
            "slowest_host": host,
        }
        yield "epoch", values, epoch_text(values, run.number("epochs"), run.rank_count)


def results_of_epoch(run, row):
    return {
        name: float(run.epochs[name][row]) if name in run.epochs else None for name in OF_EPOCHS
    }


def per_second(amount, seconds):
    """Returns the amount per second; None without time."""
    return float(amount / seconds) if seconds else None


def epoch_text(values, total, ranks):
    parts = [f"epoch {values['epoch']}" + (f"/{total}" if total else "")]
    for name, text in EPOCH_TEXTS.items():
        if values[name] is not None and np.isfinite(values[name]):
            parts.append(text.format(values[name]))
    if ranks > 1 and values["exposed_communication_share"] is not None:
        parts.append(
            "exposed communication {exposed_communication_share:.1%}  "
            "slowest rank {slowest_rank} ({slowest_host})".format(**values)
        )
    return "  ".join(parts)


def ladder_rows(run, first):
    """Yields ("point", values, text) of the points of a ladder from the index `first` on."""
    ladder = run.ladder
    for row in range(first, len(ladder["status"])):
        seconds, rate = ladder["epoch_seconds"][row], ladder["images_per_second"][row]
        values = {
            "batch_per_rank": int(ladder["batch_per_rank"][row]),
            "status": str(ladder["status"][row]),
            "seconds": float(seconds) if np.isfinite(seconds) else None,
            "images_per_second": float(rate),
        }
        text = f"batch {values['batch_per_rank']}  {values['status']}"
        if np.isfinite(seconds):
            text += f"  epoch {seconds:.2f} s  {rate:,.1f} images/s"
        yield "point", values, text
