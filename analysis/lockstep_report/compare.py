# SPDX-License-Identifier: BSD-3-Clause
"""The command `lockstep-report compare`."""

import argparse
import sys

from lockstep_report.arguments import finish
from lockstep_report.errors import INPUT, REGRESSION, ReportError
from lockstep_report.measure.cases import cases_of, match
from lockstep_report.measure.changes import CHECKED, regressions
from lockstep_report.measure.estimates import BY_NAME
from lockstep_report.runfile.input_files import read_files, require
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.compare import comparison_lines, comparison_values
from lockstep_report.tables.table import json_text


def add(commands):
    text = "compare two runs or folders of runs, or check them for regressions"
    command = commands.add_parser(
        "compare",
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=(
            "Exit status 7: with --tolerance, a checked quantity is worse than the tolerance "
            "permits. docs/analysis.md, section Comparison, states the method."
        ),
    )
    command.add_argument("a", metavar="A", help="run file, or directory with runs")
    command.add_argument(
        "b", metavar="B", help="run file, or directory with runs, to compare with A"
    )
    command.add_argument(
        "--tolerance",
        type=tolerance_of,
        metavar="T",
        help="check: change for the worse that is permitted, for example 5%%",
    )
    command.add_argument(
        "--check",
        type=quantity_names,
        default=CHECKED,
        metavar="NAME,...",
        help="quantities that --tolerance checks ["
        + ",".join(CHECKED)
        + "]; all: "
        + ", ".join(BY_NAME),
    )
    finish(command, compare)


def tolerance_of(text):
    """Returns the number of a share such as 5% or 0.05."""
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("the tolerance must be 0 or more, such as 5%")
    return value


def quantity_names(text):
    found = tuple(filter(None, text.split(",")))
    unknown = [name for name in found or (text,) if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown quantity {unknown[0] or repr(text)}; one of {', '.join(BY_NAME)} is needed"
        )
    return found


def compare(options):
    a, b = read_cases(options, options.a), read_cases(options, options.b)
    pairs, rest_a, rest_b = match(a, b)
    if not pairs:
        raise ReportError(
            INPUT,
            f"{options.b}: no runs that correspond to runs of {options.a}; give runs with "
            "equal ranks and batch per rank, or one run on each side",
        )
    render = comparison_values if options.json else comparison_lines
    found = render(pairs, rest_a, rest_b, options.check, options.tolerance)
    print(json_text(found) if options.json else "\n".join(found))
    return status(options, pairs, rest_a)


def read_cases(options, name):
    loaded = read_files(options, [name])
    cases = cases_of(loaded.runs, options.skipped)
    require(options.skipped, cases)
    if not cases:
        raise ReportError(INPUT, f"{name}: holds no training steps; nothing to compare")
    return cases


def status(options, pairs, rest_a):
    """Returns the exit status of a check, and prints its result to stderr. Raises `ReportError`
    (input) if a case of A has no counterpart or no checked quantity, which was not checked then."""
    if options.tolerance is None:
        return 0
    worse = [
        f"{q.label} ({b.title})"
        for a, b in pairs
        for q in regressions(a, b, options.check, options.tolerance)
    ]
    if worse:
        print(
            f"lockstep-report: {plural(len(worse), 'regression')} beyond "
            f"{100 * options.tolerance:g} %: {'; '.join(worse)}",
            file=sys.stderr,
        )
        return REGRESSION
    if rest_a:
        raise ReportError(
            INPUT,
            f"{options.b}: no runs for {rest_a[0].title}, which is in {options.a}; it was not"
            " checked",
        )
    for a, b in pairs:
        missing = [n for n in options.check if n not in a.estimates or n not in b.estimates]
        if missing:
            raise ReportError(
                INPUT, f"{options.b}: {missing[0]} is unknown for {b.title}; it was not checked"
            )
    return 0
