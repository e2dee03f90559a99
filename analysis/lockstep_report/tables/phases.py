# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the phases of an epoch, also of each gradient reducer with the bytes of its
messages, of waiting and transfer in the all-reduces, of the stages of pipelines, and of the
quantities that the run file stores per epoch and rank.
"""

import json

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import reducer_order
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile import schema
from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.runfile.settings import describe_run, difference_notes
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.table import Column, Note, Table, bounded_columns, scaled

PHASES = (*schema.PHASES, IMBALANCE)
NAMES = {"data_wait": "Data wait", "exposed_communication": "Exposed communication"}


def phase_name(phase):
    return NAMES.get(phase, phase.capitalize())


def phase_table(points):
    return point_table(
        points,
        "phases",
        "Phases of an epoch",
        [
            *PLACE,
            *(Column(phase, f"{phase_name(phase)} (s)", 2) for phase in PHASES),
            Column("epoch_seconds", "Epoch (s)", 2, interval=EPOCH_ENDS),
        ],
        [{"point": p, **p.phase_seconds} for p in points if p.phase_seconds],
        [
            "seconds per epoch, means over the ranks; imbalance: the epoch on the slowest rank less"
            " the means; the sum is the epoch (of a single run; medians over runs need not add up)"
        ],
    )


def measurement_table(points):
    return point_table(
        points,
        "measurements",
        "Measurements per rank",
        [
            *PLACE,
            *(
                Column(
                    q.name,
                    q.header,
                    q.digits,
                    value=lambda p, q=q: scaled(p.measurements.get(q.name), divisor=q.divisor),
                )
                for q in QUANTITIES
            ),
        ],
        [{"point": p} for p in points if p.measurements],
        [
            "maximum over the ranks, in the timed epoch",
            *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES),
        ],
    )


def compared_points(points):
    """Returns the points per setting and batch with several reducers, in the order of ranks, hosts
    and reducers."""
    groups = grouped(
        (p for p in points if p.ranks > 1 and p.phase_seconds and p.steps),
        lambda p: (p.setting, p.batch_per_rank),
    )
    return [
        sorted(group, key=lambda p: (p.ranks, hosts_of(p), reducer_order(p)))
        for group in groups.values()
        if len({p.reducer for p in group}) > 1
    ]


def hosts_of(point):
    return int(dict(point.variant).get("hosts", 1))


def reducer_table(points):
    return point_table(
        points,
        "reducers",
        "Gradient reducers: phases of a step and messages",
        [
            *PLACE,
            Column("hosts", "Hosts", value=hosts_of),
            *(
                Column(
                    f"{phase}_ms",
                    f"{phase_name(phase)} (ms)",
                    1,
                    value=lambda p, phase=phase: 1e3 * p.phase_seconds.get(phase, 0.0) / p.steps,
                )
                for phase in PHASES
            ),
            Column("step_ms", "Step (ms)", 1, value=lambda p: 1e3 * p.epoch_seconds / p.steps),
            Column(
                "sent_mb",
                "Sent, most of a rank (MB)",
                2,
                value=lambda p: scaled(p.sent_bytes, divisor=1e6),
            ),
            Column(
                "received_mb",
                "Received, most of a rank (MB)",
                2,
                value=lambda p: scaled(p.received_bytes, divisor=1e6),
            ),
            Column(
                "all_sent_mb",
                "Sent by all ranks (MB)",
                2,
                value=lambda p: scaled(p.all_sent_bytes, divisor=1e6),
            ),
        ],
        [{"point": p} for group in compared_points(points) for p in group],
        [
            (
                "times per step: mean over the steps; each phase is the mean over the ranks, the"
                " step is that of the slowest rank; with parameter-server, `upload` includes the"
                " transfer of the inputs and `exposed communication` that of the parameters"
            ),
            Note(
                "MB of gradients, parameters and inputs in the messages of a step, also to ranks of"
                " the same host; reads and writes of shared memory are not messages; not known if a"
                " library selects the messages (mpi, NCCL)",
                ("sent_mb",),
            ),
        ],
    )


def waiting_table(points):
    points_of_rows = [p for p in points if p.split]
    return point_table(
        points,
        "waiting-transfer",
        "Waiting and transfer in the all-reduce",
        [
            *PLACE,
            Column(
                "allreduce_seconds", "All-reduce (s)", 3, value=lambda p: p.split.all_reduce_seconds
            ),
            Column(
                "waiting_seconds",
                "Waiting for the last rank (s)",
                3,
                value=lambda p: p.split.waiting_seconds,
            ),
            Column(
                "waiting_percent",
                "of the all-reduce (%)",
                1,
                value=lambda p: (
                    100 * p.split.waiting_seconds / p.split.all_reduce_seconds
                    if p.split.all_reduce_seconds
                    else None
                ),
            ),
            *bounded_columns(
                "transfer_seconds", "Transfer (s)", 3, lambda p: p.split.transfer_bounds
            ),
            Column(
                "longest_waiting",
                "Longest waiting (s)",
                3,
                value=lambda p: float(max(p.split.waiting)),
            ),
            Column(
                "longest_waiting_rank", "of rank", value=lambda p: int(np.argmax(p.split.waiting))
            ),
            Column("last_rank", "Last rank", value=lambda p: int(np.argmax(p.split.last_share))),
            Column(
                "last_percent",
                "last in (%)",
                1,
                value=lambda p: 100 * float(max(p.split.last_share)),
            ),
            Column(
                "clock_error_us", "Clock error (µs)", 1, value=lambda p: 1e6 * p.split.clock_error
            ),
            Column(
                "uncertain_seconds",
                "Uncertain by it (s)",
                3,
                value=lambda p: p.split.mean("uncertain") if p.split.clock_error else None,
            ),
        ],
        [{"point": p} for p in points_of_rows],
        [
            (
                "seconds per epoch, mean over the ranks; waiting: the rank has started a bucket"
                " that another rank has not started; transfer: all ranks have started it; waiting +"
                " transfer (at most) = all-reduce"
            ),
            *range_notes(p.split.transfer_bounds for p in points_of_rows),
            (
                "longest waiting: of the rank that waited most; last rank: the rank that started"
                " the most buckets last, and the share of the buckets that it started last"
            ),
            Note(
                "clock error: bound on the error of a difference between the clocks of two ranks; 0"
                " on the CPUs of one host. Waiting and transfer are uncertain by this error for"
                " each bucket of each step; the bounds of the transfer contain it",
                ("clock_error_us",),
            ),
        ],
    )


def range_notes(transfers):
    """Yields the notes about the transfers (`Bounds`) that have no value."""
    found = [t for t in transfers if t.value is None]
    if any(t.low is not None for t in found):
        yield (
            "a range: a CPU advances an all-reduce only in calls, between which it computes. The"
            " transfer takes at least the time in calls, without waiting, and at most the time from"
            " the start on the last rank to the end; --reducer allreduce, or the sweep of lockstep"
            " allreduce, measures it without computation"
        )
    if any(t.low is None for t in found):
        yield (
            "without lower bound of the transfer: the run file lacks the time in calls "
            "(/buckets/call_seconds) or the clocks of the ranks; the time in which an all-reduce "
            "was in progress contains computation and, without clocks, waiting for slower ranks"
        )


def ideal_bubble(stages, micro_batches):
    return (stages - 1) / (micro_batches + stages - 1)


def stage_shares(busy, transfer, wait, stages):
    """Returns the shares of the time (stage, 3) that the stages are busy, copy, and are idle, as
    means over the replicas. `busy`, `transfer`, `wait`: seconds of each rank. The time is that of
    the rank with the largest sum: the first stage, which starts first and ends last."""
    busy, transfer, wait = (
        np.asarray(values, dtype=float).reshape(-1, stages) for values in (busy, transfer, wait)
    )
    time = (busy + transfer + wait).max(axis=1, keepdims=True)
    shares = [(part / time).mean(axis=0) for part in (busy, transfer)]
    return np.stack([*shares, 1 - shares[0] - shares[1]], axis=1)


def seconds_of(run, name):
    """Returns the sum (rank) over the epochs, without the first one if there are several."""
    values = np.asarray(run.epochs[f"pipeline_{name}_seconds"], dtype=float)
    return (values[1:] if len(values) > 1 else values).sum(axis=0)


def pipeline_rows(run):
    stages = json.loads(str(run.environment["pipeline_stages"]))
    count = len(stages)
    micro_batches = int(run.option("micro-batches"))
    shares = 100 * stage_shares(
        *(seconds_of(run, name) for name in ("busy", "transfer", "wait")), count
    )
    peak = run.epochs.get("peak_resident_memory_bytes")
    for stage, description in enumerate(stages):
        yield {
            "source": run.label,
            "schedule": run.option("pipeline-schedule"),
            "replicas": run.rank_count // count,
            "micro_batches": micro_batches,
            "stage": stage,
            "layers": f"{description['first_layer']} to {description['last_layer']}",
            "parameters": int(description["parameters"]),
            "planned_mib": description["memory_bytes"] / 2**20,
            "peak_mib": (
                None if peak is None else float(np.max(np.asarray(peak)[:, stage::count])) / 2**20
            ),
            **dict(
                zip(("busy_percent", "transfer_percent", "idle_percent"), shares[stage].tolist())
            ),
            "bubble_percent": float(shares[:, 2].mean()),
            "ideal_percent": 100 * ideal_bubble(count, micro_batches),
        }


def pipeline_table(runs):
    found = [
        run
        for run in runs
        if "pipeline_stages" in run.environment
        and len(run.epochs.get("pipeline_busy_seconds", ())) > 0
    ]
    return Table(
        "pipeline-stages",
        "Stages of the pipelines",
        [
            Column("source", "File"),
            Column("schedule", "Schedule"),
            Column("replicas", "Replicas"),
            Column("micro_batches", "Micro-batches"),
            Column("stage", "Stage"),
            Column("layers", "Layers"),
            Column("parameters", "Parameters"),
            Column("planned_mib", "Planned memory (MiB)", 0),
            Column("peak_mib", "Peak resident memory (MiB)", 0),
            Column("busy_percent", "Busy (%)", 1),
            Column("transfer_percent", "Copies (%)", 1),
            Column("idle_percent", "Idle (%)", 1),
            Column("bubble_percent", "Measured bubble (%)", 1),
            Column("ideal_percent", "(N−1)/(M+N−1) (%)", 1),
        ],
        [row for run in found for row in pipeline_rows(run)],
        [
            (
                "busy: passes of micro-batches; copies: between feature maps and messages; idle:"
                " the rest of the time from the first to the last pass of a step on the first"
                " stage; measured bubble: mean of the idle shares of the stages"
            ),
            (
                "(N−1)/(M+N−1): idle share of N equal stages and M micro-batches without"
                " communication time"
            ),
            *(f"{run.label}: {describe_run(run)}" for run in found),
            *difference_notes(found),
        ],
    )
