# SPDX-License-Identifier: BSD-3-Clause
"""The times of all-reduces on equal links, by algorithm. A formula has two parameters: the latency
alpha in seconds per message, and the inverse bandwidth beta in seconds per byte of a link in each
direction. It is linear in both, and a function returns the two factors."""

import math

from lockstep_report.measure.link_bytes import LONGEST_EXCHANGE


def ring_factors(ranks, size):
    """2(n-1) messages of b/n bytes, one after the other."""
    return 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size


def direct_factors(ranks, size):
    """Pairwise exchange: every rank sends b/n bytes to each other rank, twice; the messages are in
    flight at the same time, so their latencies overlap."""
    return 2, 2 * (ranks - 1) / ranks * size


def recursive_doubling_factors(ranks, size):
    """log2 P exchanges of b bytes up to 16 KiB, otherwise halving-doubling (Rabenseifner): 2 log2 P
    messages and 2(P-1)/P b bytes; P is the largest power of two. If n is none, n - P ranks first
    send b bytes to another one and receive b bytes in the end."""
    levels = ranks.bit_length() - 1
    power = 1 << levels
    if size <= LONGEST_EXCHANGE:
        messages, sent = levels, levels * size
    else:
        messages, sent = 2 * levels, 2 * (power - 1) / power * size
    return (messages, sent) if power == ranks else (messages + 2, sent + 2 * size)


def tree_factors(ranks, size):
    """Two pipelined binary trees that each reduce and broadcast half of the array: 2 log2 n
    latencies, and 2b bytes over the link of a rank in each direction."""
    return 2 * math.ceil(math.log2(ranks)), 2 * size


FLAT = {
    "ring": ring_factors,
    "direct": direct_factors,
    "recursive-doubling": recursive_doubling_factors,
    "tree": tree_factors,
}
HIERARCHICAL = "hierarchical"
# Algorithms of each library. The same name means the same formula, but the labels always contain
# the library, because protocols and constants differ.
MODELLED = {
    "MPI": ("ring", "direct", "recursive-doubling", HIERARCHICAL),
    "NCCL": ("ring", "tree", HIERARCHICAL),
}


def flat_seconds(algorithm, ranks, size, alpha, beta):
    """Returns the time of an all-reduce of `size` bytes on links of one kind. `alpha`, `beta`:
    numbers or arrays."""
    if ranks == 1:
        return 0.0 * alpha
    messages, sent = FLAT[algorithm](ranks, size)
    return messages * alpha + sent * beta
