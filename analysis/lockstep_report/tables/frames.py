# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of runs as tables, for pandas, and their export to CSV and with pandas to Parquet, one file per table. A
table is a dict: name of the column -> array (row), with the names and units of the run file."""

import csv
import io
from contextlib import suppress
from importlib.util import find_spec

import numpy as np

from lockstep_report.errors import USAGE, ReportError, require
from lockstep_report.escaping import csv_cell
from lockstep_report.measure.window import all_step_seconds, batch_per_rank, epoch_rate, step_seconds, timed_window
from lockstep_report.runfile import schema
from lockstep_report.runfile.stored import blocks

# Groups of the run file whose columns `Run` has by these names.
GROUPS = ("epochs", "ladder", "allreduce", "layers", "stack", "telemetry", "profile")
ENGINES = ("pyarrow", "fastparquet")  # of pandas


def run_table(runs):
    """Returns the table of the runs: one row per run, with its options as columns `option_*`."""
    options = sorted({name for run in runs for name in run.config})
    rows = [{
        "run": run.label, "run_id": run.run_id, "status": run.status,
        "date_utc": str(run.attributes.get("date_utc", "")),
        "software_version": str(run.attributes.get("software_version", "")),
        "git_commit": str(run.attributes.get("git_commit", "")),
        "hosts": run.host_count, "ranks": run.rank_count,
        "batch_per_rank": float(batch_per_rank(run)) if run.has_steps else np.nan,
        **training_values(run),
        **{f"option_{name.replace('-', '_')}": run.option(name) for name in options}} for run in runs]
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def training_values(run):
    found = {"timed_epoch": 0, "epoch_seconds": np.nan, "images_per_second": np.nan}
    if run.has_steps:
        window = timed_window(run)
        found["timed_epoch"] = window.epoch
        with suppress(ReportError):  # no rate follows from the times
            found["epoch_seconds"], found["images_per_second"] = epoch_rate(run, window, step_seconds(run, window.steps))
    return found


def step_blocks(run, steps=None, ranks=None):
    """Yields the table of steps in parts: one row per step and rank, for these steps (indices) [all] and ranks [all]."""
    steps = np.arange(len(run.step)) if steps is None else np.asarray(steps, dtype=int)
    ranks = np.arange(run.rank_count) if ranks is None else np.asarray(ranks, dtype=int)
    timed = np.zeros(len(run.step), dtype=bool)
    if run.has_steps:
        timed[timed_window(run).steps] = True
    times = all_step_seconds(run)
    for part, seconds in blocks(steps, run.phase_seconds):
        yield step_block(run, part, seconds, ranks, timed, times)


def step_block(run, steps, seconds, ranks, timed, times):
    def of_step(values):
        return np.repeat(np.asarray(values)[steps], len(ranks))

    def of_rank(values):
        return np.tile(np.asarray(values)[ranks], len(steps))

    own = seconds[:, ranks]
    both = {"start_seconds": run.step_start} | {f"{name}_bytes": values for name, values in run.traffic.items()}
    return {
        "run": np.full(len(steps) * len(ranks), run.label),
        "ranks": np.full(len(steps) * len(ranks), run.rank_count),
        "step": of_step(run.step + 1), "epoch": of_step(run.epoch), "is_timed": of_step(timed),
        "rank": of_rank(np.arange(run.rank_count)), "host": of_rank(np.asarray(run.ranks["hostname"], dtype=str)),
        "images": of_step(run.images), "loss": of_step(run.loss),
        "learning_rate": of_step(run.learning_rate),
        **{f"{name}_seconds": own[:, :, i].ravel() for i, name in enumerate(run.phases)},
        "rank_seconds": own.sum(axis=2).ravel(),
        "step_seconds": of_step(times),
        **{name: values[steps][:, ranks].ravel() for name, values in both.items()},
    }


def bucket_blocks(run, steps=None, ranks=None):
    """Yields the table of the all-reduces in parts: one row per step, rank and bucket."""
    steps = np.arange(len(run.step)) if steps is None else np.asarray(steps, dtype=int)
    ranks = np.arange(run.rank_count) if ranks is None else np.asarray(ranks, dtype=int)
    buckets = len(run.bucket_bytes)
    if buckets == 0:
        return
    calls = () if run.bucket_calls is None else (run.bucket_calls,)
    for part, start, end, *in_calls in blocks(steps, run.bucket_start, run.bucket_end, *calls):
        rows = len(part) * len(ranks)
        yield {
            "run": np.full(rows * buckets, run.label),
            "step": np.repeat(run.step[part] + 1, len(ranks) * buckets),
            "rank": np.tile(np.repeat(ranks, buckets), len(part)),
            "bucket": np.tile(np.arange(buckets), rows),
            "bytes": np.tile(run.bucket_bytes, rows),
            "start_seconds": start[:, ranks].ravel(),
            "end_seconds": end[:, ranks].ravel(),
            **{"call_seconds": values[:, ranks].ravel() for values in in_calls},
        }


def group_tables(run, groups=GROUPS):
    """Returns {name: table} of the other groups of the run. Each combination of dimensions is a
    table of its own, such as `epochs` (epoch), `epochs_by_rank` (epoch, rank)."""
    found = {}
    for group in groups:
        columns = getattr(run, group)
        for spec in schema.datasets(f"/{group}") if columns else ():
            values = np.asarray(columns.get(spec.name, ()))
            if values.size:
                name = f"{group}_{spec.name}" if spec.dimensions[0] == "rank" else (
                    "_by_".join((group, *spec.dimensions[1:2])))
                add_column(found.setdefault(name, {}), run, spec, values)
    return {name: {"run": np.full(len(next(iter(table.values()))), run.label), **table}
            for name, table in found.items()}


def add_column(table, run, spec, values):
    """Adds the dataset to the table of its first two dimensions, with an index column for each of
    them; a third dimension becomes several columns."""
    shape = values.shape
    scales = [run.epoch_numbers if name == "epoch" else np.arange(size)
              for name, size in zip(spec.dimensions, shape)]
    if len(shape) > 1:
        table.setdefault(spec.dimensions[0], np.repeat(scales[0], shape[1]))
        table.setdefault(spec.dimensions[1], np.tile(scales[1], shape[0]))
    else:
        table.setdefault(spec.dimensions[0], scales[0])
    if len(shape) < 3:
        table[spec.name] = text_or_number(values.ravel())
        return
    labels = schema.dataset(f"/{spec.dimensions[2]}").values
    for place in range(shape[2]):
        label = labels[place] if place < len(labels) else place
        table[f"{spec.name}_{label}"] = values[:, :, place].ravel()


def text_or_number(values):
    return values.astype(str) if values.dtype.kind in "OS" else values


def all_tables(runs, steps_of, ranks_of):
    """Yields (name, names of the columns, iterator of the parts of the table) for the runs. A part
    lacks columns that its run does not have. `steps_of(run)`, `ranks_of(run)`: the steps (indices)
    and ranks of the tables `steps` and `buckets`."""
    table = run_table(runs)
    yield "runs", list(table), iter([table])
    for name, make in (("steps", step_blocks), ("buckets", bucket_blocks)):
        own = [run for run in runs if run.has_steps and (name == "steps" or len(run.bucket_bytes))]
        if own:
            empty = [next(make(run, [])) for run in own]
            yield name, names_of(empty), (part for run in own for part in make(
                run, steps_of(run), ranks_of(run)))
    found = {}
    for run in runs:
        for name, table in group_tables(run).items():
            found.setdefault(name, []).append(table)
        for part in run.parts:  # joined runs have no telemetry: each part has its own clock
            for name, table in group_tables(part, ("telemetry",)).items():
                table["run"] = np.full(len(table["run"]), run.label)
                table["part"] = np.full(len(table["run"]), part.integer("part"))
                found.setdefault(name, []).append(table)
    for name, tables in found.items():
        yield name, names_of(tables), iter(tables)


def names_of(tables):
    return list(dict.fromkeys(name for table in tables for name in table))


def write_csv(folder, runs, selection):
    for name, columns, parts in all_tables(runs, selection.steps_of, selection.ranks_of):
        folder.write(f"{name}.csv", csv_parts(columns, parts), folder.kinds[0])


def csv_parts(columns, parts):
    """Yields the CSV of a table in parts, as bytes. Columns that a part lacks are empty."""
    yield rows_text([columns])
    for table in parts:
        rows = len(next(iter(table.values())))
        yield rows_text(zip(*(cells(table[name]) if name in table else [""] * rows
                              for name in columns)))


def rows_text(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def cells(values):
    """Returns exact numbers, "" for NaN, 0 and 1 for truth values, and texts that spreadsheets do not evaluate."""
    if values.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in values.tolist()]
    if values.dtype.kind in "OSU":
        return [csv_cell(str(value)) for value in values]
    return (values.astype(int) if values.dtype.kind == "b" else values).tolist()


def write_parquet(folder, runs, selection):
    pandas = require("pandas", "export to Parquet")
    if not any(map(find_spec, ENGINES)):
        raise ReportError(USAGE, "export to Parquet needs pyarrow or fastparquet, which Debian 12 does "
                                 "not have: pip install pyarrow, or export to CSV")
    for name, columns, parts in all_tables(runs, selection.steps_of, selection.ranks_of):
        frame = pandas.concat([pandas.DataFrame(part) for part in parts], ignore_index=True)
        content = io.BytesIO()
        close, content.close = content.close, lambda: None  # fastparquet closes its file
        frame[columns].to_parquet(content, index=False)
        folder.write(f"{name}.parquet", content.getvalue(), folder.kinds[0])
        close()
