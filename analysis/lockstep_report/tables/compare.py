# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text and as JSON."""

import os.path
from dataclasses import asdict

from lockstep_report.escaping import one_line
from lockstep_report.measure.compare import QUANTITIES, change, changed_settings, direction, is_regression, verdict
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.summary import table_lines
from lockstep_report.tables.table import Column, Table, cell_text, interval_columns, supported_digits

COLUMNS = [
    Column("quantity", "Quantity"), Column("unit", "Unit"), Column("a", "A"), Column("b", "B"),
    *interval_columns(Column("change", "Change (%)", 1), "low", "high", " (%)"),
    *interval_columns(Column("ratio", "B/A", 1), "ratio_low", "ratio_high"),
    Column("result", "Change is"), Column("check", "Check")]
LARGE = 10  # B/A from which it is shown instead of the change in per cent
NOTES = [
    "change: B/A − 1 of the medians; interval: from the lowest to the highest ratio of values in "
    "the rank-based 95 % intervals of A and B",
    "significant: the two intervals do not overlap; within these runs: the intervals over the steps of "
    "two single runs do not overlap, which does not show that other runs differ"]
STEP_NOTE = ("A or B is one run: the interval over its steps does not contain the spread between runs; "
             "repeat each at least 6 times")


def changes_of(a, b):
    """Returns [(quantity, estimate of a, estimate of b, change)] of the common quantities."""
    return [(q, a.estimates[q.name], b.estimates[q.name],
             change(a.estimates[q.name], b.estimates[q.name]))
            for q in QUANTITIES if q.name in a.estimates and q.name in b.estimates]


def check(found, quantity, checked, tolerance):
    """Returns whether the change is a regression; None if the quantity is not checked."""
    is_checked = quantity.name in checked and tolerance is not None
    return is_regression(found, quantity, tolerance) if is_checked else None


def regressions(a, b, names, tolerance):
    """Returns the quantities among `names` that are worse in b by more than `tolerance`."""
    return [q for q, _, _, found in changes_of(a, b) if check(found, q, names, tolerance)]


def pair_table(a, b, checked=(), tolerance=None):
    rows = [{"quantity": q.label, "unit": q.unit or "1", "a": value_text(of_a, q), "b": value_text(of_b, q),
             **change_values(found),
             "result": verdict(found, q),
             "check": {None: None, True: "regression", False: "passed"}[check(found, q, checked, tolerance)]}
            for q, of_a, of_b, found in changes_of(a, b)]
    counts = f"A: {count_text(a)}; B: {count_text(b)}"
    step_note = [STEP_NOTE] if min(len(a.sources), len(b.sources)) == 1 else []
    return Table("compare", b.title, COLUMNS, rows, [counts, *NOTES, *step_note])


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
    return {name: None if ratio is None else 100 * (ratio - 1) for name, ratio in zip(("change", "low", "high"), values)}


def setting_lines(changed):
    if not changed:
        return ["Changed settings: none."]
    width = max(len(name) for name, _, _ in changed)
    texts = [(name, *(text or "(not set)" for text in shortened([a, b]))) for name, a, b in changed]
    return ["Changed settings:", *(f"  {name:<{width}}  {a} -> {b}" for name, a, b in texts)]


def shortened(texts, most=200):
    """Returns the texts in one line of at most `most` characters each. Longer ones begin shortly before they differ."""
    texts = list(map(one_line, texts))
    begin = max(0, len(os.path.commonprefix(texts)) - most // 4)
    texts = [text if len(text) <= most else ("..." if begin else "") + text[begin:] for text in texts]
    return [text if len(text) <= most else text[:most - 3] + "..." for text in texts]


def comparison_lines(pairs, rest_a, rest_b, checked=(), tolerance=None):
    lines = []
    all_changed = [changed_settings(a, b) for a, b in pairs]
    common = [c for c in all_changed[0] if all(c in others for others in all_changed)]
    lines += setting_lines(common)
    for (a, b), changed in zip(pairs, all_changed):
        own = [c for c in changed if c not in common]
        lines += ["", *(["Changed settings of this pair:", *setting_lines(own)[1:], ""]
                        if own else []), *table_lines(pair_table(a, b, checked, tolerance))]
        for side, case in (("A", a), ("B", b)):
            lines += [f"- {side}: {note}" for note in case.notes]
    for side, rest in (("A", rest_a), ("B", rest_b)):
        lines += [f"Only in {side}: {case.title} ({', '.join(case.sources)})" for case in rest]
    return list(map(one_line, lines))


def comparison_values(pairs, rest_a, rest_b, checked=(), tolerance=None):
    return {
        "pairs": [pair_values(a, b, checked, tolerance) for a, b in pairs],
        "only_in_a": [case_values(case) for case in rest_a],
        "only_in_b": [case_values(case) for case in rest_b],
        "tolerance": tolerance,
        "regressions": sum(len(regressions(a, b, checked, tolerance)) for a, b in pairs)
        if tolerance is not None else None,
    }


def case_values(case):
    return {"title": case.title, "sources": case.sources, "identity": case.identity, "notes": case.notes}


def pair_values(a, b, checked, tolerance):
    values = [{"name": q.name, "a": asdict(of_a), "b": asdict(of_b), **asdict(found),
               "is_significant": found.is_significant, "direction": direction(found, q),
               "is_regression": check(found, q, checked, tolerance)} for q, of_a, of_b, found in changes_of(a, b)]
    return {"a": case_values(a), "b": case_values(b),
            "changed_settings": [{"name": name, "a": old, "b": new}
                                 for name, old, new in changed_settings(a, b)],
            "quantities": values}
