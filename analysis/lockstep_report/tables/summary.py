# SPDX-License-Identifier: BSD-3-Clause
"""A summary of one run: one screen of text, or values for JSON; and the table of the command
`index`: one row per run file."""

from collections import Counter

import numpy as np

from lockstep_report.errors import ReportError
from lockstep_report.measure import metrics
from lockstep_report.measure.accuracy import last_accuracy
from lockstep_report.measure.contention import epoch_seconds, known_reading, lack_of
from lockstep_report.measure.notes import NoteKind, kind_of_note
from lockstep_report.measure.points import IMBALANCE, from_run
from lockstep_report.measure.stragglers import is_slow, slowest
from lockstep_report.measure.waiting import MOST_STEPS
from lockstep_report.measure.window import batch_per_rank, epoch_rate, step_seconds, timed_window
from lockstep_report.runfile.experiment import build_of
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.runfile.settings import (
    SETTING_PARTS,
    list_hosts,
    plural,
    setting_of,
    setting_texts,
    version_of,
)
from lockstep_report.tables.ladder import ladder_run_tables
from lockstep_report.tables.layers import layer_table
from lockstep_report.tables.stack import stack_table
from lockstep_report.tables.sweep import sweep_table
from lockstep_report.tables.table import Column, Table, bounds_text, rows_of, unset

DEVICE_READINGS = ("energy_joules", "utilisation", "memory_used_bytes")
PHASE_LABELS = {
    "data_wait": "waiting for data",
    "exposed_communication": "exposed communication",
    IMBALANCE: "imbalance, and time between the steps",
}


def setting_column(index, name):
    """Returns the column of the part `index` of the setting."""

    def value(run):
        return setting_of(run)[index] or None

    header = name[:1].upper() + name[1:]
    return Column(name.replace(" ", "_"), header, csv_only=name != "model", value=value)


# Columns of the index, of any run and of a training.
OF_RUN = (
    Column("run_id", "Run", csv_only=True),
    Column("part", "Part", value=lambda run: run.integer("part") or 1),
    Column("status", "Status"),
    Column("date_utc", "Date (UTC)", value=lambda run: run.attributes.get("date_utc")),
    Column("build", "Build", csv_only=True, value=build_of),
    Column("command", "Command", csv_only=True, value=lambda run: run.option("command") or None),
    *(setting_column(index, name) for index, name in enumerate(SETTING_PARTS)),
    Column("hosts", "Hosts", value=lambda run: run.host_count),
    Column("ranks", "Ranks", value=lambda run: run.rank_count),
)
OF_TRAINING = (
    Column("batch_per_rank", "Batch per rank", value=batch_per_rank),
    Column("reducer", "Reducer", value=lambda run: run.option("reducer") or None),
    Column("epochs", "Epochs", value=lambda run: len(run.epoch_numbers)),
    Column("steps", "Steps", value=lambda run: len(run.step)),
    Column("epoch_seconds", "Epoch (s)", 2, value=unset),
    Column("images_per_second", "Images/s", 1, value=unset),  # set in `index_row`
    Column("test_accuracy", "Test accuracy", 4, value=last_accuracy),
)


def summary(run):
    """Returns the lines of the text, at most 100 characters each for a training run."""
    if run.has_tables:
        return [*head(run)[:2], *lines_of_tables(run)]
    if not run.has_steps:
        return [*head(run), "No steps were recorded."]
    point, window = from_run(run), timed_window(run)
    return [
        *head(run),
        "",
        *time_lines(point, window),
        *communication_lines(point),
        "",
        "Time of an epoch by phase (mean over the ranks):",
        *phase_lines(point),
        "",
        *step_lines(run, point, window),
        *device_lines(run, point, window),
        *accuracy_lines(run),
        *(f"Note: {note}." for note in point.notes if kind_of_note(note) is not NoteKind.SCALED),
    ]


def lines_of_tables(run):
    tables = [*ladder_run_tables([run]), sweep_table([run]), layer_table([run]), stack_table([run])]
    return [line for table in tables if table.rows for line in ("", *table_lines(table))]


def time_lines(point, window):
    per_rank, part = "", ""
    if point.ranks > 1:
        per_rank = f", {point.images_per_second / point.ranks:,.1f} per rank"
    if window.is_extrapolated:
        part = f", scaled from {len(window.steps)} of {window.epoch_steps} steps"
    return [
        f"An epoch takes {seconds(point.epoch_seconds)} ({point.images:,} images in"
        f" {point.steps} steps){part}.",
        f"Throughput: {point.images_per_second:,.1f} images/s{per_rank}.",
        f"Training time without waiting for data: {seconds(point.training_seconds)} per epoch.",
    ]


def phase_lines(point):
    return [
        f"  {PHASE_LABELS.get(name, name):<40}{value:>10.3f} s{value / point.epoch_seconds:>8.1%}"
        for name, value in point.phase_seconds.items()
        if name != IMBALANCE or point.ranks > 1
    ]


def summary_values(run):
    values = {"run": run.label, "run_id": run.run_id, "status": run.status, "ranks": run.rank_count}
    if not run.has_steps:
        return values
    point, window = from_run(run), timed_window(run)
    interval, lack = point.step_interval, lack_of(run, window)
    transfer = point.split.transfer_bounds if point.split else metrics.Bounds(None, None)
    return values | {
        **{
            name: getattr(point, name)
            for name in ("images_per_second", "epoch_seconds", "training_seconds")
        },
        "step_seconds_median": point.step_median,
        "step_seconds_interval": [interval.low, interval.high] if interval else None,
        "exposed_communication_share": point.exposed_seconds / point.epoch_seconds,
        "all_reduce_waiting_seconds": point.split and point.split.waiting_seconds,
        "all_reduce_transfer_seconds": transfer.value,
        "all_reduce_transfer_seconds_low": transfer.low,
        "all_reduce_transfer_seconds_high": transfer.high,
        "lacking_processor_share": lack and lack.share,
        "timed_epoch": window.epoch,
        "timed_steps": len(window.steps),
        "steps_per_epoch": window.epoch_steps,
        "images_per_epoch": window.epoch_images,
        "is_extrapolated": window.is_extrapolated,
        "notes": point.notes,
    }


def head(run):
    batch = run.option("batch-per-rank")
    parts = [
        plural(run.rank_count, "rank")
        + (f" on {plural(run.host_count, 'host')}" if run.host_count else "")
    ]
    if batch and batch != "0":
        stages = run.option("pipeline-stages", "1")
        parts.append(
            f"batch {batch} per " + ("rank" if stages == "1" else f"replica of {stages} stages")
        )
    if run.rank_count > 1 and run.has_steps:
        reducer = run.option("reducer", "unknown")
        parts.append(
            "independent replicas, no communication" if reducer == "none" else f"reducer {reducer}"
        )
    setting = ", ".join(filter(None, setting_texts(setting_of(run))))
    failure = run.attributes.get("failure")
    return [
        f"{run.label}: {run.status}",
        ", ".join(parts),
        setting or "unknown network",
        ", ".join(filter(None, (list_hosts(run.host_names), version_of(run)))),
        *([f"The run failed: {failure}"] if failure else []),
    ]


def table_lines(table):
    texts = table.texts()
    widths = [max(map(len, column)) for column in zip(*texts)]
    align = table.alignment(str.ljust, str.rjust)
    lines = ["  ".join(a(t, w) for a, t, w in zip(align, line, widths)).rstrip() for line in texts]
    return [f"{table.title}:", "", *lines, "", *(f"- {note}" for note in table.footnotes)]


def seconds(value):
    if value < 0.1:
        return f"{1e3 * value:.2f} ms"
    return f"{value:,.1f} s" if value >= 100 else f"{value:.2f} s"


def communication_lines(point):
    if point.ranks == 1 or point.is_independent:
        return [
            f"Communication: none ({'1 rank' if point.ranks == 1 else 'independent replicas'})."
        ]
    exposed, split = point.exposed_seconds, point.split
    hidden = point.hidden_seconds if point.allreduce_seconds else None
    lines = [
        f"Communication: {seconds(exposed)} exposed = {exposed / point.epoch_seconds:.1%} of the"
        " epoch" + ("" if hidden is None else f"; {seconds(hidden)} hidden by the backward pass")
    ]
    if point.allreduce_seconds and point.bandwidth:
        rate = bounds_text(point.bandwidth, lambda rate: f"{rate / 1e9:.2f} GB/s")
        lines.append(
            f"All-reduce: {point.bytes_per_step / 1e6:.1f} MB per step, bus bandwidth {rate}"
        )
    total = split.all_reduce_seconds if split and point.allreduce_seconds else 0
    if total > 0:
        is_known = split.transfer_bounds.value is not None
        lines.append(
            f"All-reduces are in progress for {seconds(total)}: {seconds(split.waiting_seconds)} "
            f"= {split.waiting_seconds / total:.0%} of waiting\nfor the last rank, "
            f"{bounds_text(split.transfer_bounds, seconds)} of transfer"
            + ("" if is_known else "; the rest may be computation")
        )
        if not is_known:
            lines.append(
                "The transfer alone is measured by --reducer allreduce, or by lockstep allreduce"
            )
    return [f"{line}." for line in lines]


def step_lines(run, point, window):
    step = step_seconds(run, window.steps)
    text = f"Step: median {1e3 * point.step_median:.2f} ms"
    interval = point.step_interval
    if interval:
        text += (
            f" [{1e3 * interval.low:.2f}, {1e3 * interval.high:.2f}] "
            f"({interval.coverage:.0%} of this run, n = {interval.count})"
        )
    return [
        f"{text}, longest {1e3 * step.max():.2f} ms.",
        f"Timed: {window.rule}.",
        *([slowest_line(run, window.steps[:MOST_STEPS])] if point.ranks > 1 else []),
    ]


def slowest_line(run, steps):
    work = metrics.rank_seconds(
        run.phase_seconds[steps], run.phases, without=("exposed_communication",)
    )
    rank, excess = slowest(work)
    if not is_slow(excess):
        return "Slowest rank: none is significantly slower than the others, without communication."
    host = run.ranks["hostname"][rank] if "hostname" in run.ranks else "unknown host"
    share = excess.value / np.median(np.delete(work, rank, axis=1))
    return (
        f"Slowest rank: {rank} on {host}, {share:.1%} more time than the others, without"
        " communication."
    )


def device_lines(run, point, window):
    """Returns a line with the readings of the devices, if there are any, and one line per further
    measurement."""
    texts = list(device_texts(run, point, window))
    lines = [f"Device: {', '.join(texts)}."] if texts else []
    for quantity in QUANTITIES:
        if quantity.name in point.measurements and quantity.name not in DEVICE_READINGS:
            value = point.measurements[quantity.name] / quantity.divisor
            label = quantity.label[:1].upper() + quantity.label[1:]
            text = f"{label}: {value:,.{quantity.digits}f} {quantity.unit}".rstrip()
            lines.append(text + (" (maximum over the ranks)." if point.ranks > 1 else "."))
    return lines


def device_texts(run, point, window):
    """Yields the readings of the devices that are known."""
    joules, busy, memory = (known_reading(run, name, window.epoch) for name in DEVICE_READINGS)
    if joules is not None:
        watts = np.mean(joules / epoch_seconds(run, window.epoch))
        yield f"{point.joules_per_image:.3g} J per image, {watts:,.0f} W per device"
    if busy is not None:
        yield f"GPU utilisation {busy.mean():.0%}"
    if memory is not None:
        yield f"{memory.max() / 1e9:.2f} GB of device memory in use"


def accuracy_lines(run):
    accuracy = np.asarray(run.epochs.get("test_accuracy", ()), dtype=float)
    known = np.flatnonzero(~np.isnan(accuracy))
    if len(known) == 0:
        return []
    last, best = known[-1], known[np.argmax(accuracy[known])]
    numbers = run.epoch_numbers
    return [
        f"Test accuracy: {accuracy[last]:.2%} after epoch {numbers[last]}, "
        f"best {accuracy[best]:.2%} after epoch {numbers[best]}."
    ]


def index_table(options, paths):
    rows = [index_row(options, path) for path in paths]
    seen = set()
    parts = Counter(row.get("run_id") for row in rows)
    for row in (row for row in rows if row.get("run_id")):
        key = (row["run_id"], row["part"], row["date_utc"])
        if key in seen:
            row["remark"] = "copy of an earlier row"
        elif parts[row["run_id"]] > 1 and not row["remark"]:
            row["remark"] = "one of several files of this run"
        seen.add(key)
    return Table(
        "index",
        f"Index of {len(rows):,} run files",
        [Column("file", "File"), *OF_RUN, *OF_TRAINING, Column("remark", "Remark")],
        rows,
    )


def index_row(options, path):
    """Returns the row of a file; with only a remark if it cannot be read."""
    try:
        run = read_run(path)
        (row,) = rows_of(OF_RUN, [run])
        if run.has_steps:
            window = timed_window(run)
            rates = epoch_rate(run, window, step_seconds(run, window.steps))
            row |= rows_of(OF_TRAINING, [run])[0] | dict(
                zip(("epoch_seconds", "images_per_second"), rates)
            )
        return {
            "file": str(path),
            "remark": None if run.status == "complete" else f"not finished: {run.status}",
            **row,
        }
    except ReportError as error:
        options.skipped.append(error)
        return {"file": str(path), "remark": str(error)}
