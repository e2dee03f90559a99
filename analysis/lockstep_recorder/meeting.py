# SPDX-License-Identifier: BSD-3-Clause
"""Lets the processes wait for one another before a collective operation, so that one that is called
by some of them only ends with an error that says so, instead of a wait without end or an operation
with others."""

import itertools
import time
import warnings

import torch.distributed as dist
from torch.distributed import distributed_c10d

NOTICE, LIMIT = 30, 1800  # seconds
SHORTEST_PAUSE, LONGEST_PAUSE = 1e-4, 0.05  # seconds
numbers = itertools.count()  # of the Recorders of this process


class Meeting:
    """All processes of `group` create their n-th meeting together. The store is that of
    `init_process_group`; with the backend MPI there is none, and the processes do not wait. Neither
    do they if the store of an earlier attempt of torchrun still counts.
    """

    def __init__(self, group):
        self.size, self.count = dist.get_world_size(group), 0
        self.store = distributed_c10d._get_default_store()
        self.name = f"lockstep_recorder/{dist.get_global_rank(group, 0)}/{next(numbers)}"

    def wait(self, what, advice, notice=NOTICE, limit=LIMIT):
        """Blocks until all processes have called this as often. Prints a warning after `notice`
        seconds, and raises `RuntimeError` after `limit` seconds, with the text `what` of what the
        processes should have done, and `advice`.
        """
        if self.store is None:
            return
        self.count += 1
        key, begin = f"{self.name}/{self.count}", time.monotonic()
        pause, is_silent = SHORTEST_PAUSE, True
        arrived = self.store.add(key, 1)
        # Without Store.wait, whose timeout breaks the connection in PyTorch 1.13.
        while arrived < self.size:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            arrived, seconds = self.store.add(key, 0), time.monotonic() - begin
            text = f"Recorder: {arrived} of {self.size} processes {what} within {seconds:.0f} s"
            if arrived < self.size and seconds > limit:
                raise RuntimeError(f"{text}; {advice}")
            if arrived < self.size and seconds > notice and is_silent:
                is_silent = False
                warnings.warn(f"{text}; this one waits for the others ({advice})", stacklevel=2)
