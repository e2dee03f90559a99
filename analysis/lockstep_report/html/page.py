# SPDX-License-Identifier: BSD-3-Clause
"""Assembles the page: the order of its tables and figures, and the sections that lack data."""

import base64
import hashlib
from importlib import resources
from typing import NamedTuple

from lockstep_report import __version__
from lockstep_report.errors import ReportError
from lockstep_report.figures.canvas import canvas, figure_module
from lockstep_report.figures.kinds import FigureKind, tables_of
from lockstep_report.html.markup import Markup, element, escaped, join, table_element
from lockstep_report.measure import validity
from lockstep_report.models.answers.answer import AnswerKind
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.method import method_lines
from lockstep_report.tables.registry import Section, missing_runs, tables_of_section

# Tables and figures that are shown at first; the others are in sections that the reader opens.
SHOWN = 3


class Question(NamedTuple):
    """A question of the assignment, with the kinds of tables and answers that answer it."""

    title: str
    tables: tuple
    answers: tuple


QUESTIONS = (
    Question(
        "Training time by batch, until memory is full",
        (TableKind.ASSIGNMENT_TIMES, TableKind.LADDER, TableKind.BATCH_SIZES),
        (AnswerKind.MEMORY,),
    ),
    Question(
        "Speedup; weak or strong scaling",
        (TableKind.ASSIGNMENT_TIMES, TableKind.WEAK_SCALING, TableKind.STRONG_SCALING),
        (AnswerKind.WHICH_SCALING, AnswerKind.WHICH_SPEEDUP),
    ),
    Question(
        "Compute and communication time",
        (TableKind.ASSIGNMENT_COMMUNICATION, TableKind.COMMUNICATION),
        (AnswerKind.DERIVED,),
    ),
    Question(
        "Communication bandwidth utilisation",
        (TableKind.ASSIGNMENT_BANDWIDTH, TableKind.BANDWIDTH, TableKind.SWEEP),
        (AnswerKind.BANDWIDTH,),
    ),
    Question(
        "Accuracy with a large batch, and how to improve it",
        (TableKind.ACCURACY, TableKind.LEARNING_CURVES),
        (AnswerKind.LARGE_BATCH, AnswerKind.ACCURACY),
    ),
    Question("What is communicated besides gradients", (), (AnswerKind.MESSAGES,)),
)
# The sections with tables that the reader opens, in the order of the page.
CLOSED = (
    Section.SCALING,
    Section.EXPLANATION,
    Section.LADDER,
    Section.ACCURACY,
    Section.FURTHER,
)
# The kinds of figures that are shown at first, if there are any; then those of the other kinds.
FIGURES = (
    FigureKind.SCALING,
    FigureKind.PHASES,
    FigureKind.CAUSES,
    FigureKind.STRONG_SCALING,
    FigureKind.WAITING,
)


def html_page(material, file_notes=(), problems=()):
    """Returns the page as text. `material`: a `report.Material`; `problems`: one line for each
    file that could not be read."""
    style, dark, script = (
        resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("style.css", "dark.css", "script.js")
    )
    style = style.replace("DARK_COLOURS;", dark)
    # No network access, and no style or script but these.
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    )
    title = page_title(material.points, material.runs)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">
<meta name="generator" content="lockstep-report {escaped(__version__)}">
{element("title", title)}
<style>{style}</style>
</head>
<body>
{header(title)}
{element("main", *content(material, file_notes, problems))}
<script>{script}</script>
</body>
</html>
"""


def header(title):
    theme = element("button", "Dark or light", type="button", id="theme", hidden=True)
    return element("header", element("h1", title), theme)


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_title(points, runs):
    ranks = sorted({p.ranks for p in points} or {run.rank_count for run in runs})
    models = sorted({p.setting[0] for p in points if len(p.setting) > 1 and p.setting[0]})
    place = (
        f"{ranks[0]} to {ranks[-1]} ranks"
        if len(ranks) > 1
        else ", ".join(plural(n, "rank") for n in ranks)
    )
    what = ", ".join(filter(None, (" and ".join(models), place)))
    return f"Lockstep report: {what}" if what else "Lockstep report"


def content(material, file_notes, problems):
    tables = divided(material.tables)
    shown, further = figure_elements(material)
    return [
        section("answer", "Answer", listed(material.headline, "ol")),
        table_section(tables, Section.ASSIGNMENT, question_list(material)),
        section("times", Section.TIMES.value, list(map(table_element, tables[Section.TIMES]))),
        section("figures", "Figures", shown),
        *(table_section(tables, one) for one in CLOSED),
        section("further-figures", "Further figures", further, True),
        section(
            "checks",
            "Checks of published values",
            list(map(table_element, material.checks)),
            True,
        ),
        section("method", "Method", method_elements(material, file_notes), True),
        section(
            "warnings",
            "Assumptions and warnings",
            listed(warning_lines(material.points)),
            True,
        ),
        section("problems", "Files with problems", listed(problems)),
    ]


def table_section(tables, one, parts=()):
    """Returns the closed section `one` with `parts` and its tables."""
    found = [*parts, *map(table_element, tables[one])]
    return section(one.name.lower(), one.value, found, True)


def method_elements(material, file_notes):
    missing = missing_runs(material.tables)
    sentence = "Sections without data, and the runs that would add them:"
    return [
        *listed(method_lines(material.points, material.runs, file_notes)),
        element("p", sentence) if missing else None,
        *listed(missing),
    ]


def warning_lines(points):
    """Returns the validity notes of the points with the names of their runs."""
    return [
        f"{note} ({', '.join(dict.fromkeys(p.source for p in points if note in p.notes))})"
        for note in validity.letters(points)
    ]


def figure_elements(material):
    """Returns the figures shown at first, the first of each kind in the order of FIGURES, and the
    others, with captions and links; a sentence if they cannot be drawn."""
    try:
        figures = figure_module("all_figures")  # which needs Matplotlib
    except ReportError as error:
        return [element("p", f"The figures are missing: {error}.")], []
    with canvas("page"):
        made = figures.all_figures(
            material.points,
            material.runs,
            material.link_gbit,
            material.explanation,
            ("svg",),
        )
    first_of_kind = {figure.kind: name for name, figure in reversed(made.items())}
    kinds = [kind for kind in FIGURES if kind in first_of_kind]
    kinds += [kind for kind in reversed(first_of_kind) if kind not in FIGURES]
    shown = [first_of_kind[kind] for kind in kinds[:SHOWN]]
    further = [name for name in made if name not in shown]
    elements = {
        name: figure_element(name, figure, material.tables) for name, figure in made.items()
    }
    return [figure_group(elements, names) for names in (shown, further)]


def figure_group(elements, names):
    return [element("div", *(elements[name] for name in names), class_="figures")] if names else []


def figure_element(name, figure, tables):
    """Returns a figure with its caption and links to the tables with its values."""
    links = join(map(link_to, tables_of(figure.kind, name, tables)), ", ")
    values = join([" Values: ", links, "."]) if links else None
    caption = element("figcaption", figure.kind.caption, values)
    return element("figure", Markup(figure.images["svg"].decode()), caption, id=f"figure-{name}")


def link_to(table):
    return element("a", table.title, href=f"#table-{table.name}")


def section(name, title, parts, is_closed=False):
    """Returns a section, or one that the reader opens; None if there are no parts."""
    if not parts:
        return None
    if is_closed:
        return element("details", element("summary", element("h2", title)), *parts, id=name)
    return element(
        "section",
        element("h2", title, id=f"{name}-title"),
        *parts,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def listed(lines, tag="ul"):
    """Returns a list of one element with a list of the lines; an empty list without lines."""
    return [element(tag, *(element("li", line) for line in lines))] if lines else []


def question_list(material):
    """Returns the list of the questions of the assignment, if there are tables of it."""
    has_assignment = tables_of_section(material.tables, Section.ASSIGNMENT)
    if not has_assignment:
        return []
    answers = material.explanation.answers
    items = [question_element(question, material.tables, answers) for question in QUESTIONS]
    return [element("ol", *items)]


def question_element(question, tables, answers):
    of_kinds = [table for kind in question.tables for table in tables if table.kind is kind]
    links = join(map(link_to, of_kinds), "; ")
    texts = [
        element("p", answer.text)
        for kind in question.answers
        for answer in answers
        if answer.kind is kind
    ]
    without = "" if texts else "no run shows it"
    return element("li", element("strong", question.title), ": ", links or without, *texts)


def divided(tables):
    """Returns {section: tables}. Without training runs, the section of times has the first tables
    of the others."""
    found = {one: tables_of_section(tables, one) for one in Section}
    if found[Section.TIMES]:
        return found
    first = [table for of_section in found.values() for table in of_section][:SHOWN]
    rest = {
        one: [table for table in of_section if table not in first]
        for one, of_section in found.items()
    }
    return {**rest, Section.TIMES: first}
