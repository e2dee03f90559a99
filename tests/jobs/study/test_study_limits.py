# SPDX-License-Identifier: BSD-3-Clause
"""Tests that points at the limits of a table are accepted."""

import pytest
from lockstep_study.errors import StudyError, one_line
from lockstep_study.points import as_table, make_point, option_value
from lockstep_study.table import read_table

LONGEST = " ".join(["train", "--data", "x" * (4000 - len("train --data "))])


@pytest.mark.parametrize(
    "row",
    [
        f"{'x' * 100}\t1\ttrain",
        "x\t999999\ttrain",
        f"x\t1\t{LONGEST}",
        "A-z_0.9\t1\ttrain --data a:/b@c,d=e+f%g",
        "x\t1\tanalysis/examples/pytorch_dp.py --epochs 2",
    ],
    ids=lambda row: row[:30],
)
def test_row_at_the_limits_is_a_point(table, row):
    table.write_text(row, encoding="utf-8")
    [point] = read_table(str(table))
    assert as_table([point]) == f"{row}\n"


def test_largest_table_is_read(table):
    rows = "".join(f"a{i}\t1\ttrain\n" for i in range(1000))
    table.write_text(rows + "#" * (1_000_000 - len(rows)), encoding="utf-8")
    points = read_table(str(table))
    assert len(points) == 1000 and points[-1].name == "a999"


def test_point_has_a_limit_more_than_the_largest():
    for name, ranks, words in (
        ("x" * 101, "1", ["train"]),
        ("x", "1000000", ["train"]),
        ("x", "1", [*LONGEST.split(), "x"]),
    ):
        with pytest.raises(StudyError):
            make_point(name, ranks, words)


@pytest.mark.parametrize(
    "words, value",
    [
        ("train --lr 0.1 --epochs 2", "0.1"),
        ("train --lr=0.1", "0.1"),
        ("train --lr", None),
        ("train --lr2 5", None),
        ("train --rate 3 --lr 4", "3"),
        ("train --lr= --rate 3", ""),
    ],
)
def test_value_of_an_option(words, value):
    assert option_value(words.split(), "--lr", "--rate") == value


def test_messages_are_one_line():
    assert one_line("a\nb\tc\x1b\x9bd\u2028é") == "a?b?c??d?é"
