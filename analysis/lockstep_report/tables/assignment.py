# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the usual course assignment on data-parallel training: numbers of ranks in rows,
and batches per rank in columns. Their cells are those of tables 1 to 3; letters mark the cells
whose times or speedups are restricted, so that a copy of the table keeps the restriction."""

from collections import Counter
from dataclasses import dataclass, replace

from lockstep_report.measure.metrics import Bounds
from lockstep_report.measure.notes import MARKED, notes_of_kind
from lockstep_report.measure.validity import letter
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.table import Column, Table


@dataclass(frozen=True)
class Pivot:
    """A table of the assignment. `headers`: key of a column of the source -> header."""

    kind: TableKind
    source: TableKind
    number: int
    title: str
    headers: dict


PIVOTS = (
    Pivot(
        TableKind.ASSIGNMENT_TIMES,
        TableKind.TIMES,
        1,
        "training time and speedup",
        {"epoch_seconds": "Time (s)", "speedup": "Speedup"},
    ),
    Pivot(
        TableKind.ASSIGNMENT_COMMUNICATION,
        TableKind.COMMUNICATION,
        2,
        "compute and communication time",
        {"compute": "Compute (s)", "exposed": "Communication (s)"},
    ),
    Pivot(
        TableKind.ASSIGNMENT_BANDWIDTH,
        TableKind.BANDWIDTH,
        3,
        "communication bandwidth utilisation",
        {
            "measured_gb_s": "GB/s",
            "measured_percent": "Of the link (%)",
            "measured_peak_percent": "Of the peak of the sweep (%)",
        },
    ),
)


def assignment_tables(tables):
    """Returns the tables of the assignment, with values of `tables`, if these contain several
    batches on 1 rank and on several ranks."""
    of_kind = {table.kind: table for table in tables}
    times = of_kind.get(TableKind.TIMES)
    if times is None:
        return []
    setting = most_common_setting(rows_with_batch(times))
    on_one_rank = [row for row in rows_with_batch(times, setting) if row["ranks"] == 1]
    batches = sorted({row["batch_per_rank"] for row in on_one_rank})
    if len(batches) < 2:
        return []
    made = [
        pivoted(pivot, of_kind[pivot.source], setting, batches)
        for pivot in PIVOTS
        if pivot.source in of_kind
    ]
    return [table for table in made if table and len(table.without_empty_columns()) > 1]


def rows_with_batch(table, setting=None):
    """Returns the rows of trainings with a known batch per rank; of one setting if it is given."""
    return [
        row
        for row in table.rows
        if row["batch_per_rank"]
        and not row["point"].is_independent
        and setting in (None, row["point"].setting)
    ]


def most_common_setting(rows):
    counts = Counter(row["point"].setting for row in rows).most_common(1)
    return counts[0][0] if counts else None


def pivoted(pivot, table, setting, batches):
    """Returns the table of a pivot; None if there is no row of several ranks."""
    rows = [row for row in rows_with_batch(table, setting) if row["batch_per_rank"] in batches]
    if not any(row["ranks"] > 1 for row in rows):
        return None
    cells = {}  # (ranks, batch) -> row; the first mode, but a bandwidth before its bounds
    for row in sorted(rows, key=has_only_bounds):
        cells.setdefault((row["ranks"], row["batch_per_rank"]), row)
    restrictions = restrictions_of(cells.values())
    letters = {note: letter(i) for i, note in enumerate(restrictions)}
    of_key = {column.key: column for column in table.columns}
    columns = [column for batch in batches for column in batch_columns(pivot, of_key, batch)]
    values = [
        row_of_ranks(ranks, batches, cells, pivot, of_key, letters)
        for ranks in sorted({row["ranks"] for row in rows})
    ]
    source = f"table {pivot.number}"
    name = rows[0]["setting"]
    return Table(
        pivot.kind.value,
        f"Table {pivot.number} of the assignment: {pivot.title}",
        [Column("ranks", "Ranks"), *columns],
        values,
        [
            f"one epoch, at a fixed batch per rank; values of {source}, whose notes define them",
            name and f"setting: {name}",
            len(cells) < len(rows) and f"further modes are in {source}",
            *(f"({mark}) {note}" for note, mark in letters.items()),
        ],
        extra=[key for batch in batches for key in extra_keys(pivot, of_key, batch)],
        kind=pivot.kind,
    )


def extra_keys(pivot, of_key, batch):
    """Returns the keys of a row that are no columns: marks, and ends of intervals."""
    ends = {end for key in keys_of(pivot, of_key) for end in of_key[key].interval}
    return [f"{key}_{batch}" for key in ("mark", *sorted(ends))]


def has_only_bounds(row):
    measured = row.get("measured_gb_s")
    return isinstance(measured, Bounds) and measured.value is None


def restrictions_of(rows):
    """Returns the notes of the rows that restrict their times or speedups, each once."""
    found = (note for row in rows for note in notes_of_kind(row["point"].notes, *MARKED))
    return list(dict.fromkeys(found))


def keys_of(pivot, of_key):
    """Returns the keys of the columns of a batch: those of the pivot, and their bounds in the
    CSV."""
    ends = [f"{key}_{end}" for key in pivot.headers for end in ("low", "high")]
    return [*pivot.headers, *(key for key in ends if key in of_key)]


def batch_columns(pivot, of_key, batch):
    """Returns the columns of a batch per rank."""
    columns = [
        replace(
            of_key[key],
            key=f"{key}_{batch}",
            header=f"Batch {batch}: {pivot.headers.get(key, of_key[key].header)}",
            csv_only=key not in pivot.headers,
            interval=tuple(f"{end}_{batch}" for end in of_key[key].interval),
            mark=f"mark_{batch}",
            upper="",
            range_header="",
        )
        for key in keys_of(pivot, of_key)
    ]
    restrictions = Column(f"restrictions_{batch}", f"Batch {batch}: restrictions", csv_only=True)
    return [*columns, restrictions]


def row_of_ranks(ranks, batches, cells, pivot, of_key, letters):
    """Returns the row of a number of ranks. `cells`: (ranks, batch) -> row of the source;
    `letters`: note -> mark of the cells that it restricts."""
    values = {"ranks": ranks}
    for batch in batches:
        row = cells.get((ranks, batch))
        if row is None:
            continue
        needed = {key for name in keys_of(pivot, of_key) for key in (name, *of_key[name].interval)}
        values |= {f"{key}_{batch}": row.get(key) for key in needed}
        notes = notes_of_kind(row["point"].notes, *MARKED)
        values[f"mark_{batch}"] = ", ".join(letters[note] for note in notes) or None
        values[f"restrictions_{batch}"] = "; ".join(notes) or None
    return values
