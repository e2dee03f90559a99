# SPDX-License-Identifier: BSD-3-Clause
"""All advice of a report: the rules in their order, once for the repeated runs of a point."""

from dataclasses import replace

from lockstep_report.groups import grouped
from lockstep_report.measure.contention import LIMIT
from lockstep_report.models.advice import LACKING_PROCESSORS, OPTION, Advice, percent_text
from lockstep_report.models.loss_advice import slower_compute, small_batch
from lockstep_report.models.step_advice import (
    better_algorithm,
    exposed_buckets,
    input_wait,
    latency,
    link_limit,
    no_overlap,
    waiting,
    wrong_clock,
)
from lockstep_report.runfile.experiment import LOCKSTEP


def merged(advice, points):
    """Returns the advice with one element per rule and case of the repeated runs of a point; that
    of less than half is last."""
    point_of = {source: p for p in points for source in p.sources}

    def case_of(one):
        point = point_of.get(one.source)
        return (one.rule, point.sources if point else one.source, one.case)

    groups = grouped(advice, case_of).values()
    found = [median_advice(group, point_of.get(group[0].source)) for group in groups]
    return sorted(found, key=lambda advice: 2 * advice.repeats < advice.of)


def median_advice(group, point):
    """Returns the advice with the median effect, of repeated runs of a point (None if it is
    unknown). Only Lockstep has the options that a text names."""
    by_effect = sorted(group, key=size_of_effect)
    chosen = by_effect[(len(group) - 1) // 2]
    is_of_lockstep = point is None or point.program == LOCKSTEP
    text = chosen.text if is_of_lockstep else OPTION.sub("", chosen.text)
    return replace(chosen, text=text, repeats=len(group), of=point.repeats if point else 1)


def size_of_effect(advice):
    """Returns the size of the effect, which is the first number of the evidence."""
    return next(iter(advice.evidence.values()))


def lacking_processors(source, lack):
    """Processors: the ranks lacked them, which changes the evidence of all other rules."""
    return Advice(
        LACKING_PROCESSORS,
        source,
        f"Rank {lack.rank} lacked a processor for {percent_text(lack.share)} of the epoch, because "
        f"{lack.cause}. No other advice is given for this run, because its times show this lack"
        " more than the program.",
        {"lacking_share": lack.share, "rank": lack.rank},
        LIMIT,
        case=lack.cause,
    )


def all_advice(steps, found_losses, fits, link_gbit=None, points=(), lacks=None):
    """Applies all rules. Returns the advice in the order of runs and rules, without repetitions and
    once for the repeated runs of each of `points`. `lacks`: run -> `Lack` of the runs whose ranks
    lacked processors.
    """
    lacks = lacks or {}
    made = [lacking_processors(source, lack) for source, lack in lacks.items()]
    for step in (step for step in steps if step.source not in lacks):
        made += [
            exposed_buckets(step),
            no_overlap(step),
            waiting(step),
            input_wait(step),
            link_limit(step, link_gbit),
            latency(step, fits),
            better_algorithm(step, fits),
            wrong_clock(step),
        ]
    for loss in found_losses:
        made += [small_batch(loss), slower_compute(loss)]
    return merged(
        {(advice.source, advice.text): advice for advice in filter(None, made)}.values(), points
    )
