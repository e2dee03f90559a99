# SPDX-License-Identifier: BSD-3-Clause
"""Tests of signals during a study, and of two studies with one folder."""

import contextlib
import os
import signal
import subprocess
import time

import pytest
from in_process import write_program
from study_command import ROOT, RUN, STUDY, calls, study


def test_process_that_has_ended_before_the_wait_keeps_its_status():
    """A process that fails at once must not count as complete."""
    script = f"source '{ROOT}/jobs/lib.sh'; (exit 7) & sleep 0.3; wait_for_child $!; echo $status"
    assert subprocess.run(["bash", "-euc", script], capture_output=True, text=True).stdout == "7\n"


def test_interrupted_run_ends_the_study_and_is_continued(table, tmp_path, program):
    result = study(*RUN, "--dir", tmp_path / "out", table, **program(75))
    assert result.returncode == 1 and "run the same command again to continue" in result.stderr
    assert len(calls(tmp_path)) == 1
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert calls(tmp_path)[1][-1] == f"{tmp_path}/out/one-1.1.h5"  # a second part of the run


def accept_signals():
    """Bash cannot handle signals that are ignored when it starts, as in a job that nohup
    started."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("handles", [False, True])
def test_signals_reach_the_launcher_that_a_script_starts(tmp_path, handles):
    """mpirun of Intel MPI is a script that starts the launcher. A script that handles the signal
    itself receives it."""
    launcher, script, ready = tmp_path / "launcher", tmp_path / "mpirun", tmp_path / "ready"
    launcher.write_text(
        f"#!/bin/bash\ntrap 'exit 75' USR1\ntouch {ready}\nwhile sleep 0.05; do :; done\n",
        encoding="utf-8",
    )
    lines = ["#!/bin/sh", f"{launcher} &", "wait $!"]
    if handles:
        lines = ["#!/bin/sh", "trap : USR1", f"{launcher} &", "wait; kill $!; exit 4"]
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file in (launcher, script):
        file.chmod(0o755)
    process = subprocess.Popen(
        [ROOT / "jobs" / "forward-signals", script], preexec_fn=accept_signals
    )
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == (4 if handles else 75)
    finally:
        process.kill()


def ignore_hangup():
    """Sets the signals as nohup does."""
    accept_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextlib.contextmanager
def running_study(table, tmp_path, status, set_signals=accept_signals):
    """Starts a study in its own process group whose first run waits for SIGUSR1 and then exits with
    `status`."""
    program = tmp_path / "lockstep"
    write_program(
        program,
        f'#!/bin/bash\n[ "$1" != help ] || {{ echo "build=1"; exit; }}\n'
        f'case ${{@: -1}} in --dry-run | --json) exit 0 ;; esac\ntrap "exit {status}" USR1'
        f'\ntouch "${{@: -1}}"\necho "$@" >>"{tmp_path}/calls"\nfor ((i = 0; i < 300; ++i));'
        " do sleep 0.1; done\n",
    )
    process = subprocess.Popen(
        [STUDY, *RUN, "--dir", tmp_path / "out", table],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"LOCKSTEP_BIN": str(program)},
        preexec_fn=set_signals,
    )
    try:
        while not (tmp_path / "calls").exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()


def group_of(process):
    return -os.getpgid(process.pid)


@pytest.mark.parametrize("status", [75, 138], ids=["training", "ladder"])
@pytest.mark.parametrize(
    "number, target",
    [
        (signal.SIGINT, group_of),
        (signal.SIGTERM, lambda process: process.pid),
        (signal.SIGHUP, group_of),
    ],
    ids=["Ctrl-C", "SIGTERM", "closed terminal"],
)
def test_signal_stops_the_run_and_the_study(table, tmp_path, status, number, target):
    with running_study(table, tmp_path, status) as process:
        os.kill(target(process), number)
        _, errors = process.communicate(timeout=1800)
    assert process.returncode == 1
    assert (
        errors == f"study: one-1 was interrupted (status {status}); run the same command again to"
        " continue\n"
    )
    assert len(calls(tmp_path)) == 1


def test_study_continues_with_nohup(table, tmp_path):
    with running_study(table, tmp_path, 75, ignore_hangup) as process:
        os.kill(group_of(process), signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=1800)
    assert errors.startswith("study: one-1 was interrupted (status 75)")


def test_run_that_completes_after_the_signal_is_the_last(table, tmp_path):
    with running_study(table, tmp_path, 0) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=1800)
    assert process.returncode == 1 and errors.startswith(
        "study: stopped after one-1, which is complete"
    )
    assert len(calls(tmp_path)) == 1 and (tmp_path / "out" / "one-1.done").exists()


def test_folder_is_locked_while_a_run_outlives_the_study(table, tmp_path, program):
    with running_study(table, tmp_path, 75) as process:
        group = -group_of(process)
        process.kill()
        process.wait()
        second = study(*RUN, "--dir", tmp_path / "out", table, **program())
        os.killpg(group, signal.SIGKILL)
    assert second.returncode == 1 and f"another study uses {tmp_path}/out" in second.stderr


def test_second_study_with_the_same_folder_is_refused(table, tmp_path, program):
    with running_study(table, tmp_path, 75) as process:
        second = study(*RUN, "--dir", tmp_path / "out", table, **program())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=1800)
    assert second.returncode == 1 and f"another study uses {tmp_path}/out" in second.stderr
    assert len(calls(tmp_path)) == 1
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
