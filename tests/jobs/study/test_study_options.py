# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the options of jobs/study, and of those that it passes to the commands of a table."""

import os

import pytest
from study_command import OPTIONS_OF_PROGRAMS, RUN, calls, commands_of, study


def test_options_after_the_separator_replace_those_of_the_table(table, tmp_path, program):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --epochs=2 --nesterov --lr 0.1\n", encoding="utf-8"
    )
    assert (
        study(
            *RUN,
            "--dir",
            tmp_path / "out",
            table,
            "--",
            "--epochs",
            "5",
            "--batch-per-rank=4",
            **program(),
        ).returncode
        == 0
    )
    words = calls(tmp_path)[0]
    assert words[:7] == [
        "train",
        "--nesterov",
        "--lr",
        "0.1",
        "--epochs",
        "5",
        "--batch-per-rank=4",
    ]


def test_one_kind_of_batch_replaces_the_other(table, tmp_path, program):
    assert (
        study(
            *RUN, "--dir", tmp_path / "out", table, "--", "--global-batch", "4", **program()
        ).returncode
        == 0
    )
    assert "--batch-per-rank" not in calls(tmp_path)[0]


def test_dry_run_estimates_durations(table, tmp_path, program):
    """The stub trains 100 images per second; it is called once for the two points with 8
    threads."""
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --threads 8 --epochs 2\ntwo\t1\ttrain --global-batch 8"
        " --threads 8 --lr 1\nthree\t2\tallreduce\n",
        encoding="utf-8",
    )
    experiment = "threads=8 batch-per-rank=8 global-batch=8 epochs=2 steps=0 evaluate-every=1"
    results = '"train-samples": "30000",\\n"test-samples": "3000",\\n"images_per_second": 100.0,\\n'
    stub = program(
        experiment=f"""[ $2 != experiment ] || {{ printf '%s\\n' {experiment}; exit; }}
        echo '{OPTIONS_OF_PROGRAMS}'""",
        check=f"""[ "$1 ${{*: -1}}" != "train --json" ] || {{ echo "$@" >>"{tmp_path}/calls"
        printf '{results}'; exit; }}; [ "${{*: -1}}" != --json ]; exit""",
    )
    result = study("--dry-run", *RUN, "--dir", tmp_path / "out", "--repeats", 2, table, **stub)
    assert result.returncode == 0, result.stderr
    assert len(calls(tmp_path)) == 1, calls(tmp_path)
    slowdown = max(1, 8 / len(os.sched_getaffinity(0)))
    minutes = 2 * (30000 + 1000) / 100 * slowdown / 60
    durations = [line.rpartition(" # ")[2] for line in commands_of(result)]
    text = f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
    assert durations == [text, text, "duration unknown"] * 2
    total = 4 * minutes
    text = f"about {total:.0f} min" if total < 90 else f"about {total / 60:.1f} h"
    assert result.stdout.splitlines()[-1] == f"# 6 runs: {text}, and 2 of unknown duration"


def test_launcher_needs_the_number_of_ranks(table):
    result = study("--dry-run", "--launcher", "mpirun -n 2", table)
    assert result.returncode != 0 and "does not contain the word RANKS" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--repeats", "0"],
        ["--repeats", "9" * 20],
        ["--unknown"],
        ["second.tsv"],
        ["/nowhere.tsv"],
        ["--repeats"],
        ["--dir"],
        ["--launcher"],
    ],
)
def test_invalid_options_are_errors(table, arguments):
    result = study(table, *arguments)
    assert (
        result.returncode != 0
        and result.stderr.startswith("study: ")
        and len(result.stderr.splitlines()) == 1
    )


def test_folder_may_start_with_a_dash(table, tmp_path):
    result = study("--dry-run", "--dir", "-odd", table)
    assert result.returncode == 0 and f"{os.getcwd()}/-odd/one-1.0.h5" in result.stdout


def test_batch_of_the_table_is_not_checked_if_it_is_replaced(table):
    table.write_text("a\t4\ttrain --global-batch 6\n", encoding="utf-8")
    assert study("--dry-run", table, "--", "--global-batch", "8").returncode == 0
    assert study("--dry-run", table, "--", "--batch-per-rank", "2").returncode == 0
    assert (
        "not a multiple of its 4 ranks"
        in study("--dry-run", table, "--", "--global-batch", "6").stderr
    )
