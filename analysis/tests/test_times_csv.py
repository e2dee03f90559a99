# SPDX-License-Identifier: BSD-3-Clause
"""Tests that epoch times are read from the tables that spreadsheets, editors and libraries
write."""

import json
import re
from pathlib import Path

import pytest
from lockstep_report.cli import main
from lockstep_report.errors import ReportError
from lockstep_report.runfile.times_columns import column_of
from lockstep_report.runfile.times_csv import read_times

PLAIN = "ranks,batch_per_rank,epoch_seconds\n1,1024,1234.5\n2,1024,600.25\n"
SEMICOLONS = "ranks;batch_per_rank;epoch_seconds\n1;1024;1234,5\n2;1024;600,25\n"


def read(tmp_path, content):
    path = tmp_path / "times.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_times(path)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.encode("utf-16"),
        SEMICOLONS,
        "\ufeff" + SEMICOLONS,
        "sep=;\r\n" + SEMICOLONS,
        SEMICOLONS.replace(",", "."),
        SEMICOLONS.replace(";", "\t"),
        SEMICOLONS.replace(";", "\t").encode("utf-16"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(
            "ranks,batch_per_rank,epoch_seconds",
            " Ranks, Batch per rank [images] ,EPOCH-SECONDS (s)",
        ),
        PLAIN.replace("ranks,", "GPUs,"),
        PLAIN.replace("\n", ",,\n") + ",,,,\n\n\n",
        "# ranks, times of May\n" + PLAIN + "#\n",
        "# " + PLAIN,
        ("# Zeit f\u00fcr\n" + PLAIN).encode("latin-1"),
        '"' + PLAIN.strip().replace(",", '","').replace("\n", '"\n"') + '"',
        PLAIN.replace("1234.5", '"1,234.5"'),
        SEMICOLONS.replace("1024", "1.024").replace("1234", "1.234"),
        SEMICOLONS.replace("1234", "1\u00a0234").replace("1024", "1\u202f024"),
        PLAIN.replace("1234", "1'234").replace("1024", "1\u2019024"),
        PLAIN.replace("1234.5", '"1234,5"').replace("600.25", '"600,25"'),
        PLAIN.replace("\n2,", "\n\nranks,batch_per_rank,epoch_seconds\n2,"),
        PLAIN.replace("1234.5", " 1.2345e3 "),
        SEMICOLONS.replace("\n", ";1.2\n").replace("seconds;1.2", "seconds;version"),
    ],
    ids=repr,
)
def test_tables_of_spreadsheets_have_the_same_values(tmp_path, content):
    rows = read(tmp_path, content).rows
    assert [(row.ranks, row.batch_per_rank, float(row.seconds)) for row in rows] == [
        (1, 1024, 1234.5),
        (2, 1024, 600.25),
    ]


def test_names_of_published_columns_may_have_capital_letters(tmp_path):
    found = read(tmp_path, "Ranks;Epoch seconds;Published speedup\n1;10,0;1,00\n2;6,0;\n")
    assert found.published_columns == ["published_speedup"]
    assert [{name: str(value) for name, value in row.published.items()} for row in found.rows] == [
        {"published_speedup": "1.00"},
        {},
    ]


@pytest.mark.parametrize(
    "content, words, remedy",
    [
        (
            PLAIN.replace("ranks,", "cores,"),
            (
                "no column ranks or gpus or workers (found: cores, batch_per_rank, epoch_seconds);"
                " name the columns ranks (or gpus, workers), batch_per_rank (or batch_per_gpu) and"
                " epoch_seconds in the first line"
            ),
            ("cores", "ranks"),
        ),
        (
            PLAIN.replace(",", "/"),
            (
                "(found: ranks/batch_per_rank/epoch_seconds); name the columns ranks (or gpus,"
                " workers), batch_per_rank (or batch_per_gpu) and epoch_seconds in the first line,"
                " separated by commas, semicolons, tabs, vertical bars or blanks"
            ),
            ("/", ","),
        ),
        (
            SEMICOLONS.replace(";", ","),
            (
                ":2: 4 cells, but the first line names 3 columns; separate columns by ; if numbers"
                " have decimal commas"
            ),
            None,
        ),
        (
            "ranks,epoch_seconds\n1,\n2,NaN\n",
            (
                "no line has a result (no epoch_seconds in 1 line; epoch_seconds is NaN in 1 line);"
                " give"
            ),
            ("NaN", "3"),
        ),
        (
            "ranks,epoch_seconds\n\n# x\n1,later\n2,3\n",
            (
                ':4: epoch_seconds is "later", a time such as 83.4, 1:23 or 1m23.4s is needed;'
                " delete the line"
            ),
            ("1,later\n", ""),
        ),
        ("ranks,epoch_seconds\n1,1:75\n2,3\n", 'is "1:75", a time such as', ("1:75", "1:15")),
        ("ranks,epoch_seconds\n1,-3\n2,3\n", ":2: epoch_seconds must be above 0", ("-3", "3")),
        (
            "gpus,batch_size,epoch_seconds\n1,32,3\n",
            (
                "is batch_size the batch of each rank or of all ranks? name the column"
                " batch_per_rank or global_batch"
            ),
            ("batch_size", "global_batch"),
        ),
        (
            "gpus,global_batch,epoch_seconds\n3,32,3\n",
            ":2: global_batch is 32, which is no multiple of 3 ranks",
            ("32", "33"),
        ),
        (
            "gpus,Elapsed\n3,32\n",
            (
                "no column epoch_seconds (found: gpus, Elapsed); if Elapsed is the time of an"
                " epoch, name it epoch_seconds"
            ),
            ("Elapsed", "epoch_seconds"),
        ),
        (
            "gpus,epoch_seconds (ms)\n3,32\n",
            "the name epoch_seconds (ms) states two units; name the column epoch_seconds",
            ("seconds (ms)", "ms"),
        ),
        (
            "ranks\tepoch_seconds\n1\t1,234\n",
            'is "1,234", a number is needed; write it with a decimal point and without other',
            ("1,234", "1.234"),
        ),
        (
            "ranks;epoch_seconds\n1;10,5\n2;5.6\n",
            'is "10,5", a number is needed; write it with a decimal point',
            ("10,5", "10.5"),
        ),
        ("ranks,epoch_seconds\n1,1e400\n", 'is "1e400", a number is needed', ("1e400", "1e4")),
        (
            "ranks,epoch_seconds\n1,1e9999999\n",
            'is "1e9999999", a number is needed',
            ("1e9999999", "1e4"),
        ),
        (
            "ranks,Ranks,epoch_seconds\n1,2,3\n",
            "two columns are named ranks; delete or rename one",
            ("Ranks", "nodes"),
        ),
        (
            "ranks,epoch_seconds\n",
            "no column has a value; write one line for each run below",
            ("\n", "\n1,2\n"),
        ),
        ('ranks,epoch_seconds\n"1,2\n', "not a CSV table (unexpected end of data)", ('"', "")),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_message_says_what_is_wrong_and_its_advice_helps(tmp_path, capsys, content, words, remedy):
    with pytest.raises(ReportError) as caught:
        read(tmp_path, content)
    assert words in str(caught.value)
    assert (
        main(["tables", "--csv", str(tmp_path / "times.csv"), "--out", str(tmp_path / "out")]) == 3
    )
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert read(tmp_path, content.replace(*remedy) if remedy else SEMICOLONS).rows


def rows_of(tmp_path, content):
    """Returns [(ranks, batch, seconds)] of a table, and its notes."""
    found = read(tmp_path, content)
    return [(row.ranks, row.batch_per_rank, float(row.seconds)) for row in found.rows], found.notes


TIMES = [(1, None, 83.4), (2, None, 45.0)]


@pytest.mark.parametrize(
    "first, second",
    [
        ("83.4", "45"),
        ("83.4 s", "45 sec"),
        ("83400 ms", "45000ms"),
        ("1:23.4", "0:45"),
        ("00:01:23.4", "00:00:45"),
        ("1m23.4s", "0m45.000s"),
        ("1 min 23.4 s", "0.75 min"),
        ("PT1M23.4S", "PT45S"),
        ("0 days 00:01:23.400000", "0 days 00:00:45"),
        ("8.34e1", "4.5E+01"),
        ("0-00:01:23.4", "00:45"),
    ],
)
def test_times_of_people_and_programs_are_seconds(tmp_path, first, second):
    assert rows_of(tmp_path, f"gpus,epoch_seconds\n1,{first}\n2,{second}\n")[0] == TIMES


@pytest.mark.parametrize(
    "cell, seconds",
    [
        ("1-02:03:04", 93784),
        ("2-01:24:56", 177896),
        ("1-2", 93600),
        ("2d3h", 183600),
        ('"1 day, 2:03:04"', 93784),
        ("1h2m3s", 3723),
        ("100:00", 6000),
        ("24:28:49", 88129),
    ],
)
def test_long_times_of_schedulers_are_read(tmp_path, cell, seconds):
    assert rows_of(tmp_path, f"ranks,epoch_seconds\n4,{cell}\n")[0] == [(4, None, seconds)]


@pytest.mark.parametrize(
    "name, cells, note",
    [
        ("epoch time (s)", ("83.4", "45"), None),
        ("epoch_ms", ("83400", "45000"), None),
        ("Epoch time [min]", ("1.39", "0.75"), None),
        ("seconds per epoch", ("83.4", "45"), None),
        ("s/epoch", ("83.4", "45"), None),
        ("avg_epoch_time_s", ("83.4", "45"), None),
        ("Epoch time / ms", ("83400", "45000"), None),
        ("epochTime", ("83.4", "45"), "column epochTime: numbers without a unit are seconds"),
        (
            "Time per epoch",
            ("1:23.4", "45"),
            "column Time per epoch: times such as 1:23.4 are minutes:seconds",
        ),
        ("epoch (s)", ("83.4", "45"), None),
    ],
)
def test_the_unit_may_be_in_the_name(tmp_path, name, cells, note):
    rows, notes = rows_of(tmp_path, f"gpus;{name}\n1;{cells[0]}\n2;{cells[1]}\n")
    assert rows == TIMES
    assert any(note in line for line in notes) if note else notes == []


FORMS = {
    "Markdown": (
        "|    |   gpus |   epoch_seconds |\n|---:|-------:|----------------:|\n|  0 |      1 |     "
        "       83.4 |\n|  1 | 2 | 45 |\n"
    ),
    "title": (
        "Results of Friday, two nodes\n\n| GPUs | **Epoch time (s)** |\n|:--|--:|\n| 1 | 83.4 |\n|"
        " 2 | 45.0 |\n"
    ),
    "grid": (
        "+------+---------------+\n| gpus | epoch_seconds |\n+======+===============+\n| 1 | 83.4"
        " |\n+---+---+\n| 2 | 45 |\n+---+---+\n"
    ),
    "psql": (
        " gpus | epoch_seconds \n------+---------------\n    1 |          83.4\n    2 |           "
        " 45\n"
    ),
    "box": (
        "\u250c\u2500\u2500\u252c\u2500\u2510\n\u2502gpus\u2502epoch_seconds\u2502\n\u2502 1 \u2502"
        " 83.4 \u2502\n\u2502 2 \u2502 45 \u2502\n"
    ),
    "sacct -P": (
        "JobID|NTasks|epoch_seconds|State\n17||00:01:23.4|COMPLETED\n17.batch|1|00:01:30|COMPLETED\n17.0|1|9|COMPLETED\n|1|1:23.4|COMPLETED\n18|2|45|COMPLETED\n19|2|0|CANCELLED"
        " by 1000\n"
    ),
    "sacct -p": "JobID|NTasks|epoch_seconds|\n17|1|00:01:23.4|\n18|2|45|\n",
    "blanks": "gpus epoch_seconds\n1 83.4\n2 45\n",
    "aligned": (
        "gpus  epoch time (s)  comment\n   1            83.4  a note\n   2              45  none\n"
    ),
    "pandas": "   gpus  epoch_seconds\n0     1           83.4\n1     2           45.0\n",
    "CSV of pandas": "Unnamed: 0,gpus,epoch_seconds\n0,1,83.4\n1,2,45.0\n",
    "CSV with an index": ",gpus,epoch_seconds\n0,1,83.4\n1,2,45.0\n",
    "numpy": (
        "# gpus epoch_seconds\n1.000000000000000000e+00"
        " 8.340000000000000e+01\n2.000000000000000000e+00 4.500000000000000e+01\n"
    ),
    "other names": "nGPUs,Epoch time (s)\n1,83.4\n2,45\n",
    "mpi": "np,epoch_s\n1,83.4\n2,45\n",
    "camel case": "numGpus,epochTimeMs\n1,83400\n2,45000\n",
    "appended": "gpus,epoch_seconds\n1,83.4\nlr,gpus,epoch_seconds\n0.1,2,45\n",
    "appended with blanks": "gpus epoch_seconds\n1 83.4\ngpus epoch_seconds\n2 45\n",
    "exponents": "gpus;epoch_seconds\n1;8,34E+01\n2;4,5E+01\n",
    "trailing separators": "gpus,epoch_seconds,\n1,83.4,\n2,45,\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_tables_have_the_same_values(tmp_path, form):
    assert rows_of(tmp_path, FORMS[form])[0] == TIMES


@pytest.mark.parametrize(
    "content, rows, notes",
    [
        (
            "gpus,batch_per_gpu,epoch,epoch_seconds\n1,128,1,30\n1,128,2,15.1\n2,128,1,24\n2,128,2,7.9\n",
            [(1, 128, 15.1), (2, 128, 7.9)],
            [
                "column epoch: the first epoch of a run is its warm-up and is not counted; the time"
                " is the median of the others"
            ],
        ),
        (
            "gpus,trial,epoch,epoch_s\n1,a,0,9\n1,a,2,5\n1,a,1,7\n1,b,0,9\n1,b,1,4\n",
            [(1, None, 6.0), (1, None, 4.0)],
            ["is its warm-up"],
        ),
        (
            "gpus,epoch,epoch_s\n1,1,9\n1,2,5\n1,1,8\n1,2,4\n",
            [(1, None, 5.0), (1, None, 4.0)],
            ["is its warm-up"],
        ),  # appended: two runs
        (
            "gpus,epoch,epoch_s\n1,90,9\n2,90,5\n",
            [(1, None, 9.0), (2, None, 5.0)],
            ["the time of a run with one epoch may include the warm-up"],
        ),
        (
            "gpus,Epoch,epoch_s\n1,1/2,9\n1,2/2,5\n1,mean,7\n",
            [(1, None, 5.0)],
            ["is its warm-up", "left out, because Epoch is mean: line 4"],
        ),
        (
            "gpus,rank,epoch_s\n2,0,9\n2,1,10\n1,0,18\n",
            [(2, None, 10.0), (1, None, 18.0)],
            ["rows that differ only in rank are one epoch, whose time is the largest"],
        ),
        (
            "gpus,rank,epoch_s\n2,0,9\n2,1,10\n2,0,11\n2,1,8\n",
            [(2, None, 10.0), (2, None, 11.0)],
            ["one epoch"],
        ),  # two runs
        (
            "gpus,host,rank,epoch,epoch_s\n2,a,0,1,30\n2,b,0,1,31\n2,a,0,2,9\n2,b,0,2,10\n2,a,0,3,\n2,b,0,3,1\n",
            [(2, None, 10.0)],
            ["only in host, rank", "warm-up", "left out, because no epoch_s: line 6"],
        ),
        ("gpus,trial,epoch_s\n1,1,9\n1,2,8\n", [(1, None, 9.0), (1, None, 8.0)], []),
        (
            "gpus,seed,epoch_s,loss\n1,1,9,0.1\n1,2,8,0.2\n",
            [(1, None, 9.0), (1, None, 8.0)],
            ["columns that are not used, and do not tell rows apart: loss"],
        ),
        ("gpus,global_batch,epoch_s\n1,64,9\n4,64,3\n", [(1, 64, 9.0), (4, 16, 3.0)], []),
        ("Nodes,GPUs per node,epoch_s\n1,4,9\n2,4,5\n", [(4, None, 9.0), (8, None, 5.0)], []),
        (
            "ranks,epoch_s\n1 rank,9 \u00b1 0.1\n2 ranks,~5\n4x,3\nmean,6\n",
            [(1, None, 9.0), (2, None, 5.0), (4, None, 3.0)],
            ["ranks is mean: line 5"],
        ),
        (
            "gpus,gpu,epoch_s\n2,0,9\n2,1,8\n",
            [(2, None, 9.0)],
            ["only in gpu are one epoch"],
        ),  # numbers of devices
        (
            "gpus,gpu,epoch_s\n2,V100,9\n2,A100,8\n",
            [(2, None, 9.0), (2, None, 8.0)],
            [],
        ),  # types of devices
        (
            "gpus,mode,nodes,epoch_s\n1,single,1,9\n2,ddp,1,5\n",
            [(1, None, 9.0), (2, None, 5.0)],
            ["do not tell rows apart: mode, nodes"],
        ),
        (
            "gpus,iteration,epoch_s\n1,0,9\n1,100,5\n",
            [(1, None, 5.0)],
            ["column iteration: the first"],
        ),
        (
            (
                "gpus,epoch_s,State\n1,9,COMPLETED\n2,3,FAILED\n4,0,COMPLETED\n8,OOM,x\n,5,x\n-,5,x\n16,out"
                " of memory,\n32,,\n"
            ),
            [(1, None, 9.0)],
            [
                "state FAILED: line 3",
                "epoch_s is 0: line 4",
                "epoch_s is OOM: line 5",
                "no gpus: line 6",
                "gpus is -: line 7",
                "epoch_s is out of memory: line 8",
                "no epoch_s: line 9",
            ],
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_columns_state_what_is_a_repeat_a_part_and_a_sequence(tmp_path, content, rows, notes):
    found, lines = rows_of(tmp_path, content)
    assert found == rows and len(lines) == len(notes)
    assert all(part in line and line.startswith("times.csv: ") for part, line in zip(notes, lines))


def test_notes_are_printed_and_the_speedup_is_that_of_the_epochs_after_the_first(tmp_path, capsys):
    file = tmp_path / "log.csv"
    file.write_text("gpus,epoch,epoch_seconds,lr\n1,1,30,1\n1,2,15.1,1\n2,1,24,1\n2,2,7.9,1\n")
    assert main(["tables", "--csv", str(file), "--json"]) == 0
    output = capsys.readouterr()
    table = next(
        table
        for table in json.loads(output.out)["tables"]
        if table["name"] == "table-1-time-speedup"
    )
    assert [round(row["speedup"], 2) for row in table["rows"]] == [1.0, 1.91]
    assert any("warm-up" in note for note in table["notes"])
    assert [line.split(": ")[2] for line in output.err.splitlines()] == ["log.csv", "log.csv"]


def test_rows_of_several_models_are_series(tmp_path, capsys):
    file = tmp_path / "log.csv"
    file.write_text(
        "model,gpus,epoch,epoch_s\nresnet,1,1,99\nresnet,1,2,10\nresnet,2,1,99\nresnet,2,2,5\nvgg,1,1,99\nvgg,1,2,20\nvgg,2,1,99\nvgg,2,2,16\n"
    )
    assert [row.series for row in read_times(file).rows] == [
        ("resnet",),
        ("resnet",),
        ("vgg",),
        ("vgg",),
    ]
    assert main(["tables", "--csv", str(file), "--json"]) == 0
    table = next(
        table
        for table in json.loads(capsys.readouterr().out)["tables"]
        if table["name"] == "table-1-time-speedup"
    )
    assert [(row["setting"], row["ranks"], row["speedup"]) for row in table["rows"]] == [
        ("resnet", 1, 1.0),
        ("resnet", 2, 2.0),
        ("vgg", 1, 1.0),
        ("vgg", 2, 1.25),
    ]


def test_every_name_of_a_column_is_documented_or_a_form_of_one():
    """The names in docs/analysis.md have the meaning that it states."""
    page = (Path(__file__).parents[2] / "docs" / "analysis.md").read_text(encoding="utf-8")
    section = page.partition("## Epoch times from a table")[2].partition("##")[0]
    rows = re.findall(r"^\| (`.*?) \| (\w+)", section, re.MULTILINE)
    assert len(rows) >= 8
    for names, role in rows:
        for name in re.findall("`([^`]+)`", names):
            assert column_of(name).role == role, name
