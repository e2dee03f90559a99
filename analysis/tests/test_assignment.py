# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the tables and the questions of the course assignment, with epoch times as CSV."""

import csv
from types import SimpleNamespace

import pytest
from lockstep_report.cli import main
from lockstep_report.tables.assignment import assignment_tables
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.table import Column, Table

OTHERS = ("point", "setting", "mode")  # keys of rows that are no columns
TIMES = """ranks,batch_per_rank,epoch_seconds
1,32,80
1,128,60
1,512,50
2,32,50
2,128,32
4,128,20
2,64,40
"""


@pytest.fixture
def times(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(TIMES, encoding="utf-8")
    return path


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_table_has_ranks_in_rows_and_batches_in_columns(times, tmp_path):
    """Batch 64 was not measured on one rank, so it is a point of strong scaling."""
    assert (
        main(
            [
                "tables",
                "--csv",
                str(times),
                "--out",
                str(tmp_path / "out"),
                "--note",
                "batch-2048 does not fit",
            ]
        )
        == 0
    )
    found = rows(tmp_path / "out" / "assignment-1.csv")
    assert [row["ranks"] for row in found] == ["1", "2", "4"]
    assert [name for name in found[0] if "epoch" in name] == [
        "epoch_seconds_32",
        "epoch_seconds_128",
        "epoch_seconds_512",
    ]
    assert [float(row["epoch_seconds_128"]) for row in found] == [60, 32, 20]
    assert [float(row["speedup_128"]) for row in found] == [1, 60 / 32, 3]
    assert found[2]["epoch_seconds_32"] == found[1]["speedup_512"] == ""
    text = (tmp_path / "out" / "assignment-1.md").read_text(encoding="utf-8")
    assert (
        "| Ranks | Batch 32: Time (s) | Batch 32: Speedup |" in text
        and "- batch-2048 does not fit" in text
    )
    assert not (tmp_path / "out" / "assignment-2.csv").exists()  # the CSV has no phases


KEYS = (
    "ranks",
    "batch_per_rank",
    "epoch_seconds",
    "speedup",
    "measured_gb_s",
    "measured_percent",
    "measured_peak_percent",
)


def row_of(precision, ranks, batch):
    return {
        **dict.fromkeys(KEYS, 1.0),
        "ranks": ranks,
        "batch_per_rank": batch,
        "point": SimpleNamespace(setting=precision, is_independent=False, notes=()),
        "setting": precision,
        "mode": "overlap",
    }


def test_tables_show_one_setting_and_name_it():
    """Table 3 has no rows of 1 rank, so most of its rows may have another setting."""
    columns = [Column(key, key) for key in KEYS]
    one = [row_of("fp32", 1, batch) for batch in (32, 64, 128, 256)]
    both = [row_of("bf16", 2, batch) for batch in (32, 64, 128)] + [row_of("fp32", 2, 32)]
    times = Table("table-1", "Table 1", columns, one + both, [], OTHERS, TableKind.TIMES)
    rates = Table("table-3", "Table 3", columns, both, [], OTHERS, TableKind.BANDWIDTH)
    found = assignment_tables([times, rates])
    assert [table.rows[0]["ranks"] for table in found] == [1, 2]
    assert all("setting: fp32" in table.notes for table in found)


@pytest.mark.parametrize(
    "lines", [slice(0, 3), slice(4, 7), slice(0, 2)], ids=["one rank", "no base", "one point"]
)
def test_other_runs_are_no_assignment(times, tmp_path, lines):
    text = TIMES.splitlines(keepends=True)
    times.write_text("".join([text[0], *text[1:][lines]]), encoding="utf-8")
    assert main(["tables", "--csv", str(times), "--out", str(tmp_path / "out")]) == 0
    assert not list((tmp_path / "out").glob("assignment*"))


def test_page_lists_the_questions_in_order(times, tmp_path):
    page = tmp_path / "page.html"
    assert main(["html", "--csv", str(times), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    section = text[text.index('<details id="assignment"') :].partition("</ol>")[0]
    questions = [
        "Training time by batch",
        "Speedup; weak or strong",
        "Compute and communication",
        "Communication bandwidth",
        "Accuracy with a large batch",
        "What is communicated",
    ]
    places = [section.index(f"<strong>{question}") for question in questions]
    assert places == sorted(places) and section.count('href="#table-assignment-1"') == 2
    assert (
        "1 rank with batch 128 takes 60.00 s per epoch. Weak scaling (fixed batch per rank 128):"
        " 32.00 s on 2 ranks" in section
    )
    assert section.rstrip().count("no run shows it") == 2
