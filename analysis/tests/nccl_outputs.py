# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of nccl-tests in the formats of its versions."""

import json

ALPHA, BETA = 3e-6, 5e-12  # s per message, s per byte
SIZES = [2**k for k in range(10, 28, 2)]
HEAD = [
    "# nccl-tests version 2.19.6 nccl-headers=22807 nccl-library=22807",
    "# Collective test starting: all_reduce_perf",
    (
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg"
        " iters: 1 validation: 1"
    ),
    "# Using devices",
]
NOTICES = [  # other lines, which are no measurements
    "node-0:70:81 [0] NCCL INFO comm 0x5 rank 0 nranks 8",
    "  1048576  262",
    "2 of 8 ranks",
]


def microseconds(ranks, size):
    """A ring: 2(n-1) messages of 1/n of the array."""
    return 1e6 * 2 * (ranks - 1) * (ALPHA + size / ranks * BETA)


def bandwidths(ranks, size, factor=None):
    algorithm = 1e-3 * size / microseconds(ranks, size)
    return algorithm, algorithm * (2 * (ranks - 1) / ranks if factor is None else factor)


def devices_of(ranks, hosts):
    """Returns the first lines, with one per rank."""
    return HEAD + [
        f"#  Rank {rank:2} Group  0 Pid   {70 + rank} on    node-{rank * hosts // ranks} device"
        f" {rank:2} [0000:0{rank}:00] NVIDIA H100"
        for rank in range(ranks)
    ]


def text(
    ranks=8,
    hosts=1,
    root=True,
    devices=True,
    time="time",
    wrong="#wrong",
    sizes=SIZES,
    factor=None,
    prefix="",
    error="0",
    operation="sum",
    data_type="float",
    bounds=0,
):
    """The text with values that follow from ALPHA and BETA. Old versions have no column `root`."""
    lines = devices_of(ranks, hosts) if devices else []
    names = [
        "size",
        "count",
        "type",
        "redop",
        *(["root"] if root else []),
        *[time, "algbw", "busbw", wrong] * 2,
    ]
    lines += [
        "#",
        "#   out-of-place   in-place",
        "#  " + "   ".join(names),
        "#   (B)    (elements)   (us)  (GB/s)  (GB/s)",
    ]
    for size in sizes:
        algorithm, bus = bandwidths(ranks, size, factor)
        measured = f"{microseconds(ranks, size):7.2f}  {algorithm:6.2f}  {bus:6.2f}      {error}"
        lines.append(
            f"  {size:12}  {size // 4:12}  {data_type:>8}  {operation:>6} "
            f" {'    -1' if root else ''}  {measured}  999.99  1.00  1.00  N/A"
        )
    lines += [*NOTICES, f"# Out of bounds values : {bounds} {'FAILED' if bounds else 'OK'}"]
    lines.append("# Avg bus bandwidth    : 41.3")
    return "".join(f"{prefix}{line}\n" for line in lines)


def json_text(ranks=8, name="time"):
    rows = [
        {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": {
                name: microseconds(ranks, size),
                "alg_bw": bandwidths(ranks, size)[0],
                "bus_bw": bandwidths(ranks, size)[1],
                "nwrong": 0.0,
            },
            "in_place": {name: 999.99, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": None},
        }
        for size in SIZES
    ]
    return json.dumps(
        {
            "version": 1,
            "start_time": "2026-01-01",
            "args": ["all_reduce_perf"],
            "env": ["A=b"],
            "nccl_version": 22807,
            "config": {"devices": [{"rank": rank, "hostname": "node-0"} for rank in range(ranks)]},
            "results": [*rows, {"size": 8, "out_of_place": None}],
        }
    )


def per_iteration(content):
    """The text with the columns of the option -I."""
    header = content.replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
    return header.replace(
        "      0  999.99  1.00  1.00  N/A",
        "      0  1.0  9.0  8.0  2.5  999.99  1.00  1.00  N/A  1.0  9.0  8.0  2.5",
    )


def oldest(ranks=8):
    """The text of 2017: other names, milliseconds, no lines about the settings."""
    lines = [
        "nThread 1 nGpus 8 minBytes 1024 maxBytes 9 step: 2(factor) warmup iters: 5 iters: 20"
        " validation: 1"
    ]
    lines += [
        f"#   Rank {rank:2} on     node-0 device {rank:2} [0x3d] Tesla P100"
        for rank in range(ranks)
    ]
    lines += ["#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res"]
    for size in SIZES:
        algorithm, bus = bandwidths(ranks, size)
        lines.append(
            f"  {size} {size // 4} float sum {1e-3 * microseconds(ranks, size):.5f} {algorithm:.2f}"
            f" {bus:.2f} 1e-07 9.9 1.0 1.0 1e-07"
        )
    return "\n".join([*lines, " Out of bounds values : 0 OK", " Avg bus bandwidth    : 41.3", ""])


def json_lines(ranks=8, name="AllReduce"):
    """The JSON lines of rccl-tests."""
    rows = [
        {
            "#wrong": "0",
            "algBw": bandwidths(ranks, size)[0],
            "busBw": bandwidths(ranks, size)[1],
            "gpusPerRank": 1,
            "inPlace": place,
            "name": name,
            "nodes": 1,
            "ranks": ranks,
            "ranksPerNode": ranks,
            "redop": "sum",
            "size": size,
            "time": microseconds(ranks, size) if not place else 999.0,
            "type": "float",
        }
        for size in SIZES
        for place in (0, 1)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def dated(content):
    """The text in a log with a date before each line, and with the dates of the option --timestamp
    after the rows."""
    lines = (
        content.replace("N/A", "N/A  2026-11-26 11:22:33")
        .replace("wrong\n", "wrong  timestamp\n")
        .splitlines()
    )
    return "".join(
        f"2026-11-26T11:22:{number:02}.5Z {number} {line}\n" for number, line in enumerate(lines)
    )
