# SPDX-License-Identifier: BSD-3-Clause
"""The table of gradient reducers: phases of a step, and bytes of the messages."""

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import reducer_order
from lockstep_report.tables.phases import PHASES, phase_name
from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.table import Column, Note, scaled


def hosts_of(point):
    return int(dict(point.variant).get("hosts", 1))


def phase_column(phase):
    def value(point):
        return 1e3 * point.phase_seconds.get(phase, 0.0) / point.steps

    return Column(f"{phase}_ms", f"{phase_name(phase)} (ms)", 1, value=value)


def megabytes_column(key, header, attribute):
    def value(point):
        return scaled(getattr(point, attribute), divisor=1e6)

    return Column(key, header, 2, value=value)


COLUMNS = (
    *PLACE,
    Column("hosts", "Hosts", value=hosts_of),
    *map(phase_column, PHASES),
    Column("step_ms", "Step (ms)", 1, value=lambda p: 1e3 * p.epoch_seconds / p.steps),
    megabytes_column("sent_mb", "Sent, most of a rank (MB)", "sent_bytes"),
    megabytes_column("received_mb", "Received, most of a rank (MB)", "received_bytes"),
    megabytes_column("all_sent_mb", "Sent by all ranks (MB)", "all_sent_bytes"),
)
TIMES_NOTE = (
    "times per step: mean over the steps; each phase is the mean over the ranks, the step is that "
    "of the slowest rank; with parameter-server, `upload` includes the transfer of the inputs and "
    "`exposed communication` that of the parameters"
)
BYTES_NOTE = Note(
    "MB of gradients, parameters and inputs in the messages of a step, also to ranks of "
    "the same host; reads and writes of shared memory are not messages; not known if a "
    "library selects the messages (mpi, NCCL)",
    ("sent_mb",),
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


def reducer_table(points):
    return point_table(
        points,
        "reducers",
        "Gradient reducers: phases of a step and messages",
        COLUMNS,
        [{"point": p} for group in compared_points(points) for p in group],
        [TIMES_NOTE, BYTES_NOTE],
    )
