#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# polars and DuckDB read a column of numbers as text if its first rows are empty, and then compute its maximum as of text.
#
# Expected: a table of several runs in one CSV file has a column that the first runs did not measure, so its cells are empty. The
# readers either read the whole column before they choose its type, or fail at the first number.
# Seen: polars 2.1.0 (100 rows) and DuckDB 2.0.1 (about 20480 rows) choose the type text from rows without a value, and read the later
# numbers as text without a message. Means and sums of text are errors, but the largest and smallest values are those in alphabetical
# order: of 1 to 150, the maximum is "99.5". A whole number in these rows (0) is an error in polars and none in DuckDB if a number with a decimal
# point follows. pandas and pyarrow read numbers.
# Consequences: read with `infer_schema_length=None` (polars) or `sample_size=-1` (DuckDB), or use Parquet; look at the types before a
# `max`, `min`, `ORDER BY` or a comparison with a text.
#
# Needs: bash, Python 3.10 to 3.13 with pip, x86-64, 400 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$work/packages" \
  polars==2.1.0 polars-runtime-32==2.1.0 duckdb==2.0.1

cat >"$work/read.py" <<'PYTHON'
import duckdb
import polars


def write(empty, first=""):
    """Writes rows with the value `first`, and 150 rows with 1.5 to 150.5."""
    values = [first] * empty + [f"{i}.5" for i in range(1, 151)]
    with open("table.csv", "w", encoding="utf-8") as file:
        file.write("step,seconds\n" + "".join(f"{step},{value}\n" for step, value in enumerate(values)))


def of_polars(**options):
    try:
        column = polars.read_csv("table.csv", **options)["seconds"]
    except polars.exceptions.ComputeError as error:
        return type(error).__name__
    return str(column.dtype), column.max()


def of_duckdb(options=""):
    return duckdb.sql(f"SELECT typeof(max(seconds)), max(seconds) FROM read_csv('table.csv'{options})").fetchall()[0]


print(f"polars {polars.__version__}, DuckDB {duckdb.__version__}: type and maximum of 1.5 to 150.5")
found = {}
for empty in (99, 100, 20470, 20480):
    write(empty)
    found[empty] = [of_polars(), of_duckdb()]
    print(f"  after {empty} empty cells: polars {found[empty][0]}, DuckDB {found[empty][1]}")
whole = [of_polars(infer_schema_length=None), of_duckdb(", sample_size=-1")]
write(100, "0")
zeros = [of_polars(), of_duckdb()]
print(f"  with all rows examined: polars {whole[0]}, DuckDB {whole[1]}\n  after 100 zeros: polars {zeros[0]}, DuckDB {zeros[1]}")
number, text = [("Float64", 150.5), ("DOUBLE", 150.5)], [("String", "99.5"), ("VARCHAR", "99.5")]
expected = {99: number, 100: [text[0], number[1]], 20470: [text[0], number[1]], 20480: text}
assert found == expected, "the behaviour has changed"
assert whole == number and zeros == ["ComputeError", number[1]], "the behaviour has changed"
PYTHON
cd "$work"
PYTHONPATH=$work/packages python3 read.py
