# SPDX-License-Identifier: BSD-3-Clause
"""Validity notes: what restricts the comparison of a point with others. A note is its text, with
a kind if tables or answers select it."""

from enum import Enum, auto


class NoteKind(Enum):
    """The kinds of notes that tables or answers select."""

    SCALED = auto()  # the times of a part of an epoch are scaled to the epoch
    UNFINISHED = auto()  # the run did not finish
    LACKING = auto()  # ranks lacked processors, here or in the base case
    OTHER_IMAGES = auto()  # the epochs of point and base case have different numbers of images
    UNLIKE_BASE = auto()  # no base case, because the 1-rank runs have another setting


# The kinds that restrict a time or a speedup itself: tables mark its cells with their letters.
RESTRICTIONS = (NoteKind.SCALED, NoteKind.UNFINISHED, NoteKind.LACKING, NoteKind.OTHER_IMAGES)


class PointNote(str):
    """A text of one sentence, with a kind. Notes of equal text are equal."""

    __slots__ = ("kind",)

    def __new__(cls, kind, text):
        note = super().__new__(cls, text)
        note.kind = kind
        return note


def kind_of_note(note):
    return getattr(note, "kind", None)


def notes_of_kind(notes, *kinds):
    return [note for note in notes if kind_of_note(note) in kinds]


def note_of_runs(note, sources):
    """Returns a note that applies only to these runs of a point; it keeps its kind."""
    return PointNote(kind_of_note(note), f"{note} ({', '.join(sources)})")
