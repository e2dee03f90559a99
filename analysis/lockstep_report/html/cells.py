"""The cells of tables as printed texts, so that sentences have the digits of the tables."""

from lockstep_report.tables.table import cell_texts


class Cells:
    """A table with the printed text of each cell."""

    def __init__(self, table):
        self.table = table
        self.columns = {column.key: column for column in table.columns}
        self.texts = {}

    def __iter__(self):
        return (Row(self, place) for place in range(len(self.table.rows)))

    def text(self, place, key):
        if key not in self.texts:
            self.texts[key] = cell_texts(self.columns[key], self.table.rows)
        return self.texts[key][place]


class Row:
    """A row. `row[key]`: the value; `row.text(key)`: its printed text."""

    def __init__(self, cells, place):
        self.cells = cells
        self.place = place

    def __getitem__(self, key):
        return self.cells.table.rows[self.place].get(key)

    def text(self, key):
        return self.cells.text(self.place, key)

    @property
    def is_independent(self):
        """Whether the row is about independent replicas, which train several networks."""
        return self["point"].is_independent

    def interval(self, low, high, unit=""):
        """Returns " (95 % 1.20 to 1.30)", or "" if the row has no interval."""
        if self[low] is None or self[high] is None:
            return ""
        return f" (95 % interval {self.text(low)} to {self.text(high)}{unit})"


def by_name(tables):
    """Returns {name: Cells}."""
    return {table.name: Cells(table) for table in tables}


def rows_of(book, name):
    """Returns the rows of a table; none if it does not exist."""
    return list(book[name]) if name in book else []


def batch_text(row):
    return f"batch {row.text('batch_per_rank')} per rank" if row["batch_per_rank"] else "as given"
