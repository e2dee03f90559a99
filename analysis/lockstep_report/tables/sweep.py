"""The table of all-reduce sweeps."""

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.measure.inference import series_interval
from lockstep_report.measure.validity import warning_notes
from lockstep_report.runfile.settings import difference_notes, list_hosts, setting_of, setting_texts, version_of
from lockstep_report.tables.table import Column, Table, interval_columns


ENDS = ("low_us", "high_us", "median_us")


def sweep_table(runs):
    """Returns the table of all-reduce sweeps; one row per algorithm and message size."""
    rows = [sweep_row(run, i) for run in runs for i in range(len(run.allreduce.get("bytes", ())))]
    return Table(
        "allreduce-sweep", "All-reduce over message sizes",
        [Column("source", "File"), Column("algorithm", "Algorithm"), Column("ranks", "Ranks"),
         Column("bytes", "Bytes"), *interval_columns(
             Column("median_us", "Median time (µs)", 1), "low_us", "high_us", " (µs)"),
         Column("algbw", "algbw (GB/s)", 3, interval=ENDS), Column("busbw", "busbw (GB/s)", 3, interval=ENDS),
         Column("wrong", "#wrong"), Column("repeats", "Repeats")],
        rows,
        ["algbw = bytes / time; busbw = 2(N−1)/N · algbw; time is the median over the repeats of "
         "the slowest rank's time; the interval is that of the median, rank-based",
         *machine_notes([run for run in runs if run.allreduce])] if rows else [])


def machine_of(run):
    """Returns a text with the device, the hosts and the version of the program."""
    device = setting_texts(setting_of(run))[1]
    return ", ".join(filter(None, (device, list_hosts(run.host_names), version_of(run))))


def machine_notes(runs):
    """Returns the machine of each run, their differences and their warnings."""
    return [*(f"{run.label}: {machine_of(run)}" for run in runs), *difference_notes(runs), *warning_notes(runs)]


def sweep_row(run, i):
    seconds = np.asarray(run.allreduce["seconds"][i], dtype=float)
    median = float(np.median(seconds))
    interval = series_interval(seconds)
    size = int(run.allreduce["bytes"][i])
    bus = metrics.bus_bandwidth(size, median, run.rank_count)
    return {
        "source": run.file_name, "algorithm": str(run.allreduce["algorithm"][i]),
        "ranks": run.rank_count, "bytes": size,
        "median_us": 1e6 * median, "low_us": interval and 1e6 * interval.low,
        "high_us": interval and 1e6 * interval.high,
        "algbw": size / median / 1e9 if bus else None, "busbw": bus and bus / 1e9,
        "wrong": int(run.allreduce["wrong"][i]), "repeats": len(seconds),
    }
