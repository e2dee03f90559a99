# SPDX-License-Identifier: BSD-3-Clause
"""Runs whose ranks lacked processors, because something else used them: their times do not describe
the program. docs/analysis.md states the rule."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from lockstep_report.measure.notes import NoteKind, PointNote
from lockstep_report.runfile.settings import uses_threads
from lockstep_report.runfile.stored import blocks

LIMIT = 0.05  # share of the epoch from which the lack of a processor changes its times
OTHERS = 0.1  # processors that other processes used on average, from which they are named
# Processors of the host that other processes used on average, from which there is a note.
NEIGHBOURS = 0.5
COMPUTE_PHASES = ("upload", "forward", "backward", "update")
REMEDY = "repeat the run on processors that nothing else uses"


class LackCause(Enum):
    """Why a rank lacked a processor, with the remedy, as the rest of a sentence."""

    HYPERVISOR = (
        "the hypervisor of this virtual machine ran something else; use a host that is not shared"
    )
    QUOTA = (
        "the CPU quota of its control group was used up; raise the quota (the CPU limit of "
        "the container or job) or use fewer threads"
    )
    UNKNOWN = f"other processes or threads used it; {REMEDY}"
    OTHER_PROCESSES = f"other processes ran on its processors; {REMEDY}"
    OWN_THREADS = (
        "threads of this run share its processors; use fewer ranks or threads, or more processors"
    )


@dataclass(frozen=True)
class Lack:
    """The rank of a run that lacked a processor for longest."""

    share: float  # of the epoch
    rank: int
    kind: LackCause

    @property
    def cause(self):
        return self.kind.value

    @property
    def is_significant(self):
        """Whether the times of the run do not describe the program any more."""
        return self.share >= LIMIT

    @property
    def note(self):
        """The validity note: the share is rounded down, so that repeats have equal notes."""
        percent = 100 * self.share + 1e-9
        step = 5 if percent < 10 else 10
        return PointNote(
            NoteKind.LACKING,
            f"a rank lacked a processor for at least {min(90, step * int(percent // step))} % "
            f"of the epoch, because {self.cause}",
        )


def lack_of(run, window):
    """Returns the `Lack` of a training run on CPUs; None if the file does not show it."""
    if not uses_threads(run) or window.epoch not in run.epoch_numbers:
        return None
    delays = reading(run, "run_delay_seconds", window.epoch) / epoch_seconds(run, window.epoch)
    steal, busy = (
        reading(run, f"processor_{name}_seconds", window.epoch) for name in ("steal", "busy")
    )
    # Of the work of the processors, the share that a hypervisor delayed.
    with np.errstate(invalid="ignore"):
        stolen = np.where(steal > 0, steal / (steal + busy), steal)
    shares = np.fmax(np.where(np.isnan(delays), missing_shares(run, window), delays), stolen)
    if not np.isfinite(shares).any():
        return None
    rank = int(np.nanargmax(shares))
    is_stolen = stolen[rank] > np.nan_to_num(delays[rank])
    kind = LackCause.HYPERVISOR if is_stolen else cause_of(run, window.epoch, rank)
    return Lack(float(shares[rank]), rank, kind)


def reading(run, name, epoch):
    """Returns (rank): the quantity `name` of `epoch`; NaN for ranks without a value."""
    rows = np.flatnonzero(run.epoch_numbers == epoch)
    values = np.asarray(run.epochs.get(name, ()), dtype=float)
    if len(rows) == 0 or values.ndim != 2 or len(values) <= rows[0]:
        return np.full(run.rank_count, np.nan)
    return values[rows[0]]


def known_reading(run, name, epoch):
    """As `reading`; None if it lacks the value of a rank."""
    values = reading(run, name, epoch)
    return values if np.isfinite(values).all() else None


def epoch_seconds(run, epoch):
    return float(run.epochs["seconds"][np.flatnonzero(run.epoch_numbers == epoch)[0]])


def missing_shares(run, window):
    """Returns (rank): the time of the computation less the processor time of all threads, as a
    share; NaN if it is unknown. Ranks that communicate during the computation may sleep in it."""
    if (
        run.option("bn") == "sync"
        or run.option("reducer") == "parameter-server"
        or run.stage_count > 1
    ):
        return np.full(run.rank_count, np.nan)
    columns = [run.phases.index(name) for name in COMPUTE_PHASES]
    steps = np.flatnonzero(run.epoch == window.epoch)
    computed = sum(
        phases[:, :, columns].sum(axis=(0, 2)) for _, phases in blocks(steps, run.phase_seconds)
    )
    used = reading(run, "cpu_seconds", window.epoch)
    return np.maximum(0.0, computed - used) / epoch_seconds(run, window.epoch)


def cause_of(run, epoch, rank):
    """Returns what the processors of the rank did instead."""
    if reading(run, "throttled_periods", epoch)[rank] > 0:
        return LackCause.QUOTA
    busy, used = (reading(run, name, epoch) for name in ("processor_busy_seconds", "cpu_seconds"))
    hosts, lists = run.ranks["host"], np.asarray(run.ranks["cpu_list"]).astype(str)
    sharing = (hosts == hosts[rank]) & (lists == lists[rank])
    # Processors, on average.
    others = (busy[rank] - used[sharing].sum()) / epoch_seconds(run, epoch)
    if not np.isfinite(others):
        return LackCause.UNKNOWN
    return LackCause.OTHER_PROCESSES if others >= OTHERS else LackCause.OWN_THREADS


def contention_notes(run, window, lack):
    """Returns the notes about processors that the ranks lacked or that other processes used.
    `lack`: `lack_of` the run."""
    if lack is None or not lack.is_significant:
        return neighbour_notes(run, window)
    if lack.kind is LackCause.OTHER_PROCESSES:
        return (lack.note,)
    return (lack.note, *neighbour_notes(run, window))


def neighbour_notes(run, window):
    """Returns a note if other processes used processors of a host of a training on CPUs. The number
    is rounded down, so that repeats have equal notes."""
    if not uses_threads(run) or window.epoch not in run.epoch_numbers:
        return ()
    found = [neighbours_on(run, window.epoch, host) for host in set(run.ranks["host"])]
    used = max((value for value in found if value == value), default=0.0)  # without NaN
    if used < NEIGHBOURS:
        return ()
    return (
        (
            f"other processes used at least {NEIGHBOURS * int(used / NEIGHBOURS):g} processors of"
            " the host on average; they share its memory bandwidth, caches and clock rates with"
            " the ranks; repeat the run on a host that nothing else uses"
        ),
    )


def neighbours_on(run, epoch, host):
    """Returns the number of processors that other processes used on `host`, the mean over the
    epoch; NaN if it is unknown."""
    names = ("processor_busy_seconds", "other_processor_busy_seconds", "cpu_seconds")
    own, others, used = (reading(run, name, epoch) for name in names)
    is_here = run.ranks["host"] == host
    rank = int(np.flatnonzero(is_here)[0])
    return float(own[rank] + others[rank] - used[is_here].sum()) / epoch_seconds(run, epoch)
