# SPDX-License-Identifier: BSD-3-Clause
"""Parts of sentences about points: what distinguishes them, their times and their restrictions."""

from lockstep_report.measure.digits import number_text, supported_digits
from lockstep_report.measure.notes import MARKED, OF_SPEEDUPS, NoteKind, kind_of_note
from lockstep_report.runfile.settings import plural, setting_names

SECONDS_DIGITS, RATE_DIGITS, RATIO_DIGITS = 2, 1, 2


class Names:
    """Names the points of a report: their setting is named only if there are several."""

    def __init__(self, points):
        self.of_setting = setting_names(p.setting for p in points)

    def setting(self, point):
        """Returns what distinguishes the setting of a point; "" for a single setting."""
        return self.of_setting[point.setting]

    def start(self, point):
        """Returns the begin of an answer about a point: its setting, if there are several."""
        name = self.setting(point)
        return f"{name}: " if name else ""

    def place(self, point):
        """Returns setting, ranks, batch and mode of a point."""
        mode = point.detail if point.ranks == 1 else point.mode
        texts = (self.setting(point), plural(point.ranks, "rank"), batch_text(point), mode)
        return ", ".join(filter(None, texts))


def batch_text(point):
    return f"batch {point.batch_per_rank} per rank" if point.batch_per_rank else "as given"


def width_of(interval):
    return interval.high - interval.low if interval else 0


def seconds_text(point):
    """Returns the epoch time with the digits that its interval supports."""
    digits = supported_digits(width_of(point.epoch_interval), SECONDS_DIGITS)
    return number_text(point.epoch_seconds, digits)


def seconds_interval(point):
    """Returns " (95 % interval 1.20 to 1.30 s)"; "" without an interval."""
    interval = point.epoch_interval
    if interval is None:
        return ""
    digits = supported_digits(width_of(interval), SECONDS_DIGITS)
    low, high = number_text(interval.low, digits), number_text(interval.high, digits)
    return f" (95 % interval {low} to {high} s)"


def rate_text(point):
    """Returns the images per second with the digits that the interval of the epoch supports."""
    share = width_of(point.epoch_interval) / point.epoch_seconds
    digits = supported_digits(share * point.images_per_second, RATE_DIGITS)
    return number_text(point.images_per_second, digits)


def restriction_text(*points, of_speedup=False):
    """Returns the rest of a sentence: the first restriction of these points, and how many more
    there are; "" without one. Those of the times themselves come first. `of_speedup`: the sentence
    has a speedup, which the base case restricts, too."""
    left_out = {NoteKind.INFORMATION, NoteKind.UNLIKE_BASE}
    if not of_speedup:
        left_out |= set(OF_SPEEDUPS)
    notes = dict.fromkeys(
        note for point in points for note in point.notes if kind_of_note(note) not in left_out
    )
    ordered = sorted(notes, key=lambda note: kind_of_note(note) not in MARKED)
    if not ordered:
        return ""
    others = len(ordered) - 1
    more = f" (and {plural(others, 'more note')})" if others else ""
    return f"; restricted: {ordered[0]}{more}"
