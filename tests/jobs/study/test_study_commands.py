# SPDX-License-Identifier: BSD-3-Clause
"""Compares the commands of every table of jobs/studies with those in the folder `commands`, which
must remain the same however a table is written."""

import os
import re

import pytest
from in_process import call, write_program
from study_command import ROOT, show

TABLES = sorted((ROOT / "jobs" / "studies").glob("*.tsv"))
SITES = (  # options of submit
    ["--site", "generic"],
    ["--site", "greene", "--gpu", "a100"],
    ["--site", "torch", "--gpu", "h200", "--account", "class"],
)


@pytest.fixture
def variables(tmp_path):
    """The environment: without lockstep, and with a stub of Python that has all modules."""
    python = tmp_path / "python"
    write_program(python, '#!/bin/sh\n[ "$2" = --check ]\n')
    names = {"LOCKSTEP_BIN": "/nowhere/lockstep", "LOCKSTEP_PYTHON": str(python), "PYTHONPATH": ""}
    return names | {"LOCKSTEP_ACCOUNT": ""}


def test_every_table_has_commands():
    files = (ROOT / "tests" / "jobs" / "study" / "commands").glob("*.txt")
    assert {path.stem for path in files} == {path.stem for path in TABLES}


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_commands_of_a_table_stay_the_same(table, tmp_path, variables):
    image = tmp_path / "image.sif"
    image.touch()
    points = ["--dir", f"/results/{table.stem}", table]
    ended = show(*points, **variables)
    assert (ended.returncode, ended.stderr) == (0, "")
    text = f"$ show\n{ended.stdout}"
    for site in SITES:
        words = ["--dry-run", "--launcher", "srun", *site]
        environment = os.environ | variables | {"LOCKSTEP_IMAGE": str(image) * ("--gpu" in site)}
        ended = call("submit", *words, *points, environment=environment)
        assert ended.returncode == 0, ended.stderr
        text += f"$ submit {' '.join(words)}\n{ended.stdout}"
    text = re.sub(" # .*", "", text)
    for path, name in ((variables["LOCKSTEP_PYTHON"], "PYTHON"), (str(ROOT), "ROOT")):
        text = text.replace(path, name)
    expected = ROOT / "tests" / "jobs" / "study" / "commands" / f"{table.stem}.txt"
    assert text == expected.read_text(encoding="utf-8")
