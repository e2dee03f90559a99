# SPDX-License-Identifier: BSD-3-Clause
"""Reads epoch times from the text of a table."""

from lockstep_report.runfile.times_csv import read_times


def read(tmp_path, content):
    path = tmp_path / "times.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_times(path)


def rows_of(tmp_path, content):
    """Returns [(ranks, batch, seconds)] of a table, and its notes."""
    found = read(tmp_path, content)
    return [(row.ranks, row.batch_per_rank, float(row.seconds)) for row in found.rows], found.notes


TIMES = [(1, None, 83.4), (2, None, 45.0)]
