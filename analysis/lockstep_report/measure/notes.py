# SPDX-License-Identifier: BSD-3-Clause
"""Validity notes: what restricts the comparison of a point with others. A note is its text, with
a kind if tables or answers select it."""

from enum import Enum, auto


class NoteKind(Enum):
    """The kinds of notes that tables or answers select."""

    SCALED = auto()  # the times of a part of an epoch are scaled to the epoch
    UNFINISHED = auto()  # the run did not finish
    LACKING = auto()  # ranks lacked processors
    BASE_TIMES = auto()  # one of these for the base case
    OTHER_IMAGES = auto()  # the epochs of point and base case have different numbers of images
    BASE_DIFFERS = auto()  # the base case had other conditions
    CHOICES = auto()  # the program chose algorithms for other points of the setting differently
    UNLIKE_BASE = auto()  # no base case, because the 1-rank runs have another setting
    INFORMATION = auto()  # which runs count; no restriction


# Kinds that restrict only speedup, efficiency and derived times.
OF_SPEEDUPS = (
    NoteKind.BASE_TIMES,
    NoteKind.OTHER_IMAGES,
    NoteKind.BASE_DIFFERS,
    NoteKind.CHOICES,
)
# The kinds with which a time or a speedup is not that of the program: tables mark its cells.
MARKED = (
    NoteKind.SCALED,
    NoteKind.UNFINISHED,
    NoteKind.LACKING,
    NoteKind.BASE_TIMES,
    NoteKind.OTHER_IMAGES,
)


class PointNote(str):
    """A text of one sentence, with a kind. Notes of equal text are equal."""

    __slots__ = ("kind",)

    def __new__(cls, kind, text):
        note = super().__new__(cls, text)
        note.kind = kind
        return note

    def __getnewargs__(self):  # for copies
        return (self.kind, str(self))


def kind_of_note(note):
    return getattr(note, "kind", None)


def notes_of_kind(notes, *kinds):
    return [note for note in notes if kind_of_note(note) in kinds]


def note_of_runs(note, sources):
    """Returns a note that applies only to these runs of a point; it keeps its kind."""
    return PointNote(kind_of_note(note), f"{note} ({', '.join(sources)})")
