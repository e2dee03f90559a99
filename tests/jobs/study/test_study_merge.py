# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the options after --, which replace those of the points."""

import pytest
from lockstep_study.command import Merged, merge
from lockstep_study.points import Point
from lockstep_study.programs import Programs
from study_command import OPTIONS_OF_PROGRAMS, study


@pytest.fixture
def programs(program):
    """lockstep with the options of OPTIONS_OF_PROGRAMS."""
    return Programs(program(experiment=f"echo '{OPTIONS_OF_PROGRAMS}'"))


@pytest.mark.parametrize(
    "words, further, merged",
    [
        ("train --epochs 2", "", Merged("train --epochs 2")),
        (
            "train --epochs 2 --nesterov",
            "--epochs 5",
            Merged("train --nesterov --epochs 5", replaced={"--epochs 5": "--epochs 2"}),
        ),
        ("train --epochs 2", "--epochs 2", Merged("train --epochs 2")),
        (
            "train --epochs=2",
            "--epochs 5",
            Merged("train --epochs 5", replaced={"--epochs 5": "--epochs=2"}),
        ),
        (
            "train --epochs 1 --nesterov --epochs 2",
            "--epochs=5",
            Merged("train --nesterov --epochs=5", replaced={"--epochs=5": "--epochs 2"}),
        ),
        (
            "train --batch-per-rank 8",
            "--global-batch 4",
            Merged("train --global-batch 4", replaced={"--global-batch 4": "--batch-per-rank 8"}),
        ),
        (
            "train --global-batch 8",
            "--batch-per-rank 4",
            Merged("train --batch-per-rank 4", replaced={"--batch-per-rank 4": "--global-batch 8"}),
        ),
        (
            "train --epochs 2",
            "--min-bytes 4K --epochs 3 --min-bytes=8K",
            Merged(
                "train --epochs 3",
                unused=["--min-bytes", "--min-bytes"],
                replaced={"--epochs 3": "--epochs 2"},
            ),
        ),
        (
            "allreduce -b 2K",
            "-b4K --quiet",
            Merged(
                "allreduce --min-bytes=4K --quiet",
                replaced={"--min-bytes=4K": "--min-bytes 2K"},
            ),
        ),
        ("train", "--unknown 1", Merged("train --unknown 1")),
        ("train --lr -1", "--epochs 2", Merged("train --lr -1 --epochs 2")),
    ],
)
def test_further_options_replace_those_of_the_point(programs, words, further, merged):
    found = merge(Point("one", 1, tuple(words.split())), further.split(), programs)
    replaced = {new: " ".join(old) for new, old in found.replaced.items()}
    assert Merged(" ".join(found.words), found.unused, replaced) == merged


def test_options_are_kept_if_the_program_cannot_run():
    programs = Programs({"LOCKSTEP_BIN": "/nowhere"})
    merged = merge(Point("one", 1, ("train",)), ["--min-bytes", "4K"], programs)
    assert merged == Merged(["train", "--min-bytes", "4K"])


def test_notes_name_the_points_whose_options_are_replaced(table):
    rows = [f"point{i}\t1\ttrain --epochs 2 --lr {i % 2}" for i in range(5)]
    table.write_text("\n".join([*rows, "last\t1\ttrain --epochs 3"]), encoding="utf-8")
    notes = study("--dry-run", table, "--", "--epochs", "3", "--lr", "1").stderr.splitlines()
    assert notes[:2] == [
        "study: --epochs 3 replaces --epochs 2 of point0, point1, point2 and 2 others",
        "study: --lr 1 replaces --lr 0 of point0, point2, point4",
    ]


def test_note_names_up_to_four_points(table):
    table.write_text("".join(f"p{i}\t1\ttrain --lr 1\n" for i in range(4)), encoding="utf-8")
    notes = study("--dry-run", table, "--", "--lr", "2").stderr
    assert "study: --lr 2 replaces --lr 1 of p0, p1, p2, p3\n" in notes


def test_option_that_some_points_use_is_no_error(table, program):
    stub = program(experiment=f"[ $2 = experiment ] || echo '{OPTIONS_OF_PROGRAMS}'")
    ended = study("--dry-run", table, "--", "--min-bytes", "4K", **stub)
    assert ended.returncode == 0, ended.stderr
