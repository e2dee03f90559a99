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

GRACE_SECONDS = 4.0  # time between SIGTERM and SIGKILL, in which mpirun ends its ranks


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
    found, parents = [], [pid]
    while parents:
        pids = children.get(parents.pop(), [])
        found += pids
        parents += pids
    return found


def send_signal(pids, number):
    """Sends the signal `number` to all processes that still exist and belong to this user."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def is_running(pid):
    """Returns whether the process exists and is not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def stop_tree(process):
    """Ends a process and its descendants: sends SIGTERM to the process, then SIGKILL to all processes that remain."""
    tree = [process.pid, *descendants(process.pid)]
    send_signal(tree[:1], signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    tree += descendants(process.pid)
    send_signal(tree[1:] if process.poll() is not None else tree, signal.SIGKILL)
    try:  # a process that waits for the GPU in the kernel cannot be killed
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    wait_for_end(tree)


def wait_for_end(pids):
    """Waits at most GRACE_SECONDS until the processes have ended, because a running process still holds GPU memory."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(map(is_running, pids)):
        time.sleep(0.02)


def last_lines(text, count=12, width=300):
    """Returns the last `count` non-empty lines of `text`, each cut to `width` characters."""
    lines = [line[:width] for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-count:])


@dataclass
class Outcome:
    """Result of a command. `status` is None if the command reached its time limit or could not be started.
    `is_cut_off`: the time of the step of the test ended before the time limit of the command."""

    name: str
    command: list
    status: int | None
    seconds: float
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    error: str = ""
    is_cut_off: bool = False

    @property
    def ok(self):
        return self.status == 0

    @property
    def failure(self):
        """One line that states how the command failed."""
        if self.is_cut_off:
            return f"{self.name}: not complete after {self.seconds:.0f} s, when the time of the step ended"
        if self.timed_out:
            return f"{self.name}: did not end within its time limit of {self.seconds:.0f} s"
        if self.error:
            return f"{self.name}: {self.error}"
        return f"{self.name}: exit status {self.status}"

    @property
    def tail(self):
        """The last lines of stderr or, if stderr is empty, of stdout."""
        return last_lines(self.stderr) or last_lines(self.stdout)


class Runner:
    """Runs commands, writes their command lines and output to `folder`, and records their outcomes."""

    def __init__(self, folder, environment):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = environment
        self.outcomes = []
        self.running = []

    def begin_part(self, folder):
        """Uses another folder for the following commands and forgets the outcomes of the earlier ones."""
        self.folder, self.outcomes = pathlib.Path(folder), []
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name, suffix):
        return self.folder / f"{name.replace(' ', '-').replace('/', '-')}.{suffix}"

    def start(self, name, command, stdin=subprocess.DEVNULL, stdout=None):
        """Starts a command. Writes its output to files, or its stdout to `stdout` if this argument is given."""
        self.path(name, "command").write_text(shlex.join(command) + "\n")
        with open(self.path(name, "err"), "w") as err, open(self.path(name, "out"), "w") as out:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout or out, stderr=err, text=True,
                                       env=self.environment, start_new_session=True)
        self.running.append(process)
        return process

    def finish(self, name, command, process, limit, began):
        """Waits at most `limit` seconds until the command ends, then ends it, and returns its Outcome."""
        timed_out = False
        try:
            process.wait(max(limit, 0.1))
        except subprocess.TimeoutExpired:
            timed_out = True
            stop_tree(process)
        self.running.remove(process)
        outcome = Outcome(name, command, None if timed_out else process.returncode, time.monotonic() - began,
                          self.read(name, "out"), self.read(name, "err"), timed_out)
        self.outcomes.append(outcome)
        return outcome

    def read(self, name, suffix):
        """Returns the text of a log file, or an empty string if there is no such file."""
        path = self.path(name, suffix)
        return path.read_text(errors="replace") if path.is_file() else ""

    def run(self, name, command, limit):
        """Runs a command for at most `limit` seconds and returns its Outcome."""
        began = time.monotonic()
        try:
            process = self.start(name, command)
        except OSError as error:
            outcome = Outcome(name, command, None, 0.0, error=f"cannot be started: {error.strerror or error}")
            self.outcomes.append(outcome)
            return outcome
        return self.finish(name, command, process, limit, began)

    def run_together(self, commands, limit):
        """Runs the commands, {name: command}, at the same time, for at most `limit` seconds in total.
        Returns their Outcomes in this order."""
        began, processes, outcomes = time.monotonic(), {}, []
        for name, command in commands.items():
            try:
                processes[name] = self.start(name, command)
            except OSError as error:
                processes[name] = f"cannot be started: {error.strerror or error}"
        started = [process for process in processes.values() if not isinstance(process, str)]
        while time.monotonic() < began + limit and any(one.poll() is None for one in started):
            time.sleep(0.02)
        late = [process for process in started if process.poll() is None]
        send_signal([process.pid for process in late], signal.SIGTERM)  # all at once, then one by one
        for name, process in processes.items():
            if isinstance(process, str):
                outcomes.append(Outcome(name, commands[name], None, 0.0, error=process))
                self.outcomes.append(outcomes[-1])
            else:
                outcome = self.finish(name, commands[name], process, GRACE_SECONDS, began)
                outcome.timed_out = outcome.is_cut_off = process in late
                outcomes.append(outcome)
        return outcomes

    def stop_all(self):
        """Ends all commands that still run, and all other descendants of this process."""
        for process in list(self.running):
            if process.poll() is None:
                stop_tree(process)
        self.running.clear()
        # A signal may have interrupted `start` after it created a process and before it recorded the process.
        unrecorded = descendants(os.getpid())
        send_signal(unrecorded, signal.SIGKILL)
        wait_for_end(unrecorded)


class InteractiveProcess:
    """A program that reads requests from stdin and writes replies to stdout, one line each.

    A thread copies the replies to the log file and to a queue, so that every wait for a reply has a time limit."""

    def __init__(self, runner, name, command):
        self.runner, self.name = runner, name
        self.lines = queue.Queue()
        self.process = runner.start(name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.copy_output, daemon=True)
        self.reader.start()

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

    def send_signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Ends the program."""
        if self.process.poll() is None:
            stop_tree(self.process)
        if self.process in self.runner.running:
            self.runner.running.remove(self.process)

    @property
    def tail(self):
        return last_lines(self.runner.read(self.name, "err"))
