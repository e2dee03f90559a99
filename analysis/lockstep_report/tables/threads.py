# SPDX-License-Identifier: BSD-3-Clause
"""Thread scaling: how the passes of a step become faster with the number of threads per rank."""

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.runfile.settings import file_ending, list_hosts, plural, setting_texts
from lockstep_report.tables.table import Column, item_table

PASSES = ("forward", "backward", "update")


def thread_groups(points):
    """Returns {name of the table and figure: points that differ only in their threads, in ascending
    order of threads}."""
    groups = grouped(
        (p for p in points if p.threads and p.phase_seconds),
        lambda p: (p.setting[:-1], p.ranks, p.batch_per_rank, p.communication, p.variant, p.hosts),
    )
    groups = [sorted(group, key=lambda p: p.threads) for group in groups.values()]
    groups = [group for group in groups if len({p.threads for p in group}) > 1]
    if len(groups) == 1:
        return {"thread-scaling": groups[0]}
    found = {}
    for number, group in enumerate(groups, 1):
        ending = file_ending(f"{group[0].setting[0]} {group[0].batch_per_rank}")
        found[f"thread-scaling-{number}{ending}"] = group
    return found


def thread_tables(points):
    return [thread_table(name, group) for name, group in thread_groups(points).items()]


def thread_table(name, group):
    base = group[0]
    model, *_ = setting_texts(base.setting)
    return item_table(
        name,
        f"Thread scaling: {model}, batch {base.batch_per_rank} per rank,"
        f" {plural(base.ranks, 'rank')}",
        thread_columns(base),
        group,
        thread_notes(group),
    )


def thread_columns(base):
    def speedup(point):
        return metrics.speedup(base.epoch_seconds, point.epoch_seconds)

    return [
        Column("threads", "Threads per rank"),
        Column("epoch_seconds", "Epoch (s)", 2),
        *map(seconds_column, PASSES),
        Column("speedup", "Speedup", 2, value=speedup),
        *(speedup_column(name, base) for name in PASSES),
        Column(
            "efficiency",
            "Efficiency",
            2,
            value=lambda point: speedup(point) * base.threads / point.threads,
        ),
        Column("processors", "Processors", csv_only=True),
        Column("repeats", "Repeats"),
    ]


def seconds_column(name):
    """Returns the column of the time of a pass."""
    return Column(
        f"{name}_seconds",
        f"{name.capitalize()} (s)",
        3,
        value=lambda point: point.phase_seconds[name],
    )


def speedup_column(name, base):
    """Returns the column of the speedup of a pass."""

    def speedup(point):
        seconds = point.phase_seconds[name]
        return base.phase_seconds[name] / seconds if seconds > 0 else None

    return Column(f"{name}_speedup", f"Speedup, {name}", 2, value=speedup)


def thread_notes(group):
    base = group[0]
    *setting, _ = setting_texts(base.setting)
    notes = [
        f"speedup: time with {plural(base.threads, 'thread')} / time; "
        "efficiency: speedup of the epoch / (threads / threads of the first row)",
        "forward, backward and update: seconds per epoch, mean over the ranks",
    ]
    if base.processors:
        notes.append(
            f"the host has {base.processors} processors (hardware threads) for its ranks; more"
            " threads than processors share them"
        )
    notes.append("setting: " + ", ".join(filter(None, (*setting, list_hosts(base.hosts)))))
    notes += dict.fromkeys(note for point in group for note in point.notes)
    return notes
