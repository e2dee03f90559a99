# SPDX-License-Identifier: BSD-3-Clause
"""The option --json of the commands."""

import json

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.tables.table import json_text, typed
from synthetic import write_run


@pytest.fixture
def path(tmp_path):
    times = np.tile([0.001, 0, 0.01, 0.02, 0.004, 0.001], (20, 2, 1))
    return write_run(
        tmp_path / "run.h5",
        times,
        64,
        attributes={"part": 1, "first_step": 0, "steps_per_epoch": 20, "images_per_epoch": 1280},
    )


def printed(capsys, *arguments):
    status = main(list(map(str, arguments)))
    return status, json.loads(capsys.readouterr().out)


def test_types():
    values = typed(
        {
            1: np.float64(2.5),
            "a": np.arange(2),
            "b": (float("nan"), None, True),
            "c": np.int64(3),
            "d": np.array(["x"]),
            "e": np.inf,
            "f": np.bool_(True),
        }
    )
    assert values == {
        "1": 2.5,
        "a": [0, 1],
        "b": [None, None, True],
        "c": 3,
        "d": ["x"],
        "e": None,
        "f": True,
    }
    assert type(values["c"]) is int and type(values["f"]) is bool
    assert json_text('µ\n"') == '"\\u00b5\\n\\""'


def test_tables_have_unrounded_numbers(path, tmp_path, capsys):
    status, values = printed(capsys, "tables", path, "--json")
    table = values["tables"][0]
    assert status == 0 and values["files"] == [] and table["name"] == "table-1-time-speedup"
    row = table["rows"][0]
    assert set(row) == {column["key"] for column in table["columns"]}
    assert row["ranks"] == 2 and row["epoch_seconds"] == pytest.approx(20 * 0.036)
    assert row["speedup"] is None
    status, values = printed(capsys, "tables", path, "--json", "--out", tmp_path / "out")
    assert str(tmp_path / "out" / "table-1-time-speedup.csv") in values["files"]


def test_tables_needs_a_folder_or_json(path, capsys):
    assert main(["tables", str(path)]) == 2
    assert "--out DIR" in capsys.readouterr().err


def test_files_of_report_and_figures(path, tmp_path, capsys):
    status, values = printed(capsys, "report", path, "--out", tmp_path / "r", "--json")
    assert status == 0 and values["page"] == str(tmp_path / "r" / "report.md")
    assert values["page"] in values["files"]
    status, values = printed(capsys, "figures", path, "--out", tmp_path / "f", "--json")
    assert all(name.endswith((".svg", ".png", ".pdf")) for name in values["files"])


def test_validate(path, capsys):
    status, values = printed(capsys, "validate", path, "--json")
    assert status == 0 and all(isinstance(note, str) for note in values.pop("notes"))
    assert values == {"run": str(path), "is_valid": True, "problems": []}
    with h5py.File(path, "r+") as file:
        del file["steps/loss"]
    status, values = printed(capsys, "validate", path, "--json")
    assert status == 3 and values["is_valid"] is False
    assert values["problems"] == ["dataset /steps/loss is missing: no command can use the file"]


def test_published(tmp_path, capsys):
    times = tmp_path / "times.csv"
    times.write_text(
        "ranks,batch_per_rank,epoch_seconds,published_speedup\n1,32,10,1.00\n2,32,5,2.00\n"
    )
    status, values = printed(capsys, "published", times, "--json")
    assert status == 0 and values["tables"][0]["rows"]


def test_summary_and_export(path, tmp_path, capsys):
    status, values = printed(capsys, "summary", path, "--json")
    assert status == 0 and values["ranks"] == 2 and values["timed_steps"] == 18
    status, values = printed(
        capsys, "export", path, "--to", "csv", "--out", tmp_path / "e", "--json"
    )
    assert str(tmp_path / "e" / "steps.csv") in values["files"]
