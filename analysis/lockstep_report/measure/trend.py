# SPDX-License-Identifier: BSD-3-Clause
"""Notes about steps that become shorter or longer during the timed window."""

import numpy as np

PARTS, LEAST_OF_PART = 4, 25  # of the window, of which the first and the last are compared, and their least length
MIDDLE = (0.25, 0.75)  # quantiles of these parts; they do not overlap if the steps have a trend
FIRST = 3  # steps at the begin that are compared with the others
SMALLEST = 0.02  # effect on the epoch, or change of the steps, from which there is a note
LARGE_SHARE = 0.9  # quantile of the other steps that each of the first ones exceeds


def trend_notes(step):
    """Returns at most one note about the trend of the times of the timed steps."""
    step = np.asarray(step, dtype=float)
    if start_up(step):
        excess = step.mean() / np.median(step[FIRST:]) - 1
        if excess >= SMALLEST:
            return (f"the first timed steps are the longest (start-up): the epoch is up to {excess:.0%} too long; "
                    "time more steps",)
    if len(step) < PARTS * LEAST_OF_PART:
        return ()
    first, *_, last = np.array_split(step, PARTS)
    (low, high), (end_low, end_high) = (np.quantile(x, MIDDLE) for x in (first, last))
    if low <= end_high and end_low <= high:
        return ()
    change = np.median(last) / np.median(first) - 1
    if abs(change) < SMALLEST:
        return ()
    return (f"the steps become {'longer' if change > 0 else 'shorter'} during the timed window ({change:+.0%} "
            f"from its first to its last {1 / PARTS:.0%})",)


def start_up(step):
    """Whether the first steps are longer than the others by more than chance: they are in descending
    order, and each is longer than nearly all others. Noise does this in less than 5 % of runs."""
    first, others = step[:FIRST], step[FIRST:]
    if len(others) == 0:
        return False
    is_descending = bool(np.all(np.diff(first) < 0)) if len(step) < 3 * FIRST else True
    return is_descending and first.min() > np.quantile(others, LARGE_SHARE)
