# SPDX-License-Identifier: BSD-3-Clause
"""The captions of the figures, and the tables with their values."""

CAPTIONS = {
    "phases": (
        "The time of an epoch by phase, mean over the ranks. The height of a bar is the "
        "epoch time, on the rank that takes longest. Letters refer to the notes of the tables."
    ),
    "scaling": (
        "Fixed batch per rank: epoch speedup and efficiency. The dashed line is the ideal; "
        "the lines join measured points and have no meaning between them. Vertical lines: "
        "95 % interval of the speedup over runs."
    ),
    "strong-scaling": (
        "Fixed global batch: speedup, with its 95 % interval over runs, and efficiency. "
        "The dashed line is the ideal."
    ),
    "efficiency-causes": (
        "Efficiency T(1)/(N·T(N)) and the causes of the rest, in per cent of the "
        "epoch. Bars below 0 are gains."
    ),
    "scaling-laws": (
        "Speedups and the fitted laws of Amdahl (fixed global batch) and Gustafson (fixed batch per"
        " rank) with the serial fraction s and its 95 % interval; dashed beyond the data."
    ),
    "alpha-beta": (
        "Time of the all-reduce over its size and the fits alpha + beta · bytes; dashed beyond the"
        " data."
    ),
    "thread-scaling": (
        "Speedup of an epoch and of the passes of a step over the threads per rank. "
        "The dashed line is the ideal; the dotted line is the number of processors."
    ),
    "learning-curves": (
        "Test accuracy over epochs and over training time; the band spans the runs "
        "with different seeds."
    ),
    "allreduce-sweep": "Bus bandwidth of the all-reduce over the message size, for each algorithm.",
    "waiting": (
        "The time of each rank in the all-reduces of an epoch: waiting until the last rank has"
        " started the same bucket, and the transfer after that, which on CPUs may contain"
        " computation. A slow rank waits least."
    ),
    "work": (
        "Work of each rank in each step, of the runs with a significantly slow rank, or of the "
        "run with the most ranks if there are none."
    ),
    "telemetry": (
        "Use of processors, memory, network and devices over time, below the durations of "
        "the steps on the same axis."
    ),
    "profile": (
        "Time of a training step by operation. In the roofline model, a point on the line "
        "reaches the highest rate that its arithmetic intensity permits."
    ),
    "reducers": (
        "Gradient reducers: the phases of a step, mean over the ranks, and the bytes that "
        "the rank with the most messages sends in a step."
    ),
    "pipeline-stages": (
        "Share of the time that each pipeline stage computes, copies messages and is idle. The"
        " dashed line is the busy share of equal stages without communication time, M / (M + N"
        " - 1)."
    ),
    "layers": (
        "Share of the measured rates of a memory copy and of a matrix product that single "
        "layers reach; in parentheses the median time of a pass."
    ),
    "stack": (
        "Largest number of equal layers whose training fits in the memory limit. The line is "
        "the estimate from shapes."
    ),
    "batch-sizes": "Training runs on 1 rank with several batch sizes.",
    "batch-ladder": "Growing batch per rank at a fixed number of ranks.",
}

# Beginnings of the names of the tables with the values of a figure, unless its kind is such a
# beginning.
TABLES = {
    "scaling": ("table-1", "weak-scaling"),
    "waiting": ("waiting-transfer",),
    "work": ("stragglers",),
}


def kind_of(name):
    """Returns the kind of the figure `name`, a key of CAPTIONS."""
    return max((kind for kind in CAPTIONS if name.startswith(kind)), key=len)


def caption(name):
    return CAPTIONS[kind_of(name)]


def tables_of(name, tables):
    """Returns the tables with the values of the figure `name`: that of the same name, or those of
    its kind."""
    kind = kind_of(name)
    return [table for table in tables if table.name == name] or [
        table for table in tables if table.name.startswith(TABLES.get(kind, (kind,)))
    ]
