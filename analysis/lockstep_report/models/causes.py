# SPDX-License-Identifier: BSD-3-Clause
"""The causes of lost efficiency: an exact decomposition of T(N) - T(1)/N, for the same number of
images."""

import math
from dataclasses import dataclass

from lockstep_report.measure.comparison import base_of, strong_base_of
from lockstep_report.measure.inference import difference
from lockstep_report.measure.speedup import (
    base_seconds,
    has_equal_images,
    image_ratio,
    speedup_of,
)

WEAK, STRONG = "fixed batch per rank", "fixed global batch"
# (key, text), in the order of the tables. The causes add up to T(N) - T(1)/N.
CAUSES = (
    ("imbalance", "imbalance of the step times"),
    ("waiting", "exposed: waiting for the last rank"),
    ("transfer", "exposed: transfer"),
    ("communication", "exposed: outside of all-reduces, or not divided"),
    ("calls", "all-reduce calls in the backward pass"),
    ("data_wait", "input: data wait"),
    ("upload", "input: upload"),
    ("slow_rank", "slow rank: computation beyond the median rank"),
    ("smaller_batch", "smaller batch per rank"),
    ("slower_compute", "slower computation at the same batch"),
    ("computation", "computation, not divided"),
    ("remainder", "remainder (medians over runs)"),
    ("lacking", "not divided: ranks lacked processors"),
)
LABELS = dict(CAUSES)
# Causes that compare the computation of two groups of runs; the others are measured within the
# runs.
BETWEEN_RUNS = ("smaller_batch", "slower_compute", "computation")
NAMED_SHARE = 0.03  # of the epoch, from which a cause is named as the largest one
SMALLEST_DRAWN = 5e-4  # figures omit causes with a smaller share everywhere


@dataclass(frozen=True)
class Loss:
    """The decomposition of one point against its base case. Times are in seconds per epoch."""

    point: object
    base: object
    scaling: str  # WEAK or STRONG
    causes: dict  # key of CAUSES -> seconds; negative if the point gains
    same_batch: object = None  # 1-rank point that divides the computation, if there is one

    @property
    def seconds(self):
        """The total, T(N) - T(1)/N for the same number of images."""
        return self.point.epoch_seconds - self.ideal_seconds

    @property
    def ideal_seconds(self):
        """T(1)/N for as many images as an epoch of the point."""
        return base_seconds(self.base, self.point) / self.point.ranks

    @property
    def has_equal_images(self):
        return has_equal_images(self.base, self.point)

    @property
    def efficiency(self):
        """Speedup / N: T(1) / (N T(N)) for the same number of images."""
        return speedup_of(self.base, self.point).efficiency

    @property
    def difference(self):
        """The `Difference` of T(N) and T(1)/N over the runs."""
        share = image_ratio(self.base, self.point) / self.point.ranks
        return difference(
            [share * seconds for seconds in self.base.epoch_repeats],
            self.point.epoch_repeats,
        )

    def is_shown(self, cause):
        """Whether a cause, or a gain, takes at least NAMED_SHARE, and more than the difference
        between runs if it compares runs."""
        size = abs(self.causes.get(cause, 0.0))
        return abs(self.share(cause)) >= NAMED_SHARE and (
            cause not in BETWEEN_RUNS or size > self.difference.half
        )

    def share(self, cause):
        """The share of T(N) that the cause takes; efficiency + sum of all shares = 1."""
        return self.causes.get(cause, 0.0) / self.point.epoch_seconds


def epoch_parts(point):
    """Returns {part: seconds per epoch} of a point, which add up to the epoch time unless they are
    medians over runs."""
    phases = point.phase_seconds
    exposed = phases["exposed_communication"]
    parts = {name: phases[name] for name in ("imbalance", "data_wait", "upload")}
    parts["computation"] = sum(phases[name] for name in ("forward", "backward", "update"))
    parts["slow_rank"] = point.slow_seconds or 0.0
    parts["computation"] -= parts["slow_rank"]
    split = point.split
    if split and split.divides_exposed:
        parts["waiting"] = split.mean("exposed_waiting")
        parts["transfer"] = split.mean("exposed_transfer")
        exposed -= parts["waiting"] + parts["transfer"]
    parts["communication"] = exposed
    # GPUs communicate beside the computation.
    if point.threads is not None and point.hidden_seconds:
        parts["calls"] = point.hidden_seconds
        parts["computation"] -= parts["calls"]
    return parts


def causes_of(point, base, same_batch):
    """Returns {cause: seconds per epoch}: each part of the point less 1/N of that of the base, for
    the same number of images. `same_batch`: the 1-rank point with the batch per rank of `point`,
    which divides the computation; None if there is none. If ranks of one of them lacked processors,
    the loss is not divided."""
    total = point.epoch_seconds - base_seconds(base, point) / point.ranks
    if any(p.lacks_processors for p in (point, base, same_batch) if p):
        return {"lacking": total}  # it lengthens computation, waiting and transfer alike
    share = image_ratio(base, point) / point.ranks
    parts, alone = epoch_parts(point), epoch_parts(base)
    causes = {
        name: parts.get(name, 0.0) - share * alone.get(name, 0.0)
        for name in dict.fromkeys((*parts, *alone))
    }
    computation = causes.pop("computation")
    if same_batch is None:
        causes["computation"] = computation
    else:
        own_share = image_ratio(same_batch, point) / point.ranks
        ideal = own_share * epoch_parts(same_batch)["computation"]
        causes["slower_compute"] = parts["computation"] - ideal
        causes["smaller_batch"] = ideal - share * alone["computation"]
    causes["remainder"] = total - sum(causes.values())
    return {name: causes[name] for name, _ in CAUSES if name in causes}


def losses(points):
    """Returns the decompositions of all points with phases and a base case: first at fixed batch
    per rank."""
    found = []
    usable = [
        p
        for p in points
        if p.phase_seconds and 0 < p.epoch_seconds < math.inf and not p.is_pipeline
    ]
    for scaling, lookup in ((WEAK, base_of), (STRONG, strong_base_of)):
        for p in usable:
            base = lookup(p, usable)
            if base is None or p.ranks == 1 or p.is_independent or not p.batch_per_rank:
                continue
            same_batch = base if scaling == WEAK else base_of(p, usable)
            found.append(Loss(p, base, scaling, causes_of(p, base, same_batch), same_batch))
    return found
