# SPDX-License-Identifier: BSD-3-Clause
"""Tests that python_limits.py reports code that exceeds a limit. Each source has one seeded
violation, or is just within the limits."""

import pathlib
import subprocess
import sys

import pytest
import python_limits

PROGRAM = pathlib.Path(__file__).resolve().parent / "python_limits.py"
DOCSTRING = '    """Text.\n\n    More text.\n    """\n'
VIOLATIONS = {
    "function": ("x = 1\ndef f():\n" + "    x = 1\n" * 41, 2, "long-function"),
    "method": ("class A:\n  async def f(self):\n" + "    x = 1\n" * 41, 2, "long-function"),
    "docstring": ("def f():\n" + DOCSTRING + "    x = 1\n" * 41, 1, "long-function"),
    "file": ("x = 1\n" * 401, 1, "long-file"),
    "lambda": ("x = 1\ny = lambda a, b=x: a\n", 2, "lambda-default"),
    "lambda with *": ("y = lambda *, b=1: b\n", 1, "lambda-default"),
    "two conditionals": ("x = (a if b else c,\n     d if e else f)\n", 1, "conditionals"),
    "nested conditionals": ("return_ = 1\nx = a if b else c if d else e\n", 2, "conditionals"),
    "condition of if": ("if (a if b else c) and (d if e else f):\n  pass\n", 1, "conditionals"),
    "three for": ("x = [c for a in x for b in a\n     for c in b]\n", 1, "nested-for"),
    "three for in dict": ("x = {c: 1 for a in x for b in a for c in b}\n", 1, "nested-for"),
    "loop": ("for a in b if c else ():\n  pass\n", 1, "conditional-loop"),
    "comprehension": ("x = [\n  a\n  for a in (b if c else ())\n]\n", 3, "conditional-loop"),
    "returned": ("def f():\n  return 1, 2, 3, 4\n", 2, "unnamed-values"),
    "unpacked": ("a, b, c, d = x\n", 1, "unnamed-values"),
    "unpacked list": ("[a, b, c, *d] = x\n", 1, "unnamed-values"),
    "unpacked in a loop": ("for a, b, c, d in x:\n  pass\n", 1, "unnamed-values"),
    "unpacked in a pair": ("for i, (a, b, c, d) in x:\n  pass\n", 1, "unnamed-values"),
    "unpacked in a comprehension": ("x = [\n  a for a, b, c, d in x]\n", 2, "unnamed-values"),
    "unpacked in with": ("with x as (a, b, c, d):\n  pass\n", 1, "unnamed-values"),
}
PERMITTED = {
    "function": "def f():\n" + "    x = 1\n" * 40,
    "docstring": "def f():\n" + DOCSTRING + "    x = 1\n" * 40,
    "decorator": "@parametrize(\n" + "    1,\n" * 60 + ")\ndef f():\n    pass\n",
    "only a docstring": 'def f():\n    """Text."""\n',
    "file": "x = 1\n" * 400,
    "lambda": "y = lambda a, *b, **c: a\n",
    "default of a function": "def f(a=1):\n    pass\n",
    "one conditional": "x = a if b else c\ny = d if e else f\n",
    "statements in a statement": "if a if b else c:\n  x = 1 if d else 2\nfor a in x:\n  y = 1\n",
    "two for": "x = [b for a in x for b in a]\n",
    "loop with a condition": "for a in x:\n  y = b if c else ()\n",
    "returned": "def f():\n  return 1, 2, 3\n",
    "returned list": "def f():\n  return [1, 2, 3, 4]\n",
    "tuple in a call": "x = f((1, 2, 3, 4))\n",
    "unpacked": "a, b, c = x\nfor a, b, c in x:\n  pass\n",
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_seeded_violation_is_reported(name, tmp_path):
    source, line, rule = VIOLATIONS[name]
    path = tmp_path / "a.py"
    path.write_text(source, encoding="utf-8")
    result = subprocess.run([sys.executable, PROGRAM, path], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "")
    (found,) = result.stdout.splitlines()
    start, _, advice = found.partition(f"{path}:{line}: {rule}: ")
    assert start == "" and len(advice) > 20


@pytest.mark.parametrize("name", PERMITTED)
def test_code_within_the_limits_is_permitted(name):
    assert python_limits.violations_of(PERMITTED[name]) == []


def test_all_files_are_checked(tmp_path, capsys):
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path, source in zip(paths, ("x = 1\n", "a, b, c, d = x\n", "[a for a in x if a]\n" * 401)):
        path.write_text(source, encoding="utf-8")
    assert python_limits.main(paths) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"{paths[1]}:1", "unnamed-values"],
        [f"{paths[2]}:1", "long-file"],
    ]
    assert python_limits.main(paths[:1]) == 0 and capsys.readouterr().out == ""


def test_page_states_the_limits():
    text = (PROGRAM.parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for limit in (python_limits.MAX_FUNCTION_LINES, python_limits.MAX_FILE_LINES):
        assert f"{limit} lines" in text
