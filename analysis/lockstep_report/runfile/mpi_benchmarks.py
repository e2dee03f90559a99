# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps from outputs of the OSU benchmarks (osu_allreduce,
https://mvapich.cse.ohio-state.edu/benchmarks) and of the Intel MPI benchmarks (IMB-MPI1 Allreduce).
Neither states the all-reduce algorithm."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.runfile.file_kind import IMB, OSU, read_text
from lockstep_report.runfile.nccl_tests import run_of_sweep

PROGRAMS = {OSU: "OSU benchmarks", IMB: "Intel MPI benchmarks"}
EXAMPLES = {OSU: "osu_allreduce -f", IMB: "IMB-MPI1 Allreduce"}
TITLE = re.compile(
    r"# OSU (MPI|NCCL)\S*\s+(.*?)\s+(?:Latency|Bandwidth)? ?Test\s*(?:v([\d.]+))?|"
    r"# Benchmarking\s+(\S+)",
    re.I,
)
VERSION = re.compile(r"MPI Benchmarks (\d[\d.]*)", re.I)
TYPE = re.compile(r"# (?:Datatype:|MPI_Datatype for reductions *:)\s*(\w+)", re.I)
UNKNOWN_ALGORITHM = (
    "the output does not state the all-reduce algorithms, which the library selects by size"
)
DATA_TYPES = {"MPI_FLOAT": "fp32"}
RANKS = re.compile(
    r"#processes = (\d{1,7})\b|# *ranks *[:=] *(\d{1,7})\b|"
    r"(?:-np?|--np|--ntasks)[ =]*(\d{1,7})\b.*\bosu_",
    re.I,
)
NAMES = re.compile(r"#\s*(?:Size\b|bytes\s+#repetitions).*(?:\(us\)|\[usec\])")
COLUMN = re.compile(
    r"(avg|min|max)[ _]latency\(us\)|t_(min|max|avg)\[usec\]|(latency)\(us\)|"
    r"#?(size|bytes|#repetitions|iterations)",
    re.I,
)
ROW = re.compile(r"\s*\d{1,15}(?:\s+\d{1,15}(?:\.\d*)?)+\s*")


@dataclass
class BenchmarkTable:
    """The rows of one benchmark on one number of ranks."""

    name: str
    library: str
    ranks: int = 0
    rows: list = field(default_factory=list)  # (bytes, seconds of the slowest rank, or the mean)

    @property
    def is_of_all_reduces(self):
        return self.name.lower() == "allreduce" and bool(self.rows)


def read_benchmark(path, kind):
    """Returns the sweeps in an output as a list of `Run`: one for each number of ranks. Raises
    `ReportError` (input) if it has no all-reduces of a known number of ranks."""
    path = Path(path)
    text = read_text(path, kind, (kind,), f"give that of {EXAMPLES[kind]}")
    tables = benchmark_tables(text)
    used = [table for table in tables if table.is_of_all_reduces and table.ranks > 1]
    if not used:
        reason = reason_without_tables(tables)
        raise ReportError(
            INPUT, f"{path}: this output of the {PROGRAMS[kind]} cannot be used ({reason})"
        )
    version = VERSION.search(text) or TITLE.search(text)
    data_type = TYPE.search(text)
    numbers = filter(None, reversed(version.groups())) if version else iter(())
    facts = {
        "program": PROGRAMS[kind],
        "status": "complete",
        "software_version": one_line(next(numbers, "")),
    }
    type_name = data_type[1].upper() if data_type else ""
    return [run_of_table(path, facts, type_name, table, len(used) > 1) for table in used]


def reason_without_tables(tables):
    """Returns why none of the tables can be used, and what to do."""
    others = sorted({table.name for table in tables if table.rows and not table.is_of_all_reduces})
    if any(table.is_of_all_reduces and not table.ranks for table in tables):
        return 'it does not state the number of ranks; add the line "# ranks: N"'
    if any(table.ranks == 1 for table in tables):
        return "it measures one rank; give that of at least two"
    return f"it measures {', '.join(map(one_line, others)) or 'nothing'}; give that of all-reduces"


def run_of_table(path, facts, data_type, table, is_one_of_several):
    is_nccl = table.library.upper() == "NCCL"
    device, library = ("cuda", "NCCL") if is_nccl else ("cpu", "MPI")
    config = {
        "command": "allreduce",
        "device": device,
        "transport": library.lower(),
        "gradient-dtype": DATA_TYPES.get(data_type, ""),
    }
    texts = {
        "/config": config,
        "/environment": {"transport": library, "warnings": UNKNOWN_ALGORITHM},
        "/results": {},
    }
    name = path.with_name(f"{path.name} ({table.ranks} ranks)") if is_one_of_several else path
    rows = [(size, seconds, math.nan) for size, seconds in table.rows]
    return run_of_sweep(name, facts, texts, "nccl" if is_nccl else "unknown", rows, table.ranks)


def benchmark_tables(text):
    tables, ranks, columns = [], 0, []
    for line in text.splitlines():
        title, stated = TITLE.search(line), RANKS.search(line)
        if title:
            tables.append(
                BenchmarkTable(title[2] or title[4], title[1] or "MPI", 0 if title[4] else ranks)
            )
            columns = []
        if stated:
            ranks = int(next(filter(None, stated.groups())))
            for table in tables[-1:]:
                table.ranks = ranks
        if NAMES.search(line):
            columns = [
                "".join(filter(None, found.groups())).lower() for found in COLUMN.finditer(line)
            ]
        elif tables and columns and ROW.fullmatch(line):
            add_row(tables[-1], dict(zip(columns, map(float, line.split()))))
    return tables


def add_row(table, cells):
    microseconds = next((cells[name] for name in ("max", "avg", "latency") if name in cells), 0.0)
    size = int(cells.get("size", cells.get("bytes", 0)))
    if size > 0 and microseconds > 0:
        table.rows.append((size, 1e-6 * microseconds))
