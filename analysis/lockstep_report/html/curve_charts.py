"""Charts of bus bandwidth over message size, and of learning curves."""

import numpy as np

from lockstep_report import metrics
from lockstep_report.html import axes
from lockstep_report.html.cells import ranks_text, rows_of
from lockstep_report.html.figure import figure_element
from lockstep_report.html.line_chart import LineChart, Mark, Series
from lockstep_report.models.alpha_beta import SWEEP
from lockstep_report.points import link_rate_of
from lockstep_report.sweep import describe_run

SAMPLES = 40


def sweep_figure(book, fits, runs, link_gbit):
    """Returns the figure of the all-reduce sweeps, one panel per file; None without sweeps.
    `link_gbit`: rate of the link [that of each run]."""
    groups, repeats = {}, []
    for row in rows_of(book, "allreduce-sweep"):
        repeats.append(row["repeats"])
        if row["busbw"]:
            text = (f"{row['algorithm']}, {row.text('bytes')} bytes: {row.text('busbw')} GB/s, "
                    f"{row.text('median_us')} µs"
                    f"{row.interval('low_us', 'high_us', ' µs')}")
            groups.setdefault((row["source"], row.text("ranks")), {}).setdefault(
                row["algorithm"], []).append(Mark(row["bytes"], row["busbw"], text))
    if not groups:
        return None
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    links = {run.file_name: link_rate_of(run, link_gbit) for run in runs}
    machines = dict.fromkeys(describe_run(run) for run in runs if run.allreduce)
    charts = []
    for (source, ranks), group in groups.items():
        series = [Series(name, tuple(sorted(marks, key=lambda m: m.x)), names.index(name))
                  for name, marks in group.items()]
        models = fitted(fits, source, group, names)
        marks = [m for s in series for m in s.marks]
        rate = links.get(source)
        y_axis = axes.logarithmic([m.y for m in marks] + ([rate / 8] if rate else []), 10)
        x_axis = axes.logarithmic([m.x for m in marks], 2)
        line = [((x_axis.low, rate / 8), (x_axis.high, rate / 8))] if rate else []
        charts.append(LineChart(
            f"{source}, {ranks_text(ranks)}", "bytes of each rank", x_axis, y_axis,
            [*series, *models], x_text=axes.bytes_text, references=line))
    caption = "Bus bandwidth 2(N−1)/N · bytes / time in GB/s, median over the repeats."
    tables = [("allreduce-sweep", "all-reduce over message sizes")]
    if any(s.style for chart in charts for s in chart.series):
        caption += " Dashes: fit of alpha + beta · bytes."
        tables.append(("alpha-beta", "all-reduce fits"))
    if any(chart.references for chart in charts):
        caption += " Grey dashed line: rate of the link."
    return figure_element(
        "allreduce-sweep", "All-reduce: bus bandwidth over message size, GB/s",
        [c.panel() for c in charts],
        [e for c in charts for e in c.entries() if not e.style], caption,
        [t for t in tables if t[0] in book],
        f"Measured on {' and '.join(machines)}; n = {span(repeats)} repeats per size")


def span(counts):
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def fitted(fits, source, group, names):
    """Returns the fitted bandwidths of the algorithms of a sweep, within its message sizes."""
    found = []
    for fit in fits:
        name = next((n for n in group if fit.algorithm == n or fit.algorithm.startswith(f"{n} (")),
                    None)
        if fit.fit is None or fit.origin != SWEEP or source not in fit.sources or name is None:
            continue
        sizes = np.geomspace(fit.sizes.min(), fit.sizes.max(), SAMPLES)
        rates = [metrics.bus_bandwidth(size, float(seconds), fit.ranks)
                 for size, seconds in zip(sizes, fit.predicted(sizes))]
        marks = tuple(Mark(float(s), r / 1e9) for s, r in zip(sizes, rates) if r)
        found.append(Series(f"{name}, fit", marks, names.index(name), "dashed", name))
    return found


PANELS = (("train_loss", "Training loss"), ("test_accuracy", "Test accuracy (%)"))
AXES = (("steps", "steps"), ("seconds", "seconds of training"))


def learning_figure(book):
    """Returns the figure of loss and accuracy over steps and seconds; None without epochs."""
    runs = {}
    for row in rows_of(book, "learning-curves"):
        runs.setdefault(row["source"], []).append(row)
    if max(map(len, runs.values()), default=0) < 2:
        return None
    charts = []
    for key, heading in PANELS:
        for over, label in AXES:
            series = [curve(rows, key, over, index) for index, rows in enumerate(runs.values())]
            marks = [m for s in series for m in s.marks]
            if marks:
                charts.append(LineChart(
                    f"{heading} over {label}", label, axes.linear([m.x for m in marks]),
                    axes.linear([m.y for m in marks]), [s for s in series if s.marks]))
    return figure_element(
        "learning-curves", "Learning curves",
        [c.panel() for c in charts],
        [e for c in charts for e in c.entries()],
        "Loss of the training images and accuracy on the test images after epochs. Seconds: "
        "training time without waiting for data and without evaluation.",
        [("learning-curves", "learning curves")])


def curve(rows, key, over, index):
    first = rows[0]
    name = ", ".join(filter(None, (
        f"{first['source']}: batch {first.text('global_batch')}", ranks_text(first.text("ranks")),
        first["data"], first["model"], first["recipe"])))
    unit = " %" if key == "test_accuracy" else ""
    marks = tuple(
        Mark(row[over], row[key], f"{first['source']}, epoch {row.text('epoch')}, "
             f"{row.text('steps')} steps, {row.text('seconds')} s: {row.text(key)}{unit}")
        for row in rows if row[key] is not None)
    return Series(name, marks, index, group=first["source"])
