# SPDX-License-Identifier: BSD-3-Clause
"""Logarithmic axes, and the selection of tick labels that do not overlap."""

import math

from matplotlib.ticker import LogLocator, NullLocator

from lockstep_report.figures.canvas import current
from lockstep_report.figures.layout import text_width

SUFFIXES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def rank_axis(axes, counts):
    """Makes the horizontal axis logarithmic, with labels at numbers of ranks or threads."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(labelled_ranks(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def size_axis(axes, label):
    """Makes both axes logarithmic; the horizontal one is a number of bytes."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(size_text)
    axes.set_xlabel(label)


def size_text(value, _=None):
    """Formats a number of bytes: "64 KiB"."""
    for unit, name in SUFFIXES:
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def label_decades(axes):
    """Labels the powers of ten of a logarithmic vertical axis, and 2 and 5 times these if it is short."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def labelled_ranks(ranks):
    """Returns the rank counts whose labels do not overlap on a logarithmic axis, in ascending order. The largest
    count has the highest priority, then powers of two. `ranks`: in ascending order."""
    width = 3.4 if current().width is None else 2.2  # of a panel with curves, inches
    inches = width / (math.log2(ranks[-1] / ranks[0]) or 1.0)
    shown = []
    for count in sorted(set(ranks), key=lambda n: (n != ranks[-1], not is_power(n), -n)):
        at, room = inches * math.log2(count / ranks[0]), text_width(str(count)) / 2 + 0.04
        if all(abs(at - other) > room + taken for _, other, taken in shown):
            shown.append((count, at, room))
    return sorted(count for count, _, _ in shown)


def is_power(value):
    return value == int(value) and int(value) & (int(value) - 1) == 0
