# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the phases of an epoch, also of each gradient reducer with the bytes of its messages, and of the quantities
that the run file stores per epoch and rank."""

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import reducer_order
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile import schema
from lockstep_report.runfile.quantities import QUANTITIES
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, place, point_table
from lockstep_report.tables.table import Column, Note

PHASES = (*schema.PHASES, IMBALANCE)
NAMES = {"data_wait": "Data wait", "exposed_communication": "Exposed communication"}


def phase_name(phase):
    return NAMES.get(phase, phase.capitalize())


def phase_table(points):
    rows = [place(p, points) | p.phase_seconds for p in points if p.phase_seconds]
    return point_table(
        points, "phases", "Phases of an epoch",
        [*PLACE, *(Column(phase, f"{phase_name(phase)} (s)", 2) for phase in PHASES),
         Column("epoch_seconds", "Epoch (s)", 2, interval=EPOCH_ENDS)],
        rows,
        ["seconds per epoch, means over the ranks; imbalance: the epoch on the slowest rank "
         "less the means; the sum is the epoch (of a single run; medians over runs need not add up)"])


def measurement_table(points):
    rows = [place(p, points) | {q.name: p.measurements[q.name] / q.divisor
                                for q in QUANTITIES if q.name in p.measurements}
            for p in points if p.measurements]
    return point_table(
        points, "measurements", "Measurements per rank",
        [*PLACE, *(Column(q.name, q.header, q.digits) for q in QUANTITIES)], rows,
        ["maximum over the ranks, in the timed epoch",
         *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES)])


def compared_points(points):
    """Returns one list of points per setting and batch per rank that has more than one reducer on
    several ranks: in the order of the ranks, the hosts and
    the reducers."""
    groups = grouped((p for p in points if p.ranks > 1 and p.phase_seconds and p.steps),
                     lambda p: (p.setting, p.batch_per_rank))
    return [sorted(group, key=lambda p: (p.ranks, hosts_of(p), reducer_order(p)))
            for group in groups.values() if len({p.reducer for p in group}) > 1]


def hosts_of(point):
    return int(dict(point.variant).get("hosts", 1))


def reducer_table(points):
    rows = [place(p, points) | reducer_row(p) for group in compared_points(points) for p in group]
    return point_table(
        points, "reducers", "Gradient reducers: phases of a step and messages",
        [*PLACE, Column("hosts", "Hosts"),
         *(Column(f"{phase}_ms", f"{phase_name(phase)} (ms)", 1) for phase in PHASES),
         Column("step_ms", "Step (ms)", 1),
         Column("sent_mb", "Sent, most of a rank (MB)", 2),
         Column("received_mb", "Received, most of a rank (MB)", 2),
         Column("all_sent_mb", "Sent by all ranks (MB)", 2)],
        rows,
        ["times per step: mean over the steps; each phase is the mean over the ranks, the step is "
         "that of the slowest rank; with parameter-server, `upload` includes the transfer of the "
         "inputs and `exposed communication` that of the parameters",
         Note("MB of gradients, parameters and inputs in the messages of a step, also to ranks of "
              "the same host; reads and writes of shared memory are not messages; not known if a "
              "library selects the messages (mpi, NCCL)", ("sent_mb",))])


def reducer_row(point):
    phases = {f"{name}_ms": 1e3 * point.phase_seconds.get(name, 0.0) / point.steps
              for name in PHASES}
    traffic = {name: value / 1e6 for name, value in (
        ("sent_mb", point.sent_bytes), ("received_mb", point.received_bytes),
        ("all_sent_mb", point.all_sent_bytes)) if value is not None}
    return {"hosts": hosts_of(point), **phases,
            "step_ms": 1e3 * point.epoch_seconds / point.steps, **traffic}
