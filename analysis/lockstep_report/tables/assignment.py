# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the usual course assignment on data-parallel training: numbers of ranks in rows, and batches per rank in columns."""

from collections import Counter
from dataclasses import replace

from lockstep_report.tables.table import (
    Column,
    Table,
)

ASSIGNMENT = {  # table -> name and title of that of the assignment, and (column, header)
    "table-1-time-speedup": (
        "assignment-1",
        "training time and speedup",
        (("epoch_seconds", "Time (s)"), ("speedup", "Speedup")),
    ),
    "table-2-compute-communication": (
        "assignment-2",
        "compute and communication time",
        (("compute", "Compute (s)"), ("exposed", "Communication (s)")),
    ),
    "table-3-bandwidth": (
        "assignment-3",
        "communication bandwidth utilisation",
        (("measured_gb_s", "GB/s"), ("measured_percent", "Of the link (%)")),
    ),
}


def assignment_tables(tables):
    """Returns the tables of the assignment, with values of `tables`, if these contain several
    batches on 1 rank and on several ranks."""
    made, setting, batches = [], None, ()
    for table in (table for table in tables if table.name in ASSIGNMENT):
        rows = [
            row for row in table.rows if row["batch_per_rank"] and not row["point"].is_independent
        ]
        if setting is None:  # that of most rows
            setting = next(
                iter(Counter(row["point"].setting for row in rows).most_common(1)), (None,)
            )[0]
        rows = [row for row in rows if row["point"].setting == setting]
        batches = batches or sorted({row["batch_per_rank"] for row in rows if row["ranks"] == 1})
        rows = [row for row in rows if row["batch_per_rank"] in batches]
        if len(batches) > 1 and any(row["ranks"] > 1 for row in rows):
            made.append(pivoted(table, rows, batches))
    return [table for table in made if len(table.without_empty_columns()) > 1]


def pivoted(table, rows, batches):
    name, title, headers = ASSIGNMENT[table.name]
    found = {(row["ranks"], row["batch_per_rank"]): row for row in reversed(rows)}
    of_key = {column.key: column for column in table.columns}
    columns = [
        Column("ranks", "Ranks"),
        *(
            replace(
                of_key[key],
                key=f"{key}_{batch}",
                header=f"Batch {batch}: {header}",
                interval=tuple(f"{end}_{batch}" for end in of_key[key].interval),
            )
            for batch in batches
            for key, header in headers
        ),
    ]
    values = [
        {
            "ranks": ranks,
            **{
                f"{key}_{batch}": value
                for batch in batches
                for key, value in found.get((ranks, batch), {}).items()
            },
        }
        for ranks in sorted({row["ranks"] for row in rows})
    ]
    source = table.title[:7].lower()
    return Table(
        name,
        f"Table {name[-1]} of the assignment: {title}",
        columns,
        values,
        [
            f"one epoch, at a fixed batch per rank; values of {source}, whose notes define them",
            rows[0]["setting"] and f"setting: {rows[0]['setting']}",
            len(found) < len(rows) and f"further modes are in {source}",
        ],
    )
