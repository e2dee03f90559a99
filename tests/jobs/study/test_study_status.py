# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the status of studies that run on this machine."""

import fcntl
import os
import shutil

import pytest
from in_process import call, write_program
from lockstep_study.submission import folder_sum
from study_command import RUN, study


def status(tmp_path, *folders, squeue=""):
    """Runs the command of jobs/slurm/status in `tmp_path`, with stubs of squeue and sacct if
    `squeue` is what the former prints."""
    programs = tmp_path / "slurm"
    programs.mkdir(exist_ok=True)
    present = ("squeue", "sacct")[: 2 * bool(squeue)]
    for name in present:
        write_program(
            programs / name,
            f'#!/bin/bash\necho "$@" >>"{tmp_path}/slurm.calls"\n'
            f"[ {name} = sacct ] || echo {squeue}\n",
        )
    if not (programs / "cksum").exists():
        (programs / "cksum").symlink_to(shutil.which("cksum"))
    environment = os.environ | {"PATH": str(programs)}
    return call("status", *folders, environment=environment, folder=tmp_path)


@pytest.mark.parametrize("squeue", ["", "5 RUNNING other None"])
def test_states_of_a_local_study(table, tmp_path, program, squeue):
    out = tmp_path / "results" / "points"
    assert study("--repeats", 2, *RUN, "--dir", out, table, **program(5)).returncode == 1
    (out / "one-1.failed").unlink()
    (out / "logs" / "two-2.log").unlink()
    (out / "two-2.failed").unlink()
    (out / "two-1.failed").rename(out / "two-1.memory")
    ended = status(tmp_path, squeue=squeue)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        f"{out}: 0 of 4 runs complete, 1 do not fit in memory, 1 not started; started: one-1"
        " (no complete epoch);"
        f" failed: one-2 ({(out / 'logs' / 'one-2.log').read_text().strip()[:160]})\n"
    )
    if squeue:  # the runs are no jobs, which sacct would know
        assert "--jobs" not in (tmp_path / "slurm.calls").read_text(encoding="utf-8")


def test_every_study_in_results_has_a_line(table, tmp_path, program):
    for name in ("b", "a"):
        study(*RUN, "--dir", tmp_path / "results" / name, table, **program())
    (tmp_path / "results" / "c").mkdir()
    names = [f"{tmp_path}/results/{name}: 2 of 2 runs complete" for name in ("a", "b")]
    assert status(tmp_path).stdout.splitlines() == names
    assert status(tmp_path, "results/b").stdout.splitlines() == names[1:]


def test_folder_without_studies_is_one_error(tmp_path):
    ended = status(tmp_path)
    assert ended.returncode == 1 and ended.stderr == (
        f"status: no study was started in {tmp_path}/results; give the folders of the results\n"
    )


@pytest.mark.parametrize("repeats", ["", "0\n", "x\n", "123456\n"])
def test_folder_without_valid_repeats_contains_no_study(tmp_path, repeats):
    (tmp_path / "repeats").write_text(repeats, encoding="utf-8")
    ended = status(tmp_path, tmp_path)
    assert ended.returncode == 1 and ended.stderr == (
        f"status: {tmp_path} contains no study that was run or submitted\n"
    )


def test_rejected_points_have_failed(table, tmp_path, program):
    stub = program(check='[ "$1" != allreduce ] || { echo "lockstep: no data" >&2; exit 3; }; exit')
    assert study(*RUN, "--dir", tmp_path / "out", table, **stub).returncode == 1
    ended = status(tmp_path, tmp_path / "out")
    assert ended.stdout == f"{tmp_path}/out: 1 of 2 runs complete; failed: two-1 (no data)\n"


def test_last_run_of_a_locked_folder_is_running(table, tmp_path, program):
    out = tmp_path / "out"
    assert study(*RUN, "--dir", out, table, **program(5)).returncode == 1
    for number, name in enumerate(("one-1", "two-1")):
        (out / f"{name}.failed").unlink()
        log = out / "logs" / f"{name}.log"
        log.write_text("$ a\nepoch 2/3: \n$ a\nepoch 1/3: x\n", encoding="utf-8")
        later = (out / "repeats").stat().st_mtime + 1 + number
        os.utime(log, (later, later))
    states = "started: one-1 (epoch 1/3), two-1 (epoch 1/3)"
    assert status(tmp_path, out).stdout == f"{out}: 0 of 2 runs complete; {states}\n"
    with open(out / ".study.lock", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        states = "running: two-1 (epoch 1/3); started: one-1 (epoch 1/3)"
        assert status(tmp_path, out).stdout == f"{out}: 0 of 2 runs complete; {states}\n"


def test_folder_without_a_valid_table_does_not_hide_the_others(table, tmp_path, program):
    for name in ("a", "b"):
        study(*RUN, "--dir", tmp_path / name, table, **program())
    (tmp_path / "a" / "table.tsv").write_text("x\t0\ttrain\n", encoding="utf-8")
    ended = status(tmp_path, tmp_path / "a", tmp_path / "b")
    assert ended.returncode == 1 and "a/table.tsv, line 1: " in ended.stderr
    assert ended.stdout == f"{tmp_path}/b: 2 of 2 runs complete\n"


def test_study_whose_jobs_are_in_the_queue_is_not_run_here(table, tmp_path, program):
    """The jobs read the stored table, which a run on this machine would replace."""
    out = tmp_path / "out"
    squeue = tmp_path / "squeue"
    write_program(
        squeue,
        '#!/bin/bash\n[ -z "${SQUEUE_STATES:-}" ] || exit 0\n'
        f"echo 70_1 PENDING lockstep-points-{folder_sum(out)}-n1 None\n",
    )
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SQUEUE_STATES": "RUNNING"}
    ended = study(*RUN, "--dir", out, table, **program(), **path)
    assert ended.returncode == 1 and "is pending or running (jobs 70)" in ended.stderr
    assert not (tmp_path / "calls").exists() and not (out / "table.tsv").exists()
    squeue.write_text("#!/bin/bash\nexit 1\n", encoding="utf-8")
    assert study(*RUN, "--dir", out, table, **program(), **path).returncode == 0
