"""Charts of speedup and efficiency, from the tables of time, weak and strong scaling."""

from dataclasses import dataclass, field, replace

from lockstep_report.html import axes
from lockstep_report.html.cells import batch_text, global_batch_text, ranks_text, rows_of
from lockstep_report.html.figure import figure_element
from lockstep_report.html.line_chart import LineChart, Mark, Series
from lockstep_report.models.scaling_laws import AMDAHL, GUSTAFSON

EXTENSION = 2  # a fitted law is drawn up to this multiple of the largest number of ranks
SAMPLES = 24


@dataclass(frozen=True)
class Curve:
    """A curve is identified by its series, batch and suffix; setting and mode are texts."""

    series: tuple
    batch: str
    suffix: str
    setting: str = field(compare=False)
    mode: str = field(compare=False)


def weak_figure(book, laws, measured):
    """Returns the figure at fixed batch per rank; None if no row has a speedup. `measured`: the
    machine and the number of runs."""
    speedups = curves(rows_of(book, "table-1-time-speedup"), batch_text, "speedup",
                      ("speedup_low", "speedup_high"))
    rows = rows_of(book, "weak-scaling")
    efficiency = curves(rows, batch_text, "efficiency")
    alone = curves(rows, batch_text, "efficiency_independent", start=False,
                   suffix=" against independent replicas")
    return scaling_figure(
        "weak-scaling", "Weak scaling: fixed batch per rank", speedups, efficiency, alone,
        [law for law in laws if law.law == GUSTAFSON],
        "Speedup of an epoch T(1)/T(N) and weak efficiency t(1)/t(N).",
        (("table-1-time-speedup", "table 1"), ("weak-scaling", "weak scaling")), book, measured)


def strong_figure(book, laws, measured):
    """Returns the figure at fixed global batch, as `weak_figure`; None without strong scaling."""
    rows = rows_of(book, "strong-scaling")
    return scaling_figure(
        "strong-scaling", "Strong scaling: fixed global batch",
        curves(rows, global_batch_text, "speedup", ("speedup_low", "speedup_high")),
        curves(rows, global_batch_text, "efficiency"), {},
        [law for law in laws if law.law == AMDAHL],
        "Speedup T(1)/T(N) and efficiency T(1)/(N·T(N)).",
        (("strong-scaling", "strong scaling"),), book, measured)


def curves(rows, batch_of, key, interval=None, start=True, suffix=""):
    """Returns {Curve: marks} of the rows with several ranks, each with the base case (1, 1) if
    `start`."""
    found = {}
    for row in rows:
        if row[key] is None or row["ranks"] == 1 or row.is_independent:
            continue
        curve = Curve(row["point"].series, batch_of(row), suffix, row["setting"], row["mode"])
        marks = found.setdefault(curve, [Mark(1, 1.0, "1 rank: 1")] if start else [])
        spread = row.interval(*interval) if interval else ""
        low, high = (row[end] if interval else None for end in interval or ("", ""))
        text = f"{ranks_text(row.text('ranks'))}: {row.text(key)}{spread}"
        marks.append(Mark(row["ranks"], row[key], text, low, high))
    return found


def names_of(keys):
    """Returns {key: name} with the parts in which the keys differ, and the batch."""
    several = {part: len({getattr(key, part) for key in keys}) > 1 for part in ("setting", "mode")}
    return {key: ", ".join(filter(None, (
        key.setting if several["setting"] else "", key.batch, key.mode if several["mode"] else ""))) + key.suffix
        for key in keys}


def scaling_figure(name, title, speedups, efficiency, alone, laws, what, tables, book, measured):
    if not speedups and not efficiency:
        return None
    keys = list(dict.fromkeys([*speedups, *efficiency]))
    names = names_of([*keys, *alone])
    ranks = sorted({m.x for marks in (*speedups.values(), *efficiency.values()) for m in marks})
    models = [law_series(law, keys, names, ranks[-1]) for law in laws]
    models = [series for series in models if series]
    upper = [Series(names[k], tuple(m), keys.index(k)) for k, m in speedups.items()]
    lower = [Series(names[k], tuple(m), keys.index(k)) for k, m in efficiency.items()]
    lower += [Series(names[k], tuple(m), keys.index(replace(k, suffix="")), "dotted")
              for k, m in alone.items() if replace(k, suffix="") in keys]
    last = ranks[-1] * (EXTENSION if models else 1)
    x_axis = axes.logarithmic([1, last], 2)
    values = [v for s in upper for m in s.marks for v in (m.y, m.low or m.y, m.high or m.y)]
    panels = []
    if upper:
        y_axis = axes.logarithmic([*(v for v in values if v > 0), 1, last], 2)
        panels.append(LineChart("Speedup", "ranks N", x_axis, y_axis, [*upper, *models],
                                tuple(ranks) + ((last,) if models else ()),
                                references=[((1, 1), (last, last))]))
    if lower:
        high = max([1.0, *(m.y for s in lower for m in s.marks)])
        panels.append(LineChart("Efficiency", "ranks N", axes.logarithmic([1, ranks[-1]], 2),
                                axes.Axis(0, 1.08 * high), lower, tuple(ranks),
                                references=[((1, 1), (ranks[-1], 1))]))
    caption = (f"{what} Grey dashed line: ideal. Lines connect measured points and have no meaning "
               "between them.")
    if models:
        caption += (" Coloured dashes: the fitted law, also beyond the measured numbers of ranks; "
                    "its serial fraction is in the table of scaling laws.")
        tables = (*tables, ("scaling-laws", "scaling laws"))
    if any(m.low is not None for s in upper for m in s.marks):
        caption += " Vertical bars: 95 % interval over runs."
    made = [p.panel() for p in panels]
    return figure_element(name, title, made, [e for p in panels for e in p.entries()], caption,
                          [(table, text) for table, text in tables if table in book], measured)


def law_series(law, keys, names, most):
    """Returns the curve of a fitted law in the colour of its points; None if they are not drawn, or
    the law does not describe the times, or passes through all of them (two rank counts)."""
    point = law.points[-1]
    batch = (f"global batch {point.global_batch}" if law.law == AMDAHL
             else f"batch {point.batch_per_rank} per rank" if point.batch_per_rank else "as given")
    key = next((k for k in keys if (k.series, k.batch.replace(",", "")) == (point.series, batch)), None)
    if key is None or not law.describes_times or len(set(law.ranks.tolist())) < 3:
        return None
    last = EXTENSION * most
    ranks = [last ** (n / SAMPLES) for n in range(SAMPLES + 1)]
    marks = tuple(Mark(n, float(s)) for n, s in zip(ranks, law.speedup(ranks)) if s > 0)
    return Series(f"{law.law}'s law, {names[key]}", marks, keys.index(key), "dashed")
