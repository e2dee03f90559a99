# SPDX-License-Identifier: BSD-3-Clause
"""Assembles the page: the order of its tables and figures, and the sections that lack data."""

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources

from lockstep_report import __version__
from lockstep_report.errors import ReportError
from lockstep_report.figures.canvas import canvas, figure_module
from lockstep_report.figures.captions import caption, kind_of, tables_of
from lockstep_report.html.answer import answer
from lockstep_report.html.markup import Markup, element, join, table_element
from lockstep_report.measure import validity
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.method import method_lines

SHOWN = 3  # tables and figures that are shown at first; the others are in sections that the reader opens
# (question, beginnings of the names of tables, beginnings of the questions of the table "questions")
QUESTIONS = (
    ("Training time by batch, until memory is full", ("assignment-1", "batch-"), ()),
    ("Speedup; weak or strong scaling", ("assignment-1", "weak-scaling", "strong-scaling"), ("Which scaling", "Which speedup")),
    ("Compute and communication time", ("assignment-2", "table-2"), ("How wrong",)),
    ("Communication bandwidth utilisation", ("assignment-3", "table-3", "allreduce-sweep"), ()),
    ("Accuracy with a large batch, and how to improve it", ("accuracy", "learning-curves"), ("What does the large batch",)),
    ("What is communicated besides gradients", (), ("What is sent",)),
)


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


def html_page(material, file_notes=(), problems=()):
    """Returns the page as text. `material`: a `report.Material`; `problems`: one line for each
    file that could not be read."""
    style = asset("style.css").replace("DARK_COLOURS;", asset("dark.css"))
    script = asset("script.js")
    body = join([*content(material, file_notes, problems), Markup(f"<script>{script}</script>")], "\n")
    head = join([
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        element("meta", name="generator", content=f"lockstep-report {__version__}"),
        element("title", title_of(material.points, material.runs)),
        Markup(f"<style>{style}</style>")], "\n")
    page = element("html", "\n", element("head", "\n", head, "\n"), "\n",
                   element("body", "\n", body, "\n"), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def asset(name):
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def policy(style, script):
    """Returns a content security policy: no network access, and no style or script but these."""
    return ("default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"style-src '{digest(style)}'; script-src '{digest(script)}'")


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def title_of(points, runs):
    ranks = sorted({p.ranks for p in points} or {run.rank_count for run in runs})
    models = sorted({p.setting[0] for p in points if len(p.setting) > 1 and p.setting[0]})
    place = f"{ranks[0]} to {ranks[-1]} ranks" if len(ranks) > 1 else ", ".join(plural(n, "rank") for n in ranks)
    what = ", ".join(filter(None, (" and ".join(models), place)))
    return f"Lockstep report: {what}" if what else "Lockstep report"


def content(material, file_notes, problems):
    tables = divided(material.tables)
    shown, further = figure_elements(material)
    made = [
        section("answer", "Answer", [
            element("ol", *(element("li", text) for text in answer(material.tables, material.points)))]),
        closed_section(ASSIGNMENT.name, ASSIGNMENT.title, [
            *question_list(material.tables), *map(table_element, tables[ASSIGNMENT])]),
        table_section(TIMES, tables, section),
        section("figures", "Figures", shown),
        *(table_section(part, tables, closed_section) for part in (
            SCALING, EXPLANATION, LADDER, ACCURACY, FURTHER)),
        closed_section("further-figures", "Further figures", further),
        closed_section("checks", "Checks of published values", list(map(table_element, material.checks))),
        closed_section("method", "Method", [
            *listed(method_lines(material.points, material.runs, file_notes)),
            *missing_lines(material.tables)]),
        closed_section("warnings", "Assumptions and warnings", listed(warning_lines(material.points))),
        section("problems", "Files with problems", listed(problems)),
    ]
    yield element("header", element("h1", title_of(material.points, material.runs)),
                  element("button", "Dark or light", type="button", id="theme", hidden=True))
    yield element("main", *made)


def figure_elements(material):
    """Returns the figures shown at first and the others, with captions and links; a sentence if they cannot be drawn."""
    try:
        figures = figure_module("all_figures")  # which needs Matplotlib
    except ReportError as error:
        return [element("p", f"The figures are missing: {error}.")], []
    with canvas("page"):
        made = figures.all_figures(material.points, material.runs, material.link_gbit,
                                   material.explanation, ("svg",))
    found = {name: figure_element(name, images["svg"].decode(), tables_of(name, material.tables))
             for name, images in made.items()}
    shown = first_figures(found)
    return [[element("div", *(found[name] for name in names), class_="figures")] if names else []
            for names in (shown, [name for name in found if name not in shown])]


def figure_element(name, svg, tables):
    links = [element("a", table.title, href=f"#table-{table.name}") for table in tables]
    values = join([" Values: ", join(links, ", "), "."]) if links else None
    return element("figure", Markup(svg), element("figcaption", caption(name), values), id=f"figure-{name}")


def section(name, title, parts):
    """Returns a section; None if there are no parts."""
    return element("section", element("h2", title, id=f"{name}-title"), *parts,
                   id=name, aria_labelledby=f"{name}-title") if parts else None


def closed_section(name, title, parts):
    """Returns a section that the reader opens; None if there are no parts."""
    return element("details", element("summary", element("h2", title)), *parts, id=name) if parts else None


def table_section(part, tables, kind):
    return kind(part.name, part.title, list(map(table_element, tables[part])))


def listed(lines):
    """Returns a list of one element with a list of the lines; an empty list without lines."""
    return [element("ul", *(element("li", line) for line in lines))] if lines else []


def missing_lines(tables):
    """Returns the sections of NEEDED that have no table, and the runs that would add it."""
    lines = [text for names, text in NEEDED if not any(table.name.startswith(names) for table in tables)]
    return [element("p", "Sections without data, and the runs that would add them:"), *listed(lines)] if lines else []


def warning_lines(points):
    """Returns the validity notes of all points with the runs to which they apply."""
    return [f"{note} ({', '.join(dict.fromkeys(p.source for p in points if note in p.notes))})"
            for note in validity.letters(points)]


def question_list(tables):
    if not any(table.name.startswith("assignment") for table in tables):
        return []
    answers = [row for table in tables if table.name == "questions" for row in table.rows]
    return [element("ol", *(question_element(tables, answers, *question) for question in QUESTIONS))]


def question_element(tables, answers, title, names, questions):
    links = [element("a", table.title, href=f"#table-{table.name}") for name in names for table in tables if table.name.startswith(name)]
    texts = [element("p", row["text"]) for row in answers if row["question"].startswith(questions)] if questions else []
    return element("li", element("strong", title), ": ", join(links, "; ") if links or texts else "no run shows it", *texts)


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
