# SPDX-License-Identifier: BSD-3-Clause
"""What a run file states once for all its epochs, of which each can correct it: the first epoch may
be shorter than the others, and its first or last step may reduce the gradients in other buckets."""

from dataclasses import dataclass, replace
from typing import NamedTuple


class Stated(NamedTuple):
    """What the run file contains of a shape."""

    steps: int
    images: int
    batch_per_rank: int
    global_batch: int
    buckets: tuple


@dataclass(frozen=True)
class Shape:
    steps: int = 0  # of a complete epoch
    images: int = 0  # of a complete epoch
    is_measured: bool = False  # an epoch with this number of steps was complete
    batch_per_rank: int = 0  # largest of a step
    global_batch: int = 0
    divided: tuple = ()  # ((bytes of each bucket), images of the steps with them)

    @property
    def buckets(self):
        """Returns the bytes of each bucket: the division of the gradients with which most images
        were trained; of equal ones, that with the most bytes, and then the last. Steps that reduce
        nothing do not count."""
        order = {
            sizes: (images, sum(sizes), i)
            for i, (sizes, images) in enumerate(self.divided)
            if sizes
        }
        return max(order, key=order.get, default=())

    def with_epoch(self, images, largest, sizes, steps, is_complete):
        """Returns the shape after an epoch. `images`: of each step; `largest`: most images of a
        step on a rank; `sizes`: (step) of (bytes of each bucket); `steps`: of the epoch if it were
        complete, 0 if unknown."""
        divided = dict(self.divided)
        for own, count in zip(sizes, images.tolist()):
            divided[own] = divided.get(own, 0) + count
        made = replace(
            self,
            batch_per_rank=max(self.batch_per_rank, largest),
            divided=tuple(divided.items()),
            global_batch=max(self.global_batch, int(images.max())),
        )
        steps = max(steps, len(images))
        if (steps, is_complete) <= (self.steps, self.is_measured):
            return made
        return replace(
            made,
            steps=steps,
            is_measured=is_complete,
            images=int(images.sum() if is_complete else images.max() * steps),
        )

    @property
    def stated(self):
        return Stated(self.steps, self.images, self.batch_per_rank, self.global_batch, self.buckets)
