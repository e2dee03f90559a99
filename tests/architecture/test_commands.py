# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the commands in the documentation exist: their options, and for the first pages that a user reads also their values."""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess

import lockstep_data.cli
import lockstep_report.cli
import lockstep_weights.cli
import pytest
from test_documentation import PAGES, ROOT, read, run

# The name of a command and the rest of it: "lockstep train", "lockstep-report html", "jobs/study".
COMMAND = re.compile(r"((?:^|(?<=[ /]))lockstep(?:-[a-z]+)? [a-z][\w-]*|(?:^|(?<= ))jobs/[\w./-]+)((?: [^|&;\n]*)?)", re.MULTILINE)
FIRST_PAGES = ["README.md", "docs/tutorial.md"]
EVERYWHERE = {"--help", "--version"}


def code(page):
    """Yields the lines of the shell blocks of a page, with continued lines joined, and its spans of code."""
    blocks = re.split(r"^ *```(\w*)\n(.*?)```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for text, language, block in zip(blocks[::3], blocks[1::3] + [""], blocks[2::3] + [""]):
        yield from re.findall(r"`([^`]+)`", text.replace("\n", " "))
        if language == "sh":
            yield from without_comments(block).splitlines()


def without_comments(block):
    """Returns a shell block with continued lines joined, and without comments."""
    return re.sub(r"(^|\s)#.*$", "", block.replace("\\\n", " "), flags=re.MULTILINE)


def commands(page):
    """Yields (name, arguments) for every command of Lockstep in the code of a page."""
    for line in code(page):
        for name, arguments in COMMAND.findall(line):
            yield name, arguments.split()


@pytest.fixture(scope="module")
def program():
    path = os.environ.get("LOCKSTEP_BIN")
    if not path or not pathlib.Path(path).exists():
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    return path


@pytest.fixture(scope="module")
def options(program):
    """Returns {name of a command: its options}."""
    found = {"lockstep help": set()}
    for option in json.loads(run(program, "help", "options-json").stdout):
        for command in option["commands"]:
            found.setdefault(f"lockstep {command}", {"--help-all"}).add(f"--{option['name']}")
    for package in (lockstep_report, lockstep_data, lockstep_weights):
        for command, parser in subparsers(package.cli.parser()):
            found[f"{package.__name__.replace('_', '-')} {command}"] = set(parser._option_string_actions)
    for script in (*ROOT.glob("jobs/*"), *ROOT.glob("jobs/slurm/*")):
        if script.is_file() and os.access(script, os.X_OK):
            found[str(script.relative_to(ROOT))] = set(re.findall(r"--[a-z][a-z-]+", run(script, "--help").stdout))
    return found


def subparsers(parser):
    parser = parser[0] if isinstance(parser, tuple) else parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def mistakes(name, arguments, options):
    """Returns a message for each option of a command that does not exist. `name` may also be a file of jobs. Arguments after `--` are options of lockstep."""
    if name not in options:
        is_file = name.startswith("jobs/") and (ROOT / name).exists()
        return [] if is_file else [f"there is no command '{name}'"]
    passed_on = set().union(*(names for command, names in options.items() if command.startswith("lockstep ")))
    known, found = options[name] | EVERYWHERE, []
    for word in arguments:
        if word == "--":
            known = passed_on
        elif re.match(r"--[a-z]", word) and (option := re.match(r"--[a-z-]+", word)[0]) not in known:
            found.append(f"'{name}' has no option {option}")
    return found


def test_mistakes_in_commands_are_found(options):
    wrong = {"lockstep train --batch 3": "--batch", "lockstep trian": "trian", "lockstep-report html r.h5 --link=3": "--link",
             "jobs/study --repeat 6 t.tsv": "--repeat", "jobs/study t.tsv -- --data x --lear 3": "--lear",
             "jobs/no-such-script": "no-such-script", "mpirun -n 2 build/cpu/bin/lockstep allreduce --most 4": "--most"}
    for line, word in wrong.items():
        (name, arguments), = COMMAND.findall(line)
        assert [word in text for text in mistakes(name, arguments.split(), options)] == [True], line
    assert mistakes("jobs/study", "--repeats 6 t.tsv -- --data x".split(), options) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page, options):
    assert [text for one in commands(page) for text in mistakes(*one, options)] == []


def test_shell_blocks_are_valid():
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
            assert checked.returncode == 0, f"{page}: {checked.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("page", FIRST_PAGES)
def test_commands_of_the_first_pages_are_accepted(page, program):
    """The programs parse the options and values as printed, and the scripts print their plans. Only the data are others, because
    `submit` opens them."""
    checked = set()
    for block in re.findall(r"```sh\n(.*?)```", read(page), re.DOTALL):
        for name, arguments in COMMAND.findall(without_comments(block)):
            command, _, subcommand = name.partition(" ")
            checked.add(command)
            if command == "lockstep-report":
                lockstep_report.cli.parser().parse_args([subcommand, *shlex.split(arguments)])
                continue
            if command == "lockstep":
                result = run(program, "help", "experiment", "2", subcommand, *shlex.split(arguments))
            elif command in ("jobs/study", "jobs/slurm/submit"):
                result = run("bash", "-c", f"{command} --dry-run {re.sub(r'cifar10:[^ ]+', 'synthetic', arguments)}")
            else:
                continue
            assert result.returncode == 0, f"{name}{arguments}: {result.stderr}"
    assert {"lockstep", "lockstep-report", "jobs/study", "jobs/slurm/submit"} <= checked
