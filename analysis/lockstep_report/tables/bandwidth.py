# SPDX-License-Identifier: BSD-3-Clause
"""Table 3: bandwidth utilisation of the all-reduce."""

from dataclasses import replace

from lockstep_report.measure import metrics
from lockstep_report.tables.communication import derived
from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.sweep import machine_key, peaks_of
from lockstep_report.tables.table import (
    Column,
    Note,
    bounded_columns,
    percent,
)
from lockstep_report.tables.waiting import range_notes


def bandwidth_table(points, link_gbit=None, runs=()):
    """Returns table 3: bandwidth utilisation. `link_gbit`: as in `all_tables`; `runs` may contain
    sweeps."""
    rows, peaks = [], peaks_of(runs)
    for p in (
        p for p in points if p.ranks > 1 and p.is_all_reduced and p.bytes_per_step and p.steps
    ):
        rate, measured, seconds = p.link_rate(link_gbit), p.bandwidth, derived(p, points)[1]
        bandwidth = metrics.bus_bandwidth(p.bytes_per_step * p.steps, seconds, p.ranks)
        peak = peaks.get(machine_key(p.ranks, p.setting, p.hosts))
        rows.append(
            {
                "point": p,
                "link_gbit": rate,
                "peak_gb_s": peak,
                "measured_gb_s": measured and measured.times(1e-9),
                "measured_percent": (
                    measured
                    and rate
                    and p.link_share
                    and measured.times(percent(p.link_use(1, rate)))
                ),
                "measured_peak_percent": (
                    measured and peak and share_of_peak(measured.times(1e-9 / peak))
                ),
                "derived_seconds": seconds,
                "derived_gb_s": bandwidth and bandwidth / 1e9,
                "derived_percent": percent(p.link_use(bandwidth, rate)),
                "derived_peak_percent": bandwidth and peak and 1e-7 * bandwidth / peak,
            }
        )
    least = [
        share
        for row in rows
        for share in (row["derived_percent"], getattr(row["measured_percent"], "low", None))
    ]
    return point_table(
        points,
        "table-3-bandwidth",
        "Table 3: bandwidth utilisation of the all-reduce",
        [
            *PLACE,
            *bounded_columns("measured_gb_s", "Measured (GB/s)", 3),
            *bounded_columns("measured_percent", "of the link (%)", 1),
            *bounded_columns("measured_peak_percent", "of the peak (%)", 1),
            Column("derived_gb_s", "Derived (GB/s)", 3),
            Column("derived_percent", "of the link, derived (%)", 1),
            Column("derived_peak_percent", "of the peak, derived (%)", 1),
            Column("bytes", "M (bytes)", value=lambda p: p.bytes_per_step),
            Column("steps", "Steps per epoch"),
            Column(
                "sent_gb",
                "2(N−1)/N · M per epoch (GB)",
                2,
                value=lambda p: metrics.ring_bytes(p.bytes_per_step * p.steps, p.ranks) / 1e9,
            ),
            Column(
                "link_gb",
                "Over the link of a host, per epoch (GB)",
                2,
                value=lambda p: p.link_bytes and p.link_bytes * p.steps / 1e9,
            ),
            Column(
                "allreduce_seconds",
                "All-reduce in progress (s)",
                2,
                value=lambda p: p.bandwidth and p.allreduce_seconds,
            ),
            Column(
                "waiting_seconds",
                "of which waiting for the last rank (s)",
                2,
                value=lambda p: p.split and p.split.waiting_seconds,
            ),
            *bounded_columns(
                "transfer_seconds", "of which transfer (s)", 2, lambda p: p.bandwidth and p.transfer
            ),
            Column("derived_seconds", "Derived T (s)", 2),
            Column("link_gbit", "Link (Gbit/s)", 1),
            Column("peak_gb_s", "Peak (GB/s)", 3),
        ],
        rows,
        [
            (
                "bandwidth = 2(N−1)/N · M · steps / T, with M the bytes all-reduced per step, N the"
                " ranks and T the seconds of communication per epoch; GB = 1e9 bytes"
            ),
            Note(
                "measured: T is the transfer; waiting for the last rank is imbalance of the "
                "ranks and is not counted",
                ("waiting_seconds",),
            ),
            *range_notes(row["point"].transfer for row in rows if row["measured_gb_s"]),
            Note("derived: T = T(N) − T(1)/N", ("derived_seconds", "derived_gb_s")),
            Note(
                "peak: largest busbw of the all-reduce sweeps on the same ranks and hosts",
                ("peak_gb_s",),
            ),
            any((share or 0) > 100 for share in least)
            and "more than 100 % of the link: not all messages used this link (several ranks on one host), or the rate is wrong",
            Note(
                "link: rate as given with --link-gbit; 1 Gbit/s = 0.125 GB/s; the share is that of"
                " the bytes over the link of a host, which depend on the algorithm and the"
                " placement of the ranks (rows from a CSV, and NCCL by its convention: those of the"
                " bandwidth)",
                ("link_gbit",),
            ),
            any(row["link_gbit"] and not row["point"].link_bytes for row in rows)
            and "no share of the link if the messages are not known: those of mpi are selected by the library, and repeats may have chosen different algorithms",
        ],
    )


def share_of_peak(share):
    """Returns `Bounds` in per cent; an upper bound above the peak says nothing and is unknown."""
    return replace(
        share, high=None if share.value is None and (share.high or 0) > 1 else share.high
    ).times(100)
