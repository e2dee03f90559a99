# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text and as JSON."""

import os.path
from dataclasses import asdict

from lockstep_report.escaping import one_line
from lockstep_report.measure.cases import changed_settings
from lockstep_report.measure.changes import changes_of, direction, regressions, verdict
from lockstep_report.measure.inference import RUN_SPREAD, assumed_difference
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.summary import table_lines
from lockstep_report.tables.table import (
    Column,
    Table,
    cell_text,
    interval_columns,
    supported_digits,
)

COLUMNS = [
    Column("quantity", "Quantity"),
    Column("unit", "Unit"),
    Column("a", "A"),
    Column("b", "B"),
    *interval_columns(Column("change", "Change (%)", 1), "low", "high", " (%)"),
    *interval_columns(Column("ratio", "B/A", 1), "ratio_low", "ratio_high"),
    Column("result", "Change is"),
    Column("check", "Check"),
]
CHECK_TEXTS = {None: None, True: "regression", False: "passed"}
LARGE = 10  # B/A from which it is shown instead of the change in per cent
NOTES = [
    (
        "change: B/A − 1 of the medians; interval: from the lowest to the highest ratio of values"
        " in the rank-based 95 % intervals of A and B"
    ),
    (
        "significant: the two intervals do not overlap; within these runs: the intervals over the"
        " steps of two single runs do not overlap, which does not show that other runs differ"
    ),
]
ASSUMED_NOTE = (
    "(assumed): these times and rates have no interval over runs, so a standard deviation of"
    f" {100 * RUN_SPREAD:g} % between runs is assumed; two single runs must then differ by about"
    f" {100 * assumed_difference(1, 1):.0f} %, and a part of a step or epoch by this share of the"
    " whole"
)
STEP_NOTE = (
    "A or B is one run: the interval over its steps does not contain the spread between runs; "
    "repeat each at least 6 times"
)


def pair_table(a, b, checked, tolerance):
    changes = list(changes_of(a, b, checked, tolerance))
    has_assumed = any(item.change.is_apart is None and has_assumption(item) for item in changes)
    return Table(
        "compare",
        b.title,
        COLUMNS,
        [change_row(item) for item in changes],
        [
            f"A: {count_text(a)}; B: {count_text(b)}",
            *NOTES,
            has_assumed and ASSUMED_NOTE,
            min(len(a.sources), len(b.sources)) == 1 and STEP_NOTE,
        ],
    )


def has_assumption(item):
    return item.change.exceeds_assumed is not None


def change_row(item):
    return {
        "quantity": item.quantity.label,
        "unit": item.quantity.unit or "1",
        "a": median_text(item.a, item.quantity),
        "b": median_text(item.b, item.quantity),
        **change_values(item.change),
        "result": verdict(item.change, item.quantity),
        "check": CHECK_TEXTS[item.is_regression],
    }


def median_text(of, quantity):
    """Returns the median with at most two digits of the width of its interval."""
    width = 0 if of.low is None else (of.high - of.low) * quantity.factor
    return cell_text(of.median * quantity.factor, supported_digits(width, quantity.digits), ",")


def count_text(case):
    shown = ", ".join(case.sources[:3]) + (", ..." if len(case.sources) > 3 else "")
    steps = [e.count for e in case.estimates.values() if e.over == "steps"]
    text = f"{shown} ({plural(len(case.sources), 'run')}"
    return text + (f", {plural(max(steps), 'timed step')})" if steps else ")")


def change_values(found):
    """Returns the values of the columns of the change, or of those of B/A if it is large."""
    values = (found.ratio, found.ratio_low, found.ratio_high)
    if max(filter(None, values), default=0) >= LARGE:
        return dict(zip(("ratio", "ratio_low", "ratio_high"), values))
    return {
        name: None if ratio is None else 100 * (ratio - 1)
        for name, ratio in zip(("change", "low", "high"), values)
    }


def setting_lines(changed):
    if not changed:
        return ["Changed settings: none."]
    width = max(len(name) for name, _, _ in changed)
    texts = [(name, *(text or "(not set)" for text in shortened([a, b]))) for name, a, b in changed]
    return ["Changed settings:", *(f"  {name:<{width}}  {a} -> {b}" for name, a, b in texts)]


def shortened(texts, most=200):
    """Returns the texts in one line of at most `most` characters each. Longer ones begin shortly
    before they differ."""
    texts = list(map(one_line, texts))
    begin = max(0, len(os.path.commonprefix(texts)) - most // 4)
    omitted = "..." if begin else ""
    texts = [text if len(text) <= most else omitted + text[begin:] for text in texts]
    return [text if len(text) <= most else text[: most - 3] + "..." for text in texts]


def comparison_lines(pairs, rest_a, rest_b, checked, tolerance):
    all_changed = [changed_settings(a, b) for a, b in pairs]
    common = [c for c in all_changed[0] if all(c in others for others in all_changed)]
    lines = setting_lines(common)
    for (a, b), changed in zip(pairs, all_changed):
        own = [c for c in changed if c not in common]
        lines += [
            "",
            *(["Changed settings of this pair:", *setting_lines(own)[1:], ""] if own else []),
            *table_lines(pair_table(a, b, checked, tolerance)),
        ]
        for side, case in (("A", a), ("B", b)):
            lines += [f"- {side}: {note}" for note in case.notes]
    for side, rest in (("A", rest_a), ("B", rest_b)):
        lines += [f"Only in {side}: {case.title} ({', '.join(case.sources)})" for case in rest]
    return list(map(one_line, lines))


def comparison_values(pairs, rest_a, rest_b, checked, tolerance):
    return {
        "pairs": [pair_values(a, b, checked, tolerance) for a, b in pairs],
        "only_in_a": [case_values(case) for case in rest_a],
        "only_in_b": [case_values(case) for case in rest_b],
        "tolerance": tolerance,
        "regressions": (
            sum(len(regressions(a, b, checked, tolerance)) for a, b in pairs)
            if tolerance is not None
            else None
        ),
    }


def case_values(case):
    return {
        "title": case.title,
        "sources": case.sources,
        "identity": case.identity,
        "notes": case.notes,
    }


def pair_values(a, b, checked, tolerance):
    return {
        "a": case_values(a),
        "b": case_values(b),
        "changed_settings": [
            dict(zip(("name", "a", "b"), changed)) for changed in changed_settings(a, b)
        ],
        "quantities": [quantity_values(item) for item in changes_of(a, b, checked, tolerance)],
    }


def quantity_values(item):
    return {
        "name": item.quantity.name,
        "a": asdict(item.a),
        "b": asdict(item.b),
        **asdict(item.change),
        "is_significant": item.change.is_significant,
        "exceeds_assumed": item.change.exceeds_assumed,
        "direction": direction(item.change, item.quantity),
        "is_regression": item.is_regression,
    }
