"""Tests that the files that are generated from the option table agree with the program."""

import json
import os
import pathlib

import generated
import pytest


@pytest.fixture(scope="module")
def program():
    path = os.environ.get("LOCKSTEP_BIN")
    if not path or not pathlib.Path(path).exists():
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    return path


@pytest.mark.parametrize("path", [generated.PAGE, generated.EFFECTS], ids=lambda path: path.name)
def test_generated_file_is_up_to_date(program, path):
    message = f"{path.name} differs from the option table; run tests/architecture/generated.py {program}"
    assert path.read_text(encoding="utf-8") == generated.generate(program)[path], message


def test_option_table_is_read(program):
    table = json.loads(generated.output(program, "help", "options-json"))
    names = [option["name"] for option in table]
    assert {"batch-per-rank", "lr", "watchdog", "repeats"} <= set(names)
    assert all(f"| `--{name}" in generated.PAGE.read_text(encoding="utf-8") for name in names)
