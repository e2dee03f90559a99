# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the explanation."""

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.measure.fitting import Estimate, largest_residual
from lockstep_report.models.causes import CAUSES
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.table import (
    Column,
    Note,
    interval_columns,
    item_table,
    percent,
    rows_of,
    scaled,
)

REMARKS = Column("remarks", "Remarks", value=lambda found: "; ".join(found.notes) or None)
ADVICE_COLUMNS = (
    Column("source", "Runs"),
    Column(
        "repeats",
        "Repeats with it",
        value=lambda a: f"{a.repeats} of {a.of}" if a.of > 1 else None,
    ),
    Column("text", "Advice with its evidence"),
    Column("rule", "Rule"),
)
REPEATS_NOTE = Note(
    "repeats with it: number of repeated runs with this advice; the text is that of the run with "
    "the median effect",
    ("repeats",),
)


def answer_table(answers):
    return item_table(
        "questions",
        "Questions and answers",
        [
            Column("question", "Question"),
            Column("text", "Answer"),
            Column("source", "Runs", csv_only=True),
        ],
        [answer for answer in answers if not answer.kind.is_headline],
        ["efficiency: T(1)/(N·T(N)); docs/analysis.md explains the answers"],
    )


def advice_table(advice):
    return item_table(
        "advice",
        "Advice",
        ADVICE_COLUMNS,
        advice,
        ["each rule and its threshold: docs/report-reference.md", REPEATS_NOTE],
    )


CAUSE_COLUMNS = (
    *PLACE,
    Column("scaling", "Scaling"),
    Column("epoch_seconds", "Epoch T(N) (s)", 2, interval=EPOCH_ENDS),
    Column("loss_seconds", "Loss T(N) − T(1)/N (s)", 2, interval=EPOCH_ENDS),
    Column("efficiency_percent", "Efficiency T(1)/(N·T(N)) (%)", 1),
    *(Column(f"{name}_percent", f"{text[:1].upper()}{text[1:]} (%)", 1) for name, text in CAUSES),
    Column("source", "Runs", csv_only=True),
    *(Column(f"{name}_seconds", text, 4, csv_only=True) for name, text in CAUSES),
)
CAUSE_NOTES = (
    "efficiency + all causes = 100 % of T(N), mean over the ranks; negative: the point gains",
    Note(
        "smaller batch: T(1) of the computation at the batch of the point against that at the "
        "batch of the base; slower computation: the same batch on N ranks against one rank "
        "(shared processors, memory bandwidth, clock rate, other kernels)",
        ("smaller_batch_percent", "slower_compute_percent"),
    ),
    Note(
        "slow rank: computation beyond that of the median rank, of ranks whose excess is "
        "significant; the other ranks wait for it",
        ("slow_rank_percent",),
    ),
    Note(
        "computation, not divided: no 1-rank run has the batch of the point",
        ("computation_percent",),
    ),
)
SMALLEST_SHARE = 5e-5  # of the epoch; a smaller cause is not in the table


def cause_table(losses, points):
    errors = [loss.point.split.clock_error for loss in losses if loss.point.split]
    clock_note = Note(
        f"waiting and transfer: clock error at most {1e6 * max(errors, default=0):.3g} µs per "
        "bucket",
        ("waiting_percent", "transfer_percent"),
    )
    return point_table(
        points,
        "efficiency-causes",
        "Causes of lost efficiency, in per cent of the epoch",
        CAUSE_COLUMNS,
        list(map(cause_row, losses)),
        [*CAUSE_NOTES, clock_note],
    )


def cause_row(loss):
    return {
        "point": loss.point,
        "scaling": loss.scaling,
        "loss_seconds": loss.seconds,
        "efficiency_percent": 100 * loss.efficiency,
        **{f"{name}_percent": shown_percent(loss, name) for name, _ in CAUSES},
        **{f"{name}_seconds": loss.causes.get(name) for name, _ in CAUSES},
    }


def shown_percent(loss, name):
    """Returns the share of a cause in per cent; None if it does not apply or would be 0.0 %."""
    is_shown = name in loss.causes and abs(loss.share(name)) >= SMALLEST_SHARE
    return 100 * loss.share(name) if is_shown else None


LAW_COLUMNS = (
    Column("law", "Law"),
    Column("runs", "Runs", value=lambda law: len(law.ranks)),
    *interval_columns(
        Column("serial_percent", "Serial fraction s (%)", 2),
        "serial_low",
        "serial_high",
        " (%)",
        lambda law: law.serial,
        100,
    ),
    Column(
        "limit",
        "Limit of the speedup 1/s",
        1,
        interval=("serial_low", "serial_high", "serial_percent"),
    ),
    Column(
        "residual_percent",
        "Largest residual (%)",
        2,
        value=lambda law: law.fit and percent(largest_residual(law.residuals)),
    ),
    REMARKS,
)
LAW_NOTES = (
    "Amdahl (fixed global batch): T(N) = T(1)·(s + (1−s)/N); Gustafson (fixed batch per rank): "
    "N·t(1)/t(N) = N − s·(N−1)",
    "weighted least squares over the means of each rank count; the interval is that of Fieller for "
    "a ratio, from the deviation of the means from the law (rank counts − 2 degrees of freedom) or "
    "from the repeats, whichever is wider; s contains every loss that grows with N, not only "
    "serial code",
)


def law_table(laws, points):
    rows = [
        {"point": law.points[-1], "ranks": ", ".join(map(str, np.unique(law.ranks))), **row}
        for law, row in zip(laws, rows_of(LAW_COLUMNS, laws))
    ]
    return point_table(
        points,
        "scaling-laws",
        "Fits of scaling laws",
        [*PLACE, *LAW_COLUMNS],
        rows,
        LAW_NOTES,
    )


def bus_bandwidth_estimate(found):
    """Returns the `Estimate` of the bus bandwidth, GB/s, that follows from beta; None if beta is
    unknown or not above 0. It has an interval if that of beta is above 0."""
    beta = found.beta
    if beta is None or beta.value <= 0:
        return None
    betas = [beta.value]
    if beta.has_interval and beta.low > 0:
        betas += [beta.high, beta.low]
    return Estimate(*(metrics.ring_bytes(1, found.ranks) / seconds / 1e9 for seconds in betas))


ALPHA_BETA_COLUMNS = (
    Column("sources", "File", value=lambda f: ", ".join(f.sources)),
    Column("origin", "From"),
    Column("algorithm", "Algorithm"),
    Column("ranks", "Ranks"),
    Column("hosts", "Hosts", value=lambda f: f.hosts or None),
    Column("sizes", "Sizes", value=lambda f: len(np.unique(f.sizes))),
    *interval_columns(
        Column("alpha_us", "alpha (µs)", 1),
        "alpha_low_us",
        "alpha_high_us",
        " (µs)",
        lambda f: f.alpha,
        1e6,
    ),
    *interval_columns(
        Column("busbw", "2(N−1)/N / beta (GB/s)", 3),
        "busbw_low",
        "busbw_high",
        " (GB/s)",
        bus_bandwidth_estimate,
    ),
    Column(
        "residual_percent",
        "Largest residual (%)",
        1,
        value=lambda f: f.fit and percent(largest_residual(f.fit.residuals)),
    ),
    REMARKS,
)
ALPHA_BETA_NOTES = (
    "time of the whole all-reduce on the slowest rank; sweep: median of the repeats of each size; "
    "buckets: median over the timed steps, from the start on the last rank (or the end of the "
    "previous bucket) to the end, which assumes that one bucket follows the other",
    "weighted least squares with relative errors, one fit per file, of which the mean is shown; "
    "intervals contain the difference between the jobs if there are several files",
)


def alpha_beta_table(fits):
    return item_table(
        "alpha-beta",
        "All-reduce time: alpha + beta · bytes",
        ALPHA_BETA_COLUMNS,
        fits,
        ALPHA_BETA_NOTES,
    )


def excess_percent(slow):
    return 100 * slow.excess.value / slow.work_seconds if slow.work_seconds else None


STRAGGLER_COLUMNS = (
    Column("source", "File"),
    Column("ranks", "Ranks"),
    Column("rank", "Slowest rank"),
    Column("host", "Host", value=lambda slow: slow.host or None),
    *interval_columns(
        Column("excess_ms", "Excess per step (ms)", 3),
        "low_ms",
        "high_ms",
        " (ms)",
        lambda slow: slow.excess,
        1e3,
    ),
    Column("percent", "Excess, of the work (%)", 1, value=excess_percent),
    Column("significant", "Significant", value=lambda slow: "yes" if slow.is_significant else "no"),
    Column("last_percent", "Starts last (%)", 1, value=lambda slow: percent(slow.last_share)),
    Column("clock_rank", "Rank with the largest clock deviation"),
    *interval_columns(
        Column("clock_us", "Clock deviation (µs)", 1),
        "clock_low_us",
        "clock_high_us",
        " (µs)",
        lambda slow: slow.clock,
        1e6,
    ),
    Column(
        "clock_error_us",
        "Recorded clock error (µs)",
        1,
        value=lambda slow: scaled(slow.clock_error, 1e6),
    ),
)
STRAGGLER_NOTES = (
    "excess: work of the rank (all phases without exposed communication) less the median of the "
    "other ranks, median over the timed steps with its rank-based interval; significant: also at "
    "the level 5 % / ranks",
    Note(
        "clock: end of the all-reduces on the rank that deviates most less that on rank 0, on the "
        "common clock; an error of the recorded offset, or ranks that leave the all-reduce at "
        "different times",
        ("clock_us",),
    ),
)


def straggler_table(steps):
    return item_table(
        "stragglers",
        "Slowest rank and clocks",
        STRAGGLER_COLUMNS,
        [step.straggler for step in steps],
        STRAGGLER_NOTES,
    )
