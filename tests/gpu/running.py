"""Runs the external programs of the acceptance run. Each has a time limit and is ended when the limit is reached."""

import os
import pathlib
import queue
import shlex
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

GRACE_SECONDS = 4.0  # between SIGTERM and SIGKILL; mpirun ends its ranks in this time


def descendants(pid):
    """Returns the process ids of all descendants of process `pid`."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = []
    ask = [pid]
    while ask:
        mine = children.get(ask.pop(), [])
        found += mine
        ask += mine
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def stop_tree(process):
    """Ends a process and its descendants: SIGTERM to the process, then SIGKILL to all that remain."""
    family = [process.pid, *descendants(process.pid)]
    send(family[:1], signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    family += descendants(process.pid)
    send(family[1:] if process.poll() is not None else family, signal.SIGKILL)
    process.wait()
    wait_for_end(family)


def wait_for_end(pids):
    """Waits at most GRACE_SECONDS until the processes have ended; until then they may still hold GPU memory."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(map(lives, pids)):
        time.sleep(0.02)


def last_lines(text, count=12, width=300):
    lines = [line[:width] for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-count:])


@dataclass
class Outcome:
    """Result of a command. `status` is None if the command was ended at its limit or could not be started."""

    name: str
    command: list
    status: int | None
    seconds: float
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    complaint: str = ""

    @property
    def ok(self):
        return self.status == 0

    @property
    def why(self):
        """One line that states how the command failed."""
        if self.timed_out:
            return f"{self.name}: ended after {self.seconds:.0f} s, its limit"
        if self.complaint:
            return f"{self.name}: {self.complaint}"
        return f"{self.name}: exit status {self.status}"

    @property
    def tail(self):
        return last_lines(self.stderr) or last_lines(self.stdout)


class Runner:
    """Runs commands, writes their output to `folder`/logs, and records their outcomes."""

    def __init__(self, folder, environment):
        self.folder = pathlib.Path(folder) / "logs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = environment
        self.outcomes = []
        self.living = []

    def path(self, name, suffix):
        return self.folder / f"{name.replace(' ', '-').replace('/', '-')}.{suffix}"

    def start(self, name, command, environment=None, stdin=subprocess.DEVNULL, stdout=None):
        """Starts a command; its output goes to files, except that stdout goes to `stdout` if this is given."""
        self.path(name, "command").write_text(shlex.join(command) + "\n")
        with open(self.path(name, "err"), "w") as err, open(self.path(name, "out"), "w") as out:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout or out, stderr=err, text=True,
                                       env=self.environment | (environment or {}), start_new_session=True)
        self.living.append(process)
        return process

    def finish(self, name, command, process, limit, began):
        """Waits until the command ends, at most `limit` seconds, and returns its Outcome; ends it at the limit."""
        timed_out = False
        try:
            process.wait(max(limit, 0.1))
        except subprocess.TimeoutExpired:
            timed_out = True
            stop_tree(process)
        self.living.remove(process)
        outcome = Outcome(name, command, None if timed_out else process.returncode, time.monotonic() - began,
                          self.read(name, "out"), self.read(name, "err"), timed_out)
        self.outcomes.append(outcome)
        return outcome

    def read(self, name, suffix):
        path = self.path(name, suffix)
        return path.read_text(errors="replace") if path.is_file() else ""

    def run(self, name, command, limit, environment=None):
        began = time.monotonic()
        try:
            process = self.start(name, command, environment)
        except OSError as error:
            outcome = Outcome(name, command, None, 0.0, complaint=f"cannot be started: {error.strerror or error}")
            self.outcomes.append(outcome)
            return outcome
        return self.finish(name, command, process, limit, began)

    def background(self, name, command):
        return Background(self, name, command)

    def stop_all(self):
        for process in list(self.living):
            if process.poll() is None:
                stop_tree(process)
        self.living.clear()
        # A signal may have interrupted `start` after it created a process and before it recorded the process.
        forgotten = descendants(os.getpid())
        send(forgotten, signal.SIGKILL)
        wait_for_end(forgotten)


class Background:
    """A command that runs in the background; `result` waits for its end."""

    def __init__(self, runner, name, command):
        self.runner, self.name, self.command, self.began = runner, name, command, time.monotonic()
        self.process, self.complaint = None, ""
        try:
            self.process = runner.start(name, command)
        except OSError as error:
            self.complaint = f"cannot be started: {error.strerror or error}"

    def result(self, limit):
        if self.process is None:
            return Outcome(self.name, self.command, None, 0.0, complaint=self.complaint)
        return self.runner.finish(self.name, self.command, self.process, limit, self.began)


class Conversation:
    """A program that reads requests and writes replies, one line each; every wait has a limit."""

    def __init__(self, runner, name, command):
        self.runner, self.name = runner, name
        self.lines = queue.Queue()
        self.process = runner.start(name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
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
            raise TimeoutError(f"{self.name}: no answer in {limit:.0f} s") from None

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def stop(self):
        if self.process.poll() is None:
            stop_tree(self.process)
        if self.process in self.runner.living:
            self.runner.living.remove(self.process)

    @property
    def tail(self):
        return last_lines(self.runner.read(self.name, "err"))
