# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what is read from the commands of Slurm: the queue, the accounting, and the answers of
sbatch."""

import pytest
from in_process import write_program
from lockstep_study import slurm
from lockstep_study.errors import StudyError
from lockstep_study.scheduler import Job, Usage
from lockstep_study.slurm import UNLIMITED, Slurm, limit_seconds
from lockstep_study.slurm_output import bytes_of
from lockstep_study.status import usage_text
from lockstep_study.submission import ranges


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """A function that writes a stub of a program of Slurm, which prints a text and fails with
    `status`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name, text, status=0):
        stream = 2 if status else 1
        write_program(
            tmp_path / name,
            f'#!/bin/bash\necho "$@" >>"{tmp_path}/calls"\ncat >&{stream} <<"E"\n{text}\nE\n'
            f"exit {status}\n",
        )

    return write


def test_accounting_has_state_time_and_memory_of_the_last_start(answer, tmp_path):
    rows = """\
70_2|NODE_FAIL|900|
70_2.batch|NODE_FAIL|900|9000K
70_2.0|NODE_FAIL|900|9000000K
70_2|RUNNING|65|
70_2.extern|RUNNING|65|1.5M
70_2.0|RUNNING|65|300K
70_3|CANCELLED by 1000|0|
70_4|PENDING||
70_[5-6%2]|PENDING|0|
71|FAILED|7|
71.batch|FAILED|7|20
72|FAILED|8|
72.0|OUT_OF_MEMORY|8|3G
72.1|COMPLETED|8|1G"""
    answer("sacct", rows)
    assert Slurm().usage(["70_2", "70_3", "70_4", "71", "72"]) == {
        "70_2": Usage("RUNNING", 65, 1.5 * (1 << 20)),
        "70_3": Usage("CANCELLED by 1000", 0, None),
        "70_4": Usage("PENDING", None, None),
        "71": Usage("FAILED", 7, 20),
        "72": Usage("OUT_OF_MEMORY", 8, 3 << 30),
    }
    assert (tmp_path / "calls").read_text(encoding="utf-8") == (
        "--noheader --parsable2 --jobs=70_2,70_3,70_4,71,72"
        " --format=JobID,State,ElapsedRaw,MaxRSS\n"
    )


def test_without_accounting_nothing_is_known(answer, tmp_path):
    answer("sacct", "Slurm accounting storage is disabled", 1)
    assert Slurm().usage(["70_2"]) == {}
    (tmp_path / "calls").unlink()
    assert Slurm().usage([]) == {} and not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    "usage, parts",
    [
        (None, []),
        (Usage("RUNNING"), []),
        (Usage("RUNNING", 3723), ["1:02:03 h"]),
        (Usage("", 5, 1_250_000_000), ["5.0 s", "1.2 GB"]),
        (Usage("", None, 20_000_000), ["0.02 GB"]),
    ],
)
def test_usage_is_printed_as_time_and_memory(usage, parts):
    assert usage_text(usage) == parts


@pytest.mark.parametrize(
    "text, amount",
    [
        ("0", 0),
        ("1234", 1234),
        ("2K", 2048),
        ("1.5M", 1.5 * (1 << 20)),
        ("3G", 3 << 30),
        ("1T", 1 << 40),
        ("", 0),
        ("1X", 0),
        ("-1", 0),
    ],
)
def test_amounts_of_memory(text, amount):
    assert bytes_of(text) == amount


def test_queue_has_the_tasks_of_arrays(answer, tmp_path):
    answer(
        "squeue",
        "70_2 RUNNING lockstep-a-n1 None\n70_3 PENDING lockstep-a-n1 JobHeldUser\n"
        "71 SPECIAL_EXIT report job requeued in held state\n72 PENDING bash Resources\n"
        "73 RUNNING x",
    )
    assert Slurm().queue() == [
        Job("70_2", "lockstep-a-n1", "RUNNING", "2", "None"),
        Job("70_3", "lockstep-a-n1", "HELD", "3", "JobHeldUser"),
        Job("71", "report", "HELD", "", "job requeued in held state"),
        Job("72", "bash", "PENDING", "", "Resources"),
        Job("73", "x", "RUNNING"),
    ]
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert calls == "--noheader --array --format=%i %T %j %r\n"


def test_errors_of_slurm_have_their_message(answer):
    answer("squeue", "slurm_load_jobs error:\nUnable to contact slurm controller", 1)
    with pytest.raises(StudyError, match=r"^squeue failed \(Unable to contact slurm controller\)$"):
        Slurm().queue()
    with pytest.raises(StudyError, match="^no-such-program: No such file or directory$"):
        slurm.output_of("no-such-program")


@pytest.mark.parametrize(
    "text, index",
    [
        ("x\nMaxArraySize            = 1001\ny", 1000),
        ("MaxArraySize=1", 0),
        ("OtherMaxArraySize = 5", None),
        ("MaxArraySize = many", None),
    ],
)
def test_largest_index_of_an_array(answer, text, index):
    answer("scontrol", text)
    assert Slurm().largest_index() == index


def test_largest_index_needs_the_controller(answer):
    answer("scontrol", "no controller", 1)
    with pytest.raises(StudyError, match="scontrol failed; is this a login node of the cluster"):
        Slurm().largest_index()


@pytest.mark.parametrize(
    "answer_of_sbatch, job",
    [
        ("71\n", "71"),
        ("  71;cluster\n", "71"),
        ("5\n71\nquota: 7 of 10 GB\n", "71"),
        ("Submitted batch job 71 on cluster a1\n", "71"),
        ("Submitted 71;a1 9\n", "71"),
        ("queued\n", ""),
    ],
)
def test_id_of_a_job(answer_of_sbatch, job):
    assert Slurm().job_of(answer_of_sbatch) == job


@pytest.mark.parametrize(
    "limit, seconds",
    [
        ("5", 300),
        ("5:30", 330),
        ("1:02:03", 3723),
        ("1-0", 86400),
        ("1-2", 86400 + 7200),
        ("1-2:03", 86400 + 7380),
        ("2-02:03:04", 2 * 86400 + 7384),
        ("0", UNLIMITED),
        ("0-00:00", UNLIMITED),
        ("UNLIMITED", UNLIMITED),
        ("00:00:01", 1),
    ],
)
def test_time_limits_are_those_of_sbatch(limit, seconds):
    assert limit_seconds(limit) == seconds


@pytest.mark.parametrize("limit", ["", "abc", "1:2:3:4", "1-", "-1", "1-2-3", "unlimited", "1h"])
def test_invalid_time_limit_is_an_error(limit):
    with pytest.raises(StudyError, match="is not a time limit such as 01:00:00 or 1-12:00:00"):
        limit_seconds(limit)


@pytest.mark.parametrize(
    "indices, text",
    [
        ([1], "1"),
        ([1, 2], "1-2"),
        ([1, 3], "1,3"),
        ([1, 2, 3, 7, 9, 10], "1-3,7,9-10"),
        ([5, 6, 8, 9, 11], "5-6,8-9,11"),
    ],
)
def test_indices_of_an_array_are_ranges(indices, text):
    assert ranges(indices) == text
