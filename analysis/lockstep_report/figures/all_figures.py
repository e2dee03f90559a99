# SPDX-License-Identifier: BSD-3-Clause
"""The registry of figures: one entry per kind, in the order of the files and of the page."""

from collections.abc import Callable
from typing import NamedTuple

from lockstep_report.figures.accuracy import accuracy_figure
from lockstep_report.figures.canvas import current
from lockstep_report.figures.explanation import (
    all_reduce_lines,
    cause_bars,
    law_curves,
    panel_of_loss,
    sweep_figure,
)
from lockstep_report.figures.kinds import FigureKind
from lockstep_report.figures.layers import ladder, layer_figure, stack_figure
from lockstep_report.figures.phases import phase_bars, pipeline_figure, reducer_bars, waiting_bars
from lockstep_report.figures.profile import profile_figures
from lockstep_report.figures.scaling import scaling, strong_series, thread_figures, weak_series
from lockstep_report.figures.style import render
from lockstep_report.figures.telemetry import telemetry_figures
from lockstep_report.figures.work import work_figure
from lockstep_report.groups import equal_parts, grouped
from lockstep_report.measure import validity
from lockstep_report.runfile.settings import file_endings, setting_names
from lockstep_report.tables.ladder import batch_size_tables, ladder_run_tables
from lockstep_report.tables.layers import layer_table
from lockstep_report.tables.pipeline import pipeline_table
from lockstep_report.tables.reducers import compared_points
from lockstep_report.tables.registry import Content, has_no_ladder
from lockstep_report.tables.stack import stack_table

# Bars of one figure of phases or causes: the time of the layout is cubic in its panels, and on the
# page it is as high as the figures beside it.
MOST_BARS, MOST_BARS_OF_PAGE = 100, 9
EFFICIENCY = "Efficiency T(1)/(N·T(N))"


class FigureEntry(NamedTuple):
    """One kind of figure. `make(content)` returns {name: figure, or None without data}."""

    kind: FigureKind
    make: Callable


class Figure(NamedTuple):
    """A rendered figure. `images`: suffix -> bytes."""

    kind: FigureKind
    images: dict


def points_of_settings(content):
    """Yields (points of a setting, ending of the names of its figures)."""
    endings = file_endings(setting_names(p.setting for p in content.points))
    for setting, ending in endings.items():
        yield [p for p in content.points if p.setting == setting], ending


def phase_figures(content):
    letters, made = validity.letters(content.points), {}
    for group, ending in points_of_settings(content):
        for further, part in bar_parts(group, lambda p: p.batch_per_rank):
            made[f"phases{ending}{further}"] = phase_bars(part, letters)
    return made


def cause_figures(content):
    parts = bar_parts(content.explanation.losses, panel_of_loss)
    return {f"efficiency-causes{further}": cause_bars(part) for further, part in parts}


def bar_parts(bars, panel_of):
    """Yields (ending of the name, bars) of each figure. On the page, a panel (`panel_of` a bar) is
    in one figure, and the panels with the most bars are in the first one."""
    parts = equal_parts(bars, MOST_BARS)
    if current().height:
        panels = sorted(grouped(bars, panel_of).values(), key=len, reverse=True)
        parts = [[]]
        for panel in panels:
            if parts[-1] and len(parts[-1]) + len(panel) > MOST_BARS_OF_PAGE:
                parts.append([])
            parts[-1] += panel
    for number, part in enumerate(parts, 1):
        yield f"-{number}" if number > 1 else "", part


def weak_figures(content):
    letters, title = validity.letters(content.points), "Scaling at fixed batch per rank"
    return {
        f"scaling{ending}": scaling(group, weak_series(group), title, EFFICIENCY, letters)
        for group, ending in points_of_settings(content)
    }


def strong_figures(content):
    letters, title = validity.letters(content.points), "Strong scaling, fixed global batch"
    return {
        f"strong-scaling{ending}": scaling(group, strong_series(group), title, EFFICIENCY, letters)
        for group, ending in points_of_settings(content)
    }


def waiting_figures(content):
    letters = validity.letters(content.points)
    return {
        f"waiting{ending}": waiting_bars(group, letters)
        for group, ending in points_of_settings(content)
    }


def work_figures(content):
    stragglers = [step.straggler for step in content.explanation.steps]
    return {"work": work_figure(content.runs, stragglers)}


def reducer_figures(content):
    names = setting_names(p.setting for p in content.points)
    compared = compared_points(content.points)
    labels = [f"{names[group[0].setting]} {group[0].batch_per_rank}" for group in compared]
    endings = file_endings(dict(enumerate(labels)))
    return {f"reducers{endings[i]}": reducer_bars(group) for i, group in enumerate(compared)}


def ladder_figures(tables):
    return {table.name: ladder(table.rows, table.title) for table in tables if len(table.rows) > 1}


def ladders(content):
    return ladder_figures(ladder_run_tables(content.runs))


def batch_sizes(content):
    return ladder_figures(batch_size_tables(content.points)) if has_no_ladder(content) else {}


def layers(content):
    table = layer_table(content.runs)
    return {table.name: layer_figure(table.rows, table.title)}


def stacks(content):
    table = stack_table(content.runs)
    return {table.name: stack_figure(table.rows, table.title)}


def sweeps(content):
    fits = content.explanation.all_reduces
    return {"allreduce-sweep": sweep_figure(content.runs, content.link_gbit, fits)}


ENTRIES = (
    FigureEntry(FigureKind.PHASES, phase_figures),
    FigureEntry(FigureKind.SCALING, weak_figures),
    FigureEntry(FigureKind.STRONG_SCALING, strong_figures),
    FigureEntry(FigureKind.WAITING, waiting_figures),
    FigureEntry(FigureKind.WORK, work_figures),
    FigureEntry(FigureKind.REDUCERS, reducer_figures),
    FigureEntry(FigureKind.LADDER, ladders),
    FigureEntry(FigureKind.BATCH_SIZES, batch_sizes),
    FigureEntry(FigureKind.THREADS, lambda content: thread_figures(content.points)),
    FigureEntry(FigureKind.TELEMETRY, lambda content: telemetry_figures(content.runs)),
    FigureEntry(FigureKind.PROFILE, lambda content: profile_figures(content.runs)),
    FigureEntry(FigureKind.LAYERS, layers),
    FigureEntry(FigureKind.STACK, stacks),
    FigureEntry(
        FigureKind.PIPELINE,
        lambda content: {"pipeline-stages": pipeline_figure(pipeline_table(content.runs))},
    ),
    FigureEntry(FigureKind.SWEEP, sweeps),
    FigureEntry(FigureKind.CAUSES, cause_figures),
    FigureEntry(
        FigureKind.SCALING_LAWS,
        lambda content: {"scaling-laws": law_curves(content.explanation.laws)},
    ),
    FigureEntry(
        FigureKind.ALPHA_BETA,
        lambda content: {"alpha-beta": all_reduce_lines(content.explanation.all_reduces)},
    ),
    FigureEntry(
        FigureKind.LEARNING_CURVES,
        lambda content: {"learning-curves": accuracy_figure(content.runs)},
    ),
)


def all_figures(points, runs, link_gbit=None, explanation=None, formats=("svg", "png")):
    """Returns {name: `Figure`} of all figures that have data; each kind of figure is made once per
    setting. `explanation` [that of these points]. `formats`: as for `render`."""
    content = Content(points, runs, link_gbit, explanation)
    return {
        name: Figure(entry.kind, render(figure, formats, name))
        for entry in ENTRIES
        for name, figure in entry.make(content).items()
        if figure
    }
