# SPDX-License-Identifier: BSD-3-Clause
"""One answer: a text with its question, and the numbers in it."""

from dataclasses import dataclass, field
from enum import Enum


class AnswerKind(Enum):
    """The kinds of answers; the value is the question."""

    SCALING = "What is the speedup on the most ranks, and why is it not larger?"
    DISTURBED = "Which times do not describe the program?"
    THROUGHPUT = "Which run trains the most images per second?"
    MEMORY = "Which batch is the largest that fits in the memory?"
    COMMUNICATION = "Which share of the epoch is communication?"
    BANDWIDTH = "Which bandwidth do the all-reduces reach?"
    ACCURACY = "Which test accuracy was reached, after how many updates?"
    PROGRAMS = "How much faster is one program than another?"
    ADVICE = "What should be changed first?"
    WHICH_SCALING = "Which scaling was measured, and would the other scaling look better?"
    WHICH_SPEEDUP = "Which speedup: T(1)/T(N) or N·T(1)/T(N)?"
    DERIVED = "How wrong is the derived communication T(N) − T(1)/N?"
    LARGE_BATCH = "What does the large batch cost in accuracy, and what helps?"
    MESSAGES = "What is sent besides gradients?"

    @property
    def is_headline(self):
        """Whether the answer is a part of the headline, with one or two sentences."""
        return self in HEADLINE


HEADLINE = frozenset(
    {
        AnswerKind.SCALING,
        AnswerKind.DISTURBED,
        AnswerKind.THROUGHPUT,
        AnswerKind.MEMORY,
        AnswerKind.COMMUNICATION,
        AnswerKind.BANDWIDTH,
        AnswerKind.ACCURACY,
        AnswerKind.PROGRAMS,
        AnswerKind.ADVICE,
    }
)


@dataclass(frozen=True)
class Answer:
    """`values`: name with unit -> number, as in the text but not rounded."""

    kind: AnswerKind
    text: str
    source: str = ""
    values: dict = field(default_factory=dict)

    @property
    def question(self):
        return self.kind.value
