# SPDX-License-Identifier: BSD-3-Clause
"""Reads epoch times from a CSV. docs/analysis.md ("Epoch times from a CSV") lists the columns. They may be separated by
commas, semicolons or tabs, and their names may have capital letters and blanks. Numbers may have decimal commas and
separators of thousands. Lines that start with # and empty lines are ignored."""

import csv
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile.file_kind import CSV, TEXT, read_text

RANKS = ("ranks", "gpus", "workers")
BATCH = ("batch_per_rank", "batch_per_gpu")
SECONDS = ("epoch_seconds",)
NUMBERS = re.compile("|".join((*RANKS, *BATCH, *SECONDS, "published_", "cpu_", "network_")))
WANTED = "ranks (or gpus, workers), batch_per_rank (or batch_per_gpu) and epoch_seconds"


@dataclass(frozen=True)
class Row:
    """One point of the CSV. Decimal numbers keep their printed digits."""

    source: str
    ranks: int
    batch_per_rank: int  # None if the file has no such column
    seconds: Decimal
    published: dict  # column -> Decimal; empty cells are omitted
    cpu_percent: float = None  # user + system, mean over nodes
    network_mb_per_s: float = None  # mean over nodes


@dataclass(frozen=True)
class Times:
    path: Path
    rows: list
    published_columns: list


def read_times(path):
    """Reads the CSV `path`. If it has a column `node`, the rows of a point are its nodes and are
    merged: time of the slowest node, mean CPU use and traffic. Otherwise rows of the same point are
    repeats. Raises `ReportError` (input) if the file cannot be read or a value is invalid."""
    table = Table(Path(path))
    names = table.names
    ranks, seconds = (table.one_of(wanted) for wanted in (RANKS, SECONDS))
    batch = next((name for name in BATCH if name in names), None)
    published = [n for n in names if n.startswith("published_")]
    groups = grouped(table.rows, lambda row: (
        table.whole(*row, ranks), batch and table.whole(*row, batch),
        row[1].get("repeat") if "node" in names else row[0]))
    rows = [join(table, key, group, seconds, published) for key, group in groups.items()]
    return Times(table.path, rows, published)


def join(table, key, group, seconds, published):
    times = [table.decimal(number, line, seconds) for number, line in group]
    number, first = group[0]
    if min(times) <= 0:
        raise ReportError(INPUT, f"{table.path}:{number}: {seconds} must be above 0")

    def mean(*names):
        """Returns the mean over the nodes of the sum of these columns; None if no node has a value."""
        found = [sum(float(table.decimal(n, line, name)) for name in names) for n, line in group if line.get(names[0])]
        return sum(found) / len(found) if found else None

    return Row(
        source=one_line(table.path.name),
        ranks=key[0],
        batch_per_rank=key[1],
        seconds=max(times),
        published={c: table.decimal(number, first, c) for c in published if first.get(c)},
        cpu_percent=mean("cpu_user_percent", "cpu_system_percent"),
        network_mb_per_s=mean("network_mb_per_s"),
    )


class Table:
    """The cells of a CSV. `names`: of its columns, in small letters with underscores; `rows`: [(number
    of the line, {name: cell})]. Raises `ReportError` (input) if the file is not a table."""

    def __init__(self, path):
        self.path = path
        text = read_text(path, "a CSV table", (CSV, TEXT), f"give a text with the columns {WANTED}")
        lines = ["" if is_comment(line) else line.lstrip("#") for line in text.splitlines()]
        first = next(filter(str.strip, lines), "")
        given = re.fullmatch("sep=(.)", first.strip(), re.I)  # of Excel
        if given:
            lines[lines.index(first)] = ""
        self.separator = given[1] if given else max(",;\t", key=first.count)
        try:
            header, *found = self.cells(lines) or [(0, [])]
        except csv.Error as error:
            raise ReportError(INPUT, f"{path}: not a CSV table ({error}); give a text with the columns "
                                     f"{WANTED}") from error
        self.given_names = header[1]
        self.names = list(map(plain_name, self.given_names))
        twice = next((n for n in self.names if n and self.names.count(n) > 1), None)
        if twice:
            raise ReportError(INPUT, f"{path}: two columns are named {twice}; delete or rename one")
        self.rows = []
        for number, cells in found:
            if any(cells[len(self.names):]):
                raise ReportError(
                    INPUT, f"{path}:{number}: {len(cells)} cells, but the first line names "
                           f"{len(self.names)} columns; separate columns by ; if numbers have decimal commas")
            if cells != self.given_names:  # the header is repeated if tables were joined
                self.rows.append((number, dict(zip(self.names, cells))))
        if not self.rows:
            raise ReportError(INPUT, f"{path}: no column has a value; write one line for each run below their names")
        self.decimal_mark = decimal_mark([cell for _, row in self.rows for name, cell in row.items()
                                          if NUMBERS.match(name)], self.separator)

    def cells(self, lines):
        """Returns [(number of the line, cells)] of the lines with cells."""
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=True)
        found = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
        return [(number, cells) for number, cells in found if any(cells)]

    def one_of(self, wanted):
        for name in wanted:
            if name in self.names:
                return name
        found = ", ".join(filter(None, self.given_names)) or "none"
        raise ReportError(INPUT, f"{self.path}: no column {' or '.join(wanted)} (found: {found}); name the columns "
                                 f"{WANTED} in the first line, separated by commas, semicolons or tabs")

    def decimal(self, number, line, name):
        text = line.get(name) or ""
        with suppress(ArithmeticError):  # of `decimal`
            value = Decimal(self.plain(text))
            if value.is_finite() and abs(value) < Decimal("1e300"):
                return value
        remedy = ("write it with a decimal point and without other separators"
                  if re.fullmatch(r"[\d.]+,\d+", text) else "delete the line if the run has no result")
        raise ReportError(INPUT, f'{self.path}:{number}: {name} is "{text}", a number is needed; {remedy}')

    def plain(self, text):
        """Returns the number `text` with a decimal point and without separators of thousands."""
        text = re.sub(rf"(?<=\d){THOUSANDS}(?=\d{{3}}(?!\d))", "", text)
        if self.decimal_mark == ".":
            return re.sub(r",(?=\d{3}(?!\d))", "", text)
        if self.decimal_mark == ",":
            return re.sub(r"\.(?=\d{3}(?!\d))", "", text).replace(",", ".")
        return text

    def whole(self, number, line, name):
        value = self.decimal(number, line, name)
        if value != value.to_integral_value() or value < 1:
            raise ReportError(INPUT, f"{self.path}:{number}: {name} is {value}, 1, 2, ... is needed")
        return int(value)


THOUSANDS = r"[\s'\u2019]"  # separators of thousands besides comma and point


def decimal_mark(cells, separator):
    """Returns the decimal mark of the numbers in `cells`: the one that does not precede exactly three
    digits somewhere, or that follows the other mark. Returns None if no number shows it."""
    def is_shown(mark, other):
        pattern = rf"[+-]?(\d|{THOUSANDS})*{mark}(\d{{1,2}}|\d{{4,}})|.*\d{other}\d{{3}}{mark}\d+"
        return any(re.fullmatch(pattern, cell) for cell in cells)

    if is_shown(r"\.", ","):
        return "."
    has_commas = separator == ";" and any(re.fullmatch(r"[\d.]+,\d+", cell) for cell in cells)
    return "," if has_commas or is_shown(",", r"\.") else None


def plain_name(name):
    """Returns the name of a column in small letters, with underscores for blanks and without its unit."""
    return re.sub(r"[\s-]+", "_", re.sub(r"[(\[].*", "", name).strip().lower())


def is_comment(line):
    """Returns whether a line is a comment. NumPy writes # before the names of the columns."""
    return line.startswith("#") and not {*SECONDS} & {plain_name(name) for name in re.split("[,;\t]", line[1:])}
