# SPDX-License-Identifier: BSD-3-Clause
"""Table 3: bandwidth utilisation of the all-reduce."""

from dataclasses import replace

from lockstep_report.measure import metrics
from lockstep_report.measure.sweeps import machine_key, peaks_of
from lockstep_report.tables.communication import derived_values
from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.table import Column, Note, bounded_columns, percent
from lockstep_report.tables.waiting import range_notes

COLUMNS = (
    *PLACE,
    *bounded_columns("measured_gb_s", "Measured (GB/s)", 3),
    *bounded_columns("measured_percent", "of the link (%)", 1),
    *bounded_columns("measured_peak_percent", "of the peak (%)", 1),
    Column("derived_gb_s", "Derived (GB/s)", 3),
    Column("derived_percent", "of the link, derived (%)", 1),
    Column("derived_peak_percent", "of the peak, derived (%)", 1),
    *bounded_columns("transfer_seconds", "Transfer T (s)", 2, lambda p: p.bandwidth and p.transfer),
    Column("derived_seconds", "Derived T (s)", 2),
    Column("bytes", "M (bytes)", value=lambda p: p.bytes_per_step),
    Column("peak_gb_s", "Peak (GB/s)", 3),
    Column("link_gbit", "Link (Gbit/s)", 1),
    Column("steps", "Steps per epoch", csv_only=True),
    Column(
        "sent_gb",
        "2(N−1)/N · M per epoch (GB)",
        2,
        csv_only=True,
        value=lambda p: metrics.ring_bytes(p.bytes_per_step * p.steps, p.ranks) / 1e9,
    ),
    Column(
        "link_gb",
        "Over the link of a host, per epoch (GB)",
        2,
        csv_only=True,
        value=lambda p: p.link_bytes and p.link_bytes * p.steps / 1e9,
    ),
    Column(
        "allreduce_seconds",
        "All-reduce in progress (s)",
        2,
        csv_only=True,
        value=lambda p: p.bandwidth and p.allreduce_seconds,
    ),
    Column(
        "waiting_seconds",
        "of which waiting for the last rank (s)",
        2,
        csv_only=True,
        value=lambda p: p.split and p.split.waiting_seconds,
    ),
)
FORMULA_NOTE = (
    "bandwidth = 2(N−1)/N · M · steps / T, with M the bytes all-reduced per step, N the "
    "ranks and T the seconds of communication per epoch; GB = 1e9 bytes"
)
MEASURED_NOTE = Note(
    "measured: T is the transfer; waiting for the last rank is imbalance of the "
    "ranks and is not counted",
    ("transfer_seconds",),
)
DERIVED_NOTE = Note("derived: T = T(N) − T(1)/N", ("derived_seconds", "derived_gb_s"))
PEAK_NOTE = Note(
    "peak: largest busbw of the all-reduce sweeps on the same ranks and hosts", ("peak_gb_s",)
)
ABOVE_LINK_NOTE = (
    "more than 100 % of the link: not all messages used this link (several ranks on one host), or "
    "the rate is wrong"
)
LINK_NOTE = Note(
    "link: rate as given with --link-gbit; 1 Gbit/s = 0.125 GB/s; the share is that of the "
    "bytes over the link of a host, which depend on the algorithm and the placement of "
    "the ranks (rows from a CSV, and NCCL by its convention: those of the bandwidth)",
    ("link_gbit",),
)
NO_SHARE_NOTE = (
    "no share of the link if the messages are not known: those of mpi are selected by the library, "
    "and repeats may have chosen different algorithms"
)


def bandwidth_table(points, link_gbit=None, runs=()):
    """Returns table 3: bandwidth utilisation. `link_gbit`: as in `all_tables`; `runs` may contain
    sweeps."""
    peaks = peaks_of(runs)
    rows = [
        bandwidth_row(p, points, link_gbit, peaks.get(machine_key(p.ranks, p.setting, p.hosts)))
        for p in points
        if p.ranks > 1 and p.is_all_reduced and p.bytes_per_step and p.steps
    ]
    lacks_share = any(row["link_gbit"] and not row["point"].link_bytes for row in rows)
    return point_table(
        points,
        "table-3-bandwidth",
        "Table 3: bandwidth utilisation of the all-reduce",
        COLUMNS,
        rows,
        [
            FORMULA_NOTE,
            MEASURED_NOTE,
            *range_notes(row["point"].transfer for row in rows if row["measured_gb_s"]),
            DERIVED_NOTE,
            PEAK_NOTE,
            any(map(is_above_link, rows)) and ABOVE_LINK_NOTE,
            LINK_NOTE,
            lacks_share and NO_SHARE_NOTE,
        ],
    )


def bandwidth_row(point, points, link_gbit, peak):
    """Returns the row of a point. `peak`: GB/s of the sweeps on the same machine, or None."""
    rate, measured = point.link_rate(link_gbit), point.bandwidth
    seconds = derived_values(point, points).get("derived_communication")
    derived = metrics.bus_bandwidth(point.bytes_per_step * point.steps, seconds, point.ranks)
    of_link = None
    if measured and rate and point.link_share:
        of_link = measured.times(percent(point.link_use(1, rate)))
    return {
        "point": point,
        "link_gbit": rate,
        "peak_gb_s": peak,
        "measured_gb_s": measured and measured.times(1e-9),
        "measured_percent": of_link,
        "measured_peak_percent": (measured and peak and share_of_peak(measured.times(1e-9 / peak))),
        "derived_seconds": seconds,
        "derived_gb_s": derived and derived / 1e9,
        "derived_percent": percent(point.link_use(derived, rate)),
        "derived_peak_percent": derived and peak and 1e-7 * derived / peak,
    }


def is_above_link(row):
    """Whether a row uses more than its link for certain."""
    least = (row["derived_percent"], getattr(row["measured_percent"], "low", None))
    return any((share or 0) > 100 for share in least)


def share_of_peak(share):
    """Returns `Bounds` in per cent; an upper bound above the peak says nothing and is unknown."""
    is_above = share.value is None and (share.high or 0) > 1
    return replace(share, high=None if is_above else share.high).times(100)
