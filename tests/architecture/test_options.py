# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the generated files agree with the option table of the program and with the schema of
the run file."""

import json
import os
import pathlib

import generated
import pytest
import schema_page


@pytest.fixture(scope="module")
def program():
    path = os.environ.get("LOCKSTEP_BIN")
    if not path or not pathlib.Path(path).exists():
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    return path


@pytest.mark.parametrize(
    "path", [generated.PAGE, generated.EFFECTS, generated.RUN_FILE], ids=lambda path: path.name
)
def test_generated_file_is_up_to_date(program, path):
    message = f"{path.name} is not up to date; run tests/architecture/generated.py {program}"
    assert path.read_text(encoding="utf-8") == generated.generate(program)[path], message


def test_option_table_is_read(program):
    table = json.loads(generated.output(program, "help", "options-json"))
    names = [option["name"] for option in table]
    assert {"batch-per-rank", "lr", "watchdog", "repeats"} <= set(names)
    assert all(f"`--{name}" in generated.PAGE.read_text(encoding="utf-8") for name in names)


def test_tables_follow_the_schema():
    page = "<!-- schema: / -->\nold\n<!-- end -->\n"
    text = schema_page.with_tables(page)
    assert "old" not in text
    assert "|`first_step`|int64|" in text
    assert "`running`, `complete`, `preempted`, `failed`" in text
    assert schema_page.with_tables(text) == text
    assert len(schema_page.MARKED.findall(generated.RUN_FILE.read_text(encoding="utf-8"))) == 5
