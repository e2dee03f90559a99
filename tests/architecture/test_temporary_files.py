# SPDX-License-Identifier: BSD-3-Clause
"""Tests that temporary files have names that other users of a shared machine cannot predict."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("jobs", "src", "include", "analysis/lockstep_report", "packaging", "modulefiles", ".ci")
FORBIDDEN = {
    r"/tmp\b|/var/tmp\b|/dev/shm/": "a file with a fixed name in a folder that all users can write",
    r"\btmpnam\b|\btempnam\b|(?<!s)\bmktemp\s*\(|mktemp\s+(-\w+\s+)*-\w*u|\btmpfile\b": (
        "a name without a file"
    ),
    r"\$(\{?TMPDIR|\{?TMP\b)": "a name chosen by the script; mktemp chooses it",
}


def text_files(folder):
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        ROOT / name
        for name in names
        if (ROOT / name).is_file() and not name.endswith((".md", ".svg", ".h5"))
    ]


def violations(text):
    """Returns the reasons for which lines that are not comments are forbidden."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|//)", line)]
    return [
        reason
        for line in lines
        for pattern, reason in FORBIDDEN.items()
        if re.search(pattern, line)
    ]


def test_no_file_has_a_predictable_name():
    files = [path for folder in FOLDERS for path in text_files(folder)]
    assert len(files) > 100
    assert {
        str(path): found
        for path in files
        if (found := violations(path.read_text(encoding="utf-8", errors="replace")))
    } == {}


@pytest.mark.parametrize(
    "line",
    [
        "log=/tmp/build.log",
        "path=$(mktemp -u)",
        "tempfile.mktemp()",
        "std::tmpnam(name);",
        "file=${TMPDIR:-/tmp}/x",
        "open('/dev/shm/x')",
    ],
)
def test_violations_are_found(line):
    assert violations(line)


@pytest.mark.parametrize(
    "line",
    ["folder=$(mktemp -d)", "mkstemp(name.data())", "# /tmp is shared", "temp_directory_path()"],
)
def test_other_lines_are_accepted(line):
    assert violations(line) == []
