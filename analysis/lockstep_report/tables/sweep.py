# SPDX-License-Identifier: BSD-3-Clause
"""The table of all-reduce sweeps."""

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.choices import swept_algorithm
from lockstep_report.measure.inference import series_interval
from lockstep_report.runfile.experiment import program_of
from lockstep_report.runfile.nccl_tests import PROGRAM as NCCL_TESTS
from lockstep_report.tables.machines import entries, machine_notes
from lockstep_report.tables.table import Column, Table, interval_columns

ENDS = ("low_us", "high_us", "median_us")


def sweep_table(runs):
    runs = [run for run in runs if run.allreduce]
    rows = [row for run in runs for row in sweep_rows(run)]
    return Table(
        "allreduce-sweep",
        "All-reduce over message sizes",
        [
            Column("source", "File"),
            Column("algorithm", "Algorithm"),
            Column("ranks", "Ranks"),
            Column("bytes", "Bytes"),
            *interval_columns(
                Column("median_us", "Median time (µs)", 1), "low_us", "high_us", " (µs)"
            ),
            Column("algbw", "algbw (GB/s)", 3, interval=ENDS),
            Column("busbw", "busbw (GB/s)", 3, interval=ENDS),
            Column("wrong", "#wrong"),
            Column("repeats", "Repeats"),
        ],
        rows,
        [
            (
                "algbw = bytes / time; busbw = 2(N−1)/N · algbw; time is the median over the"
                " repeats of the slowest rank's time; the interval is that of the median,"
                " rank-based"
            ),
            *(f"{run.label}: {wrong_text(run)}" for run in runs if wrong_text(run)),
            *(f"{run.label}: times are {times_text(run)}" for run in runs if is_of_nccl_tests(run)),
            *average_notes(rows),
            *machine_notes(runs),
        ],
    )


def is_of_nccl_tests(run):
    return program_of(run) == NCCL_TESTS


def times_text(run):
    """Returns what the times of a sweep are: "n = 9 repeats per size", or the mean that nccl-tests
    prints."""
    if is_of_nccl_tests(run):
        return f"means over {run.option('iterations') or 'the'} iterations, out of place"
    return f"n = {run.allreduce['seconds'].shape[1]} repeats per size"


def wrong_text(run):
    """Returns a text about wrong sums; "" if there are none. The first versions of nccl-tests count
    them only for all rows."""
    count = int(np.sum(np.asarray(run.allreduce["wrong"], dtype=float) > 0))
    if count:
        return f"wrong results in {count} of {len(run.allreduce['wrong'])} rows (#wrong)"
    of_all = int(run.results.get("out_of_bounds", 0))
    return f"wrong results: {of_all} out of bounds" if of_all else ""


def average_notes(rows):
    """Yields the mean bus bandwidth of each file and algorithm, as nccl-tests prints it."""
    for source, of_file in grouped(
        (row for row in rows if row["busbw"]), lambda row: row["source"]
    ).items():
        means = grouped(of_file, lambda row: row["algorithm"], lambda row: row["busbw"])
        yield f"{source}: average busbw, the mean over the sizes: " + ", ".join(
            f"{name} {np.mean(values):.3f} GB/s" for name, values in means.items()
        )


def sweep_rows(run):
    for i, values in enumerate(entries(run.allreduce)):
        seconds, size = np.asarray(values["seconds"], dtype=float), int(values["bytes"])
        median, interval = float(np.median(seconds)), series_interval(seconds)
        bus = metrics.bus_bandwidth(size, median, run.rank_count)
        yield {
            "source": run.file_name,
            "algorithm": swept_algorithm(run, i).removesuffix(" (MPI)"),
            "ranks": run.rank_count,
            "bytes": size,
            "median_us": 1e6 * median,
            "low_us": interval and 1e6 * interval.low,
            "high_us": interval and 1e6 * interval.high,
            "algbw": bus and size / median / 1e9,
            "busbw": bus and bus / 1e9,
            "wrong": integer_or_none(values["wrong"]),
            "repeats": None if is_of_nccl_tests(run) else len(seconds),
        }


def integer_or_none(value):
    return None if np.isnan(value) else int(value)
