# SPDX-License-Identifier: BSD-3-Clause
"""The table of the command `index`: one row per run file."""

from collections import Counter

from lockstep_report.errors import ReportError
from lockstep_report.measure.accuracy import last_accuracy
from lockstep_report.measure.window import batch_per_rank, epoch_rate, step_seconds, timed_window
from lockstep_report.runfile.experiment import build_of
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.settings import SETTING_PARTS, setting_of
from lockstep_report.tables.table import Column, Table

COLUMNS = [
    Column("file", "File"), Column("run_id", "Run", csv_only=True), Column("part", "Part"),
    Column("status", "Status"), Column("date_utc", "Date (UTC)"),
    Column("build", "Build", csv_only=True), Column("command", "Command", csv_only=True),
    *(Column(name.replace(" ", "_"), name[:1].upper() + name[1:], csv_only=name != "model")
      for name in SETTING_PARTS),
    Column("hosts", "Hosts"), Column("ranks", "Ranks"), Column("batch_per_rank", "Batch per rank"),
    Column("reducer", "Reducer"), Column("epochs", "Epochs"), Column("steps", "Steps"),
    Column("epoch_seconds", "Epoch (s)", 2), Column("images_per_second", "Images/s", 1),
    Column("test_accuracy", "Test accuracy", 4), Column("remark", "Remark")]


def index_table(options, paths):
    rows = [row_of(options, path) for path in paths]
    seen = Counter()
    parts = Counter(row.get("run_id") for row in rows)
    for row in rows:
        key = (row.get("run_id"), row.get("part"), row.get("date_utc"))
        if row.get("run_id"):
            seen[key] += 1
            if seen[key] > 1:
                row["remark"] = "copy of an earlier row"
            elif parts[row["run_id"]] > 1 and not row["remark"]:
                row["remark"] = "one of several files of this run"
    return Table("index", f"Index of {len(rows):,} run files", COLUMNS, rows)


def row_of(options, path):
    """Returns the row of a file; with only a remark if it cannot be read."""
    try:
        run = read_run(path)
        row = {
            "file": str(path), "run_id": run.run_id, "part": run.integer("part") or 1,
            "status": run.status, "date_utc": run.attributes.get("date_utc"),
            "build": build_of(run), "command": run.option("command") or None,
            **{name.replace(" ", "_"): text or None
               for name, text in zip(SETTING_PARTS, setting_of(run))},
            "hosts": run.host_count, "ranks": run.rank_count,
            "remark": None if run.status == "complete" else f"not finished: {run.status}"}
        return row | (training_values(run) if run.has_steps else {})
    except ReportError as error:
        options.skipped.append(error)
        return {"file": str(path), "remark": str(error)}


def training_values(run):
    window = timed_window(run)
    seconds, images_per_second = epoch_rate(run, window, step_seconds(run, window.steps))
    return {
        "batch_per_rank": batch_per_rank(run), "reducer": run.option("reducer") or None,
        "epochs": len(run.epoch_numbers), "steps": len(run.step),
        "epoch_seconds": seconds, "images_per_second": images_per_second,
        "test_accuracy": last_accuracy(run)}
