# SPDX-License-Identifier: BSD-3-Clause
"""The schedule of a step: all-reduces of buckets one after the other, and the updates."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Schedule:
    """Times of simulated steps (draw), in seconds from the start of the step."""

    seconds: np.ndarray  # the step
    all_reduce: np.ndarray  # sum of the all-reduces


def schedule(ready, backward_end, update, all_reduces, sizes, overlap=1.0, has_overlap=True,
             updates_by_bucket=True):
    """Returns the schedule of simulated steps.

    `ready` (draw, bucket): the gradients of the bucket are final on the last rank; `backward_end`,
    `update` (draw): of the last rank; `all_reduces` (draw or 1, bucket): their times alone. During
    the backward pass an all-reduce progresses at the rate `overlap`. Without `has_overlap` the
    all-reduces start at the end of the backward pass.
    """
    if not has_overlap:
        ready = np.broadcast_to(backward_end[:, None], ready.shape)
    free = np.full(len(backward_end), -np.inf)  # end of the previous all-reduce
    now = backward_end.copy()
    shares = sizes / sizes.sum() if updates_by_bucket else None
    for i in range(ready.shape[1]):
        start = np.maximum(ready[:, i], free)
        work = np.broadcast_to(all_reduces[:, i], start.shape)
        done = overlap * np.maximum(0.0, backward_end - start)  # work done at its end
        if overlap > 0:
            free = np.where(done >= work, start + work / overlap,
                            np.maximum(start, backward_end) + work - done)
        else:
            free = np.maximum(start, backward_end) + work
        if updates_by_bucket:
            now = np.maximum(now, free) + shares[i] * update
    if not updates_by_bucket:
        now = np.maximum(now, free) + update
    return Schedule(now, np.broadcast_to(all_reduces.sum(axis=1), now.shape))
