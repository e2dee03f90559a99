# SPDX-License-Identifier: BSD-3-Clause
"""Tests that copies of the tree work on the systems of users: line endings of a clone, and the
oldest supported Python."""

import ast
import pathlib
import subprocess

import parso
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST_PYTHON = "3.9"  # docs/install.md
NEWER_FUNCTIONS = ("ExceptionGroup", "hardlink_to", "pairwise")


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
    """Returns the features of the source that the oldest Python lacks: syntax, and the functions
    that our programs are likely to use. parso has the grammar of each version; `ast.parse` and Ruff
    accept some newer syntax also for an older version."""
    grammar = parso.load_grammar(version=OLDEST_PYTHON)
    issues = list(grammar.iter_errors(grammar.parse(source)))
    if issues:
        return [f"line {issue.start_pos[0]}: {issue.message}" for issue in issues]
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [f"line {call.lineno}: {ast.unparse(call)}" for call in calls if is_newer_function(call)]


def is_newer_function(call):
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    is_strict = any(keyword.arg == "strict" for keyword in call.keywords)
    return name in NEWER_FUNCTIONS or (name == "zip" and is_strict)


def test_python_packages_run_with_the_oldest_python():
    files = [
        path
        for path in git("ls-files", "analysis/*.py")
        if "/tests/" not in path and "/bench/" not in path
    ]
    assert len(files) > 80
    found = {path: newer_features((ROOT / path).read_text(encoding="utf-8")) for path in files}
    assert {path: features for path, features in found.items() if features} == {}


@pytest.mark.parametrize(
    "source",
    [
        "match x:\n    case 1: pass",
        "zip([1], [2], strict=True)",
        "x[y := 1]",  # allowed from Python 3.10; in parentheses before
        "Path('a').hardlink_to('b')",
    ],
)
def test_newer_features_are_found(source):
    assert newer_features(source + "\n")
    assert not newer_features("zip([1], [2])\nx[(y := 1)]\n")
