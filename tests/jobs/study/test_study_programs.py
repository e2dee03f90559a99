# SPDX-License-Identifier: BSD-3-Clause
"""Tests of Python programs as points of a table."""

import os
import re
import sys

import pytest
from in_process import write_program
from lockstep_study.command import Commands, merge
from lockstep_study.experiment import experiment
from lockstep_study.points import Point
from lockstep_study.programs import Programs
from study_command import OPTIONS_OF_PROGRAMS, ROOT, RUN, calls, expect_refusal, study


@pytest.mark.parametrize(
    "further, trained, reduced, ladder",
    [
        (
            ["--epochs", "5", "--nesterov"],
            "--batch-per-rank 8 --epochs 5 --nesterov",
            "--min-bytes 2K",
            "--epochs 5 --nesterov",
        ),
        (
            ["--nesterov", "--min-bytes=4K", "--quiet"],
            "--batch-per-rank 8 --nesterov --quiet",
            "--min-bytes=4K --quiet",
            "--epochs 3 --nesterov --quiet",
        ),
        (["-b", "4K"], "--batch-per-rank 8", "--min-bytes 4K", "--epochs 3"),
        (["-b4K"], "--batch-per-rank 8", "--min-bytes=4K", "--epochs 3"),
        (
            ["--batch-per-rank", "4", "--lr", "-1"],
            "--batch-per-rank 4 --lr -1",
            "--min-bytes 2K --lr -1",
            "--epochs 3 --lr -1",
        ),
    ],
    ids=range(5),
)
def test_options_go_to_the_commands_that_use_them(
    table, tmp_path, program, further, trained, reduced, ladder
):
    """`--lr` is an option of no command, so lockstep reports it."""
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\ntwo\t2\tallreduce -b 2K\nthree\t1\tladder --epochs 3\n",
        encoding="utf-8",
    )
    stub = program(experiment=f"[ $2 = experiment ] || echo '{OPTIONS_OF_PROGRAMS}'")
    assert study(*RUN, "--dir", tmp_path / "out", table, "--", *further, **stub).returncode == 0
    lines = [" ".join(words) for words in calls(tmp_path)]
    commands = [
        f"train {trained} --seed ",
        f"allreduce {reduced} --output ",
        f"ladder {ladder} --output ",
    ]
    assert len(lines) == len(commands)
    for line, command in zip(lines, commands):
        assert line.startswith(command), line


def test_python_program_and_what_it_imports_are_compared(tmp_path):
    point = Point("one", 1, (os.path.relpath(tmp_path / "program.py", ROOT),))
    commands = Commands(Programs(os.environ), tmp_path, [])
    texts = set()
    for name in ("program.py", "imported.py"):
        (tmp_path / name).write_text("print('changed')\n", encoding="utf-8")
        texts.add(experiment(commands, point, 1, "mpirun"))
    assert len(texts) == 2


def test_options_of_lockstep_are_not_those_of_a_python_program(tmp_path, program):
    path = tmp_path / "program.py"
    path.write_text(
        "import argparse\nparser ="
        " argparse.ArgumentParser()\nparser.add_argument('--epochs')\nparser.parse_args()\n",
        encoding="utf-8",
    )
    programs = Programs(os.environ | program(experiment=f"echo '{OPTIONS_OF_PROGRAMS}'"))
    programs.python = [sys.executable]
    point = Point("one", 1, (os.path.relpath(path, ROOT), "--epochs", "1"))
    merged = merge(point, ["--nesterov", "--epochs", "3"], programs)
    assert merged.words[1:] == ["--epochs", "3"] and merged.unused == ["--nesterov"]


def test_option_that_no_point_uses_is_one_error(table, tmp_path, program):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\ntwo\t1\ttrain --batch-per-rank 4\n", encoding="utf-8"
    )
    stub = program(experiment=f"echo '{OPTIONS_OF_PROGRAMS}'")
    result = study(*RUN, "--dir", tmp_path / "out", table, "--", "--min-bytes", "4K", **stub)
    assert result.returncode == 1 and not (tmp_path / "calls").exists()
    assert result.stderr == f"study: no point of {table} uses --min-bytes; remove it\n"


def test_program_of_the_repository_is_a_point(table, tmp_path, program):
    """Its options are compared as text, and the study gives the seed and the output."""
    example = "analysis/examples/pytorch_dp.py"
    table.write_text(f"one\t2\t{example} --batch-per-rank 8 --epochs 2\n", encoding="utf-8")
    python = tmp_path / "python"
    write_program(
        python,
        '#!/bin/bash\n[ "$2" != --check ] || exit 0\n[ "${@: -1}" != --help ] || { echo " '
        f' --epochs E"; exit; }}\necho "$PYTHONPATH $@" >>"{tmp_path}/calls"\ntouch "${{@: -1}}"\n',
    )
    command = [*RUN, "--dir", tmp_path / "out", table, "--", "--epochs"]
    python_of = {"LOCKSTEP_PYTHON": str(python), "PYTHONPATH": "/mine"}
    result = study(*command, 3, **python_of)
    assert result.returncode == 0, result.stderr
    file = f"{tmp_path}/out/one-1.0.h5"
    assert calls(tmp_path) == [
        f"/mine {ROOT}/analysis/start.py {ROOT / example} --batch-per-rank 8 --epochs 3 --seed 1"
        f" --output {file}".split()
    ]
    again = study(*command, 3, **python_of)
    assert re.fullmatch(r"\[1/1\] one-1  complete +one-1.0.h5\n", again.stdout)
    expect_refusal(
        study(*command, 4, **python_of),
        f"options from '{example} --batch-per-rank 8 --epochs 3' to '{example} --batch-per-rank 8"
        " --epochs 4'",
    )
