# SPDX-License-Identifier: BSD-3-Clause
"""Tables of profiles (`--profile`): time and ceiling of each operation."""

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.runfile.settings import describe_run, file_endings
from lockstep_report.tables.table import Column, Note, Table

ALL_REDUCE = "all-reduce"  # phase of the row that overlaps with the others

# Columns of both tables of operations.
MEASURED = (
    Column("kind", "Operation"),
    Column("phase", "Phase"),
    Column("calls", "Calls", 0),
    Column("milliseconds", "Time (ms)", 3),
    Column("share", "Share (%)", 1),
    Column("slowest_ms", "Slowest rank (ms)", 3),
    Column("gflop_per_second", "GFLOP/s", 1),
    Column("gb_per_second", "GB/s", 1),
)
COUNTS = ("flops", "bytes")  # keys of rows that are no columns
BOUND = Column("bound_percent", "Bound / time (%)", 0)


def profile_tables(runs):
    tables = []
    for run, ending in profiled_runs(runs):
        title, notes = f"of a training step ({run.label}, rank 0)", profile_notes(run)
        kinds = operation_rows(run, lambda kind, phase, _: (kind.split(",")[0], phase, ""))
        tables += [
            Table(
                f"profile-kinds{ending}",
                f"Kinds of operations {title}",
                [*MEASURED, BOUND],
                kinds,
                notes,
                ("ceiling", "implementation", *COUNTS),
            ),
            Table(
                f"profile{ending}",
                f"Profile {title}",
                [
                    *MEASURED,
                    Column("ceiling", "Ceiling"),
                    BOUND,
                    Column("implementation", "Implementation", csv_only=True),
                ],
                operation_rows(run),
                notes,
                COUNTS,
            ),
        ]
    return tables


def profiled_runs(runs):
    """Returns [(run, ending of the names of its tables and its figure)] of the runs with a
    profile."""
    profiled = [run for run in runs if run.profile]
    endings = file_endings(
        {i: run.path.stem if len(profiled) > 1 else "" for i, run in enumerate(profiled)}
    )
    return list(zip(profiled, endings.values()))


def operation_rows(run, group=lambda *key: key):
    """Returns one row (per step) per value of `group(kind, phase, implementation)`, in descending
    order of time."""
    profile = run.profile
    keys = list(zip(profile["kind"], profile["phase"], profile["implementation"]))
    groups = grouped(range(len(keys)), lambda i: group(*map(str, keys[i])))
    rows = [operation_row(run, *key, members) for key, members in groups.items()]
    return sorted(rows, key=lambda row: -row["milliseconds"])


def operation_row(run, kind, phase, implementation, members):
    """`members`: the indices of the operations of the row."""
    profile = run.profile
    seconds = np.asarray(profile["seconds"], dtype=float)[members]
    time = seconds[:, 0].sum()
    sums = {
        name: float(np.sum(profile[name][members]))
        for name in ("calls", "flops", "bytes", "bound_seconds")
    }
    ceiling = str(profile["ceiling"][members[int(np.argmax(seconds[:, 0]))]])
    row = {
        "kind": kind.replace("_", " "),
        "phase": phase if phase != kind else None,
        "calls": sums["calls"],
        "milliseconds": 1e3 * time,
        "share": None,
        "slowest_ms": None,
        "gflop_per_second": quotient(sums["flops"], time, 1e9),
        "gb_per_second": quotient(sums["bytes"], time, 1e9),
        "ceiling": None,
        "bound_percent": quotient(100 * sums["bound_seconds"], time),
        "implementation": implementation or None,
        "flops": sums["flops"],
        "bytes": sums["bytes"],
    }
    if phase != ALL_REDUCE:
        row["share"] = 100 * time / profiled_step_seconds(run)
    if seconds.shape[1] > 1:
        row["slowest_ms"] = 1e3 * np.nanmax(seconds.sum(axis=0))
    if ceiling != "none":
        row["ceiling"] = ceiling
    return row


def quotient(amount, time, unit=1):
    """Returns the amount per time in `unit`; None if one of them is 0."""
    return amount / time / unit if amount and time else None


def profiled_step_seconds(run):
    """Returns the time of a step on rank 0: the sum of all rows that do not overlap."""
    phases = np.asarray(run.profile["phase"], dtype=str)
    return float(np.sum(run.profile["seconds"][phases != ALL_REDUCE, 0]))


def cost_of(run):
    """Returns (time of a step with the profile, without it, number of profiled steps)."""
    return tuple(
        float(run.results.get(name, np.nan))
        for name in ("profile_step_seconds", "profile_step_seconds_without", "profile_steps")
    )


def ceilings_of(run):
    """Returns the highest rates (FLOP/s, bytes/s); 0 if unknown."""
    return tuple(
        float(run.results.get(f"profile_{name}_per_second", 0)) for name in ("flops", "bytes")
    )


CEILING_NOTE = Note(
    "ceiling: the resource that needs longer at its highest rate; cache: the operation "
    "took less time than its bytes need in memory; bound: the time at that rate",
    ("ceiling",),
)
ALL_REDUCE_NOTE = (
    "all-reduce: sum over the buckets of the time in calls, on GPUs from their start to their end;"
    " they overlap with other rows, and have no share"
)


def profile_notes(run):
    flops, memory = ceilings_of(run)
    with_profile, without, steps = cost_of(run)
    notes = [
        f"per step, means over {steps:.0f} profiled steps after the training; share: of the sum"
        " of all rows that do not overlap",
        f"cost of the profile: {1e3 * with_profile:.2f} ms per step with it,"
        f" {1e3 * without:.2f} ms without ({100 * (with_profile / without - 1):+.1f} %;"
        " medians, in turn)",
    ]
    if flops and memory:
        notes.append(f"highest rates: {flops / 1e9:,.1f} GFLOP/s, {memory / 1e9:,.1f} GB/s")
    notes += [CEILING_NOTE, f"setting: {describe_run(run)}"]
    if ALL_REDUCE in set(map(str, run.profile["phase"])):
        notes.append(ALL_REDUCE_NOTE)
    return notes
