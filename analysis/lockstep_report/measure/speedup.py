# SPDX-License-Identifier: BSD-3-Clause
"""The speedup of a point against its base case, from which efficiency, Karp-Flatt fraction and
derived times follow. It compares the times of the same number of images: epochs of several ranks
may have fewer images, because an incomplete last batch is dropped."""

from dataclasses import dataclass, replace

from lockstep_report.measure import metrics
from lockstep_report.measure.inference import assumed_difference

IMAGES_TOLERANCE = 0.01  # relative difference in images up to which two epochs count as equal


def image_ratio(base, point):
    """Returns the images of an epoch of `point` per image of an epoch of `base`; 1 if a number is
    unknown."""
    return point.images / base.images if point.images and base.images else 1.0


def has_equal_images(base, point):
    return abs(image_ratio(base, point) - 1) <= IMAGES_TOLERANCE


@dataclass(frozen=True)
class Speedup:
    """The speedup of a point with `ranks` ranks against a base case with `base_ranks` ranks (1, or
    as many independent replicas). `low`, `high`: its 95 % interval over runs; None if unknown."""

    value: float
    ranks: int
    base_ranks: int = 1
    low: float = None
    high: float = None

    @property
    def efficiency(self):
        """Speedup per rank: T(1)/(N·T(N)) for the same number of images."""
        return self.value * self.base_ranks / self.ranks

    @property
    def scaled(self):
        """N·T(1)/T(N), which counts the ranks twice."""
        return self.value * self.ranks


def speedup_of(base, point):
    """Returns the `Speedup` of a point; None without a base case."""
    if base is None:
        return None
    ratio = image_ratio(base, point)
    found = Speedup(
        ratio * metrics.speedup(base.epoch_seconds, point.epoch_seconds), point.ranks, base.ranks
    )
    low, high = metrics.ratio_interval(base.epoch_interval, point.epoch_interval)
    if base is point or low is None:
        return found
    return replace(found, low=ratio * low, high=ratio * high)


def assumed_ends(base, point, speedup):
    """Returns the ends of the interval of a speedup; without one, those that follow from the spread
    that is assumed for single runs."""
    if speedup.low is not None:
        return speedup.low, speedup.high
    share = assumed_difference(base.repeats, point.repeats)
    return speedup.value * (1 - share), speedup.value * (1 + share)


def base_seconds(base, point):
    """Returns T(1): the epoch time of the base case for as many images as an epoch of `point`."""
    return image_ratio(base, point) * base.epoch_seconds
