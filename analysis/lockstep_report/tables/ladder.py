# SPDX-License-Identifier: BSD-3-Clause
"""The tables of batch ladders: the epoch time over the batch size up to the memory limit."""

from lockstep_report.groups import grouped
from lockstep_report.measure.ladders import ladder_end
from lockstep_report.measure.notes import NoteKind, notes_of_kind
from lockstep_report.measure.validity import warning_notes
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
from lockstep_report.tables.machines import entries
from lockstep_report.tables.table import Column, Table

TIMES = ("epoch_seconds", "training_seconds", "images_per_second")
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


def ladder_run_tables(runs):
    """Returns one table of ladder runs per setting, rank count and number of hosts."""
    ladders = grouped((run for run in runs if run.ladder), place_of_ladder)
    endings = file_endings(setting_names(ladders))
    # The title already contains the device name.
    others = setting_names(without_device_name(place) for place in ladders)
    return [
        table_of_ladders(group, endings[place], others[without_device_name(place)])
        for place, group in ladders.items()
    ]


def place_of_ladder(run):
    hosts = plural(run.host_count, "host")
    return (*setting_of(run), plural(run.rank_count, "rank"), hosts)


def without_device_name(place):
    return (*place[:4], *place[5:7])


def batch_size_tables(points):
    """Returns one table per setting of the points with 1 rank and several batch sizes."""
    settings = grouped(
        (p for p in points if p.ranks == 1 and p.batch_per_rank), lambda p: p.setting
    )
    settings = {
        key: group for key, group in settings.items() if len({p.batch_per_rank for p in group}) > 1
    }
    endings = file_endings(setting_names(settings))
    return [table_of_points(group, endings[key]) for key, group in settings.items()]


MEMORY_NOTE = "out of memory: the expected end of the ladder, not an error"
EXTRAPOLATED_NOTE = (
    "extrapolated: the epoch was not run to its end; its time is that of the measured steps, "
    "scaled to the epoch"
)


def table_of_ladders(runs, ending, other=""):
    """Returns the table of runs with equal settings. `ending` distinguishes its file name from
    others, `other` its title."""
    rows = [
        {"source": run.label if len(runs) > 1 else None, **ladder_row(point)}
        for run in runs
        for point in entries(run.ladder)
    ]
    rows.sort(key=lambda row: (row["source"] or "", row["batch_per_rank"]))
    exceeds_memory = any(row["status"] == "out of memory" for row in rows)
    is_extrapolated = any(row["is_extrapolated"] for row in rows)
    return Table(
        f"batch-ladder{ending}",
        "Batch ladder: " + ", ".join(filter(None, (place_text(runs[0]), other))),
        LADDER_COLUMNS,
        rows,
        [
            exceeds_memory and MEMORY_NOTE,
            is_extrapolated and EXTRAPOLATED_NOTE,
            *(ladder_end_note(run) for run in runs),
            *warning_notes(runs),
            *difference_notes(runs),
            "setting: " + setting_line(runs),
        ],
    )


def place_text(run):
    """Returns the ranks, hosts and devices of a run."""
    text = plural(run.rank_count, "rank")
    if run.host_count > 1:
        text += f" on {run.host_count} hosts"
    if run.device_names:
        text += f" ({' + '.join(run.device_names)})"
    return text


def setting_line(runs):
    hosts = list_hosts(set().union(*(run.host_names for run in runs)))
    versions = " and ".join(sorted({version_of(run) for run in runs}))
    return ", ".join(filter(None, [*setting_texts(setting_of(runs[0])), hosts, versions]))


def ladder_end_note(run):
    """Returns a note about the end of a ladder at which the memory was not full; None otherwise."""
    if run.status != "complete":
        return (
            f"{run.label}: the ladder did not finish (status {run.status}); larger batches may fit"
        )
    end = ladder_end(run)
    return None if end.exceeds_memory else f"{run.label}: {end.text}"


def table_of_points(points, ending):
    has_details = any(p.detail for p in points)
    rows = [
        {
            **{name: getattr(p, name) for name in ("batch_per_rank", "steps", *TIMES)},
            "mode": p.mode if has_details else None,
            "status": p.status.replace("_", " "),
            "is_extrapolated": int(p.scaled),
            "measured": next(iter(notes_of_kind(p.notes, NoteKind.SCALED)), None),
        }
        for p in points
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
        **{name: value(name) for name in TIMES},
        "steps": steps,
        "is_extrapolated": is_extrapolated,
        "measured": (
            steps and (f"{count}, extrapolated" if is_extrapolated else f"complete epoch, {count}")
        ),
        "predicted_mib": value("predicted_bytes", 2**20),
        "peak_mib": value("peak_bytes", 2**20),
    }
