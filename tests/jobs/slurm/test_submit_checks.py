# SPDX-License-Identifier: BSD-3-Clause
"""Tests that `submit` lets lockstep check options and durations."""

import os

import pytest
from in_process import write_program
from lockstep_study.checks import on_one_rank
from lockstep_study.points import Point
from slurm_scripts import submit


def test_lockstep_checks_the_further_options(table, tmp_path, program):
    result = submit(
        "--dir", tmp_path / "out", table, "--", "--epochs", "2", **program(0), TMPDIR="/nowhere"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "--epochs 2" in result.stdout
    words = (tmp_path / "lockstep.calls").read_text().split()
    assert (
        words[0] == "train"
        and words[-1] == "--dry-run"
        and dict(zip(words, words[1:]))["--epochs"] == "2"
    )
    assert dict(zip(words, words[1:]))["--global-batch"] == "256"  # of the two ranks


@pytest.mark.parametrize(
    "limit, is_warned",
    [
        ("2:30", True),
        ("0:2:30", True),
        ("0-0:2", True),
        ("0-1", False),
        ("3", False),
        ("UNLIMITED", False),
        ("0", False),
    ],
)
def test_durations_are_compared_with_the_time_limit(table, tmp_path, limit, is_warned):
    """The stub trains 200 images per second, which is 150 s for the point with one rank, and less
    for two ranks."""
    stub = tmp_path / "lockstep"
    write_program(
        stub,
        """#!/bin/bash
case "$1 $2" in
  "help options")
    echo '| `--batch-per-rank B` | | `train` | time | |'
    echo '| `-b`, `--min-bytes B` | | `allreduce` | | |'
    ;;
  "help experiment")
    printf '%s\\n' batch-per-rank=8 global-batch=8 epochs=1 steps=0 evaluate-every=never
    ;;
  *) printf '"train-samples": "30000",\\n"images_per_second": 199.0,\\n' ;;
esac
""",
    )
    result = submit(
        "--repeats",
        2,
        "--time",
        limit,
        "--grace",
        60,
        "--dir",
        tmp_path / "out",
        table,
        LOCKSTEP_BIN=str(stub),
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 4  # two arrays, the report, and the sum
    assert lines[0].endswith(" # per task: about 3 min")
    assert lines[1].endswith(" # per task: about 75 s")
    assert lines[3] == "# all tasks: about 10 min"
    warning = (
        f"submit: warning: on this machine, these points take longer than --time {limit}: one"
        " (about 3 min); their tasks resume after the limit"
    )
    assert result.stderr == (f"{warning}\n" if is_warned else "")


@pytest.mark.parametrize("status", [2, 3])
def test_options_that_lockstep_rejects_are_not_submitted(table, program, status):
    result = submit(
        table, "--", "--epocs", "2", **program(status, "lockstep: unknown option --epocs")
    )
    assert result.returncode != 0 and result.stdout == ""
    assert result.stderr == "submit: lockstep rejects the options of one: unknown option --epocs\n"


@pytest.mark.parametrize(
    "further, status", [(["--device", "cuda"], 2), (["--device=cuda"], 2), (["--epochs", "2"], 4)]
)
def test_options_that_cannot_be_checked_are_submitted_with_a_note(
    table, tmp_path, program, further, status
):
    result = submit("--dir", tmp_path / "out", table, "--", *further, **program(status))
    assert result.returncode == 0 and "sbatch" in result.stdout
    assert "were not checked" in result.stderr


@pytest.mark.parametrize("further", [["--epocs", "2"], ["--seed", "7"], ["--epochs", "two"]])
def test_installed_program_rejects_invalid_further_options(table, further):
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    result = submit(table, "--", *further, LOCKSTEP_BIN=os.environ["LOCKSTEP_BIN"])
    assert result.returncode != 0 and further[0] in result.stderr, result.stderr


@pytest.mark.parametrize(
    "ranks, words, checked",
    [
        (1, "train --batch-per-rank 8", "train --batch-per-rank 8"),
        (4, "train --batch-per-rank 8 --lr 1", "train --lr 1 --global-batch 32"),
        (4, "train --global-batch 8", "train --global-batch 8"),
        (2, "allreduce --max-bytes 4K", "allreduce --max-bytes 4K"),
        (
            4,
            "train --batch-per-rank 8 --pipeline-stages 2 --stage-cuts layer2 --lr 1",
            "train --lr 1 --global-batch 16",
        ),
        (2, "train --batch-per-rank 8 --pipeline-stages 1", "train --global-batch 16"),
        (4, "train --global-batch 8 --pipeline-schedule=1f1b", "train --global-batch 8"),
        (2, "train --pipeline-stages two", "train --pipeline-stages two"),
        (1, "train --batch-per-rank 8 --pipeline-stages 2", "train --batch-per-rank 8 --pipeline"),
        (1, "analysis/examples/pytorch_ddp.py", None),
    ],
)
def test_points_are_checked_on_one_rank_with_their_global_batch(ranks, words, checked):
    point = Point("a", ranks, tuple(words.split()))
    found = on_one_rank(point, words.split())
    if checked is None:
        assert found is None
    else:
        assert " ".join(found).startswith(checked)
        assert ("--pipeline" in " ".join(found)) == ("--pipeline" in checked)


def test_rejected_points_are_not_submitted(table, tmp_path):
    stub = tmp_path / "lockstep"
    write_program(
        stub,
        '#!/bin/bash\n[[ "$*" != *"batch 256 "*--dry-run ]] || '
        "{ echo lockstep: no >&2; exit 3; }\n",
    )
    words = ["--repeats", 2, "--dir", tmp_path / "out", table]
    result = submit(*words, LOCKSTEP_BIN=str(stub))
    assert (result.returncode, result.stderr) == (0, "submit: two-big will not run: no\n")
    arrays = [line for line in result.stdout.splitlines() if "--array" in line]
    assert ["--array=1-2%4" in arrays[0], "--array=3-4%4" in arrays[1]] == [True, True]


def test_points_with_several_ranks_are_checked(table, program):
    table.write_text("two\t2\ttrain --batch-per-rank 32\n", encoding="utf-8")
    line = "lockstep: rank 0 on n1: a global batch of 64 images exceeds the 50 training images"
    result = submit(table, **program(3, line))
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == (
        "submit: lockstep rejects the options of two: a global batch of 64 images exceeds the 50"
        " training images\n"
    )


def test_memory_of_one_rank_does_not_decide_about_several(table, tmp_path, program):
    table.write_text("two\t2\ttrain --batch-per-rank 32\n", encoding="utf-8")
    result = submit("--dir", tmp_path / "out", table, **program(4))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--seed", "--output=x.h5", "--checkpoint-dir", "--resume"])
def test_options_of_the_study_are_refused_after_the_separator(table, option):
    result = submit(table, "--", option, "7")
    name = option.partition("=")[0]
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == f"submit: {name} is given by the program that runs the study\n"
