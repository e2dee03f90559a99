# SPDX-License-Identifier: BSD-3-Clause
"""Answers about epoch times: the highest throughput, the largest batch, and the ratio of
programs."""

import math
from itertools import product

from lockstep_report.groups import grouped
from lockstep_report.measure.digits import number_text
from lockstep_report.measure.inference import difference
from lockstep_report.measure.ladders import ladder_end
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.models.answers.places import (
    RATE_DIGITS,
    RATIO_DIGITS,
    batch_text,
    rate_text,
    restriction_text,
    seconds_interval,
    seconds_text,
)
from lockstep_report.runfile.experiment import LOCKSTEP
from lockstep_report.runfile.settings import plural

MIB = 2**20
NO_TIME = "No training run is among the files, so there is no epoch time; lockstep train makes one."
ONLY_REPLICAS = (
    "The files have only independent replicas (--reducer none), which do not train one network."
)
PROGRAM_NAMES = {LOCKSTEP: "Lockstep", "pytorch": "PyTorch"}


def throughput_answer(points, runs, names):
    """The point that trains the most images per second, of those whose ranks had processors. Their
    epochs may have different numbers of images."""
    usable = [p for p in points if not p.is_independent and p.images_per_second]
    undisturbed = [p for p in usable if not p.lacks_processors]
    ordered = sorted(undisturbed or usable, key=lambda p: -p.images_per_second)
    if not ordered:
        has_ladder = any(run.ladder for run in runs)
        return None if has_ladder else Answer(AnswerKind.THROUGHPUT, shortest_text(points, names))
    best, *others = ordered
    spread = seconds_interval(best)
    if best.repeats == 1:
        spread = " (one run; another one may differ)"
    text = (
        f"The highest throughput is {rate_text(best)} images/s: {epoch_phrase(best)} "
        f"takes {seconds_text(best)} s{spread}: {names.place(best)}{restriction_text(best)}."
        f"{tie_text(best, others, names)}"
    )
    values = {"images_per_second": best.images_per_second, "epoch_seconds": best.epoch_seconds}
    return Answer(AnswerKind.THROUGHPUT, text, best.source, values)


def epoch_phrase(point):
    return f"an epoch of {point.images:,} images" if point.images else "an epoch"


def shortest_text(points, names):
    """Returns a text about the shortest epoch of points whose number of images is unknown."""
    usable = [p for p in points if not p.is_independent and p.epoch_seconds]
    if not usable:
        return ONLY_REPLICAS if points else NO_TIME
    best = min(usable, key=lambda p: p.epoch_seconds)
    return f"The shortest epoch takes {seconds_text(best)} s{seconds_interval(best)}: " + (
        f"{names.place(best)}{restriction_text(best)}."
    )


def rates_of(point):
    """Returns the images per second of each repeat."""
    images = point.images_per_second * point.epoch_seconds
    return [images / seconds for seconds in point.epoch_repeats]


def tie_text(best, others, names):
    """Returns a text if the next highest throughput may be as high; "" otherwise."""
    if not others:
        return ""
    if difference(rates_of(others[0]), rates_of(best)).is_shown:
        return ""
    return (
        f" The next one ({rate_text(others[0])} images/s: {names.place(others[0])}) differs by no "
        "more than runs may differ."
    )


def memory_answers(runs):
    """The largest batch of each ladder, and what ended it."""
    return [memory_answer(run) for run in runs if run.ladder]


def memory_answer(run):
    statuses = [str(status) for status in run.ladder["status"]]
    batches = [int(batch) for batch in run.ladder["batch_per_rank"]]
    complete = [i for i, status in enumerate(statuses) if status == "complete"]
    place = plural(run.rank_count, "rank")
    if not complete:
        text = (
            f"No batch of the ladder {run.label} was measured on {place}: {ladder_end(run).text}."
        )
        return Answer(AnswerKind.MEMORY, text, run.label)
    largest = max(complete, key=lambda i: batches[i])
    peak = float(run.ladder["peak_bytes"][largest])
    used = f" with {number_text(peak / MIB, 0)} MiB" if peak > 0 else ""
    text = (
        f"The largest batch of the ladder {run.label} that fits is {batches[largest]} per rank on "
        f"{place}{used}; {ladder_end(run).text}."
    )
    values = {"largest_batch_per_rank": batches[largest], "peak_bytes": peak or None}
    rates = {batches[i]: float(run.ladder["images_per_second"][i]) for i in complete}
    measured = {batch: rate for batch, rate in rates.items() if math.isfinite(rate)}
    if measured:
        fastest = max(measured, key=measured.get)
        rate = number_text(measured[fastest], RATE_DIGITS)
        text += f" Its highest throughput is {rate} images/s on {place} at batch {fastest}."
        values["fastest_batch_per_rank"] = fastest
    return Answer(AnswerKind.MEMORY, text, run.label, values)


def program_answers(points):
    """The ratio of the throughputs of Lockstep and each other program, on the most ranks that both
    have."""
    usable = [p for p in points if p.program and p.images_per_second and not p.lacks_processors]
    own = [p for p in usable if p.program == LOCKSTEP]
    others = grouped((p for p in usable if p.program != LOCKSTEP), lambda p: p.program)
    best = [best_pair(own, group) for group in others.values()]
    return [program_answer(*pair) for pair in best if pair]


def best_pair(own, other):
    """Returns the fastest points of two programs with the same model, ranks and batch per rank, on
    the most ranks that both have; None without such points. If each program has one model, under
    names of its own, the names may differ."""
    pairs = [pair for pair in product(own, other) if program_case(pair[0]) == program_case(pair[1])]
    same_model = [pair for pair in pairs if model_of(pair[0]) == model_of(pair[1])]
    has_one_model = len({model_of(p) for p in own}) == len({model_of(p) for p in other}) == 1
    usable = same_model or (pairs if has_one_model else [])

    def order(pair):
        return (pair[0].ranks, pair[0].images_per_second, pair[1].images_per_second)

    return max(usable, key=order, default=None)


def model_of(point):
    return point.setting[0] if point.setting else ""


def program_case(point):
    return (point.ranks, point.batch_per_rank, point.is_independent)


def program_answer(own, other):
    ratio = own.images_per_second / other.images_per_second
    first, second = (PROGRAM_NAMES.get(p.program, p.program) for p in (own, other))
    unequal = [
        f"{theirs or 'none'} against {ours or 'none'}"
        for ours, theirs in zip(own.setting, other.setting)
        if ours != theirs and theirs != other.program
    ]
    differing = f" The runs differ in: {'; '.join(unequal)}." if unequal else ""
    text = (
        f"{first} trains {number_text(ratio, RATIO_DIGITS)} times as many images per second as "
        f"{second} on {plural(own.ranks, 'rank')} with {batch_text(own)}: {rate_text(own)} and "
        f"{rate_text(other)} images/s{restriction_text(own, other)}.{differing}"
    )
    source = f"{own.source}, {other.source}"
    return Answer(AnswerKind.PROGRAMS, text, source, {"throughput_ratio": ratio})
