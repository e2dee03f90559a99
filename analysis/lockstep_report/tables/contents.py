# SPDX-License-Identifier: BSD-3-Clause
"""The tables of a report: columns, formulas and notes; and those of the usual course assignment on
data-parallel training, which have numbers of ranks in rows and batches per rank in columns."""

from collections import Counter
from dataclasses import replace

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.comparison import (
    base_of,
    independent_of,
    strong_base_of,
    weak_efficiency,
)
from lockstep_report.measure.contention import spoiled_text
from lockstep_report.measure.inference import assumed_difference
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.settings import setting_names
from lockstep_report.tables.accuracy import accuracy_table, learning_table, time_to_accuracy_table
from lockstep_report.tables.explanation import explanation_tables
from lockstep_report.tables.sweep import (
    ladder_tables,
    layer_table,
    machine_key,
    peaks_of,
    stack_table,
    sweep_table,
)
from lockstep_report.tables.phases import (
    measurement_table,
    phase_table,
    pipeline_table,
    range_notes,
    reducer_table,
    waiting_table,
)
from lockstep_report.tables.point_table import EPOCH, EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.profile import profile_tables
from lockstep_report.tables.table import (
    Column,
    Note,
    Table,
    bounded_columns,
    interval_columns,
    percent,
)
from lockstep_report.tables.telemetry import energy_table, network_table, telemetry_table
from lockstep_report.tables.threads import thread_tables

SPEEDUP_ENDS = ("speedup_low", "speedup_high")
SPEEDUP_NOTE = Note(
    "interval of a speedup: T(1) from / T(N) to, and T(1) to / T(N) from, with the "
    "rank-based intervals of the medians over runs",
    ("speedup_low",),
)
GLOBAL_BATCH = Column("global_batch", "Global batch", value=lambda p: p.global_batch or None)
IMAGE_RATE = Column("images_per_second", "Images/s", 1, interval=(*EPOCH_ENDS, "epoch_seconds"))
EXPOSED = Column("exposed", "Exposed communication (s)", 2, value=lambda p: p.exposed_seconds)
UNKNOWN_NOTE = (
    "hidden communication is unknown in rows whose run file lacks the time in calls "
    "(/buckets/call_seconds) or the clocks of the ranks"
)
KARP_FLATT = Column(
    "karp_flatt", "Karp-Flatt fraction", 4, interval=("karp_flatt_low", "karp_flatt_high")
)
KARP_FLATT_NOTE = Note(
    "Karp-Flatt fraction: (1/S − 1/N) / (1 − 1/N) with S = T(1)/T(N); constant over N: serial part;"
    " growing with N: overhead; without an interval of the speedup, its digits are those for a"
    " standard deviation of 5 % between runs",
    ("karp_flatt",),
)
ASSIGNMENT = {  # table -> name and title of that of the assignment, and (column, header)
    "table-1-time-speedup": (
        "assignment-1",
        "training time and speedup",
        (("epoch_seconds", "Time (s)"), ("speedup", "Speedup")),
    ),
    "table-2-compute-communication": (
        "assignment-2",
        "compute and communication time",
        (("compute", "Compute (s)"), ("exposed", "Communication (s)")),
    ),
    "table-3-bandwidth": (
        "assignment-3",
        "communication bandwidth utilisation",
        (("measured_gb_s", "GB/s"), ("measured_percent", "Of the link (%)")),
    ),
}


def speedups(base, point):
    """Returns the values of a row that compare a point with its base case; nothing without one."""
    if base is None:
        return {}
    low, high = (
        (None, None)
        if base is point
        else metrics.ratio_interval(base.epoch_interval, point.epoch_interval)
    )
    return {
        "speedup": metrics.speedup(base.epoch_seconds, point.epoch_seconds),
        "speedup_low": low,
        "speedup_high": high,
        "scaled_speedup": metrics.scaled_speedup(
            base.epoch_seconds, point.epoch_seconds, point.ranks
        ),
    }


def serial_fraction(base, point):
    """Returns the Karp-Flatt fraction with its ends, from those of the speedup or from the spread
    that is assumed for runs without an interval; nothing without a base or communication."""
    if base is None or base is point or point.is_independent:
        return {}
    speedup, low, high, _ = speedups(base, point).values()
    if low is None:
        share = assumed_difference(base.repeats, point.repeats)
        low, high = speedup * (1 - share), speedup * (1 + share)
    return {
        name: metrics.karp_flatt(value, point.ranks)
        for name, value in (
            ("karp_flatt", speedup),
            ("karp_flatt_low", high),
            ("karp_flatt_high", low),
        )
    }


def time_table(points):
    rows = [{"point": p, **speedups(base_of(p, points), p)} for p in points]
    lacking = sorted({row["point"].batch_per_rank for row in rows if "speedup" not in row})
    batches = ", ".join(str(batch or "unknown") for batch in lacking)
    return point_table(
        points,
        "table-1-time-speedup",
        "Table 1: time and speedup per epoch at fixed batch per rank",
        [
            *PLACE,
            GLOBAL_BATCH,
            *EPOCH,
            Column("training_seconds", "Training, without data wait (s)", 2, interval=EPOCH_ENDS),
            Column("images", "Images per epoch"),
            IMAGE_RATE,
            *interval_columns(Column("speedup", "Epoch speedup T(1)/T(N)", 2), *SPEEDUP_ENDS),
            Column("scaled_speedup", "N·T(1)/T(N)", 2, interval=(*SPEEDUP_ENDS, "speedup")),
            Column("joules_per_image", "J per image", 4),
            Column("runs", "Runs", value=lambda p: p.repeats),
        ],
        rows,
        [
            Note(
                "epoch speedup at fixed batch per rank: T(1)/T(N) compares the time of the same "
                "epoch; N·T(1)/T(N) also counts that N ranks take N times the batch in each step",
                ("speedup", "scaled_speedup"),
            ),
            SPEEDUP_NOTE,
            lacking
            and f"batch {batches}: no 1-rank run with the same setting and batch per rank, so no speedup",
        ],
    )


def weak_table(points):
    rows = []
    for p in (p for p in points if p.step_median is not None):
        base = base_of(p, points)
        rows.append(
            {"point": p, "efficiency": weak_efficiency(base, p), **serial_fraction(base, p)}
        )
    return point_table(
        points,
        "weak-scaling",
        "Weak scaling: fixed batch per rank",
        [
            *PLACE,
            *EPOCH,
            Column("steps", "Steps per epoch"),
            *interval_columns(
                Column("step_ms", "Median step (ms)", 2, value=lambda p: 1e3 * p.step_median),
                "step_low_ms",
                "step_high_ms",
                " (ms)",
                lambda p: p.step_interval,
                1e3,
            ),
            IMAGE_RATE,
            Column("efficiency", "Weak efficiency t(1)/t(N)", 2),
            Column(
                "efficiency_independent",
                "Efficiency against independent replicas",
                2,
                value=lambda p: weak_efficiency(independent_of(p, points), p),
            ),
            EXPOSED,
            KARP_FLATT,
        ],
        rows,
        [
            (
                "t is the mean step (seconds summed over steps) on the rank that takes longest for"
                " all timed steps"
            ),
            Note(
                "the interval of the median step is rank-based, over the steps of one run",
                ("step_low_ms",),
            ),
            Note(
                "the efficiency against the same number of independent replicas at the same batch "
                "per rank excludes the slowdown of ranks that share a host without communicating "
                "(memory bandwidth, clock rate)",
                ("efficiency_independent",),
            ),
            KARP_FLATT_NOTE,
        ],
    )


def strong_table(points):
    pairs = [(base, p) for p in points if (base := strong_base_of(p, points)) is not None]
    groups = grouped(pairs, lambda pair: id(pair[0])).values()
    pairs = [pair for group in groups if len({p.ranks for _, p in group}) > 1 for pair in group]
    names = setting_names(p.setting for p in points)
    rows = [
        {
            "point": p,
            **speedups(base, p),
            **serial_fraction(base, p),
            "efficiency": metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks),
        }
        for base, p in sorted(
            pairs, key=lambda pair: (names[pair[1].setting], pair[1].global_batch, pair[1].ranks)
        )
    ]
    return point_table(
        points,
        "strong-scaling",
        "Strong scaling: fixed global batch",
        [
            GLOBAL_BATCH,
            *PLACE,
            *EPOCH,
            *interval_columns(Column("speedup", "Speedup T(1)/T(N)", 2), *SPEEDUP_ENDS),
            Column("efficiency", "Efficiency", 2, interval=(*SPEEDUP_ENDS, "speedup")),
            EXPOSED,
            KARP_FLATT,
        ],
        rows,
        [SPEEDUP_NOTE, KARP_FLATT_NOTE],
    )


def derived(point, points):
    """Returns the derived (compute, communication); (None, None) without a base case."""
    base = base_of(point, points)
    is_known = base is not None and point.ranks > 1
    return (
        metrics.derived_split(base.epoch_seconds, point.epoch_seconds, point.ranks)
        if is_known
        else (None, None)
    )


def split_table(points):
    rows = [
        {"point": p, **dict(zip(("derived_compute", "derived_communication"), derived(p, points)))}
        for p in points
    ]
    is_measured = any(p.phase_seconds is not None for p in points)
    return point_table(
        points,
        "table-2-compute-communication",
        "Table 2: compute and communication per epoch",
        [
            *PLACE,
            EPOCH[0],
            Column(
                "derived_communication",
                "Derived communication T(N) − T(1)/N (s)",
                2,
                interval=EPOCH_ENDS,
            ),
            replace(EXPOSED, header="Measured exposed communication (s)"),
            Column("compute", "Measured compute (s)", 2, value=lambda p: p.compute_seconds),
            Column(
                "hidden", "Measured hidden communication (s)", 2, value=lambda p: p.hidden_seconds
            ),
            Column(
                "allreduce", "All-reduce in progress (s)", 2, value=lambda p: p.allreduce_seconds
            ),
            Column(
                "data_wait",
                "Data wait (s)",
                2,
                value=lambda p: (p.phase_seconds or {}).get("data_wait"),
            ),
            Column(
                "imbalance",
                "Imbalance (s)",
                2,
                value=lambda p: (p.phase_seconds or {}).get(IMBALANCE),
            ),
            Column("derived_compute", "Derived compute T(1)/N (s)", 2, interval=EPOCH_ENDS),
        ],
        rows,
        [
            is_measured
            and "measured: means over the ranks; compute = upload + forward + backward + update",
            Note(
                "hidden: transfer during the backward pass, which would be exposed if the"
                " all-reduces started after it; computation between the calls of an all-reduce does"
                " not count. On CPUs it is the time in these calls, which lengthens the backward"
                " pass; transfer by other ranks or the kernel in between is not measured",
                ("hidden",),
            ),
            Note(
                "all-reduce: at least one bucket was in progress; contains waiting and, on CPUs, "
                "computation between the calls of an all-reduce (table 3)",
                ("allreduce",),
            ),
            any(p.allreduce_seconds and p.hidden_seconds is None for p in points) and UNKNOWN_NOTE,
            is_measured
            and "compute + exposed + data wait + imbalance (the epoch less the mean of the phases) = epoch (of a single run; medians over runs need not add up)",
            Note(
                "derived: compute = T(1)/N, communication = T(N) − T(1)/N; everything that "
                "does not shrink with N is counted as communication there",
                ("derived_compute", "derived_communication"),
            ),
            any((row["derived_communication"] or 0) < 0 for row in rows)
            and "a negative derived communication means that N ranks were more than N times as fast as one",
        ],
    )


def bandwidth_table(points, link_gbit=None, runs=()):
    """Returns table 3: bandwidth utilisation. `link_gbit`: as in `all_tables`; `runs` may contain
    sweeps."""
    rows, peaks = [], peaks_of(runs)
    for p in (
        p for p in points if p.ranks > 1 and p.is_all_reduced and p.bytes_per_step and p.steps
    ):
        rate, measured, seconds = p.link_rate(link_gbit), p.bandwidth, derived(p, points)[1]
        bandwidth = metrics.bus_bandwidth(p.bytes_per_step * p.steps, seconds, p.ranks)
        peak = peaks.get(machine_key(p.ranks, p.setting, p.hosts))
        rows.append(
            {
                "point": p,
                "link_gbit": rate,
                "peak_gb_s": peak,
                "measured_gb_s": measured and measured.times(1e-9),
                "measured_percent": (
                    measured
                    and rate
                    and p.link_share
                    and measured.times(percent(p.link_use(1, rate)))
                ),
                "measured_peak_percent": (
                    measured and peak and share_of_peak(measured.times(1e-9 / peak))
                ),
                "derived_seconds": seconds,
                "derived_gb_s": bandwidth and bandwidth / 1e9,
                "derived_percent": percent(p.link_use(bandwidth, rate)),
                "derived_peak_percent": bandwidth and peak and 1e-7 * bandwidth / peak,
            }
        )
    least = [
        share
        for row in rows
        for share in (row["derived_percent"], getattr(row["measured_percent"], "low", None))
    ]
    return point_table(
        points,
        "table-3-bandwidth",
        "Table 3: bandwidth utilisation of the all-reduce",
        [
            *PLACE,
            *bounded_columns("measured_gb_s", "Measured (GB/s)", 3),
            *bounded_columns("measured_percent", "of the link (%)", 1),
            *bounded_columns("measured_peak_percent", "of the peak (%)", 1),
            Column("derived_gb_s", "Derived (GB/s)", 3),
            Column("derived_percent", "of the link, derived (%)", 1),
            Column("derived_peak_percent", "of the peak, derived (%)", 1),
            Column("bytes", "M (bytes)", value=lambda p: p.bytes_per_step),
            Column("steps", "Steps per epoch"),
            Column(
                "sent_gb",
                "2(N−1)/N · M per epoch (GB)",
                2,
                value=lambda p: metrics.ring_bytes(p.bytes_per_step * p.steps, p.ranks) / 1e9,
            ),
            Column(
                "link_gb",
                "Over the link of a host, per epoch (GB)",
                2,
                value=lambda p: p.link_bytes and p.link_bytes * p.steps / 1e9,
            ),
            Column(
                "allreduce_seconds",
                "All-reduce in progress (s)",
                2,
                value=lambda p: p.bandwidth and p.allreduce_seconds,
            ),
            Column(
                "waiting_seconds",
                "of which waiting for the last rank (s)",
                2,
                value=lambda p: p.split and p.split.waiting_seconds,
            ),
            *bounded_columns(
                "transfer_seconds", "of which transfer (s)", 2, lambda p: p.bandwidth and p.transfer
            ),
            Column("derived_seconds", "Derived T (s)", 2),
            Column("link_gbit", "Link (Gbit/s)", 1),
            Column("peak_gb_s", "Peak (GB/s)", 3),
        ],
        rows,
        [
            (
                "bandwidth = 2(N−1)/N · M · steps / T, with M the bytes all-reduced per step, N the"
                " ranks and T the seconds of communication per epoch; GB = 1e9 bytes"
            ),
            Note(
                "measured: T is the transfer; waiting for the last rank is imbalance of the "
                "ranks and is not counted",
                ("waiting_seconds",),
            ),
            *range_notes(row["point"].transfer for row in rows if row["measured_gb_s"]),
            Note("derived: T = T(N) − T(1)/N", ("derived_seconds", "derived_gb_s")),
            Note(
                "peak: largest busbw of the all-reduce sweeps on the same ranks and hosts",
                ("peak_gb_s",),
            ),
            any((share or 0) > 100 for share in least)
            and "more than 100 % of the link: not all messages used this link (several ranks on one host), or the rate is wrong",
            Note(
                "link: rate as given with --link-gbit; 1 Gbit/s = 0.125 GB/s; the share is that of"
                " the bytes over the link of a host, which depend on the algorithm and the"
                " placement of the ranks (rows from a CSV, and NCCL by its convention: those of the"
                " bandwidth)",
                ("link_gbit",),
            ),
            any(row["link_gbit"] and not row["point"].link_bytes for row in rows)
            and "no share of the link if the messages are not known: those of mpi are selected by the library, and repeats may have chosen different algorithms",
        ],
    )


def share_of_peak(share):
    """Returns `Bounds` in per cent; an upper bound above the peak says nothing and is unknown."""
    return replace(
        share, high=None if share.value is None and (share.high or 0) > 1 else share.high
    ).times(100)


# Beginnings of the names of tables with times or energy of runs, which have no validity notes of
# points.
TIMES_OF_RUNS = ("pipeline", "time-to-accuracy", "learning-curves", "energy", "profile")


def all_tables(points, runs, link_gbit=None, explanation=None):
    """Returns all tables that have rows. `link_gbit`: rate of the link for all points, in Gbit/s;
    if it is None, each point's own rate is used. `explanation` [that of these points]."""
    explanation = explanation or explain(points, runs, link_gbit)
    tables = ladder_tables(points, runs)
    if points:
        tables += [
            time_table(points),
            split_table(points),
            bandwidth_table(points, link_gbit, runs),
            waiting_table(points),
            weak_table(points),
            strong_table(points),
            phase_table(points),
            reducer_table(points),
            measurement_table(points),
            *thread_tables(points),
        ]
    tables += explanation_tables(explanation, points)
    tables += [
        pipeline_table(runs),
        accuracy_table(runs),
        time_to_accuracy_table(runs),
        learning_table(runs),
        energy_table(runs),
        telemetry_table(runs),
        network_table(runs),
        sweep_table(runs),
        layer_table(runs),
        stack_table(runs),
        *profile_tables(runs),
    ]
    tables = [table for table in tables if table.rows]
    spoiled = spoiled_text(points)
    for table in tables:
        if spoiled and table.name.startswith(TIMES_OF_RUNS):
            table.notes.append(spoiled)
    return tables + assignment_tables(tables)


def assignment_tables(tables):
    """Returns the tables of the assignment, with values of `tables`, if these contain several
    batches on 1 rank and on several ranks."""
    made, setting, batches = [], None, ()
    for table in (table for table in tables if table.name in ASSIGNMENT):
        rows = [
            row for row in table.rows if row["batch_per_rank"] and not row["point"].is_independent
        ]
        if setting is None:  # that of most rows
            setting = next(
                iter(Counter(row["point"].setting for row in rows).most_common(1)), (None,)
            )[0]
        rows = [row for row in rows if row["point"].setting == setting]
        batches = batches or sorted({row["batch_per_rank"] for row in rows if row["ranks"] == 1})
        rows = [row for row in rows if row["batch_per_rank"] in batches]
        if len(batches) > 1 and any(row["ranks"] > 1 for row in rows):
            made.append(pivoted(table, rows, batches))
    return [table for table in made if len(table.without_empty_columns()) > 1]


def pivoted(table, rows, batches):
    name, title, headers = ASSIGNMENT[table.name]
    found = {(row["ranks"], row["batch_per_rank"]): row for row in reversed(rows)}
    of_key = {column.key: column for column in table.columns}
    columns = [
        Column("ranks", "Ranks"),
        *(
            replace(
                of_key[key],
                key=f"{key}_{batch}",
                header=f"Batch {batch}: {header}",
                interval=tuple(f"{end}_{batch}" for end in of_key[key].interval),
            )
            for batch in batches
            for key, header in headers
        ),
    ]
    values = [
        {
            "ranks": ranks,
            **{
                f"{key}_{batch}": value
                for batch in batches
                for key, value in found.get((ranks, batch), {}).items()
            },
        }
        for ranks in sorted({row["ranks"] for row in rows})
    ]
    source = table.title[:7].lower()
    return Table(
        name,
        f"Table {name[-1]} of the assignment: {title}",
        columns,
        values,
        [
            f"one epoch, at a fixed batch per rank; values of {source}, whose notes define them",
            rows[0]["setting"] and f"setting: {rows[0]['setting']}",
            len(found) < len(rows) and f"further modes are in {source}",
        ],
    )
