# SPDX-License-Identifier: BSD-3-Clause
"""The table of the stages of pipelines."""

import json

import numpy as np

from lockstep_report.runfile.settings import describe_run, difference_notes
from lockstep_report.tables.table import Column, Table

COLUMNS = (
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
)
NOTES = (
    "busy: passes of micro-batches; copies: between feature maps and messages; idle: the rest "
    "of the time from the first to the last pass of a step on the first stage; measured "
    "bubble: mean of the idle shares of the stages",
    "(N−1)/(M+N−1): idle share of N equal stages and M micro-batches without communication time",
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


def has_stages(run):
    """Whether a run has the times of the stages of its pipeline."""
    has_times = len(run.epochs.get("pipeline_busy_seconds", ())) > 0
    return "pipeline_stages" in run.environment and has_times


def pipeline_table(runs):
    found = [run for run in runs if has_stages(run)]
    return Table(
        "pipeline-stages",
        "Stages of the pipelines",
        COLUMNS,
        [row for run in found for row in pipeline_rows(run)],
        [
            *NOTES,
            *(f"{run.label}: {describe_run(run)}" for run in found),
            *difference_notes(found),
        ],
    )
