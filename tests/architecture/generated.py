#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files, and parts of files, that are generated from the option table of the program and from
the schema of the run file. test_options.py checks that they are up to date; started as a program,
this file writes them:

    tests/architecture/generated.py build/cpu/bin/lockstep
"""

import json
import pathlib
import subprocess
import sys

import schema_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "options.md"
RUN_FILE = ROOT / "docs" / "run-file.md"
EFFECTS = ROOT / "analysis" / "lockstep_report" / "runfile" / "options.json"
BEGIN = "<!-- The output of `lockstep help options` begins here. -->\n"
END = "<!-- The output of `lockstep help options` ends here. -->\n"


def output(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def options_page(program, page):
    """Returns the text `page` with its generated part replaced by the present output of the
    program."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{output(program, 'help', 'options')}\n{END}{after}"


def effects(program):
    """Returns the text of options.json: what each recorded option affects, and the values of a
    choice in their order, one line per option."""
    table = json.loads(output(program, "help", "options-json"))
    rows = {
        option["name"]: (
            {name: option[name] for name in ("effect", "effect_requires") if option[name]}
            | (
                {"values": [value["name"] for value in option["values"]]}
                if option["values"]
                else {}
            )
        )
        for option in table
        if option["recorded"]
    }
    return (
        "{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n}\n"
    )


def generate(program):
    """Returns {path: expected text} for every generated file."""
    return {
        PAGE: options_page(program, PAGE.read_text(encoding="utf-8")),
        EFFECTS: effects(program),
        RUN_FILE: schema_page.with_tables(RUN_FILE.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for path, text in generate(sys.argv[1]).items():
        path.write_text(text, encoding="utf-8")
