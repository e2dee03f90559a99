# SPDX-License-Identifier: BSD-3-Clause
"""The bytes that an all-reduce sends over the link of a host, by algorithm and placement of the
ranks. The messages are those of `src/comm/all_reduce`. docs/analysis.md ("Use of the link") has the
formulas."""

import numpy as np

from lockstep_report.measure.metrics import ring_bytes

LONGEST_EXCHANGE = 16 << 10  # bytes up to which `recursive-doubling` exchanges whole arrays


def ring(ranks, size):
    """Every rank sends 2(N-1)/N of the array to the next one."""
    return ring_bytes(size, ranks) * np.roll(np.eye(ranks), 1, axis=1)


def direct(ranks, size):
    """Every rank sends each other one its contribution to 1/N of the array, and the sums of 1/N."""
    return 2 * size / ranks * (1 - np.eye(ranks))


def gather(ranks, size):
    """Rank 0 receives all arrays."""
    sent = np.zeros((ranks, ranks))
    sent[1:, 0] = size
    return sent


def recursive_doubling(ranks, size):
    """Exchanges between ranks whose indices differ in one bit: of the whole array, or of 1/2, 1/4,
    ... in both phases of halving-doubling. Without a power of two, the first ranks form pairs, of
    which only the odd one takes part.
    """
    power = 1 << (ranks.bit_length() - 1)
    pairs = ranks - power
    place = [2 * i + 1 if i < pairs else i + pairs for i in range(power)]
    sent = np.zeros((ranks, ranks))
    distance = 1
    while distance < power:
        part = size if size <= LONGEST_EXCHANGE else 2 * size * distance / power
        for i in range(power):
            sent[place[i], place[i ^ distance]] += part
        distance *= 2
    for even in range(0, 2 * pairs, 2):
        sent[even, even + 1] = sent[even + 1, even] = size
    return sent


MESSAGES = {"ring": ring, "direct": direct, "recursive-doubling": recursive_doubling}


def link_bytes(algorithm, hosts, size):
    """Returns the bytes of an all-reduce of `size` bytes over the link that carries most of them;
    None if the algorithm does not tell its messages. `algorithm`: with its library, as
    `choices.algorithm_of`; `hosts`: host of each rank.
    """
    hosts = np.asarray(hosts)
    names, host, ranks_of = np.unique(hosts, return_inverse=True, return_counts=True)
    name, _, library = algorithm.partition(" ")
    if len(names) < 2:
        return None
    if algorithm == "NCCL":  # by its convention, the bus bandwidth is that of the link
        return ring_bytes(size, len(hosts))
    if library != "(MPI)":
        return None
    if name == "gather-scatter":  # the array is scattered after it was gathered
        return 2 * crossing(gather(len(hosts), size), host)
    # The ranks of a host divide the array, and each sums its part directly.
    if name == "hierarchical":
        return ring_bytes(size, len(names)) if len(set(ranks_of)) == 1 else None
    return crossing(MESSAGES[name](len(hosts), size), host) if name in MESSAGES else None


def crossing(sent, host):
    """Returns the largest number of bytes that enter or leave a host. `sent`: (source,
    destination)."""
    between = np.zeros((host.max() + 1,) * 2)
    np.add.at(between, (host[:, None], host[None, :]), sent)
    np.fill_diagonal(between, 0)
    return float(max(between.sum(axis=0).max(), between.sum(axis=1).max()))
