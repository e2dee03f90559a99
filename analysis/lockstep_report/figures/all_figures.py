# SPDX-License-Identifier: BSD-3-Clause
"""All figures of a report, as SVG, PNG and PDF."""

from lockstep_report.figures.accuracy import accuracy_figure
from lockstep_report.figures.explanation import explanation_figures, sweep_figure
from lockstep_report.figures.layers import ladder, layer_figures
from lockstep_report.figures.phases import phase_bars, pipeline_figure, reducer_bars, waiting_bars
from lockstep_report.figures.profile import profile_figures
from lockstep_report.figures.scaling import scaling, strong_series, thread_figures, weak_series
from lockstep_report.figures.style import render
from lockstep_report.figures.telemetry import telemetry_figures
from lockstep_report.figures.work import work_figure
from lockstep_report.measure import validity
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.settings import file_endings, setting_names
from lockstep_report.tables.ladder import ladder_tables
from lockstep_report.tables.pipeline import pipeline_table
from lockstep_report.tables.reducers import compared_points
from lockstep_report.tables.table import equal_parts

MOST_BARS = 100  # of one figure of phases; the time of the layout is cubic in its panels


def all_figures(points, runs, link_gbit=None, explanation=None, formats=("svg", "png")):
    """Returns {name: {suffix: bytes}} of all figures that have data; each kind of figure is made
    once per setting. `explanation` [that of these points]. `formats`: as for `render`."""
    made = {}
    explanation = explanation or explain(points, runs, link_gbit)
    letters = validity.letters(points)
    names = setting_names(p.setting for p in points)
    for setting, ending in file_endings(names).items():
        group = [p for p in points if p.setting == setting]
        for number, part in enumerate(equal_parts(group, MOST_BARS), 1):
            further = f"-{number}" if number > 1 else ""
            made[f"phases{ending}{further}"] = phase_bars(part, letters)
        made[f"scaling{ending}"] = scaling(
            group,
            weak_series(group),
            "Scaling at fixed batch per rank",
            "Weak efficiency t(1)/t(N)",
            letters,
        )
        made[f"strong-scaling{ending}"] = scaling(
            group,
            strong_series(group),
            "Strong scaling, fixed global batch",
            "Efficiency T(1)/(N·T(N))",
            letters,
        )
        made[f"waiting{ending}"] = waiting_bars(group, letters)
    made["work"] = work_figure(runs, [step.straggler for step in explanation.steps])
    compared = compared_points(points)
    endings = file_endings(
        {
            i: f"{names[group[0].setting]} {group[0].batch_per_rank}"
            for i, group in enumerate(compared)
        }
    )
    made |= {f"reducers{endings[i]}": reducer_bars(group) for i, group in enumerate(compared)}
    made |= {
        table.name: ladder(table.rows, table.title)
        for table in ladder_tables(points, runs)
        if len(table.rows) > 1
    }
    made |= thread_figures(points)
    made |= telemetry_figures(runs) | profile_figures(runs) | layer_figures(runs)
    made["pipeline-stages"] = pipeline_figure(pipeline_table(runs))
    made["allreduce-sweep"] = sweep_figure(runs, link_gbit, explanation.all_reduces)
    made |= explanation_figures(explanation)
    made["learning-curves"] = accuracy_figure(runs)
    return {name: render(figure, formats, name) for name, figure in made.items() if figure}
