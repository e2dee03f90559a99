# SPDX-License-Identifier: BSD-3-Clause
"""Compares the measured network traffic of CPU workers with that of gradient all-reduces."""

import math

from lockstep_report.measure.metrics import ring_bytes, speedup
from lockstep_report.models.published.formulas import Assumptions
from lockstep_report.tables.table import Column, Table


def implied_allreduces(row, parameters):
    """Returns the number of ring all-reduces of float32 gradients per epoch that corresponds to the
    measured traffic."""
    sent = row.network_mb_per_s * 1e6 * float(row.seconds)
    return sent / ring_bytes(4 * parameters, row.ranks)


def likeliest_model(rows, assumptions):
    """Returns the model for which the implied global batch is closest to a power of two."""
    def median_distance(model):
        batches = (math.log2(assumptions.samples / implied_allreduces(row, model[1])) for row in rows)
        return sorted(abs(batch - round(batch)) for batch in batches)[len(rows) // 2]

    return min(assumptions.models, key=median_distance)


def traffic_table(times, assumptions=Assumptions(), name="traffic"):
    """Returns a table of speedup, CPU use and network traffic; None if the CSV has no traffic."""
    measured = [row for row in times.rows if row.network_mb_per_s and row.ranks > 1]
    if not measured:
        return None
    model, parameters = likeliest_model(measured, assumptions)
    implied = {row.ranks: implied_allreduces(row, parameters) for row in measured}
    middle = sorted(implied.values())[(len(implied) - 1) // 2]
    batch = 2 ** round(math.log2(assumptions.samples / middle))
    steps = math.ceil(assumptions.samples / batch)
    alone = {row.batch_per_rank: row.seconds for row in times.rows if row.ranks == 1}
    rows = [traffic_row(row, alone.get(row.batch_per_rank), implied, parameters, steps)
            for row in times.rows]
    fixed = max(implied.values()) < 1.3 * min(implied.values())
    return Table(
        name, f"{times.path.name}: CPU use and network traffic",
        [Column("ranks", "Workers"), Column("epoch_seconds", "Epoch (s)", 0),
         Column("speedup", "T(1)/T(N)", 2),
         Column("efficiency", "T(1)/(N·T(N))", 3), Column("cpu_percent", "CPU use (%)", 1),
         Column("network", "Measured (MB/s)", 1), Column("gigabytes", "Sent per epoch (GB)", 2),
         Column("implied", "Implied all-reduces", 1),
         Column("needed", f"Needed at global batch {batch} (MB/s)", 1)],
        rows,
        [f"one all-reduce sends 2(N−1)/N · {parameters:,} · 4 bytes from each worker ({model}; "
         + ("given" if len(assumptions.models) == 1 else
            "inferred: the known model whose implied batch is nearest to a power of two") + ")",
         f"the traffic corresponds to about {middle:.0f} all-reduces per epoch; with "
         f"{assumptions.samples:,} images this implies a global batch of "
         f"{assumptions.samples / middle:.0f}, so {batch} is assumed: {steps} steps",
         ("the number of all-reduces does not decrease with the number of workers: the global "
          "batch was fixed (strong scaling)") if fixed else
         "the number of all-reduces changes with the number of workers: the batch per worker was "
         "fixed (weak scaling)",
         "CPU use: user + system, mean over the nodes; MB = 1e6 bytes"])


def traffic_row(row, t_1, implied, parameters, steps):
    several = row.ranks > 1
    seconds = float(row.seconds)
    return {
        "ranks": row.ranks, "epoch_seconds": seconds,
        "speedup": float(speedup(t_1, row.seconds)) if t_1 else None,
        "efficiency": float(t_1 / row.seconds / row.ranks) if t_1 else None,
        "cpu_percent": row.cpu_percent, "network": row.network_mb_per_s,
        "gigabytes": row.network_mb_per_s * seconds / 1e3 if row.network_mb_per_s else None,
        "implied": implied.get(row.ranks),
        "needed": steps * ring_bytes(4 * parameters, row.ranks) / seconds / 1e6
        if several else None,
    }
