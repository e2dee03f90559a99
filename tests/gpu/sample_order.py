"""Order in which a single rank of Lockstep visits the training images; counterpart of src/data/sampler.cpp."""

import numpy as np

PERMUTATION = 1  # value in core::RandomStream
MASK = np.uint64(0xFFFFFFFF)


def philox(counters, key):
    """Computes Philox4x32-10 of `counters` (n, 4) with `key`, a pair of 32-bit words; returns words (n, 4)."""
    words = [counters[:, i].astype(np.uint64) for i in range(4)]
    key0, key1 = key
    for _ in range(10):
        product0, product1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(product1 >> np.uint64(32)) ^ words[1] ^ np.uint64(key0), product1 & MASK,
                 (product0 >> np.uint64(32)) ^ words[3] ^ np.uint64(key1), product0 & MASK]
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, axis=1)


def random_words(seed, stream, index):
    """Yields the 32-bit words that core::Random(seed, stream, index) generates."""
    key = (seed & 0xFFFFFFFF, (seed >> 32) ^ (stream << 24))
    block, size = 0, 4096
    while True:
        counters = np.zeros((size, 4), np.uint64)
        counters[:, 0] = np.arange(block, block + size)
        counters[:, 2], counters[:, 3] = index & 0xFFFFFFFF, index >> 32
        yield from philox(counters, key).reshape(-1).tolist()
        block += size


def epoch_order(samples, seed, epoch=0):
    """Returns the indices of the training images (int64) in the order of epoch `epoch` (from 0) with one rank."""
    words = random_words(seed, PERMUTATION, epoch)
    order = list(range(samples))
    for i in range(samples - 1, 0, -1):  # Fisher-Yates shuffle; bounded random integers by Lemire's method
        bound = i + 1
        threshold = (2**32 - bound) % bound
        product = next(words) * bound
        while product & 0xFFFFFFFF < threshold:
            product = next(words) * bound
        j = product >> 32
        order[i], order[j] = order[j], order[i]
    return np.asarray(order, np.int64)
