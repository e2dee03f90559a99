# SPDX-License-Identifier: BSD-3-Clause
"""Reads epoch times from a table in a text.
docs/report-reference.md ("Epoch times from a table") lists the
columns and the forms."""

from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from statistics import median

from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile.times_columns import PART, SEQUENCE
from lockstep_report.runfile.times_table import TimesTable


@dataclass(frozen=True)
class TimesRow:
    """One point of the table. Decimal numbers keep their printed digits."""

    source: str
    ranks: int
    batch_per_rank: int  # None if the file has no such column
    seconds: Decimal
    published: dict  # column -> Decimal; empty cells are omitted
    cpu_percent: float = None  # user + system, mean over nodes
    network_mb_per_s: float = None  # mean over nodes
    series: tuple = ()  # values that tell this setting from others in the table


@dataclass(frozen=True)
class EpochTimes:
    path: Path
    rows: list
    published_columns: list
    notes: list  # on the method, and on lines and columns that are not used, one line each
    method: tuple  # those on how the times were found


def read_times(path):
    """Reads the table `path`. Rows of the parts of an epoch (ranks, nodes) are merged: time of the
    slowest one, mean CPU use and traffic. Of the epochs of a run, the first is left out if there
    are others, whose median is the time. Other rows of a point are repeats. Raises `ReportError`
    (input) if the file cannot be read or a value is invalid."""
    table = TimesTable(Path(path))
    epochs = [epoch for epoch in merged_parts(table) if epoch.seconds is not None]
    if not epochs:
        raise table.no_time()
    runs = without_warm_up(table, epochs) if table.of_role(SEQUENCE) else epochs
    rows = [times_row(table, entry) for entry in runs]
    names = [column.name for column in table.columns if column]
    published = [name for name in names if name.startswith("published_")]
    return EpochTimes(table.path, rows, published, table.notes(), tuple(table.method.values()))


def merged_parts(table):
    """Returns one entry for each epoch. A row with the values of an earlier one is of another
    repeat."""
    count, groups = Counter(), {}
    for entry in table.entries:
        key = (entry.ranks, entry.batch, entry.repeat, entry.place, series_of(table, entry))
        count[key, entry.part] += 1
        repeat = (*entry.repeat, count[key, entry.part])
        groups.setdefault((*key, repeat), []).append(replace(entry, repeat=repeat))
    if any(len(parts) > 1 for parts in groups.values()):
        table.method["part"] = (
            f"rows that differ only in {table.names(PART)} are one epoch, whose time is the largest"
        )
    return list(map(slowest_part, groups.values()))


def slowest_part(parts):
    """Returns the entry of an epoch: the time of its slowest part, none if a part has none, and
    means of the extra columns."""
    times = [part.seconds for part in parts]
    values = grouped(
        ((name, value) for part in parts for name, value in part.extra.items()),
        lambda item: item[0],
        lambda item: item[1],
    )
    return replace(
        parts[0],
        seconds=None if None in times else max(times),
        extra={name: sum(found) / len(found) for name, found in values.items()},
    )


def without_warm_up(table, epochs):
    """Returns one entry for each run, whose time is the median of the epochs after the first."""
    runs = grouped(
        epochs, lambda epoch: (epoch.ranks, epoch.batch, epoch.repeat, series_of(table, epoch))
    )
    name, found = table.names(SEQUENCE), []
    for run in runs.values():
        first, *others = sorted(run, key=lambda epoch: epoch.place)
        found.append(replace(first, seconds=median(epoch.seconds for epoch in others or [first])))
    if len(epochs) > len(runs):
        table.method["sequence"] = (
            f"column {name}: the first epoch of a run is its warm-up and "
            "is not counted; the time is the median of the others"
        )
    if any(len(run) == 1 for run in runs.values()):
        table.method["single"] = (
            f"column {name}: the time of a run with one epoch may include the warm-up"
        )
    return found


def series_of(table, entry):
    return tuple(entry.series[column.name] for column in table.series)


def times_row(table, entry):
    cpu = [value for name, value in entry.extra.items() if name.startswith("cpu_")]
    return TimesRow(
        one_line(table.path.name),
        entry.ranks,
        entry.batch,
        entry.seconds,
        entry.published,
        sum(cpu) if cpu else None,
        entry.extra.get("network_mb_per_s"),
        tuple(map(one_line, series_of(table, entry))),
    )
