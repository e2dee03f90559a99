# SPDX-License-Identifier: BSD-3-Clause
"""Tests that epoch times are read from the tables that spreadsheets, editors and libraries
write."""

import pytest
from lockstep_report.cli import main
from lockstep_report.errors import ReportError
from times_files import TIMES, read, rows_of

PLAIN = "ranks,batch_per_rank,epoch_seconds\n1,1024,1234.5\n2,1024,600.25\n"
SEMICOLONS = "ranks;batch_per_rank;epoch_seconds\n1;1024;1234,5\n2;1024;600,25\n"


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
        *(
            (
                f"gpus,{rate}\n8,25\n",
                f"{rate} is a rate: add a column epoch_seconds with the images of an epoch / ",
                (f"{rate}\n8,25", "epoch_seconds\n8,2000"),
            )
            for rate in (
                "images/s",
                "img_per_sec",
                "images_per_second",
                "Samples/sec",
                "Throughput",
            )
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
