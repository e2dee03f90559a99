# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text and as JSON."""

import os.path
from dataclasses import asdict

from lockstep_report.escaping import one_line
from lockstep_report.measure.compare import (
    QUANTITIES,
    change,
    changed_settings,
    direction,
    is_regression,
    verdict,
)
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
STEP_NOTE = (
    "A or B is one run: the interval over its steps does not contain the spread between runs; "
    "repeat each at least 6 times"
)


def changes_of(a, b, checked=(), tolerance=None):
    """Yields (quantity, estimate of a, estimate of b, change, whether it is a regression beyond
    `tolerance`) of the common quantities; the last one is None if the quantity is not among
    `checked`."""
    for q in (q for q in QUANTITIES if q.name in a.estimates and q.name in b.estimates):
        of_a, of_b = a.estimates[q.name], b.estimates[q.name]
        found, is_checked = change(of_a, of_b), q.name in checked and tolerance is not None
        yield q, of_a, of_b, found, is_regression(found, q, tolerance) if is_checked else None


def regressions(a, b, checked, tolerance):
    return [q for q, *_, is_worse in changes_of(a, b, checked, tolerance) if is_worse]


def pair_table(a, b, checked, tolerance):
    rows = [
        {
            "quantity": q.label,
            "unit": q.unit or "1",
            "a": value_text(of_a, q),
            "b": value_text(of_b, q),
            **change_values(found),
            "result": verdict(found, q),
            "check": {None: None, True: "regression", False: "passed"}[is_worse],
        }
        for q, of_a, of_b, found, is_worse in changes_of(a, b, checked, tolerance)
    ]
    return Table(
        "compare",
        b.title,
        COLUMNS,
        rows,
        [
            f"A: {count_text(a)}; B: {count_text(b)}",
            *NOTES,
            min(len(a.sources), len(b.sources)) == 1 and STEP_NOTE,
        ],
    )


def value_text(of, quantity):
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
    texts = [
        text if len(text) <= most else ("..." if begin else "") + text[begin:] for text in texts
    ]
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
        "quantities": [
            {
                "name": q.name,
                "a": asdict(of_a),
                "b": asdict(of_b),
                **asdict(found),
                "is_significant": found.is_significant,
                "direction": direction(found, q),
                "is_regression": is_worse,
            }
            for q, of_a, of_b, found, is_worse in changes_of(a, b, checked, tolerance)
        ],
    }
