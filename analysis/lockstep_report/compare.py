# SPDX-License-Identifier: BSD-3-Clause
"""The command `lockstep-report compare`."""

import argparse
import sys

from lockstep_report.arguments import finish
from lockstep_report.errors import INPUT, REGRESSION, USAGE, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.measure.compare.cases import cases_of, match
from lockstep_report.measure.compare.quantities import BY_NAME, CHECKED
from lockstep_report.output import File
from lockstep_report.runfile.file_kind import JSON
from lockstep_report.runfile.input_files import read_files, require
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.compare import comparison_lines, comparison_values, regressions
from lockstep_report.tables.json_output import json_text
from lockstep_report.tables.reference import read_reference, reference_text


def add(commands):
    text = "compare two runs or folders of runs, or check runs against a stored reference"
    command = commands.add_parser(
        "compare", help=text, description=text[:1].upper() + text[1:] + ".",
        epilog="Exit status 7: with --tolerance, a checked quantity is worse than the tolerance "
               "permits. docs/analysis.md, section Comparison, states the method.")
    command.add_argument("runs", nargs="+", metavar="RUNS",
                         help="A and B (run files, or directories with repeated runs); only B "
                              "with --reference; only A with --save-reference")
    command.add_argument("--reference", metavar="FILE.json", help="compare with this reference "
                                                                  "instead of A")
    command.add_argument("--tolerance", type=share, metavar="T",
                         help="check: change for the worse that is permitted, for example 5%%")
    command.add_argument("--check", type=names, default=CHECKED, metavar="NAME,...",
                         help="quantities that --tolerance checks [" + ",".join(CHECKED) + "]; "
                              "all: " + ", ".join(BY_NAME))
    command.add_argument("--save-reference", metavar="FILE.json",
                         help="write the reference of the runs A")
    finish(command, compare)


def share(text):
    """Returns the number of a share such as 5% or 0.05."""
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("the tolerance must be 0 or more, such as 5%")
    return value


def names(text):
    found = tuple(filter(None, text.split(",")))
    unknown = [name for name in found or (text,) if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown quantity {unknown[0] or repr(text)}; one of {', '.join(BY_NAME)} is needed")
    return found


def compare(options):
    wanted = 1 if options.reference or options.save_reference else 2
    if len(options.runs) != wanted or (options.reference and options.save_reference):
        raise ReportError(USAGE, "compare needs two arguments A and B, or one with --reference "
                                 "or --save-reference; a folder is one argument")
    if options.save_reference:
        return save(options)
    a = read_reference(options.reference) if options.reference else read_cases(options, options.runs[0])
    b = read_cases(options, options.runs[-1])
    pairs, rest_a, rest_b = match(a, b)
    if not pairs:
        raise ReportError(INPUT, f"{options.runs[-1]}: no runs that correspond to runs of "
                                 f"{options.reference or options.runs[0]}; give runs with equal "
                                 "ranks and batch per rank, or one run on each side")
    render = comparison_values if options.json else comparison_lines
    found = render(pairs, rest_a, rest_b, options.check, options.tolerance)
    print(json_text(found) if options.json else "\n".join(found))
    return status(options, pairs, rest_a)


def save(options):
    file = File(options.save_reference, options.runs, JSON)
    cases = read_cases(options, options.runs[0])
    file.write(reference_text(cases))
    files = {"files": [str(file.path)], "cases": len(cases)}
    print(json_text(files) if options.json else one_line(str(file.path)))


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
    worse = [f"{q.label} ({b.title})" for a, b in pairs
             for q in regressions(a, b, options.check, options.tolerance)]
    if worse:
        print(f"lockstep-report: {plural(len(worse), 'regression')} beyond "
              f"{100 * options.tolerance:g} %: {'; '.join(worse)}", file=sys.stderr)
        return REGRESSION
    if rest_a:
        raise ReportError(INPUT, f"{options.runs[-1]}: no runs for {rest_a[0].title}, which is in "
                                 f"{options.reference or options.runs[0]}; it was not checked")
    for a, b in pairs:
        missing = [n for n in options.check if n not in a.estimates or n not in b.estimates]
        if missing:
            raise ReportError(INPUT, f"{options.runs[-1]}: {missing[0]} is unknown for {b.title}; "
                                     "it was not checked")
    return 0
