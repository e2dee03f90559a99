# SPDX-License-Identifier: BSD-3-Clause
"""Tables of batch ladders: epoch time over batch size, up to the memory limit."""

from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.runfile.settings import (
    describe_setting, difference_notes, file_endings, list_hosts, plural, setting_names, setting_of,
    setting_texts, version_of)
from lockstep_report.tables.table import Column, Table

COLUMNS = (
    Column("source", "File"), Column("mode", "Mode"), Column("batch_per_rank", "Batch per rank"),
    Column("status", "Status"), Column("epoch_seconds", "Epoch (s)", 2),
    Column("training_seconds", "Training, without data wait (s)", 2),
    Column("images_per_second", "Images/s", 1), Column("measured", "Measured"),
    Column("predicted_mib", "Estimated memory (MiB)", 0),
    Column("peak_mib", "Peak memory (MiB)", 0),
    Column("steps", "Measured steps", csv_only=True),
    Column("is_extrapolated", "Extrapolated", csv_only=True),
)


def ladder_tables(points, runs):
    """Returns one table of ladder runs per setting, rank count and number of hosts. If there are no
    ladder runs, returns one table per setting of the points with 1 rank and several batch sizes."""
    ladders = grouped((run for run in runs if run.ladder), key_of)
    if ladders:
        endings = file_endings(setting_names(ladders))
        # The title already contains the device name.
        others = setting_names((*setting[:4], *setting[5:7]) for setting in ladders)
        return [table_of_ladders(group, endings[key], others[(*key[:4], *key[5:7])])
                for key, group in ladders.items()]
    settings = grouped((p for p in points if p.ranks == 1 and p.batch_per_rank), lambda p: p.setting)
    settings = {key: group for key, group in settings.items() if len({p.batch_per_rank for p in group}) > 1}
    endings = file_endings(setting_names(settings))
    return [table_of_points(group, endings[key]) for key, group in settings.items()]


def key_of(run):
    return (*setting_of(run), plural(run.rank_count, "rank"), plural(run.host_count, "host"))


def table_of_ladders(runs, ending, other=""):
    """Returns the table of runs with equal settings. `ending` distinguishes its file name from others, `other` its title."""
    first = runs[0]
    place = plural(first.rank_count, "rank")
    if first.host_count > 1:
        place += f" on {first.host_count} hosts"
    if first.device_names:
        place += f" ({' + '.join(first.device_names)})"
    place = ", ".join(filter(None, (place, other)))
    rows = [{"source": run.label if len(runs) > 1 else None, **ladder_row(run.ladder, i)}
            for run in runs for i in range(len(run.ladder["batch_per_rank"]))]
    rows.sort(key=lambda row: (row["source"] or "", row["batch_per_rank"]))
    notes = []
    if any(row["status"] == "out of memory" for row in rows):
        notes.append("out of memory: the expected end of the ladder, not an error")
    if any(row["is_extrapolated"] for row in rows):
        notes.append("extrapolated: the epoch was not run to its end; its time is that of the "
                     "measured steps, scaled to the epoch")
    for run in runs:
        if run.status != "complete":
            notes.append(f"{run.label}: the ladder did not finish (status {run.status}); larger "
                         "batches may fit")
        notes += validity.warning_notes([run])
    notes += difference_notes(runs)
    texts = [*setting_texts(setting_of(first)),
             list_hosts(set().union(*(run.host_names for run in runs))),
             " and ".join(sorted({version_of(run) for run in runs}))]
    notes.append("setting: " + ", ".join(filter(None, texts)))
    return Table(f"batch-ladder{ending}", f"Batch ladder: {place}", list(COLUMNS), rows,
                 notes)


def table_of_points(points, ending):
    has_details = any(p.detail for p in points)
    rows = [
        {"mode": p.mode if has_details else None, "batch_per_rank": p.batch_per_rank, "status": "complete",
         "epoch_seconds": p.epoch_seconds, "training_seconds": p.training_seconds,
         "images_per_second": p.images_per_second, "steps": p.steps, "is_extrapolated": int(p.scaled),
         "measured": next((note for note in p.notes if note.startswith("scaled from")), None)}
        for p in points]
    rows.sort(key=lambda row: (row["batch_per_rank"], row["mode"] or ""))
    return Table(f"batch-sizes{ending}", "Batch sizes on 1 rank (training runs)",
                 list(COLUMNS), rows, [f"setting: {describe_setting(points)}",
                                       *dict.fromkeys(note for p in points for note in p.notes)])


def ladder_row(ladder, i):
    """Returns row `i` of a ladder; a value that was not measured (NaN or 0) is None."""
    status = str(ladder["status"][i]).replace("_", " ")
    is_complete = status == "complete"

    def value(name, scale=1.0):
        number = float(ladder[name][i])
        return number / scale if number > 0 else None

    steps = value("steps") if is_complete else None
    is_extrapolated = int(ladder["is_extrapolated"][i])
    measured = None
    if steps is not None:
        steps = int(steps)
        count = plural(steps, "step")
        measured = f"{count}, extrapolated" if is_extrapolated else f"complete epoch, {count}"
    return {
        "batch_per_rank": int(ladder["batch_per_rank"][i]), "status": status,
        **{name: value(name) if is_complete else None
           for name in ("epoch_seconds", "training_seconds", "images_per_second")},
        "steps": steps, "is_extrapolated": is_extrapolated, "measured": measured,
        "predicted_mib": value("predicted_bytes", 2**20), "peak_mib": value("peak_bytes", 2**20)}
