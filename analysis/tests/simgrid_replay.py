# SPDX-License-Identifier: BSD-3-Clause
"""Writes the all-reduces of a training step as a time-independent trace and replays it in SimGrid
(SMPI), which simulates every message. The platform has links without protocol overheads, so that
its only parameters are those of the model: latency and bandwidth.
"""

import os
import re
import subprocess

SPEED = 1e9  # flop/s of a simulated host; a trace gives computation in flops
BYTE = 6  # SMPI's number of a data type of one byte
OPTIONS = [
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/weight-S:0",
    "--cfg=network/latency-factor:1",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/crosstraffic:0",
    "--cfg=smpi/host-speed:1e9",
    "--log=root.fmt:%m%n",
]
HEADER = (
    "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
    '"https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
)


def cluster(hosts, alpha, beta):
    """Returns a platform of hosts with one full-duplex link each. A message crosses two links."""
    return (
        HEADER + f'<cluster id="c" prefix="h" suffix="" radical="0-{hosts - 1}" speed="1Gf" '
        f'bw="{1 / beta:.9e}Bps" lat="{alpha / 2:.9e}s" sharing_policy="SPLITDUPLEX" '
        'loopback_bw="1e15Bps" loopback_lat="0s"/>\n</platform>\n'
    )


def grouped(groups, size, alpha, beta, alpha_between, beta_between):
    """Returns a platform of groups of hosts. The hosts of a group share one full-duplex link to the
    other groups."""
    text = HEADER + '<zone id="world" routing="Full">\n'
    for g in range(groups):
        text += (
            f'<cluster id="c{g}" prefix="h" suffix="" '
            f'radical="{g * size}-{(g + 1) * size - 1}" speed="1Gf" bw="{1 / beta:.9e}Bps" '
            f'lat="{alpha / 2:.9e}s" sharing_policy="SPLITDUPLEX" router_id="r{g}"/>\n'
        )
    for g in range(groups):
        for way in ("out", "in"):
            text += (
                f'<link id="{way}{g}" bandwidth="{1 / beta_between:.9e}Bps" '
                f'latency="{max(0.0, alpha_between - alpha) / 2:.9e}s"/>\n'
            )
    for a in range(groups):
        for b in range(groups):
            if a != b:
                text += (
                    f'<zoneRoute src="c{a}" dst="c{b}" gw_src="r{a}" gw_dst="r{b}" '
                    f'symmetrical="NO"><link_ctn id="out{a}"/><link_ctn id="in{b}"/>'
                    "</zoneRoute>\n"
                )
    return text + "</zone>\n</platform>\n"


def replay(folder, platform, traces, hosts, *options):
    """Replays `traces`, one list of lines per process on the host numbers `hosts`. Returns the
    simulated seconds."""
    (folder / "platform.xml").write_text(platform)
    (folder / "hosts").write_text("".join(f"h{host}\n" for host in hosts))
    names = []
    for process, lines in enumerate(traces):
        path = folder / f"trace-{process}"
        path.write_text("".join(f"{process} {line}\n" for line in ("init", *lines, "finalize")))
        names.append(f"{path}\n")
    (folder / "traces").write_text("".join(names))
    done = subprocess.run(
        [
            os.environ.get("LOCKSTEP_SMPIRUN", "smpirun"),
            "-platform",
            folder / "platform.xml",
            "-hostfile",
            folder / "hosts",
            "-np",
            str(len(traces)),
            "-replay",
            folder / "traces",
            *OPTIONS,
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=folder,
        check=False,
    )
    found = re.search(r"Simulation time ([\d.eE+-]+)", done.stdout + done.stderr)
    assert found, done.stdout + done.stderr
    return float(found[1])


def compute(seconds):
    return f"compute {seconds * SPEED:.6f}"


def exchange(own, to, source, sent):
    """Lines that send `sent` bytes to process `to` and receive as many from `source`."""
    return [
        f"isend {to} 0 {sent:.6f} {BYTE}",
        f"recv {source} 0 {sent:.6f} {BYTE}",
        f"wait {own} {to} 0",
    ]


def ring_turns(members, own, sent, turns):
    """Lines of `turns` turns of a ring of processes `members`."""
    place = members.index(own)
    after, before = members[(place + 1) % len(members)], members[place - 1]
    return exchange(own, after, before, sent) * turns if len(members) > 1 else []


def ring(members, own, size):
    return ring_turns(members, own, size / len(members), 2 * (len(members) - 1))


def hierarchical(processes, own, size, group):
    """A ring reduce-scatter in groups of `group` processes, a ring between the groups, a ring
    all-gather in the groups."""
    index = processes.index(own)
    inside = processes[index - index % group : index - index % group + group]
    between = processes[index % group :: group]
    part = size / group
    return [
        *ring_turns(inside, own, part, group - 1),
        *ring(between, own, part),
        *ring_turns(inside, own, part, group - 1),
    ]


def step_traces(ready, backward_end, update, sizes):
    """Returns the traces of a step on N ranks with 2 N processes: process r computes and process
    N + r, on the same host, reduces the buckets by a ring. `ready` (rank, bucket), `backward_end`
    and `update` (rank) in seconds."""
    ranks = len(ready)
    reducers = list(range(ranks, 2 * ranks))
    computing, reducing = [], []
    for r in range(ranks):
        lines, now = [], 0.0
        for time in ready[r]:
            lines += [compute(time - now), f"send {ranks + r} 1 1 {BYTE}"]
            now = time
        lines += [
            compute(backward_end[r] - now),
            f"recv {ranks + r} 2 1 {BYTE}",
            compute(update[r]),
        ]
        computing.append(lines)
        lines = []
        for size in sizes:
            lines += [f"recv {r} 1 1 {BYTE}", *ring(reducers, ranks + r, size)]
        reducing.append([*lines, f"send {r} 2 1 {BYTE}"])
    return [*computing, *reducing]
