# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the explanation."""

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.models.causes import CAUSES
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.table import Column, Note, Table, interval_columns


def explanation_tables(explanation, points):
    tables = [answer_table(explanation.answers), advice_table(explanation.advice),
              cause_table(explanation.losses, points), law_table(explanation.laws, points),
              alpha_beta_table(explanation.all_reduces), straggler_table(explanation.steps)]
    return [table for table in tables if table.rows]


def answer_table(answers):
    return Table(
        "questions", "Questions and answers",
        [Column("question", "Question"), Column("text", "Answer"),
         Column("source", "Runs", csv_only=True)],
        [{"question": a.question, "text": a.text, "source": a.source} for a in answers],
        ["efficiency: T(1)/(N·T(N)); docs/analysis.md explains the answers"])


def advice_table(advice):
    return Table(
        "advice", "Advice",
        [Column("source", "Runs"), Column("repeats", "Repeats with it"),
         Column("text", "Advice with its evidence"), Column("rule", "Rule")],
        [{"source": a.source, "repeats": f"{a.repeats} of {a.of}" if a.of > 1 else None,
          "text": a.text, "rule": a.rule} for a in advice],
        ["each rule and its threshold: docs/analysis.md",
         Note("repeats with it: number of repeated runs with this advice; the text is that of the "
              "run with the median effect", ("repeats",))])


def cause_table(losses, points):
    rows = []
    for loss in losses:
        rows.append({
            "point": loss.point, "source": loss.point.source, "scaling": loss.scaling,
            "loss_seconds": loss.seconds, "efficiency_percent": 100 * loss.efficiency,
            **{f"{name}_percent": 100 * loss.share(name) for name in loss.causes if abs(loss.share(name)) >= 5e-5},
            **{f"{name}_seconds": value for name, value in loss.causes.items()},
            "shown": tuple(name for name in loss.causes if loss.is_shown(name))})
    clock = [loss.point.split.clock_error for loss in losses if loss.point.split]
    return point_table(
        points, "efficiency-causes", "Causes of lost efficiency, in per cent of the epoch",
        [*PLACE, Column("scaling", "Scaling"), Column("epoch_seconds", "Epoch T(N) (s)", 2, interval=EPOCH_ENDS),
         Column("loss_seconds", "Loss T(N) − T(1)/N (s)", 2, interval=EPOCH_ENDS),
         Column("efficiency_percent", "Efficiency T(1)/(N·T(N)) (%)", 1),
         *(Column(f"{name}_percent", f"{text[:1].upper()}{text[1:]} (%)", 1) for name, text in CAUSES),
         Column("source", "Runs", csv_only=True),
         *(Column(f"{name}_seconds", text, 4, csv_only=True) for name, text in CAUSES)],
        rows,
        ["efficiency + all causes = 100 % of T(N), mean over the ranks; negative: the point gains",
         Note("smaller batch: T(1) of the computation at the batch of the point against that at the "
              "batch of the base; slower computation: the same batch on N ranks against one rank "
              "(shared processors, memory bandwidth, clock rate, other kernels)",
              ("smaller_batch_percent", "slower_compute_percent")),
         Note("slow rank: computation beyond that of the median rank, of ranks whose excess is "
              "significant; the other ranks wait for it", ("slow_rank_percent",)),
         Note("computation, not divided: no 1-rank run has the batch of the point",
              ("computation_percent",)),
         Note(f"waiting and transfer: clock error at most {1e6 * max(clock, default=0):.3g} µs per "
              "bucket", ("waiting_percent", "transfer_percent"))])


def law_table(laws, points):
    rows = []
    for law in laws:
        rows.append({
            "point": law.points[-1], "ranks": ", ".join(f"{n}" for n in sorted(set(law.ranks.tolist()))),
            "law": law.law, "runs": len(law.ranks), "remarks": "; ".join(law.notes) or None})
        if law.fit is not None:
            serial = law.serial.times(100)
            rows[-1] |= {"serial_percent": serial.value, "serial_low": serial.low, "serial_high": serial.high,
                         "limit": law.limit, "residual_percent": 100 * float(np.abs(law.residuals).max())}
    return point_table(
        points, "scaling-laws", "Fits of scaling laws",
        [*PLACE, Column("law", "Law"), Column("runs", "Runs"),
         *interval_columns(Column("serial_percent", "Serial fraction s (%)", 2), "serial_low", "serial_high", " (%)"),
         Column("limit", "Limit of the speedup 1/s", 1, interval=("serial_low", "serial_high", "serial_percent")),
         Column("residual_percent", "Largest residual (%)", 2), Column("remarks", "Remarks")],
        rows,
        ["Amdahl (fixed global batch): T(N) = T(1)·(s + (1−s)/N); Gustafson (fixed batch per "
         "rank): N·t(1)/t(N) = N − s·(N−1)",
         "weighted least squares over the means of each rank count; the interval is that of Fieller "
         "for a ratio, from the deviation of the means from the law (rank counts − 2 degrees of "
         "freedom) or from the repeats, whichever is wider; s contains every loss that grows with N, "
         "not only serial code"])


def alpha_beta_table(fits):
    rows = []
    for found in fits:
        row = {"sources": ", ".join(found.sources), "origin": found.origin,
               "algorithm": found.algorithm, "ranks": found.ranks, "hosts": found.hosts or None,
               "sizes": len(set(found.sizes.tolist())), "remarks": "; ".join(found.notes) or None}
        if found.fit is not None:
            alpha, beta = found.alpha.times(1e6), found.beta
            row |= {"alpha_us": alpha.value, "alpha_low_us": alpha.low, "alpha_high_us": alpha.high,
                    "residual_percent": 100 * float(np.abs(found.fit.residuals).max())}
            if beta.value > 0:
                row["busbw"] = metrics.ring_bytes(1, found.ranks) / beta.value / 1e9
            if beta.has_interval and beta.low > 0:
                row |= {"busbw_low": metrics.ring_bytes(1, found.ranks) / beta.high / 1e9,
                        "busbw_high": metrics.ring_bytes(1, found.ranks) / beta.low / 1e9}
        rows.append(row)
    return Table(
        "alpha-beta", "All-reduce time: alpha + beta · bytes",
        [Column("sources", "File"), Column("origin", "From"), Column("algorithm", "Algorithm"),
         Column("ranks", "Ranks"), Column("hosts", "Hosts"), Column("sizes", "Sizes"),
         *interval_columns(Column("alpha_us", "alpha (µs)", 1), "alpha_low_us", "alpha_high_us", " (µs)"),
         *interval_columns(Column("busbw", "2(N−1)/N / beta (GB/s)", 3), "busbw_low", "busbw_high", " (GB/s)"),
         Column("residual_percent", "Largest residual (%)", 1), Column("remarks", "Remarks")],
        rows,
        ["time of the whole all-reduce on the slowest rank; sweep: median of the repeats of each "
         "size; buckets: median over the timed steps, from the start on the last rank (or the end "
         "of the previous bucket) to the end, which assumes that one bucket follows the other",
         "weighted least squares with relative errors, one fit per file, of which the mean is shown; "
         "intervals contain the difference between the jobs if there are several files"])


def straggler_table(steps):
    rows = []
    for slow in (step.straggler for step in steps):
        excess = slow.excess.times(1e3)
        clock = slow.clock.times(1e6) if slow.clock else None
        rows.append({
            "source": slow.source, "ranks": slow.ranks, "rank": slow.rank,
            "host": slow.host or None, "excess_ms": excess.value, "low_ms": excess.low,
            "high_ms": excess.high,
            "percent": 100 * slow.excess.value / slow.work_seconds if slow.work_seconds else None,
            "significant": "yes" if slow.is_significant else "no",
            "last_percent": None if slow.last_share is None else 100 * slow.last_share,
            "clock_rank": slow.clock_rank, "clock_us": clock and clock.value,
            "clock_low_us": clock and clock.low, "clock_high_us": clock and clock.high,
            "clock_error_us": None if slow.clock_error is None else 1e6 * slow.clock_error})
    return Table(
        "stragglers", "Slowest rank and clocks",
        [Column("source", "File"), Column("ranks", "Ranks"), Column("rank", "Slowest rank"),
         Column("host", "Host"),
         *interval_columns(Column("excess_ms", "Excess per step (ms)", 3), "low_ms", "high_ms", " (ms)"),
         Column("percent", "of the work (%)", 1), Column("significant", "Significant"),
         Column("last_percent", "Starts last (%)", 1),
         Column("clock_rank", "Clock of rank"),
         *interval_columns(Column("clock_us", "deviates (µs)", 1), "clock_low_us", "clock_high_us", " (µs)"),
         Column("clock_error_us", "Recorded clock error (µs)", 1)],
        rows,
        ["excess: work of the rank (all phases without exposed communication) less the median of "
         "the other ranks, median over the timed steps with its rank-based interval; significant: "
         "also at the level 5 % / ranks",
         Note("clock: end of the all-reduces on the rank that deviates most less that on rank 0, "
              "on the common clock; an error of the recorded offset, or ranks that leave the "
              "all-reduce at different times", ("clock_us",))])
