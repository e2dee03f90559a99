# SPDX-License-Identifier: BSD-3-Clause
"""Timestamps of the device of a PyTorch program, which never block the device."""

import time

import torch


class HostClock:
    """The monotonic clock of the host, for programs on CPUs."""

    error = 0.0  # bound on its difference to the monotonic clock of the host, in seconds

    def begin_epoch(self):
        pass

    def stamp(self):
        return time.monotonic()

    def seconds(self, stamp):
        return stamp


class CudaClock:
    """CUDA events on the current stream. They are read after the epoch, and set to the clock of the host before it."""

    def begin_epoch(self):
        torch.cuda.synchronize()
        before = time.monotonic()
        self.origin = self.stamp()
        self.origin.synchronize()
        after = time.monotonic()
        self.host, self.error = (before + after) / 2, (after - before) / 2

    def stamp(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, stamp):
        """Returns the time of an event on the clock of the host; waits for the event."""
        stamp.synchronize()
        return self.host + 1e-3 * self.origin.elapsed_time(stamp)
