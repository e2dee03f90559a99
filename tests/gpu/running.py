# SPDX-License-Identifier: BSD-3-Clause
"""Runs the external programs of the acceptance test; ends each program that reaches its time limit."""

import os
import pathlib
import queue
import shlex
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

# Exit statuses of errors in options, data and output files (docs/reliability.md).
WITHOUT_RERUN = {2, 3, 6}
GRACE_SECONDS = 4.0  # time between SIGTERM and SIGKILL, in which mpirun ends its ranks


def process_table():
    """Returns {process id: parent} of all processes that are not zombies."""
    table = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except (OSError, ValueError, IndexError):
                continue
            if state not in "ZX":
                table[int(entry.name)] = int(parent)
    return table


def descendants(pid):
    """Returns the process ids of all descendants of process `pid`."""
    table, found = process_table(), [pid]
    for one in found:  # the list grows
        found += [child for child, parent in table.items() if parent == one]
    return found[1:]


def kill(pids):
    """Sends SIGKILL to processes, and waits at most GRACE_SECONDS until they have ended, because a
    running process still holds GPU memory."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and not process_table().keys().isdisjoint(pids):
        time.sleep(0.02)


def stop_tree(process):
    """Ends a process and its descendants: sends SIGTERM to the process, then SIGKILL to all processes
    that remain."""
    tree = descendants(process.pid)
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        tree += [*descendants(process.pid), process.pid]
    kill(tree)
    process.poll()


def last_lines(text, count=12, width=300):
    """Returns the last `count` non-empty lines of `text`, each cut to `width` characters."""
    lines = [line[:width] for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-count:])


@dataclass
class Outcome:
    """Result of a command. `status` is None if the command reached its time limit or could not be
    started. `is_cut_off`: the time of the step of the test ended before the time limit of the
    command."""

    name: str
    command: list
    status: int | None
    seconds: float
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    is_cut_off: bool = False

    @property
    def ok(self):
        return self.status == 0

    @property
    def can_be_rerun(self):
        """Whether reruns with other options of the GPU can find the cause of a failure."""
        return not self.is_cut_off and self.status not in WITHOUT_RERUN

    @property
    def reason(self):
        """One line that states how the command failed."""
        if self.is_cut_off:
            return f"not complete after {self.seconds:.0f} s, when the time of the step ended"
        if self.timed_out:
            return f"did not end within its time limit of {self.seconds:.0f} s"
        if self.status is None:
            return self.stderr
        # mpirun prints lines after those of the program.
        own = [line for line in self.stderr.splitlines() if line.startswith("lockstep:")]
        cause = own[0][:200] if own else last_lines(self.stderr, 1, 200)
        return "; ".join(filter(None, [f"exit status {self.status}", cause]))

    @property
    def tail(self):
        """The last lines of stderr or, if stderr is empty, of stdout."""
        return last_lines(self.stderr) or last_lines(self.stdout)


class Runner:
    """Runs commands, writes their command lines and output to `folder`, and records their outcomes."""

    def __init__(self, folder, environment):
        self.environment, self.running = environment, []
        self.begin_part(folder)

    def begin_part(self, folder):
        """Uses another folder for the following commands and forgets the outcomes of the earlier ones."""
        self.folder, self.outcomes = pathlib.Path(folder), []
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name, suffix):
        return self.folder / f"{name.replace(' ', '-').replace('/', '-')}.{suffix}"

    def read(self, name, suffix):
        """Returns the text of a log file."""
        return self.path(name, suffix).read_text(errors="replace")

    def start(self, name, command, stdin=subprocess.DEVNULL, stdout=None):
        """Starts a command. Writes its output to files, or its stdout to `stdout` if this argument is given."""
        self.path(name, "command").write_text(shlex.join(command) + "\n")
        with open(self.path(name, "err"), "w") as err, open(self.path(name, "out"), "w") as out:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout or out, stderr=err, text=True,
                                       env=self.environment, start_new_session=True)
        self.running.append(process)
        return process

    def run(self, name, command, limit):
        """Runs a command for at most `limit` seconds, and returns its Outcome."""
        began, process, timed_out = time.monotonic(), None, False
        try:
            process = self.start(name, command)
            process.wait(limit)
        except OSError as error:
            outcome = Outcome(name, command, None, 0.0, stderr=f"cannot be started: {error.strerror}")
        except subprocess.TimeoutExpired:
            timed_out = True
            stop_tree(process)
        if process is not None:
            self.running.remove(process)
            outcome = Outcome(name, command, None if timed_out else process.returncode,
                              time.monotonic() - began, self.read(name, "out"), self.read(name, "err"),
                              timed_out)
        self.outcomes.append(outcome)
        return outcome

    def stop_all(self):
        """Ends all commands that still run, and all other descendants of this process."""
        for process in list(self.running):
            stop_tree(process)
        self.running.clear()
        # A signal may have interrupted `start` after it created a process and before it recorded the process.
        kill(descendants(os.getpid()))


class InteractiveProcess:
    """A program that reads requests from stdin and writes replies to stdout, one line each.

    A thread copies the replies to the log file and to a queue, so that every wait for a reply has a time limit."""

    def __init__(self, runner, name, command):
        self.runner, self.name = runner, name
        self.lines = queue.Queue()
        self.process = runner.start(name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self.copy_output, daemon=True).start()

    def copy_output(self):
        with open(self.runner.path(self.name, "out"), "w") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                self.lines.put(line)
        self.lines.put(None)

    def read(self, limit):
        """Returns the next line, or None if the program has ended. Raises TimeoutError after `limit` seconds."""
        try:
            return self.lines.get(timeout=max(limit, 0.01))
        except queue.Empty:
            raise TimeoutError(f"{self.name}: no reply within {limit:.0f} s") from None

    def write(self, text):
        """Sends one request. Raises OSError if the program has ended."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def stop(self):
        """Ends the program."""
        stop_tree(self.process)
        if self.process in self.runner.running:
            self.runner.running.remove(self.process)

    @property
    def tail(self):
        return last_lines(self.runner.read(self.name, "err"))
