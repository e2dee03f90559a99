# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the measurements apart from trainings: all-reduce sweeps, single layers, the deepest
stacks of layers, and batch ladders, with the epoch time over the batch size up to the memory
limit."""

from operator import itemgetter

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.choices import swept_algorithm
from lockstep_report.measure.inference import series_interval
from lockstep_report.measure.validity import warning_notes
from lockstep_report.runfile.experiment import program_of
from lockstep_report.runfile.nccl_tests import PROGRAM as NCCL_TESTS
from lockstep_report.runfile.settings import (
    describe_setting,
    difference_notes,
    file_endings,
    list_hosts,
    plural,
    setting_names,
    setting_of,
    setting_texts,
    version_of,
)
from lockstep_report.tables.table import Column, Table, interval_columns, rows_of

ENDS = ("low_us", "high_us", "median_us")
PASSES = ("forward", "backward")
STACK_STATUS = {"complete": "fits", "out_of_memory": "out of memory"}
LADDER_COLUMNS = [
    Column("source", "File"),
    Column("mode", "Mode"),
    Column("batch_per_rank", "Batch per rank"),
    Column("status", "Status"),
    Column("epoch_seconds", "Epoch (s)", 2),
    Column("training_seconds", "Training, without data wait (s)", 2),
    Column("images_per_second", "Images/s", 1),
    Column("measured", "Measured"),
    Column("predicted_mib", "Estimated memory (MiB)", 0),
    Column("peak_mib", "Peak memory (MiB)", 0),
    Column("steps", "Measured steps", csv_only=True),
    Column("is_extrapolated", "Extrapolated", csv_only=True),
]


def entries(columns):
    """Yields one {name: value} per row of the datasets of a group."""
    return (dict(zip(columns, values)) for values in zip(*columns.values()))


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


def peaks_of(runs):
    """Returns {`machine_key`: the largest busbw in GB/s that the sweeps measured}."""
    found = [
        (machine_key(run.rank_count, setting_of(run), run.host_names), row["busbw"])
        for run in runs
        if run.allreduce and run.host_names
        for row in sweep_rows(run)
        if row["busbw"]
    ]
    return {key: max(rates) for key, rates in grouped(found, itemgetter(0), itemgetter(1)).items()}


def machine_key(ranks, setting, hosts):
    """Returns what must be equal for a sweep to be the limit of a training: ranks, devices and
    hosts."""
    return (ranks, setting[1], setting[4], frozenset(hosts)) if hosts else None


def machine_of(run):
    device = setting_texts(setting_of(run))[1]
    return ", ".join(filter(None, (device, list_hosts(run.host_names), version_of(run))))


def machine_notes(runs):
    return [
        *(f"{run.label}: {machine_of(run)}" for run in runs),
        *difference_notes(runs),
        *warning_notes(runs),
    ]


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
            "algbw": size / median / 1e9 if bus else None,
            "busbw": bus and bus / 1e9,
            "wrong": None if np.isnan(values["wrong"]) else int(values["wrong"]),
            "repeats": None if is_of_nccl_tests(run) else len(seconds),
        }


def layer_table(runs):
    measured = [run for run in runs if run.layers]
    rows = [
        {"source": run.file_name if len(measured) > 1 else None, **row}
        for run in measured
        for layer in entries(run.layers)
        for row in layer_rows(layer)
    ]
    return Table(
        "layers",
        "Single layers",
        [
            Column("source", "File"),
            Column("layer", "Layer"),
            Column("pass", "Pass"),
            Column("status", "Status"),
            Column("median_ms", "Median time (ms)", 3),
            Column("mb", "MB", 1),
            Column("gflop", "GFLOP", 2),
            Column("copy_percent", "of the copy rate (%)", 0),
            Column("product_percent", "of the product rate (%)", 0),
            Column("estimated_mb", "Estimated memory (MB)", 1),
            Column("peak_mb", "Peak memory (MB)", 1),
            Column("power_watts", "Power (W)", 1),
            Column("energy_joules", "Energy, both passes (J)", 3),
        ],
        rows,
        [
            (
                "times are medians over the repeats; MB count each feature map and parameter once"
                " per pass over it; the shares are those of the measured rates of a memory copy and"
                " a matrix product"
            ),
            (
                "above 100 % of the copy rate, data stayed in a cache; above 100 % of the product,"
                " the algorithm (Winograd's) multiplies less than a direct convolution"
            ),
            any(row["status"] == "out of memory" for row in rows)
            and "out of memory: the layer does not fit in the memory limit; not an error",
            *(
                f"{run.label}: power and energy are not readable on this device"
                for run in measured
                if not np.isfinite(run.layers["power_watts"]).any()
            ),
            *machine_notes(measured),
        ],
    )


def layer_rows(layer):
    """Returns the rows of a layer: one per pass, or one if it was not measured."""
    common = {"layer": str(layer["description"]), "status": str(layer["status"]).replace("_", " ")}
    estimated = float(layer["estimated_bytes"]) / 1e6
    if layer["status"] != "complete":
        return [{**common, "estimated_mb": estimated}]
    rows = []
    for name in PASSES:
        seconds = float(np.median(layer[f"{name}_seconds"]))
        size, work = float(layer[f"{name}_bytes"]), float(layer[f"{name}_flops"])
        rows.append(
            {
                **common,
                "pass": name,
                "median_ms": 1e3 * seconds,
                "mb": size / 1e6,
                "gflop": work / 1e9,
                "copy_percent": percent_of(size / seconds, layer["copy_bytes_per_second"]),
                "product_percent": percent_of(work / seconds, layer["product_flops_per_second"]),
            }
        )
    rows[0] |= {
        "estimated_mb": estimated,
        "peak_mb": float(layer["peak_bytes"]) / 1e6,
        "power_watts": finite(layer["power_watts"]),
        "energy_joules": finite(layer["energy_joules"]),
    }
    return rows


def percent_of(rate, ceiling):
    return 100 * rate / float(ceiling) if ceiling > 0 else None


def finite(value):
    return float(value) if np.isfinite(value) else None


OF_STACK = (  # columns of the `entries` of a stack
    Column("layer", "Layer", value=lambda v: str(v["layer"])),
    Column("devices", "Devices", value=lambda v: int(v["stages"])),
    Column("depth", "Depth", value=lambda v: int(v["depth"])),
    Column("estimated_depth", "Estimated depth", value=lambda v: int(v["estimated_depth"])),
    Column(
        "status", "Status", value=lambda v: STACK_STATUS.get(str(v["status"]), str(v["status"]))
    ),
    Column("limit_mb", "Memory limit (MB)", 0, value=lambda v: float(v["limit_bytes"]) / 1e6),
    Column(
        "estimated_mb",
        "Estimated memory (MB)",
        0,
        value=lambda v: float(v["estimated_bytes"]) / 1e6,
    ),
    Column("peak_mb", "Peak memory (MB)", 0, value=lambda v: float(v["peak_bytes"]) / 1e6 or None),
    Column(
        "forward_ms",
        "Forward pass (ms)",
        1,
        value=lambda v: finite(1e3 * np.median(v["forward_seconds"])),
    ),
)


def stack_table(runs):
    measured = [run for run in runs if run.stack]
    rows = [
        {"source": run.file_name if len(measured) > 1 else None, **row}
        for run in measured
        for row in rows_of(OF_STACK, entries(run.stack))
    ]
    return Table(
        "stack",
        "Deepest stack of layers",
        [Column("source", "File"), *OF_STACK],
        rows,
        [
            (
                "a stack fits if a forward and a backward pass run within the memory limit; the "
                "estimated depth follows from shapes; times are medians of the forward pass"
            ),
            any(row["devices"] > 1 for row in rows)
            and "several devices: the layers are divided equally, up to a difference of one; memory is that of the device that needs most, and a forward pass goes through all of them",
            *machine_notes(measured),
        ],
    )


def ladder_tables(points, runs):
    """Returns one table of ladder runs per setting, rank count and number of hosts. If there are no
    ladder runs, returns one table per setting of the points with 1 rank and several batch sizes."""
    ladders = grouped(
        (run for run in runs if run.ladder),
        lambda run: (
            *setting_of(run),
            plural(run.rank_count, "rank"),
            plural(run.host_count, "host"),
        ),
    )
    if ladders:
        endings = file_endings(setting_names(ladders))
        # The title already contains the device name.
        others = setting_names((*setting[:4], *setting[5:7]) for setting in ladders)
        return [
            table_of_ladders(group, endings[key], others[(*key[:4], *key[5:7])])
            for key, group in ladders.items()
        ]
    settings = grouped(
        (p for p in points if p.ranks == 1 and p.batch_per_rank), lambda p: p.setting
    )
    settings = {
        key: group for key, group in settings.items() if len({p.batch_per_rank for p in group}) > 1
    }
    endings = file_endings(setting_names(settings))
    return [table_of_points(group, endings[key]) for key, group in settings.items()]


def table_of_ladders(runs, ending, other=""):
    """Returns the table of runs with equal settings. `ending` distinguishes its file name from
    others, `other` its title."""
    first = runs[0]
    place = (
        plural(first.rank_count, "rank")
        + (f" on {first.host_count} hosts" if first.host_count > 1 else "")
        + (f" ({' + '.join(first.device_names)})" if first.device_names else "")
    )
    rows = [
        {"source": run.label if len(runs) > 1 else None, **ladder_row(point)}
        for run in runs
        for point in entries(run.ladder)
    ]
    rows.sort(key=lambda row: (row["source"] or "", row["batch_per_rank"]))
    texts = [
        *setting_texts(setting_of(first)),
        list_hosts(set().union(*(run.host_names for run in runs))),
        " and ".join(sorted({version_of(run) for run in runs})),
    ]
    return Table(
        f"batch-ladder{ending}",
        "Batch ladder: " + ", ".join(filter(None, (place, other))),
        LADDER_COLUMNS,
        rows,
        [
            any(row["status"] == "out of memory" for row in rows)
            and "out of memory: the expected end of the ladder, not an error",
            any(row["is_extrapolated"] for row in rows)
            and "extrapolated: the epoch was not run to its end; its time is that of the measured steps, scaled to the epoch",
            *(
                f"{run.label}: the ladder did not finish (status {run.status}); larger batches"
                " may fit"
                for run in runs
                if run.status != "complete"
            ),
            *warning_notes(runs),
            *difference_notes(runs),
            "setting: " + ", ".join(filter(None, texts)),
        ],
    )


def table_of_points(points, ending):
    has_details = any(p.detail for p in points)
    rows = [
        row
        | {
            "source": None,
            "mode": row["mode"] if has_details else None,
            "status": "complete",
            "is_extrapolated": int(p.scaled),
            "measured": next((note for note in p.notes if note.startswith("scaled from")), None),
        }
        for row, p in zip(rows_of(LADDER_COLUMNS, points), points)
    ]
    rows.sort(key=lambda row: (row["batch_per_rank"], row["mode"] or ""))
    return Table(
        f"batch-sizes{ending}",
        "Batch sizes on 1 rank (training runs)",
        LADDER_COLUMNS,
        rows,
        [
            f"setting: {describe_setting(points)}",
            *dict.fromkeys(note for p in points for note in p.notes),
        ],
    )


def ladder_row(point):
    """Returns the row of a point of a ladder; a value that was not measured (NaN or 0) is None."""

    def value(name, divisor=1.0):
        number = float(point[name])
        return number / divisor if number > 0 else None

    steps, is_extrapolated = int(point["steps"]) or None, int(point["is_extrapolated"])
    count = plural(steps, "step")
    return {
        "batch_per_rank": int(point["batch_per_rank"]),
        "status": str(point["status"]).replace("_", " "),
        **{
            name: value(name) for name in ("epoch_seconds", "training_seconds", "images_per_second")
        },
        "steps": steps,
        "is_extrapolated": is_extrapolated,
        "measured": (
            steps and (f"{count}, extrapolated" if is_extrapolated else f"complete epoch, {count}")
        ),
        "predicted_mib": value("predicted_bytes", 2**20),
        "peak_mib": value("peak_bytes", 2**20),
    }
