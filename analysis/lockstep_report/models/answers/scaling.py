# SPDX-License-Identifier: BSD-3-Clause
"""Answers about speedup and efficiency. The headline is the comparison on the most ranks that is
valid: all ranks had processors, and the base case has the same number of images."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import base_of, differences, one_rank, strong_base_of
from lockstep_report.measure.digits import number_text, supported_digits
from lockstep_report.measure.inference import MINIMUM_VALUES, difference
from lockstep_report.measure.notes import NoteKind, notes_of_kind
from lockstep_report.measure.points import Point
from lockstep_report.measure.speedup import Speedup, has_equal_images, speedup_of
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.models.answers.places import (
    RATIO_DIGITS,
    Names,
    batch_text,
    restriction_text,
    seconds_text,
)
from lockstep_report.models.causes import STRONG, WEAK
from lockstep_report.runfile.settings import plural

NO_SCALING = (
    "The files do not show how the training scales: this needs a run with 1 rank and one with "
    "several ranks, with the same settings and the same batch per rank or global batch."
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """A point with several ranks and its base case at a fixed batch per rank (WEAK) or a fixed
    global batch (STRONG)."""

    base: Point
    point: Point
    scaling: str

    @property
    def speedup(self) -> Speedup:
        return speedup_of(self.base, self.point)

    @property
    def had_processors(self):
        return not (self.base.lacks_processors or self.point.lacks_processors)

    @property
    def has_equal_images(self):
        return has_equal_images(self.base, self.point)

    @property
    def is_valid(self):
        return self.had_processors and self.has_equal_images


def comparisons(points):
    """Returns all comparisons of points with their base cases; the batch of strong scaling must be
    known."""
    usable = [p for p in points if not p.is_independent and 0 < p.epoch_seconds < math.inf]
    found = []
    for scaling, lookup in ((WEAK, base_of), (STRONG, strong_base_of)):
        for point in (p for p in usable if p.ranks > 1):
            base = lookup(point, usable)
            is_known = point.batch_per_rank or scaling == WEAK
            if base is not None and is_known:
                found.append(Comparison(base, point, scaling))
    return found


def headline(found):
    """Returns the comparisons of the headline: the fastest ones at a fixed batch per rank and at a
    fixed global batch, on the largest number of ranks with a valid comparison; on the largest
    number of ranks if none is valid."""
    usable = [c for c in found if c.is_valid] or found
    most = max((c.point.ranks for c in usable), default=0)
    on_most = [c for c in usable if c.point.ranks == most]
    groups = grouped(on_most, lambda c: c.scaling)
    return [min(group, key=lambda c: c.point.epoch_seconds) for group in groups.values()]


def scaling_answer(points, names, cause):
    """Returns the answer about the headline, with the sentence about the causes of lost efficiency
    behind it."""
    found = comparisons(points)
    chosen = headline(found)
    if not chosen:
        notes = [note for p in points for note in p.notes]
        unlike = "".join(f" There is {n}." for n in notes_of_kind(notes, NoteKind.UNLIKE_BASE)[:1])
        return Answer(AnswerKind.SCALING, f"{NO_SCALING}{unlike} {cause}")
    ranks = plural(chosen[0].point.ranks, "rank")
    texts = [comparison_text(c, names) for c in chosen]
    restriction = restriction_text(*(c.point for c in chosen), of_speedup=True)
    text = " ".join(
        [
            f"On {ranks}, {'; '.join(texts)}{restriction}.",
            *other_settings(found, chosen, names),
            *remarks_of(points, found, chosen, names),
            cause,
        ]
    )
    values = {"ranks": chosen[0].point.ranks}
    for c in chosen:
        name = NAMES[c.scaling]
        values[f"{name}_speedup"] = c.speedup.value
        values[f"{name}_efficiency"] = c.speedup.efficiency
    source = ", ".join(dict.fromkeys(p.source for c in chosen for p in (c.base, c.point)))
    return Answer(AnswerKind.SCALING, text, source, values)


def comparison_text(comparison, names):
    point, speedup = comparison.point, comparison.speedup
    width = 0 if speedup.low is None else speedup.high - speedup.low
    digits = supported_digits(width, RATIO_DIGITS)
    spread = f" (no interval: fewer than {MINIMUM_VALUES} repeated runs)"
    if speedup.low is not None:
        ends = number_text(speedup.low, digits), number_text(speedup.high, digits)
        spread = f" (95 % interval {ends[0]} to {ends[1]})"
        if speedup.low <= point.ranks <= speedup.high:
            spread = f"{spread[:-1]}, which contains the ideal {point.ranks})"
    efficiency_width = width * speedup.efficiency / speedup.value
    efficiency = number_text(speedup.efficiency, supported_digits(efficiency_width, RATIO_DIGITS))
    batch = batch_text(point)
    if comparison.scaling == STRONG:
        batch = f"global batch {point.global_batch}"
    place = ", ".join(filter(None, (names.setting(point), batch, point.mode)))
    return (
        f"an epoch takes {seconds_text(point)} s, {number_text(speedup.value, digits)} times as "
        f"fast as on 1 rank at {comparison.scaling}{spread} and the efficiency is {efficiency} "
        f"({place})"
    )


def other_settings(found, chosen, names):
    """Yields a sentence about the headline of each other setting."""
    own = {c.point.setting for c in chosen}
    others = grouped((c for c in found if c.point.setting not in own), lambda c: c.point.setting)
    for group in others.values():
        for c in headline(group):
            if c.is_valid:
                yield (
                    f"{names.place(c.point)}: {number_text(c.speedup.value, RATIO_DIGITS)} times "
                    f"as fast as on 1 rank at {c.scaling}, efficiency "
                    f"{number_text(c.speedup.efficiency, RATIO_DIGITS)}."
                )


def remarks_of(points, found, chosen, names):
    """Yields a sentence about each number of ranks above that of the headline, why it is not the
    headline."""
    most = chosen[0].point.ranks
    compared = grouped((c for c in found if c.point.ranks > most), lambda c: c.point.ranks)
    for _, group in sorted(compared.items()):
        best = max(group, key=lambda c: c.speedup.value)
        ratio = number_text(best.speedup.value, RATIO_DIGITS)
        yield (
            f"Not the headline: {ratio} times as fast with {names.place(best.point)}, because "
            f"{reason_against(best)}."
        )
    for point in points:
        is_compared = point.ranks in compared or point.ranks <= most
        if not is_compared and not point.is_independent:
            yield (
                f"Without a speedup: {names.place(point)}, because no 1-rank run has the same "
                "setting and batch."
            )


def reason_against(comparison):
    if not comparison.had_processors:
        return "ranks lacked processors"
    return "the epochs have other numbers of images than the base case"


class ScalingCase(NamedTuple):
    """A base case with the fastest points at a fixed batch per rank and at a fixed global batch;
    None if there is none."""

    base: Point
    weak: Point
    strong: Point

    @property
    def points(self):
        return [p for p in self if p is not None]


def scaling_cases(points):
    """Returns a `ScalingCase` for each 1-rank point from which a scaling was measured: on the
    largest number of ranks that both scalings have, otherwise on the largest number of each. Points
    without valid comparison count only if there are no others."""
    found = [c for c in comparisons(points) if c.point.batch_per_rank]
    cases = []
    for base, of_base in grouped(found, lambda c: c.base).items():
        usable = [c for c in of_base if c.is_valid] or of_base
        by_scaling = {
            scaling: [c.point for c in usable if c.scaling == scaling] for scaling in (WEAK, STRONG)
        }
        common = {p.ranks for p in by_scaling[WEAK]} & {p.ranks for p in by_scaling[STRONG]}
        cases.append(
            ScalingCase(base, *(best_point(by_scaling[s], common) for s in (WEAK, STRONG)))
        )
    return sorted(cases, key=lambda case: points.index(case.base))


def best_point(points, preferred_ranks):
    """Returns the fastest of `points` on the most ranks, of the preferred numbers if possible."""

    def order(point):
        return (point.ranks in preferred_ranks, point.ranks, -point.epoch_seconds)

    return max(points, default=None, key=order)


def which_scaling(points):
    """Which scaling was measured, and whether the other one would look better; of base cases with
    both, if there are any."""
    names = Names(points)
    found = scaling_cases(points)
    both = [case for case in found if None not in case]
    return [which_scaling_answer(points, case, names) for case in both or found]


NAMES = {WEAK: "weak", STRONG: "strong"}


def which_scaling_answer(points, case, names):
    base = case.base
    texts = [
        f"{names.start(base)}1 rank with batch {base.batch_per_rank} takes "
        f"{base.epoch_seconds:.2f} s per epoch."
    ]
    values = {"base_epoch_seconds": base.epoch_seconds}
    for point, scaling in ((case.weak, WEAK), (case.strong, STRONG)):
        if point is not None:
            name = NAMES[scaling]
            efficiency = speedup_of(base, point).efficiency
            texts.append(measured_text(base, point, scaling))
            values |= {
                "ranks": point.ranks,
                f"{name}_epoch_seconds": point.epoch_seconds,
                f"{name}_efficiency": efficiency,
            }
    if None not in case:
        texts += [f"The runs differ in {text}." for text in differences(case.weak, case.strong)]
    texts += verdict_texts(points, case, values)
    source = ", ".join(dict.fromkeys(p.source for p in case.points))
    return Answer(AnswerKind.WHICH_SCALING, " ".join(texts), source, values)


def measured_text(base, point, scaling):
    other = f"batch per rank {point.batch_per_rank}"
    if scaling == WEAK:
        other = f"global batch {point.global_batch}"
    speedup = speedup_of(base, point)
    images = ""
    if not has_equal_images(base, point):
        images = f" for the same images (its epoch has {point.images:,} of {base.images:,})"
    return (
        f"{NAMES[scaling].capitalize()} scaling ({scaling} {base.batch_per_rank}): "
        f"{point.epoch_seconds:.2f} s on {point.ranks} ranks, speedup T(1)/T(N) "
        f"{speedup.value:.2f}{images}, efficiency {speedup.efficiency:.2f}, at {other}."
    )


def verdict_texts(points, case, values):
    """Returns the sentences that compare both scalings, or say what is missing. Adds the bound of
    strong scaling to `values`."""
    base, weak, strong = case
    if any(p.lacks_processors for p in case.points):
        return [
            "Ranks lacked processors in these runs, so they do not show how the program scales."
        ]
    if strong is None:
        return [missing_strong(points, base, weak, values)]
    if weak is None:
        return [
            "Weak scaling was not measured: it needs a run on "
            f"{strong.ranks} ranks with --batch-per-rank {base.batch_per_rank}."
        ]
    if weak.ranks != strong.ranks:
        return ["They were not measured on the same number of ranks, so they cannot be compared."]
    if not has_equal_images(weak, strong):
        return ["Their epochs have different numbers of images, so their times are not compared."]
    return [
        better_text(weak, strong),
        f"Weak scaling makes 1/{weak.ranks} of the updates per epoch.",
    ]


def better_text(weak, strong):
    if not difference(weak.epoch_repeats, strong.epoch_repeats).is_shown:
        return "Their epochs differ by no more than runs may differ, so neither looks better."
    better, worse = "Strong", "weak"
    if weak.epoch_seconds < strong.epoch_seconds:
        better, worse = "Weak", "strong"
    return f"{better} scaling looks better than {worse} scaling here."


def missing_strong(points, base, weak, values):
    text = (
        f"Strong scaling was not measured: it needs a run on {weak.ranks} ranks with "
        f"--global-batch {base.batch_per_rank}"
    )
    undisturbed = [p for p in points if not p.lacks_processors]
    small = one_rank(base, undisturbed, base.batch_per_rank / weak.ranks)
    if small is None:
        return text + "."
    most = speedup_of(base, small).value
    values["largest_strong_efficiency"] = most
    return (
        f"{text}. Its efficiency would be at most {most:.2f}, because 1 rank with batch "
        f"{small.batch_per_rank} takes {small.epoch_seconds:.2f} s."
    )


def which_speedup(points):
    """The two definitions of the speedup at fixed batch per rank."""
    found = [c for c in comparisons(points) if c.point.batch_per_rank and c.scaling == WEAK]
    if not found:
        return []
    (chosen,) = headline(found)
    speedup, n = chosen.speedup, chosen.point.ranks
    start = Names(points).start(chosen.base)
    text = (
        f"{start}T(N) is the time of N ranks for the same images, so T(1)/T(N) = "
        f"{speedup.value:.2f} is the speedup (ideal: {n}). N·T(1)/T(N) = {speedup.scaled:.2f} "
        f"counts the ranks twice (ideal: N² = {n * n}): it is a speedup only if T is the time of "
        "the same number of steps, in which N ranks process N times the images."
    )
    values = {"speedup": speedup.value, "scaled_speedup": speedup.scaled, "ranks": n}
    return [Answer(AnswerKind.WHICH_SPEEDUP, text, chosen.point.source, values)]
