#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks limits of Python code that Ruff does not have; jobs/lint runs it on all Python files.

    tests/architecture/python_limits.py FILE...

It prints one line per violation, FILE:LINE: RULE: ADVICE, and exits with 1 if there are any. The
rules keep statements short and values named, so that code is not made shorter at the cost of its
readers:

  long-function      the body of a function, without its docstring, has at most 40 lines
  long-file          a file has at most 400 lines
  lambda-default     a lambda has no argument with a default
  conditionals       a statement has at most one conditional expression (A if C else B)
  nested-for         a comprehension has at most two `for`
  conditional-loop   a `for` does not iterate over a conditional expression
  unnamed-values     a tuple that is returned or unpacked has at most three values

A statement that contains others, such as `if` or `def`, counts without them.
"""

import ast
import pathlib
import sys
from typing import NamedTuple

MAX_FUNCTION_LINES = 40
MAX_FILE_LINES = 400
MAX_CONDITIONALS = 1
MAX_FOR = 2
MAX_VALUES = 3

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Violation(NamedTuple):
    line: int
    rule: str
    advice: str


def body_lines(function):
    """Returns the number of lines of a function after its docstring, or after its head."""
    first = function.body[0]
    if ast.get_docstring(function) is None:
        return function.end_lineno - first.lineno + 1
    return function.end_lineno - first.end_lineno


def expressions_of(statement):
    """Yields the expressions of a statement, without those of the statements in it."""
    found = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)]
    while found:
        node = found.pop()
        yield node
        found += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


class Limits(ast.NodeVisitor):
    """Collects the violations of a file in `violations`."""

    def __init__(self):
        self.violations = []

    def report(self, node, rule, advice):
        self.violations.append(Violation(node.lineno, rule, advice))

    def visit(self, node):
        if isinstance(node, ast.stmt):
            self.check_conditionals(node)
        if isinstance(node, COMPREHENSIONS) and len(node.generators) > MAX_FOR:
            self.report(
                node,
                "nested-for",
                f"has {len(node.generators)} 'for', more than {MAX_FOR}; write a loop or a"
                " function",
            )
        super().visit(node)

    def check_conditionals(self, statement):
        count = sum(isinstance(node, ast.IfExp) for node in expressions_of(statement))
        if count > MAX_CONDITIONALS:
            self.report(
                statement,
                "conditionals",
                f"has {count} conditional expressions, more than {MAX_CONDITIONALS}; write 'if'"
                " statements or name the values",
            )

    def visit_Tuple(self, node):
        if isinstance(node.ctx, ast.Store) and len(node.elts) > MAX_VALUES:
            self.report(
                node,
                "unnamed-values",
                f"unpacks {len(node.elts)} values, more than {MAX_VALUES}; use a dataclass or a"
                " NamedTuple",
            )
        self.generic_visit(node)

    visit_List = visit_Tuple

    def check_loop(self, loop):
        if isinstance(loop.iter, ast.IfExp):
            self.report(
                loop.iter,
                "conditional-loop",
                "iterates over a conditional expression; test the condition before the loop",
            )
        self.generic_visit(loop)

    def visit_function(self, node):
        count = body_lines(node)
        if count > MAX_FUNCTION_LINES:
            self.report(
                node,
                "long-function",
                f"{node.name} has {count} lines, more than {MAX_FUNCTION_LINES}; divide it, or"
                " name its tables outside of it",
            )
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_function

    def visit_Lambda(self, node):
        arguments = node.args
        if arguments.defaults or any(arguments.kw_defaults):
            self.report(
                node,
                "lambda-default",
                "has an argument with a default; use functools.partial or a function",
            )
        self.generic_visit(node)

    def visit_Return(self, node):
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) > MAX_VALUES:
            self.report(
                node,
                "unnamed-values",
                f"returns {len(node.value.elts)} values, more than {MAX_VALUES}; use a dataclass"
                " or a NamedTuple",
            )
        self.generic_visit(node)

    visit_For = visit_AsyncFor = visit_comprehension = check_loop


def violations_of(text):
    """Returns the violations of a Python file, in the order of its lines."""
    limits = Limits()
    limits.visit(ast.parse(text))
    count = len(text.splitlines())
    if count > MAX_FILE_LINES:
        advice = f"has {count} lines, more than {MAX_FILE_LINES}; divide it by subject"
        limits.violations.append(Violation(1, "long-file", advice))
    return sorted(limits.violations)


def main(paths):
    found = [
        f"{path}:{violation.line}: {violation.rule}: {violation.advice}"
        for path in paths
        for violation in violations_of(pathlib.Path(path).read_text(encoding="utf-8"))
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
