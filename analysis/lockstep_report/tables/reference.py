# SPDX-License-Identifier: BSD-3-Clause
"""A stored reference: the cases of earlier runs as JSON, for regression checks."""

import json
from dataclasses import asdict
from numbers import Real

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure.compare.cases import IDENTITY, Case
from lockstep_report.measure.compare.quantities import BY_NAME, Estimate
from lockstep_report.runfile.file_kind import JSON, read_text
from lockstep_report.tables.json_output import json_text

FORMAT, VERSION = "lockstep-reference", 1


def reference_text(cases):
    return json_text({"format": FORMAT, "version": VERSION,
                      "cases": [asdict(case) for case in cases]}) + "\n"


def read_reference(path):
    """Returns the cases of a reference file. Raises `ReportError` (input) if it is not one."""
    text = read_text(path, "a reference", (JSON,), "write one with --save-reference")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(INPUT, f"{path}: not a JSON file ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReportError(INPUT, f'{path}: not a reference (it has no "format": "{FORMAT}"); '
                                 "write one with --save-reference")
    if content.get("version") != VERSION:
        raise ReportError(INPUT, f"{path}: reference of version {content.get('version')}, this "
                                 f"lockstep-report reads version {VERSION}")
    try:
        return [case_of(item) for item in content["cases"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(INPUT, f"{path}: damaged reference "
                                 f"({type(error).__name__}: {error})") from error


def case_of(item):
    identity = {name: str(item["identity"][name]) for name in IDENTITY}
    estimates = {name: estimate_of(value) for name, value in item["estimates"].items()
                 if name in BY_NAME}
    return Case(identity, {str(k): str(v) for k, v in item["settings"].items()}, estimates,
                tuple(map(str, item["sources"])), tuple(map(str, item["notes"])))


def estimate_of(value):
    found = Estimate(**value)
    numbers = (found.median, found.count, *(n for n in (found.low, found.high) if n is not None))
    if (found.low is None) != (found.high is None) or not all(
            isinstance(number, Real) for number in numbers):
        raise ValueError(f"estimate {value} is not complete")
    return found
