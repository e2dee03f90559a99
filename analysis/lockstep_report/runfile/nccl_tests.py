"""Times of all-reduces from the output of `all_reduce_perf` of nccl-tests: its text, the JSON file of its option
--output_file (https://github.com/NVIDIA/nccl-tests), or the JSON line that --json prints with pull request 318."""

import json
import re

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.models.prediction.collectives import FLAT
from lockstep_report.models.prediction.sweep_network import fitted_network, require_one_level
from lockstep_report.runfile.file_kind import NCCL_LINE, NCCL_TESTS, NCCL_TEXT, read_text

EXAMPLE = "all_reduce_perf -b 1K -e 256M -f 2"
DEVICE = re.compile(r"#\s+Rank\s+\d+\s.*\son\s+(\S+)\s+device\s")


def network_of_nccl_tests(paths, algorithm):
    """Returns the network of outputs on any numbers of ranks: one level whose alpha and beta are fitted to
    the times out of place. `algorithm`: of NCCL, which does not state it. Raises `ReportError` (input) if
    the outputs do not determine both."""
    columns, seconds = [], []
    for path in paths:
        text = read_text(path, "an output of nccl-tests", (NCCL_TESTS,), f"give that of {EXAMPLE}")
        try:
            tables = tables_of(text)
            counts = [rank_count(*table) for table in tables]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
            raise ReportError(INPUT, f"{path}: this output of nccl-tests cannot be used ({what}); give the "
                                     f"text or JSON of {EXAMPLE}") from error
        for ranks, (hosts, rows) in zip(counts, tables):
            require_one_level(path, len(set(hosts)), ranks, "outputs")
            columns += [FLAT[algorithm](ranks, size) for size, *_ in rows]
            seconds += [1e-6 * time for _, time, *_ in rows]
    return fitted_network(", ".join(map(str, paths)), "NCCL", algorithm, columns, seconds)


def rank_count(hosts, rows):
    """Returns the number of ranks: that of the listed devices, whose hosts are `hosts`, or, if none are
    listed, from busbw / algbw, which is 2(n-1)/n for an all-reduce. Raises `ValueError` if they disagree."""
    size, _, algorithm, bus = max(rows, key=lambda row: row[2], default=(0, 0, 0, 0))
    if not size or not algorithm:
        raise ValueError("it has no bandwidths out of place")
    factor = bus / algorithm
    if factor == 0:
        raise ValueError("busbw is 0 because each process ran alone: build nccl-tests with MPI=1")
    rounded = 1e-3 + 0.005 * (1 + factor) / algorithm  # of two printed digits
    ranks = len(hosts) or round(2 / max(2 - factor, 1e-6))
    if ranks < 2 or abs(factor - 2 * (ranks - 1) / ranks) > rounded:
        counted = f" on the {ranks} ranks that it lists" if hosts else ""
        raise ValueError(f"busbw / algbw is {factor:.3f}, which is that of no all-reduce{counted}")
    if not hosts and rounded * ranks**2 > 1:  # the next number of ranks has nearly the same factor
        raise ValueError("it lists no devices, so the number of ranks is unknown")
    return ranks


def tables_of(text):
    """Returns [(host of each rank, [(bytes, µs, algbw, busbw)])], one pair per run of the program."""
    line = NCCL_LINE.search(text)
    if line:
        return line_tables(text[line.start():])
    return (json_tables if text.lstrip().startswith("{") else text_tables)(text)


def text_tables(text):
    """Returns [(host of each rank, [(bytes, µs, algbw, busbw)])] of the text, one pair per run of the program.
    The lines may have a prefix of the launcher, such as "0: " of srun."""
    hosts, rows, names, prefix = [], [], None, ""
    tables = [(hosts, rows)]
    for line in text.splitlines():
        device, header = DEVICE.search(line), NCCL_TEXT.search(line)
        if device:
            if rows:
                hosts, rows = [], []
                tables.append((hosts, rows))
            hosts.append(device[1])
        if header:
            prefix, names = line[:header.start()], line[header.start() + 1:].split()
            if "time" not in names:
                raise ValueError("it has CPU times (option -C)")
        words = line[len(prefix):].split() if line.startswith(prefix) else []
        if names and len(words) >= len(names) and words[0].isdigit():
            first = names.index("time")
            row = (int(words[0]), *map(float, words[first:first + 3]))
            rows += [row] if min(row[:2]) > 0 else []
    return tables


def line_tables(text):
    """Returns the same of the JSON line, after which the text may go on. It lists no devices."""
    content, _ = json.JSONDecoder().raw_decode(text)
    found = [item for part in content["benchmark"] for item in part.items()]
    rows = [(int(size), *(float(row[f"oop_{name}"]) for name in ("time", "algbw", "busbw"))) for size, row in found]
    return [([], [row for row in rows if min(row[:2]) > 0])]


def json_tables(text):
    """Returns the same of the JSON file."""
    content = json.loads(text)
    hosts = [device["hostname"] for device in content.get("config", {}).get("devices", ())]
    results = [(row["size"], row["out_of_place"]) for row in content["results"] if row["out_of_place"]]
    if any("cpu_time" in found for _, found in results):
        raise ValueError("it has CPU times (option -C)")
    rows = [(size, *(float(found[name]) for name in ("time", "alg_bw", "bus_bw"))) for size, found in results]
    return [(hosts, [row for row in rows if min(row[:2]) > 0])]
