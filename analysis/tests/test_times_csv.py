# SPDX-License-Identifier: BSD-3-Clause
"""Tests that epoch times are read from the tables that spreadsheets, editors and libraries write."""

import pytest
from lockstep_report.cli import main
from lockstep_report.errors import ReportError
from lockstep_report.runfile.times_csv import read_times

PLAIN = "ranks,batch_per_rank,epoch_seconds\n1,1024,1234.5\n2,1024,600.25\n"
SEMICOLONS = "ranks;batch_per_rank;epoch_seconds\n1;1024;1234,5\n2;1024;600,25\n"


def read(tmp_path, content):
    path = tmp_path / "times.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_times(path)


@pytest.mark.parametrize("content", [
    PLAIN, "\ufeff" + PLAIN, PLAIN.replace("\n", "\r\n"), PLAIN.replace("\n", "\r"), PLAIN.encode("utf-16"),
    SEMICOLONS, "\ufeff" + SEMICOLONS, "sep=;\r\n" + SEMICOLONS, SEMICOLONS.replace(",", "."),
    SEMICOLONS.replace(";", "\t"), SEMICOLONS.replace(";", "\t").encode("utf-16"), PLAIN.replace(",", "\t"),
    PLAIN.replace("ranks,batch_per_rank,epoch_seconds", " Ranks, Batch per rank [images] ,EPOCH-SECONDS (s)"),
    PLAIN.replace("ranks,", "GPUs,"), PLAIN.replace("\n", ",,\n") + ",,,,\n\n\n", "# ranks, times of May\n" + PLAIN + "#\n",
    "# " + PLAIN, ("# Zeit f\u00fcr\n" + PLAIN).encode("latin-1"), '"' + PLAIN.strip().replace(",", '","').replace("\n", '"\n"') + '"',
    PLAIN.replace("1234.5", '"1,234.5"'), SEMICOLONS.replace("1024", "1.024").replace("1234", "1.234"),
    SEMICOLONS.replace("1234", "1\u00a0234").replace("1024", "1\u202f024"), PLAIN.replace("1234", "1'234").replace("1024", "1\u2019024"),
    PLAIN.replace("1234.5", '"1234,5"').replace("600.25", '"600,25"'), PLAIN.replace("\n2,", "\n\nranks,batch_per_rank,epoch_seconds\n2,"),
    PLAIN.replace("1234.5", " 1.2345e3 "), SEMICOLONS.replace("\n", ";1.2\n").replace("seconds;1.2", "seconds;version"),
], ids=repr)
def test_tables_of_spreadsheets_have_the_same_values(tmp_path, content):
    rows = read(tmp_path, content).rows
    assert [(row.ranks, row.batch_per_rank, float(row.seconds)) for row in rows] == [(1, 1024, 1234.5), (2, 1024, 600.25)]


def test_names_of_published_columns_may_have_capital_letters(tmp_path):
    found = read(tmp_path, "Ranks;Epoch seconds;Published speedup\n1;10,0;1,00\n2;6,0;\n")
    assert found.published_columns == ["published_speedup"]
    assert [{name: str(value) for name, value in row.published.items()} for row in found.rows] == [{"published_speedup": "1.00"}, {}]


@pytest.mark.parametrize("content, words, remedy", [
    (PLAIN.replace("ranks,", "procs,"), "no column ranks or gpus or workers (found: procs, batch_per_rank, epoch_seconds); name the columns "
     "ranks (or gpus, workers), batch_per_rank (or batch_per_gpu) and epoch_seconds in the first line", ("procs", "ranks")),
    (PLAIN.replace(",", " "), "(found: ranks batch_per_rank epoch_seconds); name the columns ranks (or gpus, workers), batch_per_rank "
     "(or batch_per_gpu) and epoch_seconds in the first line, separated by commas, semicolons or tabs", (" ", ",")),
    (SEMICOLONS.replace(";", ","), ":2: 4 cells, but the first line names 3 columns; separate columns by ; if numbers have decimal commas",
     None),
    ("ranks,epoch_seconds\n1,\n2,3\n", ':2: epoch_seconds is "", a number is needed; delete the line', ("1,\n", "")),
    ("ranks,epoch_seconds\n\n# x\n1,NaN\n2,3\n", ':4: epoch_seconds is "NaN", a number is needed; delete the line', ("1,NaN\n", "")),
    ("ranks,epoch_seconds\n1,#DIV/0!\n2,3\n", 'is "#DIV/0!", a number is needed; delete the line', ("1,#DIV/0!\n", "")),
    ("ranks\tepoch_seconds\n1\t1,234\n", 'is "1,234", a number is needed; write it with a decimal point and without other', ("1,234", "1.234")),
    ("ranks;epoch_seconds\n1;10,5\n2;5.6\n", 'is "10,5", a number is needed; write it with a decimal point', ("10,5", "10.5")),
    ("ranks,epoch_seconds\n1,1e400\n", 'is "1e400", a number is needed', ("1e400", "1e4")),
    ("ranks,epoch_seconds\n1,1e9999999\n", 'is "1e9999999", a number is needed', ("1e9999999", "1e4")),
    ("ranks,Ranks,epoch_seconds\n1,2,3\n", "two columns are named ranks; delete or rename one", ("Ranks", "nodes")),
    ("ranks,epoch_seconds\n", "no column has a value; write one line for each run below", ("\n", "\n1,2\n")),
    ('ranks,epoch_seconds\n"1,2\n', "not a CSV table (unexpected end of data)", ('"', "")),
], ids=lambda value: repr(value)[:40])
def test_message_says_what_is_wrong_and_its_advice_helps(tmp_path, capsys, content, words, remedy):
    with pytest.raises(ReportError) as caught:
        read(tmp_path, content)
    assert words in str(caught.value)
    assert main(["tables", "--csv", str(tmp_path / "times.csv"), "--out", str(tmp_path / "out")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert read(tmp_path, content.replace(*remedy) if remedy else SEMICOLONS).rows
