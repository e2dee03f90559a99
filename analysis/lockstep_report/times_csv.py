"""Reads epoch times from a CSV with the columns ranks (or gpus, workers), batch_per_rank (or
batch_per_gpu), epoch_seconds and optional columns `published_*` with published values to check."""

import csv
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line

RANKS = ("ranks", "gpus", "workers")
BATCH = ("batch_per_rank", "batch_per_gpu")
SECONDS = ("epoch_seconds",)


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
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except OSError as error:
        raise ReportError(INPUT, f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReportError(INPUT, f"{path}: not a CSV file ({error})") from error
    names = list(lines[0]) if lines else []
    ranks, seconds = (one_of(path, names, wanted) for wanted in (RANKS, SECONDS))
    batch = next((name for name in BATCH if name in names), None)
    published = [n for n in names if n and n.startswith("published_")]
    groups = {}
    for number, line in enumerate(lines, start=2):
        key = (whole(path, number, line, ranks), batch and whole(path, number, line, batch),
               line.get("repeat") if "node" in names else number)
        groups.setdefault(key, []).append((number, line))
    rows = [
        join(path, key, group, seconds, published) for key, group in groups.items()
    ]
    return Times(path, rows, published)


def join(path, key, group, seconds, published):
    times = [decimal(path, number, line, seconds) for number, line in group]
    if min(times) <= 0:
        raise ReportError(INPUT, f"{path}:{group[0][0]}: {seconds} must be above 0")
    number, first = group[0]
    busy = [
        sum(float(decimal(path, n, line, c)) for c in ("cpu_user_percent", "cpu_system_percent"))
        for n, line in group if line.get("cpu_user_percent")
    ]
    network = [float(decimal(path, n, line, "network_mb_per_s"))
               for n, line in group if line.get("network_mb_per_s")]
    return Row(
        source=one_line(path.name),
        ranks=key[0],
        batch_per_rank=key[1],
        seconds=max(times),
        published={c: decimal(path, number, first, c) for c in published if first.get(c)},
        cpu_percent=sum(busy) / len(busy) if busy else None,
        network_mb_per_s=sum(network) / len(network) if network else None,
    )


def one_of(path, names, wanted):
    for name in wanted:
        if name in names:
            return name
    raise ReportError(INPUT, f"{path}: no column {' or '.join(wanted)}; the first line names them")


def decimal(path, number, line, name):
    text = (line.get(name) or "").strip()
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite():
        raise ReportError(INPUT, f'{path}:{number}: {name} is "{text}", a number is needed')
    return value


def whole(path, number, line, name):
    value = decimal(path, number, line, name)
    if value != value.to_integral_value() or value < 1:
        raise ReportError(INPUT, f"{path}:{number}: {name} is {value}, 1, 2, ... is needed")
    return int(value)
