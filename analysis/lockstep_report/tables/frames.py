# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of runs as tables, for pandas, and their export to CSV and with pandas to
Parquet, one file per table. A table is a dict: name of the column -> array (row), with the names
and units of the run file."""

import io
from contextlib import suppress
from importlib.util import find_spec
from itertools import zip_longest
from operator import itemgetter

import numpy as np

from lockstep_report.errors import USAGE, ReportError, require_module
from lockstep_report.escaping import csv_cell
from lockstep_report.groups import grouped
from lockstep_report.measure.window import (
    all_step_seconds,
    batch_per_rank,
    epoch_rate,
    step_seconds,
    timed_window,
)
from lockstep_report.runfile import schema
from lockstep_report.runfile.stored import blocks
from lockstep_report.tables.table import csv_of

# Groups of the run file whose columns `Run` has by these names.
GROUPS = ("epochs", "ladder", "allreduce", "layers", "stack", "telemetry", "profile")
ENGINES = ("pyarrow", "fastparquet")  # of pandas


def run_table(runs):
    """Returns the table of the runs: one row per run, with its options as columns `option_*`."""
    options = sorted({name for run in runs for name in run.config})
    rows = [
        {
            "run": run.label,
            "run_id": run.run_id,
            "status": run.status,
            **{
                name: str(run.attributes.get(name, ""))
                for name in ("date_utc", "software_version", "git_commit")
            },
            "hosts": run.host_count,
            "ranks": run.rank_count,
            "batch_per_rank": float(batch_per_rank(run)) if run.has_steps else np.nan,
            **training_values(run),
            **{f"option_{name.replace('-', '_')}": run.option(name) for name in options},
        }
        for run in runs
    ]
    if not rows:
        return {}
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def training_values(run):
    found = {"timed_epoch": 0, "epoch_seconds": np.nan, "images_per_second": np.nan}
    if run.has_steps:
        window = timed_window(run)
        found["timed_epoch"] = window.epoch
        with suppress(ReportError):  # no rate follows from the times
            found["epoch_seconds"], found["images_per_second"] = epoch_rate(
                run, window, step_seconds(run, window.steps)
            )
    return found


def table_of(shape, columns):
    """Returns a table with one row per combination of indices of `shape`. Columns are broadcast to
    it."""
    return {name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()}


def indices(chosen, count):
    return np.arange(count) if chosen is None else np.asarray(chosen, dtype=int)


def step_blocks(run, steps=None, ranks=None):
    """Yields the table of steps in parts: one row per step and rank, for these steps (indices)
    [all] and ranks [all]."""
    steps, ranks = indices(steps, len(run.step)), indices(ranks, run.rank_count)
    timed = np.zeros(len(run.step), dtype=bool)
    if run.has_steps:
        timed[timed_window(run).steps] = True
    times, hosts = all_step_seconds(run), np.asarray(run.ranks["hostname"], dtype=str)
    both = {"start_seconds": run.step_start} | {
        f"{name}_bytes": values for name, values in run.traffic.items()
    }
    for part, phases in blocks(steps, run.phase_seconds):
        phases = phases[:, ranks]
        yield table_of(
            phases.shape[:2],
            {
                "run": run.label,
                "ranks": run.rank_count,
                "step": run.step[part, None] + 1,
                "epoch": run.epoch[part, None],
                "is_timed": timed[part, None],
                "rank": ranks,
                "host": hosts[ranks],
                "images": run.images[part, None],
                "loss": run.loss[part, None],
                "learning_rate": run.learning_rate[part, None],
                **{f"{name}_seconds": phases[:, :, i] for i, name in enumerate(run.phases)},
                "rank_seconds": phases.sum(axis=2),
                "step_seconds": times[part, None],
                **{name: values[part][:, ranks] for name, values in both.items()},
            },
        )


def bucket_blocks(run, steps=None, ranks=None):
    """Yields the table of the all-reduces in parts: one row per step, rank and bucket."""
    steps, ranks = indices(steps, len(run.step)), indices(ranks, run.rank_count)
    times = {"start_seconds": run.bucket_start, "end_seconds": run.bucket_end}
    if run.bucket_calls is not None:
        times["call_seconds"] = run.bucket_calls
    for part, *found in blocks(steps, *times.values()):
        yield table_of(
            (len(part), len(ranks), len(run.bucket_bytes)),
            {
                "run": run.label,
                "step": run.step[part, None, None] + 1,
                "rank": ranks[:, None],
                "bucket": np.arange(len(run.bucket_bytes)),
                "bytes": run.bucket_bytes,
                **{name: values[:, ranks] for name, values in zip(times, found)},
            },
        )


def group_tables(run, groups=GROUPS):
    """Returns {name: table} of the other groups of the run. The datasets with the same first two
    dimensions are a table, such as `epochs` (epoch), `epochs_by_rank` (epoch, rank), with an index
    column for each of them; a third dimension becomes several columns."""
    found = {}
    for group in groups:
        columns = getattr(run, group) or {}
        for spec in schema.datasets(f"/{group}"):
            values = np.asarray(columns.get(spec.name, ()))
            if values.size:
                table = found.setdefault(table_name(group, spec), {})
                table.update(dataset_table(run, spec, values))
    return found


def table_name(group, spec):
    """Returns the name of the table of a dataset."""
    if spec.dimensions[0] == "rank":
        return f"{group}_{spec.name}"
    return "_by_".join((group, *spec.dimensions[1:2]))


def dataset_table(run, spec, values):
    """Returns the table of a dataset: its index columns and its values."""
    shape = values.shape[:2]
    scales = [
        run.epoch_numbers if dimension == "epoch" else np.arange(size)
        for dimension, size in zip(spec.dimensions, shape)
    ]
    index = dict(zip(spec.dimensions, np.meshgrid(*scales, indexing="ij")))
    return table_of(shape, {"run": run.label, **index, **dataset_columns(spec, values)})


def dataset_columns(spec, values):
    if values.ndim < 3:
        return {spec.name: values.astype(str) if values.dtype.kind in "OS" else values}
    labels = schema.dataset(f"/{spec.dimensions[2]}").values or range(values.shape[2])
    return {f"{spec.name}_{label}": values[:, :, place] for place, label in enumerate(labels)}


def exported_tables(runs, steps_of, ranks_of):
    """Yields (name, names of the columns, iterator of the parts of the table) for the runs. A part
    lacks columns that its run does not have. `steps_of(run)`, `ranks_of(run)`: the steps (indices)
    and ranks of the tables `steps` and `buckets`."""
    table = run_table(runs)
    yield "runs", list(table), iter([table])
    for name, make in (("steps", step_blocks), ("buckets", bucket_blocks)):
        own = [run for run in runs if run.has_steps and (name == "steps" or len(run.bucket_bytes))]
        if own:
            empty = [next(make(run, [])) for run in own]
            yield (
                name,
                names_of(empty),
                (part for run in own for part in make(run, steps_of(run), ranks_of(run))),
            )
    found = [item for run in runs for item in (*group_tables(run).items(), *part_tables(run))]
    for name, tables in grouped(found, itemgetter(0), itemgetter(1)).items():
        yield name, names_of(tables), iter(tables)


def part_tables(run):
    """Yields the tables of the telemetry of the parts of a joined run, each of which has its own
    clock."""
    for part in run.parts:
        for name, table in group_tables(part, ("telemetry",)).items():
            yield (
                name,
                table
                | table_of(len(table["run"]), {"run": run.label, "part": part.integer("part")}),
            )


def names_of(tables):
    return list(dict.fromkeys(name for table in tables for name in table))


def write_csv(folder, runs, selection):
    for name, columns, parts in exported_tables(runs, selection.steps_of, selection.ranks_of):
        folder.write(f"{name}.csv", csv_parts(columns, parts), folder.kinds[0])


def csv_parts(columns, parts):
    """Yields the CSV of a table in parts, as bytes. Columns that a part lacks are empty."""
    yield csv_of([columns]).encode()
    for table in parts:
        rows = zip_longest(
            *(cells(table[name]) if name in table else () for name in columns), fillvalue=""
        )
        yield csv_of(rows).encode()


def cells(values):
    """Returns exact numbers, "" for NaN, 0 and 1 for truth values, and texts that spreadsheets do
    not evaluate."""
    if values.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in values.tolist()]
    if values.dtype.kind in "OSU":
        return [csv_cell(str(value)) for value in values]
    return (values.astype(int) if values.dtype.kind == "b" else values).tolist()


def write_parquet(folder, runs, selection):
    pandas = require_module("pandas", "export to Parquet")
    if not any(map(find_spec, ENGINES)):
        raise ReportError(
            USAGE,
            "export to Parquet needs pyarrow or fastparquet, which Debian 12 does "
            "not have: pip install pyarrow, or export to CSV",
        )
    for name, columns, parts in exported_tables(runs, selection.steps_of, selection.ranks_of):
        frame = pandas.concat([pandas.DataFrame(part) for part in parts], ignore_index=True)
        content = io.BytesIO()
        close, content.close = content.close, lambda: None  # fastparquet closes its file
        frame[columns].to_parquet(content, index=False)
        folder.write(f"{name}.parquet", content.getvalue(), folder.kinds[0])
        close()
