# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of figures, with their captions and the tables with their values."""

from enum import Enum
from typing import NamedTuple

from lockstep_report.tables.kinds import TableKind


class Description(NamedTuple):
    """`name`: that of the files, or the beginning of the names if a report can have several figures
    of the kind; `tables`: the kinds of the tables with its values."""

    name: str
    caption: str
    tables: tuple


class FigureKind(Enum):
    PHASES = Description(
        "phases",
        "The time of an epoch by phase, mean over the ranks. The height of a bar is the "
        "epoch time, on the rank that takes longest. A letter below a bar refers to a note of "
        "the table.",
        (TableKind.PHASES,),
    )
    SCALING = Description(
        "scaling",
        "Fixed batch per rank: epoch speedup and efficiency. The dashed line is the "
        "ideal; the lines join measured points and have no meaning between them. Vertical "
        "lines: 95 % interval of the speedup over at least 6 runs, where it is larger than the "
        "marker.",
        (
            TableKind.TIMES,
            TableKind.WEAK_SCALING,
        ),
    )
    STRONG_SCALING = Description(
        "strong-scaling",
        "Fixed global batch: speedup, with its 95 % interval over runs, and efficiency. "
        "The dashed line is the ideal.",
        (TableKind.STRONG_SCALING,),
    )
    CAUSES = Description(
        "efficiency-causes",
        "Efficiency T(1)/(N·T(N)) and the causes of the rest, in per cent of the epoch. "
        "Bars below 0 are gains.",
        (TableKind.CAUSES,),
    )
    SCALING_LAWS = Description(
        "scaling-laws",
        "Speedups and the fitted laws of Amdahl (fixed global batch) and Gustafson (fixed "
        "batch per rank) with the serial fraction s and its 95 % interval; dashed beyond "
        "the data.",
        (TableKind.SCALING_LAWS,),
    )
    ALPHA_BETA = Description(
        "alpha-beta",
        "Time of the all-reduce over its size and the fits alpha + beta · bytes; dashed "
        "beyond the data.",
        (TableKind.ALPHA_BETA,),
    )
    THREADS = Description(
        "thread-scaling",
        "Speedup of an epoch and of the passes of a step over the threads per rank. The "
        "dashed line is the ideal; the dotted line is the number of processors.",
        (TableKind.THREADS,),
    )
    LEARNING_CURVES = Description(
        "learning-curves",
        "Test accuracy over epochs and over training time; the band spans the runs with "
        "different seeds.",
        (TableKind.LEARNING_CURVES,),
    )
    SWEEP = Description(
        "allreduce-sweep",
        "Bus bandwidth of the all-reduce over the message size, for each algorithm.",
        (TableKind.SWEEP,),
    )
    WAITING = Description(
        "waiting",
        "The time of each rank in the all-reduces of an epoch: waiting until the last "
        "rank has started the same bucket, and the transfer after that, which on CPUs may "
        "contain computation. A slow rank waits least.",
        (TableKind.WAITING,),
    )
    WORK = Description(
        "work",
        "Work of each rank in each step, of the runs with a significantly slow rank, or "
        "of the run with the most ranks if there are none.",
        (TableKind.STRAGGLERS,),
    )
    TELEMETRY = Description(
        "telemetry",
        "Use of processors, memory, network and devices over time, below the durations of "
        "the steps on the same axis.",
        (
            TableKind.TELEMETRY,
            TableKind.NETWORK,
        ),
    )
    PROFILE = Description(
        "profile",
        "Time of a training step by operation. In the roofline model, a point on the line "
        "reaches the highest rate that its arithmetic intensity permits.",
        (TableKind.PROFILE,),
    )
    REDUCERS = Description(
        "reducers",
        "Gradient reducers: the phases of a step, mean over the ranks, and the bytes that "
        "the rank with the most messages sends in a step.",
        (TableKind.REDUCERS,),
    )
    PIPELINE = Description(
        "pipeline-stages",
        "Share of the time that each pipeline stage computes, copies messages and is "
        "idle. The dashed line is the busy share of equal stages without communication "
        "time, M / (M + N - 1).",
        (TableKind.PIPELINE,),
    )
    LAYERS = Description(
        "layers",
        "Share of the measured rates of a memory copy and of a matrix product that single "
        "layers reach; in parentheses the median time of a pass.",
        (TableKind.LAYERS,),
    )
    STACK = Description(
        "stack",
        "Largest number of equal layers whose training fits in the memory limit. The line "
        "is the estimate from shapes.",
        (TableKind.STACK,),
    )
    BATCH_SIZES = Description(
        "batch-sizes",
        "Training runs on 1 rank with several batch sizes.",
        (TableKind.BATCH_SIZES,),
    )
    LADDER = Description(
        "batch-ladder",
        "Growing batch per rank at a fixed number of ranks.",
        (TableKind.LADDER,),
    )

    @property
    def caption(self):
        return self.value.caption


def tables_of(kind, name, tables):
    """Returns the tables with the values of the figure `name`: that of the same name, or those of
    its kind."""
    return [table for table in tables if table.name == name] or [
        table for table in tables if table.kind in kind.value.tables
    ]
