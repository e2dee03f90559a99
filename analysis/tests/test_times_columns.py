# SPDX-License-Identifier: BSD-3-Clause
"""Tests of columns of tables with epoch times: repeats, parts, sequences and series."""

import json
import re
from pathlib import Path

import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.times_columns import column_of
from lockstep_report.runfile.times_csv import read_times
from times_files import rows_of


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
    """The names in docs/report-reference.md have the meaning that it states."""
    page = (Path(__file__).parents[2] / "docs" / "report-reference.md").read_text(encoding="utf-8")
    section = page.partition("## Epoch times from a table")[2].partition("##")[0]
    rows = re.findall(r"^\| (`.*?) \| (\w+)", section, re.MULTILINE)
    assert len(rows) >= 8
    for names, role in rows:
        for name in re.findall("`([^`]+)`", names):
            assert column_of(name).role == role, name
