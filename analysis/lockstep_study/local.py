# SPDX-License-Identifier: BSD-3-Clause
"""Runs the points of a study on this machine, one after the other."""

import fcntl
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress

from lockstep_study.checks import reason_of
from lockstep_study.errors import StudyError
from lockstep_study.output import Efficiencies, Output
from lockstep_study.points import ROOT
from lockstep_study.programs import shell_status
from lockstep_study.progress import write
from lockstep_study.shell import command_line

FORWARD_SIGNALS = ROOT / "jobs" / "forward-signals"
COMPLETE, TOO_LARGE = 0, 4  # exit statuses of lockstep
# It saved a checkpoint, or a signal that stops lockstep ended it.
STOPPED = (75, 129, 130, 138, 140, 143, 152)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_SECONDS = 1  # between two looks at the present run


@contextmanager
def locked(directory, notes):
    """Creates the folder of the results and raises StudyError if another study uses it: both would
    measure on the same cores. Yields the lock, which mpirun inherits, so that the folder remains
    locked while mpirun runs, even if this program is killed."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise StudyError(
            f"cannot create the folder {directory}; name another one with --dir"
        ) from None
    if not os.access(directory, os.W_OK):
        raise StudyError(f"cannot write to the folder {directory}; name another one with --dir")
    with open(directory / ".study.lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(
                f"another study uses {directory}; wait until it ends, stop its processes, or use"
                " another --dir"
            ) from None
        except OSError as error:
            notes.say(
                f"cannot lock {directory} ({error.strerror}); make sure that no other study uses it"
            )
        yield lock.fileno()


def is_locked(directory):
    """Returns whether a study uses the folder of its results."""
    with suppress(FileNotFoundError), open(directory / ".study.lock", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


class Signals:
    """Tells the present run to save a checkpoint and stop when a signal arrives. Signals that are
    ignored, as with nohup, remain so."""

    def __init__(self):
        self.stopped, self.child = False, None

    def __enter__(self):
        self.before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in self.before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, self.stop)
        return self

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def stop(self, *_):
        self.stopped = True
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)


class LocalStudy:
    """Runs a study. `launch(ranks)` returns the command that starts ranks."""

    def __init__(self, commands, comparison, launch, progress):
        self.commands, self.comparison, self.launch = commands, comparison, launch
        self.progress = progress
        self.efficiencies, self.failed, self.warnings = Efficiencies(), {}, set()
        self.notes = comparison.notes

    def run_all(self, rounds, lock):
        """Runs the runs of each round of repeats in turn, unless they are complete. Raises
        StudyError if a signal stops the study."""
        with Signals() as signals:
            for repeat, runs in enumerate(rounds, 1):
                for run in runs:
                    self.progress.number += 1
                    self.run(run, signals, lock)
                rest = [run for later in rounds[repeat:] for run in later if not run.is_done]
                self.progress.repeat_ended(repeat, len(rounds), rest)

    def run(self, run, signals, lock):
        """Runs one run, unless it is complete."""
        if run.is_done or run.complete_after_kill(self.commands.programs):
            self.progress.ended(run, "complete", None, run.run_file)
            return
        if signals.stopped:
            raise StudyError(f"stopped before {run.name}; run the same command again to continue")
        file = run.next_file()
        command = [
            *self.launch(run.point.ranks),
            *self.commands.full(run.point, run.repeat, file),
        ]
        self.comparison.mark_started(run)
        begin = time.monotonic()
        status, output = self.start(run, command, signals, lock)
        self.end(run, file, status, output, time.monotonic() - begin)
        if signals.stopped or status in STOPPED:
            state = f"{run.name} was interrupted (status {status})"
            if status == COMPLETE:
                state = f"stopped after {run.name}, which is complete"
            raise StudyError(f"{state}; run the same command again to continue")

    def start(self, run, command, signals, lock):
        """Runs a command; returns its exit status, that of a shell, and its output. The command is
        in the background, so that signals are forwarded at once, and ignores Ctrl-C itself."""
        log = run.directory / "logs" / f"{run.name}.log"
        log.parent.mkdir(exist_ok=True)
        programs = self.commands.programs
        with open(log, "a+", encoding="utf-8", errors="replace") as file:
            print(f"$ {command_line(command)}", file=file, flush=True)
            start = file.tell()
            child = subprocess.Popen(
                [FORWARD_SIGNALS, *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=programs.environment_of(run.point.ranks),
                pass_fds=(lock,),
                preexec_fn=ignore_interrupt,
            )
            signals.child = child
            if signals.stopped:  # the signal arrived before the command was started
                signals.stop()
            self.watch(run, child, file, start)
            signals.child = None
            file.seek(start)
            return shell_status(child.returncode), Output(file.read())

    def watch(self, run, child, file, start):
        """Waits until a run ends, and shows its state in a terminal. A timer interrupts the wait:
        polling would take time from the processors on which the run is measured."""
        begin = time.monotonic()

        def show(*_):
            file.seek(start)
            self.progress.now(run, time.monotonic() - begin, Output(file.read()).epochs)

        if self.progress.is_terminal:
            signal.signal(signal.SIGALRM, show)
            signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        child.wait()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def end(self, run, file, status, output, elapsed):
        """Marks how a run ended, and prints its line."""
        if status == COMPLETE:
            self.complete(run, file, output, elapsed)
        elif status == TOO_LARGE:
            run.mark_too_large()
            self.progress.ended(run, "too large", elapsed, f"{run.name} does not fit in memory")
        elif status in STOPPED:
            self.progress.ended(run, "stopped", elapsed)
        else:
            self.fail(run, elapsed, reason_of(output.text), status)
        for warning in output.warnings:
            kind = re.sub("[0-9.]+", "", warning)
            if kind not in self.warnings:
                self.warnings.add(kind)
                write(f"  warning: {warning}")

    def complete(self, run, file, output, elapsed):
        try:
            run.mark_complete(file)
        except StudyError as error:
            self.notes.say(str(error))
            self.fail(run, elapsed, str(error), 1)
            return
        self.progress.learn(run, elapsed)
        words = self.commands.merge(run.point).words
        efficiency = self.efficiencies.add(run.point, words, output.rate)
        details = [output.result()]
        if efficiency is not None:
            details.append(f"efficiency {efficiency:.2f}")
        self.progress.ended(run, "complete", elapsed, ", ".join(filter(None, details)))

    def fail(self, run, elapsed, reason, status):
        reason = reason or "no message"
        run.mark_failed(reason)
        self.failed[f"{run.name} (status {status})"] = reason
        self.progress.ended(run, "failed", elapsed, reason)


def ignore_interrupt():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
