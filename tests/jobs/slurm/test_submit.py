# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the jobs that `submit --dry-run` prints."""

import os

import pytest
from in_process import write_program
from slurm_scripts import complete, options, submit


def test_submit_creates_one_array_per_number_of_ranks(table, tmp_path):
    result = submit("--repeats", 3, "--at-once", 2, "--dir", tmp_path / "out", table)
    assert result.returncode == 0, result.stderr
    *arrays, report = [options(line) for line in result.stdout.splitlines()]
    assert (
        report["--dependency"] == "afterany:JOB1:JOB2"
        and "report.sbatch" in result.stdout.splitlines()[-1]
    )
    assert [(a["--ntasks"], a["--nodes"], a["--array"]) for a in arrays] == [
        ("1", "1", "1-3%2"),
        ("2", "1", "4-9%2"),
    ]
    for array in arrays:
        assert "--gpus-per-task" not in array  # every rank selects its GPU by its local rank
        assert (
            array["--signal"] == "TERM@120"
            and array["--open-mode"] == "append"
            and "--requeue" in array
        )
        assert array["--output"].endswith("logs/%A_%a.log")


def test_ranks_are_distributed_evenly_over_nodes(table, tmp_path):
    table.write_text("six\t6\ttrain --global-batch 96\n", encoding="utf-8")
    array = options(submit("--repeats", 1, "--dir", tmp_path / "out", table).stdout.splitlines()[0])
    assert (array["--nodes"], array["--ntasks-per-node"]) == (
        "2",
        "3",
    )  # the site `generic` has 4 ranks per node


def test_options_of_sbatch_are_passed(table, tmp_path):
    named = {
        "--partition": "cpu",
        "--qos": "short",
        "--mail-type": "END,FAIL",
        "--mail-user": "a@b.c",
    }
    *arrays, report = map(
        options,
        submit(
            "--exclusive",
            "--partition",
            "cpu",
            "--qos=short",
            "--mail-type=END,FAIL",
            "--mail-user",
            "a@b.c",
            "--sbatch",
            "--constraint=icelake  --exclude=n1",
            "--dir",
            tmp_path / "out",
            table,
        ).stdout.splitlines(),
    )
    for job in (*arrays, report):
        assert job.items() >= named.items()
    assert all(array.keys() >= {"--exclusive", "--constraint", "--exclude"} for array in arrays)
    assert not {"--exclusive", "--constraint"} & report.keys()


@pytest.mark.parametrize("option", ["--mem=64G", "--mem-per-cpu=1G", "--mem-per-gpu=8G"])
def test_memory_of_the_user_replaces_that_of_the_site(table, tmp_path, option):
    """sbatch accepts only one of these options."""
    *arrays, report = map(
        options, submit("--sbatch", option, "--dir", tmp_path / "out", table).stdout.splitlines()
    )
    for array in arrays:
        assert [f"{name}={value}" for name, value in array.items() if name.startswith("--mem")] == [
            option
        ]
    assert "--mem-per-cpu" in report


def test_complete_points_are_not_submitted(table, tmp_path):
    complete(tmp_path, "two-2")
    lines = submit("--repeats", 2, "--dir", tmp_path, table).stdout.splitlines()
    assert [options(line)["--array"] for line in lines[:-1]] == ["1-2%4", "3,5-6%4"]


def test_complete_study_is_not_submitted(table, tmp_path):
    for name in ("one", "two", "two-big"):
        complete(tmp_path, f"{name}-1")
    result = submit("--repeats", 1, "--dir", tmp_path, table)
    assert result.returncode == 0
    assert "one-1.done does not contain the options and the build of the run" in result.stderr
    assert result.stdout == f"all points are complete; the results are in {tmp_path}\n"


def test_missing_account_is_an_error_if_the_site_requires_one(table):
    without_account = submit("--site", "torch", table)
    assert without_account.returncode != 0 and "--account" in without_account.stderr
    accepted = submit("--site", "torch", "--account", "a_b_1", table)
    assert options(accepted.stdout.splitlines()[0])["--account"] == "a_b_1"
    assert "--partition" not in accepted.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--site", "unknown"],
        ["--site", "../sites/generic"],
        ["--repeats", "0"],
        ["--unknown"],
        ["second.tsv"],
        ["--sbatch", "exclusive"],
        ["--sbatch", "--qos a"],
        *(
            ["--sbatch", option]
            for option in (
                "--array=1-3",
                "-a1-3",
                "--export=NONE",
                "--wait",
                "--time=5",
                "--signal=USR1@9",
            )
        ),
        ["--time", "00:02:00"],
        ["--time", "2"],
        ["--time", "0:30", "--grace", "30"],
    ],
)
def test_invalid_options_are_errors(table, arguments):
    result = submit(table, *arguments)
    assert result.returncode != 0 and result.stderr.startswith("submit: ")


def test_points_with_other_threads_are_an_array_of_their_own(table, tmp_path):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --threads 1\ntwo\t1\ttrain --batch-per-rank 8"
        " --threads 2\n",
        encoding="utf-8",
    )
    arrays = [
        options(line)
        for line in submit("--repeats", 1, "--dir", tmp_path / "out", table).stdout.splitlines()[
            :-1
        ]
    ]
    assert [(a["--cpus-per-task"], a["--array"]) for a in arrays] == [("1", "1%4"), ("2", "2%4")]


def test_threads_that_lockstep_selects_are_those_of_the_site(table, tmp_path):
    lines = [
        submit("--dir", tmp_path / "out", table, "--", *further).stdout.splitlines()[0]
        for further in ([], ["--threads", "0"])
    ]
    assert len({options(line)["--cpus-per-task"] for line in lines}) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--time"], ["--time", ""], ["--time", "abc"], ["--grace"], ["--dir"], ["--account"]],
)
def test_options_without_a_valid_value_are_errors(table, arguments):
    result = submit(table, *arguments)
    assert result.returncode != 0 and result.stdout == ""
    assert result.stderr.startswith("submit: --") and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "types, name, option",
    [
        ("none pmix pmix_v4", "srun", "--signal=TERM@120"),
        ("none pmi2", "mpirun", "--signal=B:TERM@120"),
    ],
)
def test_launcher_is_mpirun_if_srun_has_no_pmix(table, tmp_path, types, name, option):
    write_program(tmp_path / "srun", f"#!/bin/bash\necho MPI plugin types are... {types}\n")
    line = submit(
        "--dir", tmp_path / "out", table, PATH=f"{tmp_path}:{os.environ['PATH']}"
    ).stdout.splitlines()[0]
    assert option in line and f" generic '' {name} " in line
