# SPDX-License-Identifier: BSD-3-Clause
"""All tables of a report."""

from lockstep_report.measure.contention import spoiled_text
from lockstep_report.models.explanation import explain
from lockstep_report.tables.accuracy import accuracy_table, learning_table, time_to_accuracy_table
from lockstep_report.tables.assignment import assignment_tables
from lockstep_report.tables.bandwidth import bandwidth_table
from lockstep_report.tables.communication import split_table
from lockstep_report.tables.explanation import explanation_tables
from lockstep_report.tables.ladder import ladder_tables
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

# Beginnings of the names of tables with times or energy of runs, which have no validity notes of
# points.
TIMES_OF_RUNS = ("pipeline", "time-to-accuracy", "learning-curves", "energy", "profile")


def all_tables(points, runs, link_gbit=None, explanation=None):
    """Returns all tables that have rows. `link_gbit`: rate of the link for all points, in Gbit/s;
    if it is None, each point's own rate is used. `explanation` [that of these points]."""
    explanation = explanation or explain(points, runs, link_gbit)
    tables = ladder_tables(points, runs)
    if points:
        tables += [
            time_table(points),
            split_table(points),
            bandwidth_table(points, link_gbit, runs),
            waiting_table(points),
            weak_table(points),
            strong_table(points),
            phase_table(points),
            reducer_table(points),
            measurement_table(points),
            *thread_tables(points),
        ]
    tables += explanation_tables(explanation, points)
    tables += [
        pipeline_table(runs),
        accuracy_table(runs),
        time_to_accuracy_table(runs),
        learning_table(runs),
        energy_table(runs),
        telemetry_table(runs),
        network_table(runs),
        sweep_table(runs),
        layer_table(runs),
        stack_table(runs),
        *profile_tables(runs),
    ]
    tables = [table for table in tables if table.rows]
    spoiled = spoiled_text(points)
    for table in tables:
        if spoiled and table.name.startswith(TIMES_OF_RUNS):
            table.notes.append(spoiled)
    return tables + assignment_tables(tables)
