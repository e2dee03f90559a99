# SPDX-License-Identifier: BSD-3-Clause
"""All answers of a report, in their order."""

from lockstep_report.models.answers.accuracy import accuracy_answers, large_batches
from lockstep_report.models.answers.causes import advice_answer, causes_text, largest_causes
from lockstep_report.models.answers.communication import (
    bandwidth_answer,
    communication_answer,
    derived_communication,
    other_messages,
)
from lockstep_report.models.answers.disturbance import disturbed_answer
from lockstep_report.models.answers.places import Names
from lockstep_report.models.answers.scaling import (
    comparisons,
    headline,
    scaling_answer,
    which_scaling,
    which_speedup,
)
from lockstep_report.models.answers.times import (
    memory_answers,
    program_answers,
    throughput_answer,
)


def all_answers(points, runs, losses, advice, steps, link_gbit=None):
    """Returns the answers: first those of the headline. `losses`, `advice`, `steps`: as in
    `Explanation`."""
    names = Names(points)
    chosen = headline(comparisons(points))
    of_headline = [c.point for c in chosen]
    largest = largest_causes(losses, chosen)
    cause = causes_text(largest, chosen, points, names)
    scaling = scaling_answer(points, names, cause)
    throughput = throughput_answer(points, runs, names)
    first = [scaling, disturbed_answer(points), throughput]
    if not chosen:  # the time is what the runs show
        first = [throughput, disturbed_answer(points), scaling]
    if not points:
        first = [throughput]
    found = [
        *first,
        *memory_answers(runs),
        communication_answer(points, names, of_headline),
        bandwidth_answer(points, runs, link_gbit, names, of_headline),
        *accuracy_answers(runs),
        *program_answers(points),
        advice_answer(advice, largest, steps, points),
        *which_scaling(points),
        *which_speedup(points),
        *derived_communication(losses),
        *large_batches(runs),
        *other_messages(runs),
    ]
    return list(filter(None, found))


def headline_texts(answers, notes=()):
    """Returns the texts of the headline. `notes`: further lines, such as those about runs that
    failed."""
    return [answer.text for answer in answers if answer.kind.is_headline] + list(notes)
