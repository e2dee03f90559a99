# SPDX-License-Identifier: BSD-3-Clause
"""Notes about times that something disturbed: long steps, a start-up, a trend during the timed
steps, and a timed epoch that differs from the others. docs/report-reference.md states the rules."""

import numpy as np

from lockstep_report.measure.window import warm_epochs

SMALLEST = 0.02  # effect on the epoch, or change of many steps, from which there is a note
# Long steps.
# distance of a long step from the median, in standard deviations (from the median absolute
# deviation)
OUTSIDE = 10
LEAST_EXCESS = 0.5  # the same as a share of the median
MOST_LONG = 0.05  # share of the steps up to which long steps are exceptions; one step always is
NORMAL_DEVIATION = (
    1.4826  # standard deviation per median absolute deviation of a normal distribution
)
# Start-up.
FIRST = 3  # steps at the begin that are compared with the others
LARGE_SHARE = 0.9  # quantile of the other steps that each of the first ones exceeds
# Trend.
PARTS = 4  # of the window, of which the first and the last are compared
# Quantiles of parts of LEAST_OF_PART steps; they do not overlap if the steps have a trend.
MIDDLE = (
    0.25,
    0.75,
)
LEAST_OF_PART = 25
# Steps from which a trend is recognised, and its least change in smaller parts.
FEWEST, SMALLEST_OF_FEW = (
    8,
    0.05,
)
LEAST_KENDALL = 2.3  # Mann-Kendall statistic of a trend in smaller parts: by chance in 2 % of runs
# Epochs.
# difference between the timed epoch and the median of the others from which there is a note
UNLIKE_EPOCH = 0.1


def step_notes(step, numbers=None):
    """Returns the notes about the times `step` (step) of the timed steps. `numbers` (step): their
    numbers in the run, from 1."""
    step = np.asarray(step, dtype=float)
    numbers = np.arange(1, len(step) + 1) if numbers is None else numbers
    long = long_steps(step)
    notes = [long_step_note(step, long, numbers), start_up_note(step)]
    return tuple(filter(None, [*notes, "" if notes[1] else trend_note(np.delete(step, long))]))


def long_steps(step):
    """Returns the indices of the few steps that take far longer than the others and lengthen the
    epoch."""
    if len(step) < 2:
        return np.zeros(0, dtype=int)
    usual = usual_seconds(step)
    spread = NORMAL_DEVIATION * np.median(np.abs(step - usual)) if len(step) > 2 else 0.0
    found = exceptions(
        step, np.flatnonzero(step > usual + max(OUTSIDE * spread, LEAST_EXCESS * usual))
    )
    return found if (step[found] - usual).sum() >= SMALLEST * step.sum() else found[:0]


def exceptions(step, found):
    """Returns the steps of `found` if they are few; otherwise the few longest ones if they are far
    longer than the rest."""
    most = max(1, int(MOST_LONG * len(step)))
    if len(found) <= most:
        return found
    longest = np.argsort(-step, kind="stable")
    for count in range(most, 0, -1):
        if step[longest[count - 1]] >= (1 + LEAST_EXCESS) * step[longest[count]]:
            return np.sort(longest[:count])
    return found[:0]


def usual_seconds(step):
    """Returns the median; of two steps the shorter one."""
    return float(np.median(step)) if len(step) > 2 else float(step.min())


def long_step_note(step, long, numbers):
    if len(long) == 0:
        return ""
    usual, longest = usual_seconds(step), long[np.argmax(step[long])]
    which = (
        f"the timed step {numbers[longest]} takes {step[longest]:.3g} s"
        if len(long) == 1
        else f"{len(long)} timed steps take up to {step[longest]:.3g} s (step {numbers[longest]})"
    )
    share = (step[long] - usual).sum() / step.sum()
    return (
        f"{which}, but the others {usual:.3g} s (median): the excess is {share:.0%} of the epoch,"
        " which contains it; something outside of the program stopped it (a suspended job or"
        " virtual machine, a file system, another process); repeat the run"
    )


def start_up_note(step):
    if not start_up(step):
        return ""
    excess = step.mean() / np.median(step[FIRST:]) - 1
    if excess < SMALLEST:
        return ""
    return (
        f"the first timed steps are the longest (start-up): the epoch is up to {excess:.0%} too"
        " long; time more steps"
    )


def start_up(step):
    """Whether the first steps are longer than the others by more than chance: they are in
    descending order, and each is longer than nearly all others. Noise does this in less than 5 % of
    runs."""
    first, others = step[:FIRST], step[FIRST:]
    if len(others) == 0:
        return False
    is_descending = bool(np.all(np.diff(first) < 0)) if len(step) < 3 * FIRST else True
    return is_descending and first.min() > np.quantile(others, LARGE_SHARE)


def trend_note(step):
    if len(step) < FEWEST:
        return ""
    first, *_, last = np.array_split(step, PARTS)
    change = np.median(last) / np.median(first) - 1
    is_long = len(step) >= PARTS * LEAST_OF_PART
    has_trend = middles_differ(first, last) if is_long else abs(kendall(step)) >= LEAST_KENDALL
    if not has_trend or abs(change) < (SMALLEST if is_long else SMALLEST_OF_FEW):
        return ""
    cause = (
        "; processors or GPUs that become hot or share their power run slower" if change > 0 else ""
    )
    return (
        f"the steps become {'longer' if change > 0 else 'shorter'} during the timed window"
        f" ({change:+.0%} from its first to its last {1 / PARTS:.0%}){cause}"
    )


def middles_differ(first, last):
    (low, high), (end_low, end_high) = (np.quantile(part, MIDDLE) for part in (first, last))
    return low > end_high or end_low > high


def kendall(step):
    """Returns the Mann-Kendall statistic: the pairs of steps of which the later one is longer,
    less the others, in standard deviations of this number without a trend (Mann, Econometrica
    13, 1945)."""
    count = len(step)
    score = np.sign(step[None, :] - step[:, None])[np.triu_indices(count, 1)].sum()
    return score / np.sqrt(count * (count - 1) * (2 * count + 5) / 18)


def epoch_notes(run, window):
    """Returns a note if the timed epoch takes another time than the other complete epochs that
    began with a warm process."""
    if window.is_extrapolated or "seconds" not in run.epochs:
        return ()
    seconds = dict(zip(run.epoch_numbers.tolist(), np.asarray(run.epochs["seconds"], dtype=float)))
    warm = warm_epochs(run.epoch, run.starts_part, window.epoch_steps)
    others = [seconds[number] for number in warm if number != window.epoch and number in seconds]
    others = [value for value in others if np.isfinite(value) and value > 0]
    timed = seconds.get(window.epoch, np.nan)
    if not others or not np.isfinite(timed):
        return ()
    usual = float(np.median(others))
    is_outside = timed > max(others) or timed < min(others)
    if not is_outside or abs(timed / usual - 1) < UNLIKE_EPOCH:
        return ()
    which = (
        f"the {len(others)} other epochs (median {usual:.3g} s)"
        if len(others) > 1
        else f"the other epoch ({usual:.3g} s)"
    )
    return (
        (
            f"the timed epoch {window.epoch} takes {timed:.3g} s, {abs(timed / usual - 1):.0%}"
            f" {'longer' if timed > usual else 'shorter'} than {which}: the speed of the machine"
            " changed during the run"
        ),
    )
