# SPDX-License-Identifier: BSD-3-Clause
"""Tests of array tasks with stubs of srun and scontrol, and of the job that writes the report."""

import os
from types import SimpleNamespace

import pytest
from in_process import write_program
from lockstep_study.task import Task
from slurm_scripts import complete, options, report, report_process, run_task, submit


def test_complete_points_are_compared_or_left_to_their_tasks(table, tmp_path):
    """A task and `submit` compare the same experiment. Without a program that can run here, the
    task compares alone."""
    stub = tmp_path / "stub"
    write_program(
        stub,
        '#!/bin/bash\n[ "$1" != help ] || { echo "build=$BUILD"; printf "arguments=%s\\n"'
        ' "${*:3}"; }\n',
    )
    out = tmp_path / "out"
    out.mkdir()
    here = {"LOCKSTEP_BIN": str(stub), "BUILD": "1"}
    assert run_task(tmp_path, table, 1, 0, directory=out, **here).returncode == 0
    marker = (out / "one-1.done").read_text(encoding="utf-8")
    assert marker.startswith(
        "one-1.77_1.0.h5\nlauncher=srun, site generic\nbuild=1\narguments=1 train"
    )
    command = ["--repeats", 3, "--launcher", "srun", "--dir", out, table, "--", "--epochs", "2"]
    without = submit(*command)
    assert options(without.stdout.splitlines()[0])["--array"] == "1-3%4"
    assert (
        "one-1.done was not compared with the present options: no lockstep program was found; set"
        " LOCKSTEP_BIN" in without.stderr
    )
    assert options(submit(*command, **here).stdout.splitlines()[0])["--array"] == "2-3%4"
    change = "one-1 is complete, but the present command changes build from '1' to '2'"
    for result in (
        submit(*command, **here | {"BUILD": "2"}),
        run_task(tmp_path, table, 1, 0, directory=out, **here | {"BUILD": "2"}),
    ):
        assert result.returncode == 1 and change in result.stderr and result.stdout == ""
    (out / "one-1.done").rename(out / "one-1.started")
    result = submit(*command, **here | {"BUILD": "2"})
    assert (
        result.returncode == 1
        and change.replace("complete", "interrupted") in result.stderr
        and result.stdout == ""
    )
    (out / "one-1.started").rename(out / "one-1.done")
    result = submit(*command[:-1], "3", **here)
    assert result.returncode == 1 and "changes arguments from" in result.stderr


def test_task_trains_the_point_of_its_index(tmp_path, table):
    assert run_task(tmp_path, table, 8, 0).returncode == 0  # line 3, repeat 2
    words = (tmp_path / "srun.calls").read_text().split()
    assert {
        "--mpi=pmix",
        "--export=ALL",
        "--kill-on-bad-exit=1",
        "--ntasks=2",
        "--cpus-per-task=4",
        "/opt/lockstep",
    } <= set(words)
    pairs = dict(zip(words, words[1:]))
    assert (pairs["--batch-per-rank"], pairs["--seed"], pairs["--epochs"], pairs["--threads"]) == (
        "128",
        "2",
        "2",
        "4",
    )
    assert pairs["--output"] == f"{tmp_path}/two-big-2.77_8.0.h5"
    assert (tmp_path / "two-big-2.done").read_text() == "two-big-2.77_8.0.h5\n"
    assert not (tmp_path / "scontrol.calls").exists()


def test_ranks_start_in_containers(tmp_path, table, monkeypatch):
    image = tmp_path / "an image.sif"
    image.touch()
    engine = tmp_path / "bin" / "apptainer"
    engine.parent.mkdir()
    write_program(engine, "#!/bin/bash\n")
    monkeypatch.setenv("LOCKSTEP_IMAGE", str(image))
    for gpus, flags in (("", []), ("0,1", ["--nv"])):
        monkeypatch.setenv("SLURM_JOB_GPUS", gpus)
        assert run_task(tmp_path, table, 1, 0).returncode == 0
        words = (tmp_path / "srun.calls").read_text().splitlines()
        start = words.index(str(engine))
        assert words[start : start + 4 + len(flags)] == [
            str(engine),
            "exec",
            *flags,
            str(image),
            "/opt/lockstep",
        ]
        (tmp_path / "one-1.done").unlink()
    image.unlink()
    result = run_task(tmp_path, table, 1, 0)
    assert result.returncode != 0 and result.stderr.endswith(
        f"LOCKSTEP_IMAGE: cannot read {image}\n"
    )


@pytest.mark.parametrize(
    "complete, message",
    [
        (
            [],
            (
                "the report failed; runs that are not complete: one-1 two-1 two-big-1; submit the"
                " same study again"
            ),
        ),
        (["one", "two", "two-big"], "the report failed, see above"),
        (["one", "two"], "the report failed; runs that are not complete: two-big-1;"),
    ],
)
def test_report_that_fails_hides_no_incomplete_runs(tmp_path, table, complete, message):
    """One of the reports is started as by its job; the others have a stub of Python."""
    (tmp_path / "one-1.0.h5").write_text("no run file", encoding="utf-8")
    for name, ending in zip(complete, ("done", "memory", "done")):
        (tmp_path / f"{name}-1.{ending}").touch()
    python = tmp_path / "python"
    write_program(
        python, '#!/bin/sh\n[ "$2" = --check ] || { echo not an HDF5 file >&2; exit 1; }\n'
    )
    if complete:
        result = report(table, 1, tmp_path, LOCKSTEP_PYTHON=str(python))
    else:
        result = report_process(table, 1, tmp_path)
    assert result.returncode != 0 and message in result.stderr.splitlines()[-1], result.stderr
    assert "not an HDF5 file" in result.stderr


def test_task_of_a_complete_point_does_not_train(tmp_path, table):
    complete(tmp_path, "one-1")
    result = run_task(tmp_path, table, 1, 0)
    assert result.returncode == 0 and "complete: one-1.70_1.0.h5" in result.stdout
    assert not (tmp_path / "srun.calls").exists()


def test_interrupted_task_is_requeued(tmp_path, table):
    assert run_task(tmp_path, table, 1, 75).returncode == 0
    assert (tmp_path / "scontrol.calls").read_text().split() == ["requeue", "77_1"]
    assert not (tmp_path / "one-1.done").exists()


@pytest.mark.parametrize("broken", ["requeue", "*"], ids=["requeue refused", "no controller"])
def test_task_that_cannot_be_requeued_says_what_to_do(tmp_path, table, broken):
    scontrol = tmp_path / "own" / "scontrol"
    scontrol.parent.mkdir()
    write_program(
        scontrol,
        f"#!/bin/bash\ncase $1 in {broken}) echo disabled >&2; exit 1 ;; esac\necho JobId=77"
        " JobState=RUNNING Reason=None\n",
    )
    (tmp_path / "bin").mkdir()
    result = run_task(
        tmp_path, table, 1, 75, PATH=f"{scontrol.parent}:{tmp_path}/bin:{os.environ['PATH']}"
    )
    assert result.returncode != 0
    [line] = [
        line
        for line in (result.stdout + result.stderr).splitlines()
        if "one-1 was interrupted" in line
    ]
    assert line.endswith("submit the same study again to resume it")


def test_interrupted_task_that_is_cancelled_is_not_requeued(tmp_path, table):
    result = run_task(tmp_path, table, 1, 75, state="COMPLETING")
    assert result.returncode == 75 and "is not requeued here" in result.stdout
    assert "requeue" not in (tmp_path / "scontrol.calls").read_text().split()


def test_task_is_not_requeued_after_ten_restarts(tmp_path, table):
    result = run_task(tmp_path, table, 1, 75, restart=10)
    assert result.returncode != 0 and "it is not requeued again" in result.stderr
    assert "requeue" not in (tmp_path / "scontrol.calls").read_text().split()


def test_task_that_does_not_fit_in_memory_is_noted(tmp_path, table):
    result = run_task(tmp_path, table, 1, 4)
    assert result.returncode == 0 and "one-1 does not fit in memory" in result.stdout
    assert (tmp_path / "one-1.memory").exists() and not (tmp_path / "one-1.done").exists()


def test_task_returns_the_exit_status_of_the_training(tmp_path, table):
    assert run_task(tmp_path, table, 1, 5).returncode == 5
    assert not (tmp_path / "scontrol.calls").exists()
    assert not (tmp_path / "one-1.done").exists()


@pytest.mark.parametrize(
    "log, reason",
    [
        ("$ srun\nlockstep: no data\nsrun: error: task 0\n", "no data"),
        ("", "exit status 5, see the log of task 77_1"),
        (None, "exit status 5, see the log of task 77_1"),
    ],
)
def test_reason_of_a_failure_is_that_of_the_last_attempt(tmp_path, log, reason):
    earlier = "lockstep: stopped by signal 15\n"
    path = tmp_path / "77_1.log"
    if log is not None:
        path.write_text(earlier + log, encoding="utf-8")
    task = SimpleNamespace(log=path, log_start=len(earlier), identifier="77_1")
    assert Task.reason(task, 5) == reason


def test_reason_of_a_failure_is_stored_for_the_report(tmp_path, table):
    assert run_task(tmp_path, table, 1, 5).returncode == 5
    assert (tmp_path / "one-1.failed").read_text(encoding="utf-8").startswith("exit status 5, see")


def test_task_that_the_stored_table_lacks_is_one_error(tmp_path, table):
    result = run_task(tmp_path, table, 10, 0)
    assert result.returncode == 1 and "has 3 points, so there is no task 10" in result.stderr
    assert len(result.stderr.splitlines()) == 1
