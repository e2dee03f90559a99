"""Tests of the programs that the acceptance test starts: time limits, and ends."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import pytorch  # noqa: E402
import running  # noqa: E402
from running import Runner  # noqa: E402


def running_processes(folder):
    """Returns the command lines of the running processes that contain the path of `folder`."""
    commands = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/" in line:
                commands.append(line)
    return commands


def test_command_that_ignores_sigterm_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GRACE_SECONDS", 1.0)
    script = tmp_path / "ignores-sigterm.sh"
    script.write_text("trap '' TERM\nif [ $# -eq 0 ]; then setsid sh \"$0\" child & fi\nsleep 300 & wait\n")
    runner = Runner(tmp_path, dict(os.environ))
    outcome = runner.run("ignores-sigterm", ["sh", str(script)], 1.0)
    assert outcome.timed_out and outcome.status is None
    assert not running_processes(tmp_path)
    assert not runner.running


def test_command_that_does_not_exist_is_a_failure(tmp_path):
    runner = Runner(tmp_path, dict(os.environ))
    assert "cannot be started" in runner.run("none", [str(tmp_path / "none")], 1.0).failure
    assert not runner.running


def test_commands_run_together_until_their_common_limit(tmp_path):
    runner = Runner(tmp_path, dict(os.environ))
    began = time.monotonic()
    outcomes = runner.run_together({"a": ["sleep", "300"], "b": ["sh", "-c", "echo b"],
                                    "c": [str(tmp_path / "none")], "d": ["sleep", "300"]}, 1.0)
    assert time.monotonic() - began < 30
    assert [one.timed_out for one in outcomes] == [True, False, False, True]
    assert outcomes[1].stdout == "b\n" and "cannot be started" in outcomes[2].error
    assert not runner.running


def test_unrecorded_process_is_killed(tmp_path):
    """Simulates a signal that interrupts `Runner.start` before it records the process. The test uses
    a separate Python process, because `stop_all` ends all descendants of its process."""
    script = (f"import os, sys; sys.path.insert(0, {str(HERE)!r}); from running import Runner; "
              f"runner = Runner({str(tmp_path)!r}, dict(os.environ)); "
              "process = runner.start('unrecorded', ['sleep', '300']); "
              "runner.running.clear(); runner.stop_all(); print(process.wait(10))")
    result = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True,
                            timeout=60)
    assert result.stdout == f"{-signal.SIGKILL}\n", result.stderr


def test_variant_that_is_not_ready_in_time_is_abandoned(tmp_path):
    program = """
import signal, time
def abandon(*_):
    raise TimeoutError
signal.signal(signal.SIGUSR1, abandon)
print('{"ready": "graph"}', flush=True)
try:
    time.sleep(300)
except TimeoutError:
    print('{"failed": "eager", "error": "abandoned"}', flush=True)
print('{"ready": "host"}', flush=True)
print('{"all_ready": ["graph", "host"]}', flush=True)
time.sleep(300)
"""
    runner = Runner(tmp_path, dict(os.environ))
    programs = types.SimpleNamespace(torch=[sys.executable, "-c", program])
    context = types.SimpleNamespace(runner=runner, args=types.SimpleNamespace(data=""),
                                    programs=programs)
    process = pytorch.PytorchProcess(context, 16, ("graph", "eager", "host"))
    process.wait_for_warm_up(5)
    assert process.ready == ["graph", "host"]
    assert process.errors == {"eager": pytorch.NOT_READY}
    process.stop()
    assert not runner.running
