#!/usr/bin/env python3
"""The files, and parts of files, that are generated from the option table of the program. test_options.py checks that
they are up to date; started as a program, this file writes them:

    tests/architecture/generated.py build/cpu/bin/lockstep
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "options.md"
EFFECTS = ROOT / "analysis" / "lockstep_report" / "options.json"
BEGIN = "<!-- The output of `lockstep help options` begins here. -->\n"
END = "<!-- The output of `lockstep help options` ends here. -->\n"


def output(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def options_page(program, page):
    """Returns the text `page` with its generated part replaced by the present output of the program."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{output(program, 'help', 'options')}\n{END}{after}"


def timing_effects(program):
    """Returns the text of options.json: the recorded options and how they affect the comparison of runs."""
    table = json.loads(output(program, "help", "options-json"))
    effects = {option["name"]: option["timing_effect"] for option in table if option["recorded"]}
    return json.dumps(effects, indent=2) + "\n"


def generate(program):
    """Returns {path: expected text} for every generated file."""
    return {PAGE: options_page(program, PAGE.read_text(encoding="utf-8")), EFFECTS: timing_effects(program)}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for path, text in generate(sys.argv[1]).items():
        path.write_text(text, encoding="utf-8")
