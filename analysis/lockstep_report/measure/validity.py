# SPDX-License-Identifier: BSD-3-Clause
"""Validity notes: restrictions that matter if a point is compared with others."""

from dataclasses import replace

from lockstep_report.measure.choices import kernel_changes, series_notes
from lockstep_report.measure.comparison import base_of, independent_of, strong_base_of
from lockstep_report.measure.contention import LIMIT, REMEDY
from lockstep_report.measure.notes import NoteKind, PointNote, notes_of_kind
from lockstep_report.measure.speedup import has_equal_images, speedup_of
from lockstep_report.runfile.experiment import unlike
from lockstep_report.runfile.settings import SETTING_PARTS

# Part of the setting -> what makes it equal in two runs.
REMEDIES = {
    "model": "the same --model",
    "device": "the same --device",
    "precision": "the same --precision",
    "data": "the same --data and --train-samples",
    "device name": "processors or GPUs of the same kind",
    "program": "the same program",
    "threads": "the same --threads (without it, the ranks divide the cores among them)",
}


def run_notes(run, origin, window):
    """Returns the notes of one run. `origin`: the part of the run with the timed window."""
    notes = []
    if window.is_extrapolated:
        text = f"scaled from {len(window.steps)} of {window.epoch_steps} steps"
        notes.append(PointNote(NoteKind.SCALED, text))
    if run.status != "complete":
        text = f"the run did not finish (status {run.status})"
        notes.append(PointNote(NoteKind.UNFINISHED, text))
    warnings = [*warnings_of(origin), *lines_of(run.results)]
    return tuple(notes + [f"warning: {line}" for line in dict.fromkeys(warnings)])


def lines_of(attributes):
    """Returns the warnings in the attributes of a group of the run file."""
    return [
        line.strip() for line in str(attributes.get("warnings", "")).splitlines() if line.strip()
    ]


def warnings_of(run):
    """Returns the warnings that the program printed about the data, the options, the times and the
    results."""
    found = [*lines_of(run.environment), *lines_of(run.results)]
    share = float(run.results.get("lacking_processor_share", 0.0))  # of a run that is no training
    if share >= LIMIT:
        found.append(
            f"a rank lacked a processor for {100 * share:.0f} % of the time (other processes, more "
            f"threads than processors, a CPU quota, or a hypervisor); {REMEDY}"
        )
    return found


def warning_notes(runs):
    """Returns the warnings of runs that are no trainings, for the notes of their tables."""
    return [f"{run.label}: warning: {line}" for run in runs for line in warnings_of(run)]


def parse_processors(text):
    """Returns the set of numbers in a list such as "0-3,8"; an empty set for any other text."""
    found = set()
    for item in str(text).split(","):
        first, _, last = item.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return set()
        found |= set(range(int(first), int(last or first) + 1))
    return found


def add_comparison_notes(points, link_gbit=None):
    """Returns the points with additional notes about their base cases and about impossible values.
    `link_gbit`: rate of the link for all points, in Gbit/s; if it is None, each point's own rate is
    used."""
    return [replace(p, notes=(*p.notes, *comparison_notes(p, points, link_gbit))) for p in points]


def comparison_notes(point, points, link_gbit):
    notes = []
    if point.ranks > 1:
        bases = [base for base in (base_of(point, points), strong_base_of(point, points)) if base]
        for base in bases:
            notes += base_notes(point, base)
        alone = independent_of(point, points)
        if alone and not point.is_independent:
            notes += option_notes(point, alone, f"the baseline {alone.source}")
        if not bases:
            notes += unlike_base_notes(point, points)
    notes += [PointNote(NoteKind.CHOICES, text) for text in series_notes(point, points)]
    notes += link_notes(point, link_gbit)
    return list(dict.fromkeys(notes))


def base_notes(point, base):
    """Yields notes about differences between a point and its base case besides the rank count, and
    about the times of the base case."""
    case = f"the base case {base.source}"
    yield from base_time_notes(base, case)
    if not has_equal_images(base, point):
        yield PointNote(
            NoteKind.OTHER_IMAGES,
            f"an epoch of this point trains on {point.images:,} images, an epoch of "
            f"{case} on {base.images:,} (an incomplete last batch is dropped): speedup, efficiency "
            "and derived times are those for the same number of images",
        )
    for text in base_differences(point, base, case):
        yield PointNote(NoteKind.BASE_DIFFERS, text)


def base_time_notes(base, case):
    """Yields the notes of the base case that restrict its time."""
    if base.lacks_processors:
        yield PointNote(
            NoteKind.BASE_TIMES,
            f"ranks lacked processors in {case}, so the speedup is too large or too small",
        )
    for note in notes_of_kind(base.notes, NoteKind.SCALED, NoteKind.UNFINISHED):
        yield PointNote(NoteKind.BASE_TIMES, f"{case}: {note}")


def base_differences(point, base, case):
    """Yields texts about the conditions in which a point and its base case differ."""
    if base.hosts and not set(base.hosts) <= set(point.hosts):
        yield (
            f"{case} ran on another host ({', '.join(base.hosts)}) than this point"
            f" ({', '.join(point.hosts)})"
        )
    yield from option_notes(point, base, case)
    changed = kernel_changes(point, base)
    if changed:
        yield f"{changed} than in {case}"
    speedup = speedup_of(base, point).value
    if speedup > point.ranks:
        yield (
            f"speedup {speedup:.2f} is above the number of ranks ({point.ranks}): check "
            f"that {case} ran under the same conditions"
        )


def option_notes(point, other, case):
    """Returns one note per property that affects the time and differs between a point and the point
    `other`, named `case`."""
    return [
        f"{case} has {name} {values[0]}, this point {values[-1]}"
        for name, values in unlike((other.variant, other.ranks), (point.variant, point.ranks))
    ]


def unlike_base_notes(point, points):
    """Returns a note if the only 1-rank runs with the batch of a point have another setting, with
    the remedy."""
    others = [
        p
        for p in points
        if p.ranks == 1
        and len(p.setting) == len(point.setting)
        and p.batch_per_rank in (point.batch_per_rank, point.global_batch)
    ]
    if not others or len(point.setting) != len(SETTING_PARTS):
        return []
    base = min(others, key=lambda other: sum(a != b for a, b in zip(point.setting, other.setting)))
    changed = [
        parts for parts in zip(SETTING_PARTS, base.setting, point.setting) if parts[1] != parts[2]
    ]
    texts = [
        f"{of_base or 'no value'} instead of {own or 'no value'}" for _, of_base, own in changed
    ]
    remedies = dict.fromkeys(REMEDIES[name] for name, *_ in changed)
    text = (
        f"no speedup, because the 1-rank run {base.source} has {', '.join(texts)}; for a "
        f"comparison, run both with {' and '.join(remedies)}"
    )
    return [PointNote(NoteKind.UNLIKE_BASE, text)]


def link_notes(point, given):
    """`given`: as `link_gbit` of `add_comparison_notes`."""
    if point.ranks > 1 and point.host_count == 1 and (given or point.link_gbit):
        return [
            "a rate of the link was given, but all ranks are on one host: their messages do not "
            "use the link, so it has no utilisation"
        ]
    link_gbit = point.link_rate(given)
    if point.ranks < 2 or point.is_independent or not point.bytes_per_step or not point.steps:
        return []
    rate = point.bandwidth
    share = point.link_use(rate and rate.low, link_gbit)  # at least
    if share is None or share <= 1:
        return []
    return [
        f"the all-reduces use at least {share:.0%} of the link of {link_gbit:g} Gbit/s: not all "
        "messages used this link, or the rate is wrong"
    ]


def letters(points):
    """Returns {note: letter} in the order of the points; letters are a, b, ..., z, aa, ab, ..."""
    return {
        note: letter(i)
        for i, note in enumerate(dict.fromkeys(note for p in points for note in p.notes))
    }


def letter(index):
    quotient, remainder = divmod(index, 26)
    return (letter(quotient - 1) if quotient else "") + chr(ord("a") + remainder)
