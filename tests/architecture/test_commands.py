# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the commands in the documentation exist, with their options, and that those of the
first pages that a user reads run."""

import argparse
import json
import os
import pathlib
import re
import subprocess

import lockstep_data.cli
import lockstep_report.cli
import lockstep_weights.cli
import pytest
from lockstep_study import arguments as study_arguments
from test_documentation import PAGES, ROOT, read, run

# The name of a command and the rest of it: "lockstep train", "lockstep-report html", "jobs/study".
COMMAND = re.compile(
    r"((?:^|(?<=[ /]))lockstep(?:-[a-z]+)? [a-z][\w-]*|(?:^|(?<= ))jobs/[\w./-]+)((?: [^|&;\n]*)?)",
    re.MULTILINE,
)
FIRST_PAGES = ["README.md", "docs/tutorial.md"]
EVERYWHERE = {"--help", "--version"}
STUDY_COMMANDS = {
    "run": study_arguments.run_parser,
    "submit": study_arguments.submit_parser,
    "status": study_arguments.status_parser,
    "show": study_arguments.show_parser,
}


def code(page):
    """Yields the lines of the shell blocks of a page, with continued lines joined, and its spans of
    code."""
    blocks = re.split(
        r"^ *```(\w*)\n(.*?)```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
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
            found[f"{package.__name__.replace('_', '-')} {command}"] = set(
                parser._option_string_actions
            )
    for command, make_parser in STUDY_COMMANDS.items():
        options_of_command = make_parser(command)._option_string_actions
        found[f"lockstep-study {command}"] = set(options_of_command)
    for script in (*ROOT.glob("jobs/*"), *ROOT.glob("jobs/slurm/*")):
        if script.is_file() and os.access(script, os.X_OK):
            found[str(script.relative_to(ROOT))] = set(
                re.findall(r"--[a-z][a-z-]+", run(script, "--help").stdout)
            )
    return found


def subparsers(parser):
    parser = parser[0] if isinstance(parser, tuple) else parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def mistakes(name, arguments, options):
    """Returns a message for each option of a command that does not exist. `name` may also be a file
    of jobs. Arguments after `--` are options of lockstep."""
    if name not in options:
        is_file = name.startswith("jobs/") and (ROOT / name).exists()
        return [] if is_file else [f"there is no command '{name}'"]
    passed_on = set().union(
        *(names for command, names in options.items() if command.startswith("lockstep "))
    )
    known, found = options[name] | EVERYWHERE, []
    for word in arguments:
        if word == "--":
            known = passed_on
        elif (
            re.match(r"--[a-z]", word) and (option := re.match(r"--[a-z-]+", word)[0]) not in known
        ):
            found.append(f"'{name}' has no option {option}")
    return found


def test_mistakes_in_commands_are_found(options):
    wrong = {
        "lockstep train --batch 3": "--batch",
        "lockstep trian": "trian",
        "lockstep-report html r.h5 --link=3": "--link",
        "jobs/study --repeat 6 t.tsv": "--repeat",
        "jobs/study t.tsv -- --data x --lear 3": "--lear",
        "jobs/no-such-script": "no-such-script",
        "mpirun -n 2 build/cpu/bin/lockstep allreduce --most 4": "--most",
    }
    for line, word in wrong.items():
        ((name, arguments),) = COMMAND.findall(line)
        assert [word in text for text in mistakes(name, arguments.split(), options)] == [True], line
    assert mistakes("jobs/study", ["--repeats", "6", "t.tsv", "--", "--data", "x"], options) == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_exist(page, options):
    assert [text for one in commands(page) for text in mistakes(*one, options)] == []


def test_shell_blocks_are_valid():
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
            assert checked.returncode == 0, f"{page}: {checked.stderr}"


# Commands of the first pages that the test omits: they take minutes, or need a network or another
# program, and have tests of their own.
OMITTED = ("jobs/quickstart", "jobs/check", "jobs/download-cifar10", "apptainer build")
# It replaces these parts of the others: `submit` needs Slurm, and the ladder, the plan and the
# study take minutes. Both ladder and plan time the convolutions of their largest batch.
SMALLER = (
    ("jobs/slurm/submit", "jobs/slurm/submit --dry-run"),
    ("--memory-limit 8GB", "--memory-limit 300MB"),
    ("plan --batch-per-rank 512", "plan --batch-per-rank 32"),
    ("--max-bytes 16M", "--max-bytes 1M"),
    ("--repeats 6", "--repeats 1"),
    ("tutorial.tsv -- ", "tutorial.tsv -- --train-samples 256 "),
)
# `predict` refuses runs that other processes disturbed, as do those of this test on a busy machine.
PREDICTS = "lockstep-report predict "
REFUSAL, DATA_ERROR = "no undisturbed run to predict from", 3
# Options that the commands do not contain.
SMALL = {
    "LOCKSTEP_STEPS": "1",
    "LOCKSTEP_TEST_SAMPLES": "64",
    "LOCKSTEP_MAX_BYTES": "1M",
}


@pytest.mark.slow
def test_commands_of_the_first_pages_run(program, tmp_path):
    """Runs the shell blocks of the pages one after the other, with 320 images in the home
    folder."""
    (tmp_path / "cifar10").mkdir()
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        (tmp_path / "cifar10" / name).write_bytes(
            b"".join(bytes([label % 10]) + os.urandom(3072) for label in range(64))
        )
    for name in ("jobs", "analysis"):
        (tmp_path / name).symlink_to(ROOT / name)
    lines = ["set -euo pipefail", f"source {ROOT}/jobs/lib.sh", "mpi_environment 4"]
    for block in re.findall(r"```sh\n(.*?)```", "".join(map(read, FIRST_PAGES)), re.DOTALL):
        for before, after in SMALLER:
            block = block.replace(before, after)
        for line in block.splitlines():
            if line.startswith(PREDICTS):
                line += " || predict_status=$?"
            lines.append(f": {line}" if line.startswith(OMITTED) else line)
    lines.append("exit ${predict_status:-0}")
    (tmp_path / "pages.sh").write_text("\n".join(lines), encoding="utf-8")
    environment = (
        os.environ
        | SMALL
        | {
            "HOME": str(tmp_path),
            "SCRATCH": str(tmp_path),
            "PATH": f"{pathlib.Path(program).parent}{os.pathsep}{os.environ['PATH']}",
        }
    )
    result = subprocess.run(
        ["bash", "pages.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    refused = result.returncode == DATA_ERROR and REFUSAL in result.stderr
    assert result.returncode == 0 or refused, result.stdout[-3000:] + result.stderr[-3000:]
    assert (tmp_path / "results" / "tutorial" / "report.html").exists() and (
        tmp_path / "report.html"
    ).exists()
