# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps from outputs of `all_reduce_perf` of nccl-tests (https://github.com/NVIDIA/nccl-tests):
its text in the formats since 2017, the JSON file of its option --output_file, and the JSON lines of
rccl-tests."""

import json
import math
import re
from collections import defaultdict, namedtuple
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile.file_kind import NCCL_TESTS, read_text
from lockstep_report.runfile.read import run_of

PROGRAM = "nccl-tests"
MOST_RANKS = 1 << 20
EXAMPLE = "all_reduce_perf -b 1K -e 256M -f 2"
# With the names of Lockstep; others keep theirs.
DATA_TYPES = {
    "float": "fp32",
    "half": "fp16",
    "bfloat16": "bf16",
}
DEVICE = re.compile(r"Rank\s+(\d+)\b.*\son\s+(\S+)\s+device\s+\d+\s+\[[^]]*\]\s*(.*)")
ROW = re.compile(
    r"(?<![\w.])(\d+)\s+(\d+)\s+(u?int\d+|half|float|double|bfloat16|f(?:p)?8\w+)\s(.*)"
)
HEADER = re.compile(r"#\s+(?:size\s+count|bytes\s+N)\s+type\b.*\balgbw\s+busbw")
START = re.compile(
    r"\bnccl-tests version \S|\bCollective test starting:|\bnThread \d+ nGpus \d+ minBytes \d"
)
FACTS = {  # patterns in the text; `library`: version of NCCL
    "version": re.compile(r"nccl-tests version (\S+)"),
    "iterations": re.compile(r"warmup iters: \d+ iters: (\d+)"),
    "library": re.compile(r"NCCL version (\d+[\d.]+)"),
    "library_code": re.compile(r"nccl-library=(\d+)"),
    "out_of_bounds": re.compile(r"Out of bounds values\s*: (\d+)"),
    "average": re.compile(r"Avg bus bandwidth\s*: (\S+)"),
}


# An all-reduce out of place. `wrong`: number of wrong elements, also of the one in place; NaN if it
# is not stated.
Row = namedtuple("Row", "type operation root size seconds algbw busbw wrong is_checked")


@dataclass
class NcclTestsTable:
    """The output of one run of the program."""

    ranks: list = field(
        default_factory=list
    )  # (number, host, device); empty if they are not listed
    count: int = 0  # of the ranks, if it is stated without a list
    rows: list = field(default_factory=list)
    lost: int = 0  # rows that are cut off or mixed with other output
    facts: dict = field(
        default_factory=lambda: defaultdict(str)
    )  # name in FACTS -> text; "" if it is not stated
    is_complete: bool = True

    def add_rank(self, rank, host, device):
        self.ranks.append((int(rank), one_line(str(host)), one_line(str(device))))

    def add_row(self, data_type, operation, root, size, measured, wrong, is_checked):
        """Adds a row, unless it has no time. `measured`: time in microseconds, algbw and busbw;
        `wrong`: numbers of wrong elements, NaN if they are not stated. Raises `ValueError` if a
        value is no number."""
        microseconds, algbw, busbw = map(float, measured)
        known = [value for value in wrong if not math.isnan(value)]
        row = Row(
            data_type,
            operation,
            int(root),
            int(size),
            1e-6 * microseconds,
            algbw,
            busbw,
            sum(known) if known else math.nan,
            is_checked,
        )
        if row.size > 0 and 0 < row.seconds < math.inf:
            self.rows.append(row)


def read_nccl_tests(path):
    """Returns the sweeps in an output as a list of `Run`: one for each run of the program, data
    type and operation. Raises `ReportError` (input) if it has none, or cannot be read."""
    path = Path(path)
    text = read_text(path, "an output of nccl-tests", (NCCL_TESTS,), f"give that of {EXAMPLE}")
    runs, failures = [], []
    try:
        tables = json_tables(text) if text.lstrip().startswith("{") else text_tables(text)
        for i, table in enumerate(tables):
            place = f"table {i + 1}" if len(tables) > 1 else ""
            try:
                runs += sweeps_of(path, table, place)
            except ValueError as error:
                failures.append(f"{place}{place and ': '}{error}")
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        failures.append(
            f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        )
        runs = []
    if not runs:
        raise ReportError(
            INPUT,
            f"{path}: this output of nccl-tests cannot be used ({one_line(failures[0])}); give the "
            f"text or JSON of {EXAMPLE}",
        )
    warn(runs[0], [f"not used: {failure}" for failure in failures])
    return runs


def warn(run, lines):
    run.environment["warnings"] = "\n".join(
        filter(None, (run.environment["warnings"], *map(one_line, lines)))
    )


def sweeps_of(path, table, place):
    """Returns the sweeps of a table. Raises `ValueError` if it measures no all-reduces between
    known ranks."""
    ranks = rank_count(table)
    groups = grouped(table.rows, lambda row: (row.type, row.operation))
    found = []
    for (data_type, operation), rows in groups.items():
        name = ", ".join(
            filter(None, (place, f"{data_type} {operation}" if len(groups) > 1 else ""))
        )
        found.append(
            sweep_of(path.with_name(f"{path.name} ({name})") if name else path, table, rows, ranks)
        )
    warn(found[0], warnings_in(table))
    return found


def warnings_in(table):
    """Yields what restricts the use of a table, other than wrong results."""
    if not any(row.is_checked for row in table.rows):
        yield "the results were not checked (option -c)"
    if table.lost:
        yield f"rows that are cut off or mixed with other output and are not used: {table.lost}"
    if not table.is_complete:
        yield "the output ends before its last line: the program was stopped, or the text was cut"


def sweep_of(path, table, rows, ranks):
    """Returns the sweep of rows of one type and operation on a number of ranks."""
    first, facts = rows[0], table.facts
    is_counted = any(not math.isnan(row.wrong) for row in table.rows)
    code = int(facts["library_code"] or 0)
    library = facts["library"] or (
        f"{code // 10000}.{code // 100 % 100}.{code % 100}" if code else ""
    )
    attributes = {
        "program": PROGRAM,
        "software_version": one_line(facts["version"]),
        "status": "complete" if table.is_complete else "incomplete",
    }
    texts = {
        "/config": {
            "command": "allreduce",
            "device": "cuda",
            "transport": "nccl",
            "iterations": facts["iterations"],
            "gradient-dtype": DATA_TYPES.get(first.type, first.type),
            "redop": first.operation,
        },
        "/environment": {"transport": one_line(f"NCCL {library}".strip()), "warnings": ""},
        "/results": {} if is_counted else {"out_of_bounds": int(facts["out_of_bounds"] or 0)},
    }
    return run_of_sweep(
        path,
        attributes,
        texts,
        "nccl",
        [(row.size, row.seconds, row.wrong) for row in rows],
        table.ranks or ranks,
    )


def run_of_sweep(path, attributes, texts, algorithm, rows, ranks):
    """Returns the run of a sweep with the rows [(bytes, seconds, number of wrong elements)] and the
    ranks [(number, host, device)], or their number if they are not listed."""
    _, hosts, devices = zip(*ranks) if isinstance(ranks, list) else [("",) * ranks] * 3
    known = list(map(hosts.index, hosts)) if any(hosts) else []
    columns = {
        "rank": np.arange(len(hosts)),
        "hostname": np.array(hosts),
        "device_name": np.array(devices),
        "host": np.array(known, dtype=int),
    }
    sizes, seconds, wrong = zip(*rows)
    messages = {
        "algorithm": np.array([algorithm] * len(rows)),
        "bytes": np.array(sizes, dtype=np.uint64),
        "seconds": np.array(seconds)[:, None],
        "wrong": np.array(wrong, dtype=float),
    }
    return run_of(path, attributes, texts, {"ranks": columns, "allreduce": messages})


def rank_count(table):
    """Returns the number of ranks: that of the listed devices or, if none are listed, the stated
    one, or that which follows from busbw / algbw, which is 2(n-1)/n for an all-reduce. Raises
    `ValueError` if they disagree, or no all-reduces are measured.
    """
    if not table.rows:
        raise ValueError("it has no bandwidths out of place")
    if any(row.operation in ("", "none") or row.root >= 0 for row in table.rows):
        raise ValueError("it measures no all-reduces")
    best = max(table.rows, key=lambda row: row.algbw)
    stated = len(table.ranks) or table.count
    if stated > MOST_RANKS:
        raise ValueError(f"it has {stated} ranks")
    alone = (
        stated == 1
        or len({number for number, *_ in table.ranks}) < len(table.ranks)
        or best.algbw
        and not best.busbw
    )
    if alone:
        raise ValueError("each process ran alone: build nccl-tests with MPI=1")
    if not best.algbw:
        if not stated:
            raise ValueError("it lists no devices, so the number of ranks is unknown")
        return stated
    factor = best.busbw / best.algbw
    rounded = 1e-3 + 0.005 * (1 + factor) / best.algbw  # of two printed digits
    ranks = stated or round(2 / max(2 - factor, 1e-6))
    if ranks < 2 or abs(factor - 2 * (ranks - 1) / ranks) > rounded:
        listed = f" on the {ranks} ranks that it lists" if stated else ""
        raise ValueError(f"busbw / algbw is {factor:.3f}, which is that of no all-reduce{listed}")
    if not stated and rounded * ranks**2 > 1:  # the next number of ranks has nearly the same factor
        raise ValueError("it lists no devices, so the number of ranks is unknown")
    return ranks


def text_tables(text):
    """Returns the tables of the text. The lines may have prefixes of the launcher or of a log."""
    table, names = NcclTestsTable(), []
    tables = [table]
    for line in text.splitlines():
        device, header, start = (pattern.search(line) for pattern in (DEVICE, HEADER, START))
        if table.rows and (start or device or header) or table.ranks and start:
            table = NcclTestsTable()
            tables.append(table)
        if device:
            table.add_rank(*device.groups())
        if header:
            names = line[header.start() + 1 :].split()
            if "time" not in names:
                raise ValueError("it has CPU times (option -C)")
        table.facts |= {
            fact: found[1] for fact, pattern in FACTS.items() if (found := pattern.search(line))
        }
        if names and (row := ROW.search(line)):
            add_text_row(table, names[3:], row)
    for table in tables:
        table.is_complete = bool(table.facts["average"])
    return [table for table in tables if table.rows or table.ranks] or tables


def add_text_row(table, names, row):
    """Adds the row with the columns `names` after the type, or counts it as lost."""
    words = row[4].split()
    if len(words) < len(names):
        table.lost += 1
        return
    # The first column of each name.
    cells = dict(zip(reversed(names), reversed(words[: len(names)])))
    microseconds = 1000 if "op" in names else 1  # the first versions print milliseconds
    wrong = [number(word) for name, word in zip(names, words) if name == "#wrong"]
    is_checked = not math.isnan(number(cells.get("#wrong", cells.get("error", cells.get("res")))))
    try:
        table.add_row(
            row[3],
            cells.get("redop", cells.get("op", "")),
            cells.get("root", -1),
            row[1],
            (microseconds * float(cells["time"]), cells["algbw"], cells["busbw"]),
            wrong,
            is_checked,
        )
    except ValueError:
        table.lost += 1


def number(text):
    """Returns a number; NaN for "N/A" and a missing one."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def json_tables(text):
    """Returns the tables of the JSON file, or of lines with one JSON object each."""
    contents = (
        list(map(json.loads, text.splitlines()))
        if re.match(r"\s*\{[^\n]*\}\s*\n\s*\{", text)
        else [json.loads(text)]
    )
    return (
        [json_table(contents[0])]
        if "results" in contents[0] or "busBw" not in contents[0]
        else lines_tables(contents)
    )


def lines_tables(contents):
    """Returns one table for each number of ranks in the lines of rccl-tests."""
    tables = {}
    for line in contents:
        if int(line["inPlace"]):
            continue
        table = tables.setdefault(int(line["ranks"]), NcclTestsTable(count=int(line["ranks"])))
        operation = str(line["redop"]) if line["name"] == "AllReduce" else "none"
        wrong = number(line.get("#wrong"))
        table.add_row(
            one_line(str(line["type"])),
            one_line(operation),
            -1,
            line["size"],
            (line["time"], line["algBw"], line["busBw"]),
            [wrong],
            not math.isnan(wrong),
        )
    return list(tables.values()) or [NcclTestsTable()]


def json_table(content):
    """Returns the table of the JSON file."""
    config, bounds, code = (
        content.get("config") or {},
        content.get("out_of_bounds") or {},
        str(content.get("nccl_version") or ""),
    )
    table = NcclTestsTable()
    table.facts |= {
        "library" if "." in code else "library_code": code,
        "iterations": str(config.get("iterations", "")),
        "out_of_bounds": str(bounds.get("count", "")),
    }
    for device in config.get("devices", ()):
        table.add_rank(device["rank"], device["hostname"], device.get("device_info", ""))
    for row in content["results"]:
        found, other = row["out_of_place"], row.get("in_place") or {}
        if not found:
            continue
        if "cpu_time" in found:
            raise ValueError("it has CPU times (option -C)")
        wrong = [number(values.get("nwrong")) for values in (found, other)]
        table.add_row(
            one_line(str(row["type"])),
            one_line(str(row["redop"])),
            row["root"],
            row["size"],
            (found["time"], found["alg_bw"], found["bus_bw"]),
            wrong,
            not math.isnan(wrong[0]),
        )
    return table
