# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the text of tables: digits, intervals, notes and captions."""

import re
from dataclasses import replace

import pytest
from lockstep_report.cli import main
from lockstep_report.measure import points
from lockstep_report.tables.registry import all_tables
from lockstep_report.tables.scaling import weak_table
from lockstep_report.tables.table import (
    Column,
    Note,
    Table,
    cell_texts,
    csv_text,
    interval_columns,
    latex,
    markdown,
    rows_of,
    table_values,
)
from synthetic import phases, write_ladder, write_run, write_sweep

STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)


def column_of(text, header):
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    place = rows[0].index(header)
    return [row[place] for row in rows[2:]]


def table_of(values, digits=None):
    return Table("t", "T", [Column("x", "X", digits)], [{"x": value} for value in values])


@pytest.mark.parametrize(
    "values, digits, texts",
    [
        ([1024, 16384], None, ["1,024", "16,384"]),
        ([32, 1024], None, ["32", "1024"]),
        ([1024, 16384, None], None, ["1,024", "16,384", "–"]),
        ([-0.001, 0.001, -1.0], 2, ["0.00", "0.00", "-1.00"]),
        ([-0.4, 1234.0], 0, ["0", "1,234"]),
    ],
)
def test_numbers_of_one_column_are_written_by_one_rule(values, digits, texts):
    assert column_of(markdown(table_of(values, digits)), "X") == texts


@pytest.mark.parametrize(
    "value, low, high, texts",
    [
        (12.3456, 12.3, 12.4, ("12.35", "12.30", "12.40")),
        (12.3456, 10.0, 15.0, ("12.3", "10.0", "15.0")),
        (1234.5, 1000.0, 1500.0, ("1,230", "1,000", "1,500")),
        (0.1, None, None, ("0.10", "–", "–")),
    ],
)
def test_an_interval_limits_the_digits(value, low, high, texts):
    """Two digits of its width; images/s are proportional to the value."""
    columns = [
        *interval_columns(Column("x", "X", 2), "low", "high"),
        Column("y", "Y", 2, interval=("low", "high", "x")),
    ]
    row = {"x": value, "low": low, "high": high, "y": 10 * value}
    assert tuple(cell_texts(column, [row])[0] for column in columns[:3]) == texts
    assert float(cell_texts(columns[3], [row])[0].replace(",", "")) == pytest.approx(
        10 * value, rel=0.01
    )


def test_a_note_is_printed_only_with_its_column():
    table = Table(
        "t",
        "T",
        [Column("x", "X"), Column("y", "Y")],
        [{"x": 1}],
        ["always", Note("about y", ("y",)), Note("about x or y", ("x", "y"))],
    )
    for text in (markdown(table), latex(table)):
        assert "always" in text and "about x or y" in text and "about y" not in text


def test_no_table_explains_a_column_that_it_does_not_have():
    """With one rank only, there is no speedup, no communication and no independent replica."""
    alone = points.Point("a.csv", 2, 32, 10.0)
    text = "".join(markdown(t) for t in all_tables([alone], []))
    assert "Epoch speedup" not in text and "epoch speedup" not in text
    assert "derived:" not in text
    table = weak_table([replace(alone, steps=10, step_median=1.0)])
    assert "independent replicas" not in markdown(table)


@pytest.mark.parametrize(
    "title, caption",
    [("Table 1: time and speedup", "Time and speedup"), ("Weak scaling", "Weak scaling")],
)
def test_latex_captions_have_no_number_of_their_own(title, caption):
    table = Table("t", title, [Column("x", "X")], [{"x": 1}])
    assert rf"\caption{{{caption}}}" in latex(table)


def test_the_latex_of_a_report_is_balanced(tmp_path):
    one = write_run(tmp_path / "one.h5", phases(20, STEP), 10, epochs=2, batch=10)
    two = write_run(tmp_path / "two.h5", phases(10, STEP, STEP), 20, epochs=2, batch=10)
    out = tmp_path / "out"
    assert (
        main(
            [
                "tables",
                str(one),
                str(two),
                str(write_ladder(tmp_path / "l.h5")),
                str(write_sweep(tmp_path / "s.h5")),
                "--out",
                str(out),
            ]
        )
        == 0
    )
    files = sorted(out.glob("*.tex"))
    assert len(files) > 4
    for path in files:
        text = path.read_text()
        assert not re.search(r"\\caption\{Table \d", text)
        assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
        plain = text.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
        columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text).group(1))
        body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)


def test_the_ends_of_an_interval_are_one_printed_column():
    columns = interval_columns(Column("x", "X", 2), "low", "high", " (s)")
    rows = [{"x": 1.85, "low": 1.726, "high": 1.973}, {"x": 2.0, "low": None, "high": None}]
    table = Table("t", "T", columns, rows, [Note("about the interval", ("low",))])
    text = markdown(table)
    assert "| X | 95 % interval (s) |" in text and "about the interval" in text
    assert column_of(text, "95 % interval (s)") == ["1.73 to 1.97", "–"]
    assert "1.85 & 1.73 to 1.97" in latex(table)
    assert csv_text(table).splitlines() == ["x,low,high", "1.85,1.726,1.973", "2,,"]
    assert table_values(table)["rows"][0] == rows[0]
    assert "95 %" not in markdown(Table("t", "T", columns, rows[1:]))


@pytest.mark.parametrize(
    "columns, row, notes",
    [
        ([Column("x", "X")], {"x": 1, "xx": 2}, []),
        ([Column("x", "X", 2, interval=("low", "hihg"))], {"x": 1.0, "low": 0.9, "high": 1.1}, []),
        ([Column("x", "X")], {"x": 1}, [Note("about y", ("y",))]),
    ],
    ids=["row", "interval", "note"],
)
def test_an_unknown_key_is_an_error(columns, row, notes):
    with pytest.raises(ValueError, match="table t: no column has the key (xx|hihg|y)$"):
        Table("t", "T", columns, [row], notes, ("low", "high"))


def test_the_key_of_a_column_must_be_an_attribute():
    """An empty column is not printed, so nobody would see a misspelt key."""
    with pytest.raises(AttributeError, match="epoch_secnods"):
        rows_of([Column("epoch_secnods", "Epoch (s)")], [points.Point("a.csv", 2, 32, 10.0)])
