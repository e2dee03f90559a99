# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tables whose first row names the columns."""

import pytest
from lockstep_study.errors import StudyError
from lockstep_study.table import read_table
from study_command import commands_of, study


def points_of(table, text):
    """Returns the points of a table as lines NAME RANKS COMMAND."""
    table.write_text(text, encoding="utf-8")
    return [" ".join([p.name, str(p.ranks), *p.words]) for p in read_table(str(table))]


@pytest.mark.parametrize(
    "text, points",
    [
        (
            "name\tranks\tcommand\toptions\na\t1\tladder\t--steps 2 --epochs 3\nb\t2\t\t-\n",
            ["a 1 ladder --steps 2 --epochs 3", "b 2 train"],
        ),
        (
            "name\tbatch-per-rank\tranks\tlr\na\t32\t2\t0.1\nb\t-\t4\t\n",
            ["a 2 train --batch-per-rank 32 --lr 0.1", "b 4 train"],
        ),
        ("name ranks nesterov\na 1 yes\nb 1 -\n", ["a 1 train --nesterov", "b 1 train"]),
        (
            "name\tranks=3\tcommand=ladder\tepochs=2\na\nb\n",
            ["a 3 ladder --epochs 2", "b 3 ladder --epochs 2"],
        ),
        (
            "name\tranks\tepochs=2\tlr\na\t1\t\t0.1\n",
            ["a 1 train --epochs 2 --lr 0.1"],  # in the order of the columns
        ),
        ("lr\tranks\tname\n\t2\ta\n-\t1\tb\n", ["a 2 train", "b 1 train"]),
        ("name\tranks\tlr\na\t1\n", ["a 1 train"]),  # the last cells are absent
    ],
)
def test_columns_are_options(table, text, points):
    assert points_of(table, text) == points


@pytest.mark.parametrize(
    "text, names",
    [
        ("ranks lr epochs=2\n1 0.1\n2 0.1\n", ["n1", "n2"]),
        ("ranks lr\n1 0.1\n2 0.2\n", ["lr-0.1-n1", "lr-0.2-n2"]),
        ("lr ranks weight\n1 1 8\n2 1 4\n", ["lr-1-weight-8", "lr-2-weight-4"]),
        ("ranks nesterov\n1 yes\n1 -\n2 -\n", ["nesterov-n1", "n1", "n2"]),
        ("command ranks\ntrain 1\nladder 1\n", ["train", "ladder"]),
        ("ranks data\n1 synthetic:8\n1 a/b@c\n", ["data-synthetic_8", "data-a_b_c"]),
        ("ranks lr\n1 0.1\n", ["point"]),
    ],
)
def test_names_are_the_values_that_differ(table, text, names):
    assert [point.split()[0] for point in points_of(table, text)] == names


@pytest.mark.parametrize(
    "text",
    [
        "ranks\tbatch-per-rank\tepochs\n1\t8\t2\n2\t8\t2\n",
        "ranks  batch-per-rank   epochs\n1      8                2\n2      8                2\n",
        "# note\n\n  ranks batch-per-rank epochs  \n# note\n 1 8 2\n\n2 8 2",
        "\ufeffranks\tbatch-per-rank\tepochs\t\t\r\n1\t8\t2\t\r\n2\t8\t2\r\n",
        '"ranks"\t"batch-per-rank"\t"epochs"\n"1"\t"8"\t"2"\n"2"\t"8"\t"2"\n',
        "ranks\tbatch-per-rank=8\tepochs=2\n1\n2\n",
        " ranks \t batch-per-rank \t epochs \n 1 \t 8 \t 2 \n 2 \t 8 \t 2 \n",
    ],
    ids=repr,
)
def test_form_of_the_table_does_not_change_its_points(table, text):
    options = "train --batch-per-rank 8 --epochs 2"
    assert points_of(table, text) == [f"n1 1 {options}", f"n2 2 {options}"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("ranks lr lr\n1 1 1\n", "line 1: two columns are named 'lr'"),
        ("ranks\t\tlr\n1\t1\n", "line 1: a column has no name"),
        ("ranks seed\n1 2\n", "line 1: --seed is given by the program that runs the study"),
        ("ranks lr\n1 2 3\n", "line 2: it has 3 cells for 2 columns"),
        ("# note\nranks lr\n1 1\nx 2\n", "line 4: the number of ranks is 'x'"),
        ("name ranks\na/b 1\n", "line 2: the name 'a/b' has characters other than"),
        ("name\tranks\n\t1\n", "line 2: the name '' has characters other than"),
        ("ranks\tcommand\n1\tfly\n", "line 2: 'fly' is not a command of lockstep"),
        ("ranks options\n1 --output=a\n", "line 2: --output is given by the program"),
        ("ranks\tlr\n1\t1 2\n", "line 2: the value of lr, '1 2', contains a blank"),
        ("ranks lr\n1 $LR\n", "line 2: '$' is not expanded"),
        ("ranks lr\n1 1\n1 1\n", "two points are named 'point'"),
        ("ranks lr\n", "has no points"),
        ("ranks lr\n1 " + "9" * 99 + "\n2 1\n", "the name has 105 characters; the limit is 100;"),
        ("ranks lr\n" + "".join(f"1 {i}\n" for i in range(1001)), "has more than 1000 points"),
    ],
)
def test_invalid_table_with_a_header_is_one_error(table, text, message):
    table.write_text(text, encoding="utf-8")
    ended = study("--dry-run", table)
    assert ended.returncode == 1 and ended.stdout == ""
    assert f"{table}" in ended.stderr and message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_largest_table_with_a_header_is_read(table):
    text = "ranks lr\n" + "".join(f"1 {i}\n" for i in range(1000))
    assert len(points_of(table, text)) == 1000


def test_row_that_is_no_header_has_three_columns(table):
    """A point may be named like a column."""
    assert points_of(table, "ranks 1 train --lr 2\n") == ["ranks 1 train --lr 2"]
    with pytest.raises(StudyError, match="line 1: the number of ranks is 'Ranks'"):
        points_of(table, "name Ranks lr\na 1 2\n")


CSV = "name,ranks,batch-per-rank,lr\na,1,8,0.1\nb,2,,0.2\n"
POINTS = ["a 1 train --batch-per-rank 8 --lr 0.1", "b 2 train --lr 0.2"]


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", " , "),
        CSV.replace("\n", ",,\r\n"),
        '# a, b\n\n"name","ranks","batch-per-rank","lr"\n"a","1","8","0.1"\n"b","2","","0.2"\n',
        CSV.replace("lr\n", "lr\n,,,\n# note\n"),
    ],
    ids=repr,
)
def test_table_of_a_spreadsheet_has_commas_or_semicolons(tmp_path, text):
    assert points_of(tmp_path / "points.csv", text) == POINTS


def test_csv_table_without_a_header_has_three_columns(tmp_path):
    table = tmp_path / "points.CSV"
    assert points_of(table, '"a";1;"train --lr 0.1"\nb;2;allreduce\n') == [
        "a 1 train --lr 0.1",
        "b 2 allreduce",
    ]
    with pytest.raises(StudyError, match="line 1: it has 4 columns instead of three"):
        points_of(table, "a,1,train,--lr\n")


def test_results_are_named_after_a_csv_table(tmp_path):
    table = tmp_path / "weak.csv"
    points_of(table, "ranks;lr=1\n1\n")
    ended = study("--dry-run", table, folder=tmp_path)
    assert ended.returncode == 0 and f"{tmp_path}/results/weak/point-1.0.h5" in ended.stdout


@pytest.mark.parametrize("separator", ["\t", ","])
def test_constants_have_empty_cells_in_tables_of_spreadsheets(tmp_path, separator):
    rows = ["ranks,batch-per-rank=32,lr,warmup-epochs", "1,,0.1,", "2,32,0.1,3"]
    path = tmp_path / ("t.csv" if separator == "," else "t.tsv")
    path.write_text("\n".join(rows).replace(",", separator), encoding="utf-8")
    assert [" ".join(point.words) for point in read_table(str(path))] == [
        "train --batch-per-rank 32 --lr 0.1",
        "train --batch-per-rank 32 --lr 0.1 --warmup-epochs 3",
    ]
    path.write_text("\n".join([*rows, "4,64,0.1"]).replace(",", separator), encoding="utf-8")
    with pytest.raises(
        StudyError, match="line 4: the cell '64' is in the column batch-per-rank=32"
    ):
        read_table(str(path))


def test_grids_are_joined(tmp_path):
    words = ["--grid", "ranks=1,2", "--grid", "batch-per-rank=32,64"]
    assert len(commands_of(study("--dry-run", "--dir", tmp_path, *words))) == 4
