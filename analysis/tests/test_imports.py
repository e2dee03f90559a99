# SPDX-License-Identifier: BSD-3-Clause
"""A command imports only what it needs, because imports take most of the time of a small run."""

import subprocess
import sys

import pytest
from lockstep_report.cli import DEFINITIONS, parser
from synthetic import phases, write_run

CODE = """
import sys
from lockstep_report.cli import main
status = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("command", ["summary", "validate", "index"])
def test_small_commands_import_neither_matplotlib_nor_other_commands(command, tmp_path):
    path = write_run(tmp_path / "run.h5", phases(4, (0, 0, 1, 1, 0, 0)), 8, epochs=1)
    done = subprocess.run(
        [sys.executable, "-c", CODE, command, str(path)], capture_output=True, text=True
    )
    modules = set(done.stderr.split())
    assert done.stdout and "lockstep_report.cli" in modules
    unused = {"matplotlib", "pandas", "xarray"} | {
        f"lockstep_report.{name}"
        for name in ("report", "predict", "compare", "export", "watch", "models", "figures", "html")
    }
    assert not unused & modules


def commands_of(given):
    return list(parser(given)._subparsers._group_actions[0].choices)


def test_parser_has_all_commands_unless_one_is_given():
    names = [name for names, _ in DEFINITIONS for name in names]
    assert commands_of(()) == commands_of(["--help"]) == commands_of(["unknown"]) == names
    for names, _ in DEFINITIONS:
        for name in names:
            assert commands_of([name]) == list(names)
