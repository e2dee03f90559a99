"""The cells of tables as printed texts, so that sentences have the digits of the tables."""

from dataclasses import dataclass

from lockstep_report.tables.table import Table, cell_texts


@dataclass(frozen=True)
class Row:
    """A row of a table. `row[key]`: the value; `row.text(key)`: its printed text."""

    table: Table
    place: int

    def __getitem__(self, key):
        return self.table.rows[self.place].get(key)

    def text(self, key):
        column = next(column for column in self.table.columns if column.key == key)
        return cell_texts(column, self.table.rows)[self.place]

    @property
    def is_independent(self):
        """Whether the row is about independent replicas, which train several networks."""
        return self["point"].is_independent

    def interval(self, low, high, unit=""):
        """Returns " (95 % 1.20 to 1.30)", or "" if the row has no interval."""
        if self[low] is None or self[high] is None:
            return ""
        return f" (95 % interval {self.text(low)} to {self.text(high)}{unit})"


def rows_of(book, name):
    """Returns the rows of a table of `book`, {name: table}; none if it does not exist."""
    return [Row(book[name], place) for place in range(len(book[name].rows))] if name in book else []


def batch_text(row):
    return f"batch {row.text('batch_per_rank')} per rank" if row["batch_per_rank"] else "as given"
