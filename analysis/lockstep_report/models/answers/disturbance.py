# SPDX-License-Identifier: BSD-3-Clause
"""The answer about runs whose ranks lacked processors: their times do not describe the program."""

from lockstep_report.groups import grouped
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.runfile.settings import plural, some_of

MOST_NAMES = 4
CONSEQUENCE = (
    "Times, speedups and efficiencies of such runs do not describe the program, and their causes "
    "of lost efficiency cannot be told apart."
)


def disturbed_text(points):
    """Returns one sentence per cause for the points whose ranks lacked processors, and what
    follows; "" without one."""
    disturbed = [p for p in points if p.lacks_processors]
    lacks = {name: lack for p in disturbed for name, lack in p.lacks.items()}
    if not lacks:
        return ""
    of_cause = grouped(lacks.items(), lambda item: item[1].cause)
    sentences = [cause_sentence(cause, dict(items)) for cause, items in of_cause.items()]
    return " ".join([*sentences, CONSEQUENCE])


def cause_sentence(cause, lacks):
    worst = max(lack.share for lack in lacks.values())
    return (
        f"In {plural(len(lacks), 'run')} ({some_of(list(lacks), MOST_NAMES)}), ranks lacked a "
        f"processor for up to {100 * worst:.0f} % of the epoch, because {cause}."
    )


def disturbed_answer(points):
    text = disturbed_text(points)
    source = ", ".join(p.source for p in points if p.lacks_processors)
    return Answer(AnswerKind.DISTURBED, text, source) if text else None
