# SPDX-License-Identifier: BSD-3-Clause
"""The lines of a table of epoch times, and those that have no result."""

import re
from dataclasses import dataclass, field
from decimal import Decimal

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile.file_kind import CSV, TEXT, read_text
from lockstep_report.runfile.quantities import (
    decimal,
    decimal_mark,
    is_missing,
    plain_number,
    seconds_in,
)
from lockstep_report.runfile.settings import plural, some_of
from lockstep_report.runfile.text_table import lines_with_cells
from lockstep_report.runfile.times_columns import (
    BATCH,
    DEVICE,
    EXTRA,
    GLOBAL_BATCH,
    JOB,
    NODES,
    NOUN,
    PART,
    PER_NODE,
    POINT,
    RANKS,
    REPEAT,
    SECONDS,
    SEQUENCE,
    SERIES,
    STATE,
    TIME,
    UNCLEAR_BATCH,
    WANTED,
    batch_column,
    column_of,
    columns_of,
    is_header,
)

NO_RESULT = re.compile(  # states of Slurm, W&B and MLflow
    r"fail|cancel|time_?out|out_of_me|oom|node_fail|preempt|boot_fail|deadline|revoked|running|"
    r"pending|error|crash|kill|abort",
    re.I,
)
STEP_OF_JOB = re.compile(r".+\.(batch|extern|interactive|\d+)")  # lines of sacct beside their job
RATE_LIKE = re.compile(  # images/s, samples_per_sec, img/sec, throughput
    r"(?:im(?:age|g)|sample|example)s?\W*(?:/|_?per_?|p)\s*s|throughput", re.I
)
TIME_LIKE = re.compile(r"time|elapsed|second|duration|^real$|^t$", re.I)
EXTRAS = ("cpu_user_percent", "cpu_system_percent", "network_mb_per_s")


@dataclass
class TimesEntry:
    """A line with a result, or a part without one."""

    number: int  # of the line
    ranks: int
    batch: int  # per rank; None if it is not stated
    seconds: Decimal  # None if this part has no result
    repeat: tuple  # values of the columns of repeats
    part: tuple  # values of the columns of parts
    place: int  # number of the epoch; 0 without such a column
    series: dict  # {column: value} of the columns of series
    extra: dict = field(default_factory=dict)  # {column: number}
    published: dict = field(default_factory=dict)  # {column: Decimal}; empty cells are omitted


def named_cells(line):
    """Returns {name: (column, cell)} of the cells of a line with known columns."""
    pairs = zip(columns_of(line.names), line.cells)
    return {column.name: (column, cell) for column, cell in pairs if column}


class TimesTable:
    """The entries of a file, and notes on what was not used and on how the times were found. Raises
    `ReportError` (input) if the file is not such a table."""

    def __init__(self, path):
        self.path, self.left_out, self.method = path, {}, {}
        text = read_text(path, "a CSV table", (CSV, TEXT), f"give a text with the columns {WANTED}")
        separator, self.header, lines = lines_with_cells(path, text, is_header, WANTED)
        self.columns = columns_of(self.header)
        self.check_columns()
        if not lines:
            raise self.error("no column has a value; write one line for each run below their names")
        rows = [(line.number, named_cells(line)) for line in lines]
        self.columns = [
            column and column._replace(role=self.role_of(column, rows)) for column in self.columns
        ]
        self.mark = decimal_mark(
            [
                cell
                for _, row in rows
                for column, cell in row.values()
                if column.role in (POINT, TIME, EXTRA)
            ],
            separator,
        )
        self.entries = [entry for number, row in rows if (entry := self.entry(number, row))]
        self.series = self.series_that_differ()

    def check_columns(self):
        plain = [column.plain for column in map(column_of, self.header) if column and column.name]
        for name in plain:
            if plain.count(name) > 1:
                raise self.error(f"two columns are named {name}; delete or rename one")
        for wanted, text in ((RANKS, "ranks or gpus or workers"), (SECONDS, "epoch_seconds")):
            names = self.counts() if wanted == RANKS else [wanted]
            if any(self.named(name) is None for name in names):
                raise self.missing(wanted, text)
        batch, time = batch_column(self.columns), self.named(SECONDS)
        if batch and batch.name == UNCLEAR_BATCH:
            raise self.error(
                f"is {batch.given} the batch of each rank or of all ranks? name the "
                "column batch_per_rank or global_batch"
            )
        if time.unit is None:
            raise self.error(
                f"the name {time.given} states two units; name the column epoch_seconds"
            )
        if not time.is_stated:
            self.method["unit"] = f"column {time.given}: numbers without a unit are seconds"

    def role_of(self, column, rows):
        """Returns the role of a column: that of devices depends on its cells."""
        if column.role != DEVICE:
            return column.role
        cells = [row[column.name][1] for _, row in rows if column.name in row]
        return PART if all(cell.isdigit() or is_missing(cell) for cell in cells) else SERIES

    def series_that_differ(self):
        """Returns the columns of series in which rows differ that are otherwise the same point."""
        points = grouped(
            self.entries,
            lambda entry: (entry.ranks, entry.batch, entry.repeat, entry.part, entry.place),
        ).values()
        return [
            column
            for column in self.of_role(SERIES)
            if any(len({entry.series[column.name] for entry in rows}) > 1 for rows in points)
        ]

    def missing(self, wanted, text):
        """Returns the error of a table without a column, which names one that may be meant."""
        found = ", ".join(filter(None, self.header)) or "none"
        return self.error(f"no column {text} (found: {found}); {self.advice_about(wanted)}")

    def advice_about(self, wanted):
        if wanted == SECONDS:
            for name in filter(RATE_LIKE.search, self.header):
                return (
                    f"{name} is a rate: add a column epoch_seconds with the images of an epoch / "
                    f"{name}"
                )
            for name in filter(TIME_LIKE.search, self.header):
                return f"if {name} is the time of an epoch, name it epoch_seconds"
        return (
            f"name the columns {WANTED} in the first line, separated by commas, semicolons, tabs, "
            "vertical bars or blanks"
        )

    def named(self, name):
        return next((column for column in self.columns if column and column.name == name), None)

    def of_role(self, role):
        """Returns the columns of a role; of sequences only the first."""
        found = [column for column in self.columns if column and column.role == role]
        return found[:1] if role == SEQUENCE else found

    def names(self, role):
        return some_of([column.given for column in self.of_role(role)])

    def entry(self, number, row):
        """Returns the entry of a line {name: (column, cell)}; None if it has no result and is no
        part of an epoch."""
        cells = {name: cell for name, (_, cell) in row.items()}
        reason, is_part = self.lack_of(row, cells)
        time = None if reason else self.time(number, *row[SECONDS])
        if time == 0:
            reason, is_part, time = f"{row[SECONDS][0].given} is 0", True, None
        if reason:
            self.left_out.setdefault(reason, []).append(number)
        if reason and not (is_part and self.of_role(PART)):
            return None
        ranks = self.ranks(number, row)
        return TimesEntry(
            number,
            ranks,
            self.batch(number, row, ranks),
            time,
            *(
                tuple(cells.get(column.name, "") for column in self.of_role(role))
                for role in (REPEAT, PART)
            ),
            place=self.place_of(cells),
            series={column.name: cells.get(column.name, "") for column in self.of_role(SERIES)},
            extra={
                name: float(self.decimal(number, *row[name]))
                for name in EXTRAS
                if not is_missing(cells.get(name, ""))
            },
            published={
                name: self.decimal(number, *row[name])
                for name, cell in cells.items()
                if name.startswith("published_") and not is_missing(cell)
            },
        )

    def place_of(self, cells):
        """Returns the number of an entry in its sequence; 0 without a sequence."""
        for column in self.of_role(SEQUENCE):
            return int(re.search(r"\d+", cells[column.name])[0])
        return 0

    def lack_of(self, row, cells):
        """Returns why a line has no result, or None, and whether only its time is missing."""
        if STEP_OF_JOB.fullmatch(cells.get(JOB, "")):
            return "a step of a job", False
        batch = batch_column(self.columns)
        needed = [*self.counts(), *([batch.name] if batch else [])]
        needed += [column.name for column in self.of_role(SEQUENCE)]
        for name in needed:
            column, cell = row.get(name) or (self.named(name), "")
            if is_missing(cell) or name not in (BATCH, GLOBAL_BATCH) and not re.search(r"\d", cell):
                return f"{column.given} is {cell}" if cell else f"no {column.given}", False
        state = next((cells.get(column.name, "") for column in self.of_role(STATE)), "")
        if NO_RESULT.match(state):
            return f"state {state}", True
        column, cell = row.get(SECONDS) or (self.named(SECONDS), "")
        if is_missing(cell):
            return f"{column.given} is {cell}" if cell else f"no {column.given}", True
        return None, False

    def counts(self):
        """Returns the names of the columns whose product is the number of ranks."""
        has_factors = self.named(NODES) and self.named(PER_NODE)
        return [NODES, PER_NODE] if has_factors and not self.named(RANKS) else [RANKS]

    def ranks(self, number, row):
        found = 1
        for name in self.counts():
            column, cell = row[name]
            noun = rf"x|\u00d7|nodes?|(?:{NOUN})(?:s|es)?"
            with_noun = re.fullmatch(rf"(\d+)\s*(?:{noun})", cell, re.I)
            found *= self.whole(number, column, with_noun[1] if with_noun else cell)
        return found

    def batch(self, number, row, ranks):
        column = batch_column([column for column, _ in row.values()])
        if column is None or column.name == UNCLEAR_BATCH:
            return None
        value = self.whole(number, *row[column.name])
        if column.name == BATCH:
            return value
        if value % ranks:
            what = f"{column.given} is {value}, which is no multiple of {ranks} ranks"
            raise self.error(what, number)
        return value // ranks

    def time(self, number, column, cell):
        without_uncertainty = re.sub(r"^[~\u2248]\s*|\s*(?:\u00b1|\+/?-).*$", "", cell)
        text = plain_number(without_uncertainty, self.mark)
        value = seconds_in(text, column.unit)
        if value is None:
            is_number = re.fullmatch(r"[-+\d.,eE\s]+", cell)
            needed = "a number" if is_number else "a time such as 83.4, 1:23 or 1m23.4s"
            raise self.invalid(number, column, cell, needed)
        if value < 0:
            raise self.error(f"{column.plain} must be above 0", number)
        if re.fullmatch(r"\d+:\d+(\.\d+)?", text):
            self.method.setdefault(
                "clock", f"column {column.given}: times such as {cell} are minutes:seconds"
            )
        return value

    def decimal(self, number, column, cell):
        value = decimal(plain_number(cell, self.mark))
        if value is None:
            raise self.invalid(number, column, cell, "a number")
        return value

    def whole(self, number, column, cell):
        value = self.decimal(number, column, cell)
        if value != value.to_integral_value() or value < 1:
            raise self.error(f"{column.plain} is {value}, 1, 2, ... is needed", number)
        return int(value)

    def invalid(self, number, column, cell, needed):
        has_comma = re.fullmatch(r"[\d.]+,\d+", cell)
        remedy = (
            "write it with a decimal point and without other separators"
            if has_comma
            else "delete the line if the run has no result"
        )
        return self.error(f'{column.plain} is "{cell}", {needed} is needed; {remedy}', number)

    def error(self, text, number=None):
        """Returns the error of the file, or of one of its lines."""
        place = self.path if number is None else f"{self.path}:{number}"
        return ReportError(INPUT, f"{place}: {text}")

    def no_time(self):
        """Returns the error of a table in which no row has a result."""
        reasons = "; ".join(
            f"{reason} in {plural(len(lines), 'line')}" for reason, lines in self.left_out.items()
        )
        return self.error(f"no line has a result ({reasons}); give the time of at least one run")

    def notes(self):
        """Returns the notes, one line each, which begin with the name of the file."""
        factors = [self.named(name) for name in (NODES, PER_NODE) if RANKS in self.counts()]
        idle = {
            column.given
            for column in (*self.of_role(SERIES), *factors)
            if column and column not in self.series
        }
        unused = [
            given
            for given, column in zip(self.header, self.columns)
            if given and (column is None or given in idle)
        ]
        texts = [
            *self.method.values(),
            *(
                f"left out, because {reason}: line {some_of(list(map(str, lines)))}"
                for reason, lines in self.left_out.items()
            ),
        ]
        if unused:
            texts.append(
                f"columns that are not used, and do not tell rows apart: {some_of(unused)}"
            )
        return [one_line(f"{self.path.name}: {text}") for text in texts]
