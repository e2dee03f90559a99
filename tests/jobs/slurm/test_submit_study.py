# SPDX-License-Identifier: BSD-3-Clause
"""Tests that grids and tables of every form are submitted, and that their tasks read them."""

import os

import pytest
from in_process import call, write_program
from slurm_scripts import complete, options, run_task, submit, task_environment


@pytest.fixture
def really_submit(tmp_path):
    """A function that submits a study with stubs of the programs of Slurm, to the folder `out`."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in (("squeue", ""), ("scontrol", ""), ("sbatch", "echo 70")):
        write_program(folder / name, f"#!/bin/bash\n{text}\n")
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "LOCKSTEP_BIN": "/nowhere"}

    def start(*words):
        words = ["--launcher", "srun", "--dir", tmp_path / "out", *words]
        return call("submit", *words, environment=os.environ | variables)

    return start


def test_tasks_read_the_points_of_a_grid(tmp_path, really_submit):
    words = ["--repeats", 3, "--grid", "ranks=1,2", "batch-per-rank=8,16", "--", "--epochs", "3"]
    ended = really_submit(*words)
    assert ended.returncode == 0, ended.stderr
    assert [options(line)["--array"] for line in ended.stdout.splitlines()[:2]] == [
        "1-6%4",
        "7-12%4",
    ]
    assert options(ended.stdout.splitlines()[0])["--job-name"].startswith("lockstep-grid-")
    out = tmp_path / "out"
    assert run_task(tmp_path, out / "table.tsv", 5, 0, directory=out).returncode == 0
    assert (out / "batch-per-rank-16-n1-2.done").exists()
    words = (tmp_path / "srun.calls").read_text(encoding="utf-8").splitlines()
    pairs = dict(zip(words, words[1:]))
    assert (pairs["--batch-per-rank"], pairs["--seed"]) == ("16", "2")


@pytest.mark.parametrize(
    "name, text, stored",
    [
        ("a.csv", "name;ranks;lr\na;1;0.1\n", "a\t1\ttrain --lr 0.1\n"),
        ("a.txt", "# note\na 1 train --lr 0.1\n", "a\t1\ttrain --lr 0.1\n"),
        ("a.tsv", "# note\nname ranks lr\na 1 0.1\n", "# note\nname ranks lr\na 1 0.1\n"),
    ],
)
def test_tasks_read_a_copy_of_the_table(tmp_path, really_submit, name, text, stored):
    table = tmp_path / name
    table.write_text(text, encoding="utf-8")
    ended = really_submit("--repeats", 3, table)
    assert ended.returncode == 0, ended.stderr
    assert options(ended.stdout.splitlines()[0])["--job-name"].startswith("lockstep-a")
    out = tmp_path / "out"
    assert (out / "table.tsv").read_text(encoding="utf-8") == stored
    assert (out / "repeats").read_text(encoding="utf-8") == "3\n" and (out / "logs").is_dir()
    assert run_task(tmp_path, out / "table.tsv", 3, 0, directory=out).returncode == 0
    assert (out / "a-3.done").exists()


def test_replaced_options_are_noted(table, tmp_path):
    ended = submit("--dir", tmp_path / "out", table, "--", "--batch-per-rank", "16")
    assert ended.stderr.splitlines()[:3] == [
        "submit: --batch-per-rank 16 replaces --global-batch 64 of one",
        "submit: --batch-per-rank 16 replaces --batch-per-rank 32 of two",
        "submit: --batch-per-rank 16 replaces --batch-per-rank 128 of two-big",
    ]


def test_arrays_are_sorted_by_ranks_and_threads(table, tmp_path):
    table.write_text(
        "a 10 train --threads 2\nb 2 train\nc 10 train --threads 1\nlast 2 train --threads 8\n",
        encoding="utf-8",
    )
    ended = submit("--repeats", 1, "--dir", tmp_path / "out", table)
    arrays = [options(line) for line in ended.stdout.splitlines()[:-1]]
    assert [(a["--ntasks"], a["--cpus-per-task"], a["--array"], a["--nodes"]) for a in arrays] == [
        ("2", "4", "2%4", "1"),
        ("2", "8", "4%4", "1"),
        ("10", "1", "3%4", "3"),
        ("10", "2", "1%4", "3"),
    ]
    report = options(ended.stdout.splitlines()[-1])
    assert report["--dependency"] == "afterany:JOB1:JOB2:JOB3:JOB4"


def test_complete_runs_beyond_the_repeats_do_not_count(table, tmp_path):
    for name in ("one-1", "one-2", "two-1"):
        complete(tmp_path, name)
    ended = submit("--repeats", 1, "--dir", tmp_path, table)
    assert [options(line).get("--array") for line in ended.stdout.splitlines()] == ["3%4", None]


def test_other_points_in_the_folder_are_noted(table, tmp_path):
    complete(tmp_path, "other-1")
    ended = submit("--dir", tmp_path, table)
    note = f"the report will include points that are not in the table: other (in {tmp_path})"
    assert f"submit: {note}\n" in ended.stderr


@pytest.mark.parametrize("status", [1, 130])
def test_task_that_fails_states_its_log(tmp_path, table, status):
    assert run_task(tmp_path, table, 4, status).returncode == status
    reason = f"exit status {status}, see the log of task 77_4\n"
    assert (tmp_path / "two-1.failed").read_text(encoding="utf-8") == reason
    assert run_task(tmp_path, table, 4, 0).returncode == 0
    assert not (tmp_path / "two-1.failed").exists() and (tmp_path / "two-1.done").exists()


def test_task_whose_command_writes_no_run_file_is_an_error(tmp_path, table):
    environment = task_environment(tmp_path, 1, 0)
    (tmp_path / "bin" / "srun").write_text("#!/bin/bash\n", encoding="utf-8")
    words = ["generic", "", "srun", table, "3", tmp_path, "--quiet"]
    ended = call("task", *words, environment=environment)
    assert ended.returncode == 1
    assert ended.stderr == "task: the command of one-1 wrote no run file\n"


@pytest.mark.parametrize("given", [[], ["--threads", "3"]])
def test_task_starts_ranks_with_mpirun(tmp_path, table, given):
    """The daemons of mpirun end if a link is lost, and its ranks get the signals of the job."""
    environment = task_environment(
        tmp_path, 4, 0, SLURM_JOB_NUM_NODES="2", OMPI_MCA_oob_tcp_keepalive_time="7"
    )
    mpirun = tmp_path / "bin" / "mpirun"
    write_program(
        mpirun,
        f'#!/bin/bash\necho "$@" >"{tmp_path}/words"\nenv >"{tmp_path}/variables"\n'
        'touch "${@: -1}"\n',
    )
    words = ["generic", "", "mpirun", table, "3", tmp_path, *given]
    ended = call("task", *words, environment=environment)
    assert ended.returncode == 0, ended.stderr
    assert "jobs/forward-signals mpirun -n 2 --bind-to none /opt/lockstep train" in ended.stdout
    threads = given[-1] if given else "4"
    assert f" --threads {threads} " in (tmp_path / "words").read_text(encoding="utf-8")
    lines = (tmp_path / "variables").read_text(encoding="utf-8").splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["OMPI_MCA_oob_tcp_keepalive_time"] == "7"
    assert variables["OMPI_MCA_oob_tcp_keepalive_intvl"] == "10"
    assert variables["PRTE_MCA_oob_tcp_keepalive_probes"] == "3"
    assert variables["OMPI_MCA_mpi_yield_when_idle"] == "0"  # one rank per node


def test_interface_of_srun_is_that_of_the_mpi_library(tmp_path, table):
    assert run_task(tmp_path, table, 1, 0, LOCKSTEP_SRUN_MPI="pmi2").returncode == 0
    assert "--mpi=pmi2" in (tmp_path / "srun.calls").read_text(encoding="utf-8").split()
