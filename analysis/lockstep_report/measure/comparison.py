# SPDX-License-Identifier: BSD-3-Clause
"""Which runs of one configuration count as repeats, their merging into one point, and the base
cases of a point."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.choices import REDUCERS, choice_notes, place_of
from lockstep_report.measure.inference import median_interval
from lockstep_report.measure.notes import NoteKind, PointNote, note_of_runs
from lockstep_report.measure.waiting import median_split
from lockstep_report.runfile.experiment import HOSTS, distinguishing, text_of, unlike


def split_repeats(items, key):
    """Returns (counted, left out) of runs or points. An item that did not finish is left out if a
    complete one has the same configuration `key(item)`."""
    complete = {key(item) for item in items if item.status == "complete"}
    counted, left_out = [], []
    for item in items:
        is_counted = item.status == "complete" or key(item) not in complete
        (counted if is_counted else left_out).append(item)
    return counted, left_out


def grouped_repeats(points, key):
    """Returns {configuration: (repeats, notes about the points that are left out)}."""
    counted, left_out = split_repeats(points, key)
    found = {configuration: (group, []) for configuration, group in grouped(counted, key).items()}
    for point in left_out:
        found[key(point)][1].append(left_out_note(point.source, point.status))
    return found


def is_diverged(run):
    """Whether a run ended because its loss was not finite."""
    return run.status == "failed" and "loss is not finite" in str(run.attributes.get("failure", ""))


def left_out_note(name, status):
    return PointNote(
        NoteKind.INFORMATION,
        f"{name} did not finish (status {status}) and is not counted, because a complete run has "
        "the same configuration",
    )


MEDIANS = (
    "epoch_seconds",
    "training_seconds",
    "step_median",
    "slow_seconds",
    "allreduce_seconds",
    "joules_per_image",
)


def merge_repeats(points):
    """Returns one point per setting, rank count, batch and variant, with medians over repeated
    runs. Runs that did not finish count only if no run of the point is complete; otherwise a note
    names them. The properties without a table column in which the points of a setting differ are in
    `detail`."""
    repeats = grouped_repeats(points, lambda p: (place_of_point(p), p.variant, p.bytes_per_step))
    merged = [median_point(*without_evaluations(group, notes)) for group, notes in repeats.values()]
    merged = [
        point
        for group in grouped(merged, lambda p: p.setting).values()
        for point in with_details(group)
    ]
    return sorted(
        merged,
        key=lambda p: (
            p.setting,
            p.batch_per_rank,
            p.ranks,
            reducer_order(p),
            p.communication,
            p.detail,
        ),
    )


def reducer_order(point):
    """Returns the position of the point's reducer in tables and bar charts."""
    return place_of(point.reducer, REDUCERS)


def without_evaluations(group, notes):
    """Returns (repeats, notes) of a point without the runs that evaluate their test accuracy, if
    others do not: a study of accuracy may run later than the study of times."""
    timed = [p for p in group if not is_evaluated(p)]
    if not timed:
        return group, notes
    left_out = [p.source for p in group if is_evaluated(p)]
    return timed, [*notes, *map(evaluation_note, left_out)]


def is_evaluated(point):
    return dict(point.others).get("evaluate-every", "never") != "never"


def evaluation_note(name):
    return PointNote(
        NoteKind.INFORMATION,
        f"{name} evaluates its test accuracy and is not counted, because a run without "
        "evaluation has the same configuration",
    )


class PlaceOfPoint(NamedTuple):
    """What the points of one row have in common."""

    setting: tuple
    ranks: int
    batch_per_rank: int
    communication: tuple


def place_of_point(point):
    return PlaceOfPoint(point.setting, point.ranks, point.batch_per_rank, point.communication)


def with_details(points):
    """Returns the points of a setting with the properties in which they differ. The number of hosts
    is one of them if it differs between points of one row."""
    names = distinguishing([(p.variant, p.ranks) for p in points]) - {HOSTS}
    rows = grouped(points, place_of_point, lambda p: dict(p.variant).get(HOSTS))
    is_of_hosts = any(len({*hosts} - {None}) > 1 for hosts in rows.values())
    names |= {HOSTS} if is_of_hosts else set()
    return [replace(p, detail=text_of(p.variant, names), is_of_hosts=is_of_hosts) for p in points]


def scaling_series(points, lookup, batch_of):
    """Returns [(base, points)]: the points with several ranks of each series and batch, in
    ascending order of ranks, and their base case `lookup(point, points)`; without points that lack
    one, and without independent replicas.
    """
    pairs = [(lookup(p, points), p) for p in points if p.ranks > 1 and not p.is_independent]
    groups = grouped(
        (pair for pair in pairs if pair[0] is not None),
        lambda pair: (pair[1].series, batch_of(pair[1])),
    )
    return [
        (group[0][0], sorted((p for _, p in group), key=lambda p: p.ranks))
        for group in groups.values()
    ]


def differences(point, *others):
    """Returns texts such as "bn broadcast, sync", one for each property in which the points differ
    that affects the time."""
    return [
        f"{name} {', '.join(values)}"
        for name, values in unlike(
            *(
                (p.variant | set(zip(("reducer", "gradient-dtype"), p.communication)), p.ranks)
                for p in (point, *others)
            )
        )
    ]


def median_point(group, further_notes):
    """Returns a point with the medians over repeated runs of the same point, and
    `further_notes`."""
    first, notes = group[0], (*notes_of_repeats(group), *further_notes)
    if len(group) == 1:
        return replace(first, notes=notes)
    found = {name: median_of([getattr(p, name) for p in group]) for name in MEDIANS}
    return replace(
        first,
        **found,
        source=", ".join(p.source for p in group),
        # Not the median of the rates, which need not be that of the median epoch.
        images_per_second=first.images and first.images / found["epoch_seconds"],
        step_interval=None,
        epoch_interval=median_interval([p.epoch_seconds for p in group]),
        phase_seconds=medians([p.phase_seconds or {} for p in group]) or None,
        split=median_split([p.split for p in group]),
        link_bytes=first.link_bytes if len({p.link_bytes for p in group}) == 1 else None,
        measurements=medians([p.measurements for p in group]),
        lacks={name: lack for p in group for name, lack in p.lacks.items()},
        repeats=len(group),
        repeated_epochs=tuple(p.epoch_seconds for p in group),
        repeated_sources=tuple(p.source for p in group),
        hosts=tuple(sorted(set().union(*(p.hosts for p in group)))),
        rule="; ".join(dict.fromkeys(p.rule for p in group)),
        scaled=any(p.scaled for p in group),
        notes=notes,
    )


def median_of(values):
    return None if None in values else float(np.median(values))


def medians(values):
    """Returns {name: median} of the names that all dicts `values` have."""
    return {
        name: median_of([own[name] for own in values])
        for name in values[0]
        if all(name in own for own in values)
    }


def notes_of_repeats(group):
    """Returns the notes of all repeats; a note that applies only to some names their files."""
    notes = [
        PointNote(
            NoteKind.INFORMATION,
            f"the runs differ in {name} ({', '.join(values)}), which does not affect the time",
        )
        for name, values in unlike(*((p.others, p.ranks) for p in group))
    ]
    for note in dict.fromkeys(note for p in group for note in p.notes):
        sources = [p.source for p in group if note in p.notes]
        notes.append(note if len(sources) == len(group) else note_of_runs(note, sources))
    return [*notes, *choice_notes(group)]


def base_of(point, points):
    """Returns the base case T(1), the 1-rank point with the same batch per rank and setting; None
    if there is none."""
    return one_rank(point, points, point.batch_per_rank)


def strong_base_of(point, points):
    """Returns the 1-rank point with the same global batch and setting; None if there is none."""
    return one_rank(point, points, point.global_batch)


def one_rank(point, points, batch):
    return nearest(
        point,
        [
            p
            for p in points
            if p.ranks == 1 and p.setting == point.setting and p.batch_per_rank == batch
        ],
    )


def independent_of(point, points):
    """Returns the independent replicas with the same setting, ranks and batch per rank; None if
    there are none."""
    return nearest(
        point,
        [
            p
            for p in points
            if p.is_independent
            and p.setting == point.setting
            and p.ranks == point.ranks
            and p.batch_per_rank == point.batch_per_rank
        ],
    )


def nearest(point, others):
    """Returns the point of `others` that differs in the fewest options; None if there is none."""
    return min(others, key=lambda p: len(p.variant ^ point.variant), default=None)
