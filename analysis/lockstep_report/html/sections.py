# SPDX-License-Identifier: BSD-3-Clause
"""The order of the tables and figures on the page, and the sections that lack data."""

from dataclasses import dataclass

from lockstep_report.figures.captions import kind_of

SHOWN = 3  # tables and figures that are shown at first; the others are in sections that the reader opens


@dataclass(frozen=True)
class Section:
    """A section of tables. `tables`: names or beginnings of names, in their order on the page."""

    name: str
    title: str
    tables: tuple


ASSIGNMENT = Section("assignment", "Questions of the assignment", ("assignment",))
TIMES = Section("times", "Time, communication and bandwidth", ("table-1", "table-2", "table-3"))
LADDER = Section("ladder", "Batch ladder", ("batch-ladder", "batch-sizes"))
SCALING = Section("scaling", "Weak and strong scaling", ("weak-scaling", "strong-scaling", "phases"))
ACCURACY = Section("accuracy", "Accuracy", ("accuracy", "time-to-accuracy", "learning-curves"))
EXPLANATION = Section(
    "explanation", "Explanation and advice",
    ("questions", "advice", "efficiency-causes", "scaling-laws", "alpha-beta", "stragglers"))
FURTHER = Section("further", "Further tables", ("",))  # everything else
SECTIONS = (ASSIGNMENT, TIMES, LADDER, SCALING, ACCURACY, EXPLANATION, FURTHER)
FIGURES = ("scaling", "phases", "efficiency-causes", "strong-scaling", "waiting")

# (beginnings of the names of tables, the runs that would add them).
NEEDED = (
    (TIMES.tables, "tables 1 to 3: lockstep train --output RUN.h5, with 1 rank and with several ranks"),
    (LADDER.tables, "batch ladder: lockstep ladder --output LADDER.h5"),
    (ACCURACY.tables, "accuracy and learning curves: lockstep train with --evaluate-every and several --epochs"),
    ("strong-scaling", "strong scaling: runs with the same --global-batch on 1 and on several ranks"),
    ("weak-scaling", "weak scaling: runs with the same --batch-per-rank on 1 and on several ranks"),
    ("allreduce-sweep", "bandwidth over message size: mpirun -n N lockstep allreduce --output SWEEP.h5"),
    ("efficiency-causes", "causes of lost efficiency: a run with 1 rank and the batch of the other runs"),
    ("stragglers", "slow ranks: lockstep train on several ranks"),
)


def divided(tables):
    """Returns {section: tables}: each table in the first section that names it. Without training runs, TIMES has
    the first tables of the others."""
    rest, found = list(tables), {}
    for section in SECTIONS:
        chosen = [t for start in section.tables for t in rest if t.name.startswith(start)]
        rest = [t for t in rest if t not in chosen]
        found[section] = chosen
    if not found[TIMES]:
        found[TIMES] = [table for tables in found.values() for table in tables][:SHOWN]
        for section in (section for section in SECTIONS if section is not TIMES):
            found[section] = [table for table in found[section] if table not in found[TIMES]]
    return found


def first_figures(names):
    """Returns the names of the figures to show: the first of each kind, in the order of FIGURES and then of `names`."""
    first = {}
    for name in names:
        first.setdefault(kind_of(name), name)
    kinds = dict.fromkeys([kind for kind in FIGURES if kind in first] + list(first))
    return [first[kind] for kind in kinds][:SHOWN]


def missing(tables):
    """Returns a line for each of NEEDED that has no table: the run that would add it."""
    return [text for names, text in NEEDED if not any(table.name.startswith(names) for table in tables)]
