# SPDX-License-Identifier: BSD-3-Clause
"""The registry of tables: one entry per kind of table, in the order of the files and of the page. A
new table is a file with its maker, a member of `TableKind` and an entry here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from lockstep_report.models.answers.disturbance import disturbed_text
from lockstep_report.models.explanation import Explanation, explain
from lockstep_report.tables.accuracy import accuracy_table, learning_table, time_to_accuracy_table
from lockstep_report.tables.assignment import assignment_tables
from lockstep_report.tables.bandwidth import bandwidth_table
from lockstep_report.tables.communication import split_table
from lockstep_report.tables.explanation import (
    advice_table,
    alpha_beta_table,
    answer_table,
    cause_table,
    law_table,
    straggler_table,
)
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.ladder import batch_size_tables, ladder_run_tables
from lockstep_report.tables.layers import layer_table
from lockstep_report.tables.measurements import measurement_table
from lockstep_report.tables.phases import phase_table
from lockstep_report.tables.pipeline import pipeline_table
from lockstep_report.tables.profile import profile_tables
from lockstep_report.tables.reducers import reducer_table
from lockstep_report.tables.scaling import strong_table, weak_table
from lockstep_report.tables.stack import stack_table
from lockstep_report.tables.sweep import sweep_table
from lockstep_report.tables.telemetry import energy_table, network_table, telemetry_table
from lockstep_report.tables.threads import thread_tables
from lockstep_report.tables.times import time_table
from lockstep_report.tables.waiting import waiting_table


class Section(Enum):
    """The sections of the page with tables. The value is the title."""

    ASSIGNMENT = "Questions of the assignment"
    TIMES = "Time, communication and bandwidth"
    LADDER = "Batch ladder"
    SCALING = "Weak and strong scaling"
    ACCURACY = "Accuracy"
    EXPLANATION = "Explanation and advice"
    FURTHER = "Further tables"


@dataclass
class Content:
    """What the tables of a report are made from."""

    points: list
    runs: list
    link_gbit: float = None  # rate of the link for all points; None: that of each point
    explanation: Explanation = None  # [that of these points]
    made: list = field(default_factory=list)  # the tables that are made already

    def __post_init__(self):
        self.explanation = self.explanation or explain(self.points, self.runs, self.link_gbit)

    @cached_property
    def assignment(self):
        """{kind: table} of the assignment, with values of the tables that are made already."""
        return {table.kind: table for table in assignment_tables(self.made)}


@dataclass(frozen=True)
class TableEntry:
    """One kind of table. `make(content)` returns a table, several in a list, or None; tables
    without rows are left out. `is_possible(content)`: whether the content can have such a table;
    `needs`: the runs that would add it, for the reader of a page without it."""

    kind: TableKind
    section: Section
    make: Callable
    is_possible: Callable = lambda content: True
    needs: str = ""
    has_times_of_runs: bool = False  # times or energy of runs, without validity notes of points


def has_points(content):
    return bool(content.points)


def has_no_ladder(content):
    return not any(run.ladder for run in content.runs)


def of_points(kind, section, make, needs=""):
    """Returns the entry of a table that `make(points)` returns."""
    return TableEntry(kind, section, lambda content: make(content.points), has_points, needs)


def of_runs(kind, section, make, needs="", has_times_of_runs=False):
    """Returns the entry of a table that `make(runs)` returns."""
    return TableEntry(
        kind,
        section,
        lambda content: make(content.runs),
        needs=needs,
        has_times_of_runs=has_times_of_runs,
    )


def of_assignment(kind):
    return TableEntry(kind, Section.ASSIGNMENT, lambda content: content.assignment.get(kind))


TRAININGS = "tables 1 to 3: lockstep train --output RUN.h5, with 1 rank and with several ranks"
LADDERS = "batch ladder: lockstep ladder --output LADDER.h5"
EVALUATIONS = (
    "accuracy and learning curves: lockstep train with --evaluate-every and several --epochs"
)
ENTRIES = (
    of_runs(TableKind.LADDER, Section.LADDER, ladder_run_tables, LADDERS),
    TableEntry(
        TableKind.BATCH_SIZES,
        Section.LADDER,
        lambda content: batch_size_tables(content.points),
        has_no_ladder,
        LADDERS,
    ),
    of_points(TableKind.TIMES, Section.TIMES, time_table, TRAININGS),
    of_points(TableKind.COMMUNICATION, Section.TIMES, split_table, TRAININGS),
    TableEntry(
        TableKind.BANDWIDTH,
        Section.TIMES,
        lambda content: bandwidth_table(content.points, content.link_gbit, content.runs),
        has_points,
        TRAININGS,
    ),
    of_points(TableKind.WAITING, Section.FURTHER, waiting_table),
    of_points(
        TableKind.WEAK_SCALING,
        Section.SCALING,
        weak_table,
        "weak scaling: runs with the same --batch-per-rank on 1 and on several ranks",
    ),
    of_points(
        TableKind.STRONG_SCALING,
        Section.SCALING,
        strong_table,
        "strong scaling: runs with the same --global-batch on 1 and on several ranks",
    ),
    of_points(TableKind.PHASES, Section.SCALING, phase_table),
    of_points(TableKind.REDUCERS, Section.FURTHER, reducer_table),
    of_points(TableKind.MEASUREMENTS, Section.FURTHER, measurement_table),
    of_points(TableKind.THREADS, Section.FURTHER, thread_tables),
    TableEntry(
        TableKind.QUESTIONS,
        Section.EXPLANATION,
        lambda content: answer_table(content.explanation.answers),
    ),
    TableEntry(
        TableKind.ADVICE,
        Section.EXPLANATION,
        lambda content: advice_table(content.explanation.advice),
    ),
    TableEntry(
        TableKind.CAUSES,
        Section.EXPLANATION,
        lambda content: cause_table(content.explanation.losses, content.points),
        needs="causes of lost efficiency: a run with 1 rank and the batch of the other runs",
    ),
    TableEntry(
        TableKind.SCALING_LAWS,
        Section.EXPLANATION,
        lambda content: law_table(content.explanation.laws, content.points),
    ),
    TableEntry(
        TableKind.ALPHA_BETA,
        Section.EXPLANATION,
        lambda content: alpha_beta_table(content.explanation.all_reduces),
    ),
    TableEntry(
        TableKind.STRAGGLERS,
        Section.EXPLANATION,
        lambda content: straggler_table(content.explanation.steps),
        needs="slow ranks: lockstep train on several ranks",
    ),
    of_runs(TableKind.PIPELINE, Section.FURTHER, pipeline_table, has_times_of_runs=True),
    of_runs(TableKind.ACCURACY, Section.ACCURACY, accuracy_table, EVALUATIONS),
    of_runs(
        TableKind.TIME_TO_ACCURACY,
        Section.ACCURACY,
        time_to_accuracy_table,
        EVALUATIONS,
        has_times_of_runs=True,
    ),
    of_runs(
        TableKind.LEARNING_CURVES,
        Section.ACCURACY,
        learning_table,
        EVALUATIONS,
        has_times_of_runs=True,
    ),
    of_runs(TableKind.ENERGY, Section.FURTHER, energy_table, has_times_of_runs=True),
    of_runs(TableKind.TELEMETRY, Section.FURTHER, telemetry_table),
    of_runs(TableKind.NETWORK, Section.FURTHER, network_table),
    of_runs(
        TableKind.SWEEP,
        Section.FURTHER,
        sweep_table,
        "bandwidth over message size: mpirun -n N lockstep allreduce --output SWEEP.h5",
    ),
    of_runs(TableKind.LAYERS, Section.FURTHER, layer_table),
    of_runs(TableKind.STACK, Section.FURTHER, stack_table),
    of_runs(TableKind.PROFILE, Section.FURTHER, profile_tables, has_times_of_runs=True),
    of_assignment(TableKind.ASSIGNMENT_TIMES),
    of_assignment(TableKind.ASSIGNMENT_COMMUNICATION),
    of_assignment(TableKind.ASSIGNMENT_BANDWIDTH),
)
ENTRY_OF = {entry.kind: entry for entry in ENTRIES}


def made_by(entry, content):
    """Returns the tables of an entry that have rows, with their kind."""
    found = entry.make(content) if entry.is_possible(content) else None
    tables = found if isinstance(found, list) else [found]
    tables = [table for table in tables if table and table.rows]
    for table in tables:
        table.kind = entry.kind
    return tables


def all_tables(points, runs, link_gbit=None, explanation=None):
    """Returns all tables that have rows. `link_gbit`: rate of the link for all points, in Gbit/s;
    if it is None, each point's own rate is used. `explanation` [that of these points]."""
    return tables_of_content(Content(points, runs, link_gbit, explanation))


def tables_of_content(content, entries=ENTRIES):
    """Returns the tables of the entries that have rows."""
    disturbed = disturbed_text(content.points)
    for entry in entries:
        tables = made_by(entry, content)
        for table in tables:
            if disturbed and table.printed_rows and entry.has_times_of_runs:
                table.notes.append(disturbed)
        content.made += tables
    return content.made


def section_tables(content, section):
    """Makes and returns only the tables of one section."""
    return tables_of_content(content, [entry for entry in ENTRIES if entry.section is section])


def tables_of_section(tables, section):
    """Returns the tables of a section of the page."""
    return [table for table in tables if ENTRY_OF[table.kind].section is section]


def missing_runs(tables):
    """Returns one line for each kind of table that `tables` lack: the runs that would add it."""
    present = {ENTRY_OF[table.kind].needs for table in tables}
    return list(dict.fromkeys(e.needs for e in ENTRIES if e.needs and e.needs not in present))
