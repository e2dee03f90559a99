# SPDX-License-Identifier: BSD-3-Clause
"""Tests that copies of the tree work on the systems of users: line endings of a clone, and the
oldest supported Python."""

import ast
import contextlib
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST_PYTHON = (3, 9)  # docs/install.md


def git(*arguments):
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_text_files_have_lf_in_every_clone():
    """`git ls-files --eol` prints the line endings in the index, those in the working tree, and the
    attributes."""
    lines = [line.split("\t") for line in git("ls-files", "--eol")]
    assert len(lines) > 500
    other = [
        path
        for ending, path in lines
        if not ending.startswith(("i/lf ", "i/none ", "i/-text ")) or "eol=lf" not in ending
    ]
    assert other == []


def newer_features(source):
    """Returns the features of the source that the oldest Python lacks, if it can parse the
    source."""
    calls = [
        node
        for node in ast.walk(ast.parse(source, feature_version=OLDEST_PYTHON))
        if isinstance(node, ast.Call)
    ]
    return [
        f"line {call.lineno}: zip(strict)"
        for call in calls
        if getattr(call.func, "id", "") == "zip"
        and any(keyword.arg == "strict" for keyword in call.keywords)
    ]


def test_python_packages_run_with_the_oldest_python():
    files = [
        path
        for path in git("ls-files", "analysis/*.py")
        if "/tests/" not in path and "/bench/" not in path
    ]
    assert len(files) > 80
    found = {path: newer_features((ROOT / path).read_text(encoding="utf-8")) for path in files}
    assert {path: features for path, features in found.items() if features} == {}


@pytest.mark.parametrize("source", ["match x:\n    case 1: pass", "zip([1], [2], strict=True)"])
def test_newer_features_are_found(source):
    with contextlib.suppress(SyntaxError):
        assert newer_features(source)
