# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the scripts in jobs start with any settings of the shell and through links."""

import os
import subprocess

import pytest
from in_process import write_program
from study_command import ROOT, RUN, study_process


@pytest.mark.parametrize(
    "settings",
    [
        "CDPATH=.:/",
        "GLOBIGNORE='*'",
        "IFS=/",
        "set -o noclobber",
        "set -o posix",
        "shopt -s failglob nullglob",
        "shopt -s expand_aliases; alias awk=false sed=false",
        "TMPDIR=/nowhere",
        "GREP_OPTIONS=-v",
        'cd() { builtin cd "$@" && ls; }',
    ],
)
def test_settings_of_the_shell_do_not_break_the_scripts(table, tmp_path, program, settings):
    """The first run creates the files, the second one overwrites them."""
    table.write_text("one\t1\ttrain --batch-per-rank 8 --epochs 2\n", encoding="utf-8")
    (tmp_path / "settings").write_text(
        f"{settings}; export CDPATH GLOBIGNORE IFS TMPDIR GREP_OPTIONS\n", encoding="utf-8"
    )
    for status in (5, 0):
        result = study_process(
            *RUN,
            "--dir",
            tmp_path / "out",
            table,
            **program(status),
            BASH_ENV=str(tmp_path / "settings"),
        )
        assert result.returncode == (1 if status else 0), result.stderr
    assert (tmp_path / "out" / "one-1.done").exists(), result.stderr


@pytest.mark.parametrize("start", [[], ["sh"], ["bash", "--posix"]], ids=" ".join)
def test_scripts_start_through_links(tmp_path, start):
    for name in (
        "study",
        "setup",
        "check",
        "lint",
        "quickstart",
        "download-cifar10",
        "forward-signals",
        "slurm/submit",
        "slurm/status",
    ):
        link = tmp_path / os.path.basename(name)
        link.symlink_to(os.path.relpath(ROOT / "jobs" / name, tmp_path))
        result = subprocess.run([*start, link, "--help"], capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "") and len(result.stdout.splitlines()) > 5


@pytest.mark.parametrize(
    "folder, kept", [("{}", "{}"), ("/nowhere/job77", ""), ("{}/nowhere", ""), ("", ""), (None, "")]
)
def test_folder_for_temporary_files_exists(tmp_path, folder, kept):
    """Slurm sets TMPDIR to a folder that containers and other nodes do not have."""
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    variables |= {} if folder is None else {"TMPDIR": folder.format(tmp_path)}
    result = subprocess.run(
        ["bash", "-euc", f"source {ROOT}/jobs/lib.sh; printenv TMPDIR || true"],
        capture_output=True,
        text=True,
        env=variables,
    )
    assert (result.returncode, result.stdout.strip()) == (0, kept.format(tmp_path)), result.stderr


def test_decimal_numbers_do_not_follow_the_locale(tmp_path):
    """In some locales, awk reads 0.75 as 0 and prints a comma."""
    stub = tmp_path / "awk"
    write_program(stub, '#!/bin/sh\necho "$LC_ALL"\n')
    result = subprocess.run(
        ["bash", "-euc", f"source {ROOT}/jobs/lib.sh; awk"],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C.UTF-8", "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert result.stdout == "C\n"
