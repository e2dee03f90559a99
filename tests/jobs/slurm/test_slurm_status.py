# SPDX-License-Identifier: BSD-3-Clause
"""Tests of jobs/slurm/status with the files of a submitted study, and stubs of squeue and sacct."""

import os
import pathlib
import shutil
import subprocess

import pytest
from in_process import call, write_program

STATUS = pathlib.Path(__file__).resolve().parents[3] / "jobs" / "slurm" / "status"


@pytest.fixture
def folder(tmp_path):
    """A study of 3 points with 2 repeats: tasks 1 to 6. Its last point was submitted with another
    batch."""
    folder = tmp_path / "results" / "a study"
    (folder / "logs").mkdir(parents=True)
    (folder / "table.tsv").write_text(
        "one\t1\ttrain\ntwo\t2\ttrain\nbig\t2\ttrain --global-batch 3\n", encoding="utf-8"
    )
    (folder / "repeats").write_text("2\n", encoding="utf-8")
    (folder / "one-1.done").touch()
    (folder / "big-1.memory").touch()
    for task, text in {
        1: "",
        2: "x\nepoch 1/3: 4 steps\nepoch 2/3: 4 steps\n",
        3: "before\nlockstep: no data \x1b[2J\n\n",
        5: "",
    }.items():
        (folder / "logs" / f"70_{task}.log").write_text(text, encoding="utf-8")
    earlier = folder / "logs" / "69_6.log"  # of a submission that numbered the tasks in another way
    earlier.touch()
    os.utime(earlier, (1, 1))
    return folder


# Programs that the script may call besides those of Slurm.
PROGRAMS = (
    "bash find sort tail cut awk grep tr cat id cksum realpath sed stat head od wc basename dirname"
    " env readlink"
).split()


def status(folder, tmp_path, *arguments, start="in process", **stubs):
    """Runs `status` with stubs of the programs of Slurm, given as code of bash, in the folder that
    contains `results`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(
            next(path for path in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(path))
        )
    sum_of_folder = subprocess.run(
        ["cksum"], input=f"{folder}\n", capture_output=True, text=True, check=True
    ).stdout.split()[0]
    for name, code in stubs.items():
        write_program(programs / name, f"#!/bin/bash\n{code.replace('SUM', sum_of_folder)}\n")
    environment = os.environ | {"PATH": str(programs)}
    if start == "script":
        return subprocess.run(
            [STATUS, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
    return call("status", *arguments, environment=environment, folder=tmp_path)


# The jobs of other users of a shared folder count.
QUEUE = (
    "[[ $* == *--user* ]] && exit; echo 70_2 RUNNING lockstep-points-SUM-n1; echo 70_4 PENDING"
    " lockstep-points-SUM-n2; echo 71_6 RUNNING lockstep-points-1SUM-n2"
)


@pytest.mark.parametrize("start", ["in process", "script"])
def test_one_line_per_study(folder, tmp_path, start):
    sacct = "echo '70_2|RUNNING|65|'; echo '70_3|FAILED|7|'; echo '70_3.0|FAILED|7|2000000K'"
    result = status(folder, tmp_path, start=start, squeue=QUEUE, sacct=sacct)
    assert (
        result.stderr == ""
        and result.stdout
        == f"{folder}: 1 of 6 runs complete, 1 do not fit in memory, 1 pending, 1 not started;"
        " running: one-2 (epoch 2/3, 1:05 min); failed: two-1 (FAILED, 7.0 s, 2 GB: lockstep: no"
        " data ?[2J)\n"
    )


def test_held_and_suspended_runs_are_named(folder, tmp_path):
    """States and reasons as Slurm 22.05 prints them after `scontrol suspend`, `hold` and
    `requeuehold`."""
    jobs = [
        "70_2 SUSPENDED lockstep-points-SUM-n1 None",
        "70_3 SPECIAL_EXIT lockstep-points-SUM-n2 job requeued in held state",
        "70_4 PENDING lockstep-points-SUM-n2 JobHeldUser",
        "70_6 PENDING lockstep-points-SUM-n2 Resources",
    ]
    result = status(folder, tmp_path, squeue="; ".join(f"echo {job}" for job in jobs))
    assert (
        result.stderr == ""
        and result.stdout
        == f"{folder}: 1 of 6 runs complete, 1 do not fit in memory, 1 pending; held: two-1"
        " (scontrol release 70_3), two-2 (scontrol release 70_4); running: one-2 suspended"
        " (epoch 2/3)\n"
    )


def test_reasons_of_pending_runs_are_counted(folder, tmp_path):
    """Those of runs that only wait for their turn are left out."""
    (folder / "big-1.memory").unlink()
    reasons = ["None", "Priority", "QOSMaxJobsPerUserLimit,x", "ReqNodeNotAvail", "JobHeldAdmin"]
    jobs = [
        f"70_{task} PENDING lockstep-points-SUM-n1 {reason}"
        for task, reason in enumerate([*reasons, "ReqNodeNotAvail"], 1)
    ]
    (folder / "one-1.done").unlink()
    result = status(folder, tmp_path, squeue="; ".join(f"echo {job}" for job in jobs))
    assert result.stdout == (
        f"{folder}: 0 of 6 runs complete, 5 pending (1 for QOSMaxJobsPerUserLimit, 2 for"
        " ReqNodeNotAvail); held: big-1 (by an administrator: scontrol release 70_5)\n"
    )


def test_state_in_the_accounting_may_be_late(folder, tmp_path):
    """A job that has left the queue does not run."""
    sacct = "echo '70_2|RUNNING|65|'; echo '70_3|CANCELLED by 5|7|'; echo '70_5|COMPLETING|1|'"
    result = status(folder, tmp_path, squeue="true", sacct=sacct)
    assert result.stdout.endswith(
        "; failed: one-2 (epoch 2/3: 4 steps), two-1 (CANCELLED by 5, 7.0 s: lockstep: no data"
        " ?[2J)\n"
    )


@pytest.mark.parametrize(
    "stubs, note",
    [
        ({}, ""),
        (
            {"squeue": "echo no controller >&2; exit 1"},
            "status: squeue failed (no controller); only the files in the folders are read\n",
        ),
    ],
)
def test_files_are_read_without_squeue(folder, tmp_path, stubs, note):
    result = status(folder, tmp_path, folder, **stubs)
    assert (
        (result.returncode, result.stderr) == (0, note)
        and result.stdout
        == f"{folder}: 1 of 6 runs complete, 1 do not fit in memory, 2 not started; started: one-2"
        " (epoch 2/3), two-1 (no complete epoch)\n"
    )


def test_study_without_logs(folder, tmp_path):
    shutil.rmtree(folder / "logs")
    result = status(folder, tmp_path, folder)
    assert (
        result.returncode == 0
        and result.stdout
        == f"{folder}: 1 of 6 runs complete, 1 do not fit in memory, 4 not started\n"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--unknown"], "unknown option --unknown"),
        (["."], "contains no study that was run or submitted"),
    ],
)
def test_invalid_arguments_are_one_error(folder, tmp_path, arguments, message):
    result = status(folder, tmp_path, *arguments)
    assert (
        result.returncode == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1
    )
