# SPDX-License-Identifier: BSD-3-Clause
"""Assembles the page: the order of its tables and figures, and the sections that lack data."""

import base64
import hashlib
from importlib import resources

from lockstep_report import __version__
from lockstep_report.errors import ReportError
from lockstep_report.figures.canvas import canvas, figure_module
from lockstep_report.figures.captions import caption, kind_of, tables_of
from lockstep_report.groups import grouped
from lockstep_report.html.answer import answer
from lockstep_report.html.markup import Markup, element, escaped, join, table_element
from lockstep_report.measure import validity
from lockstep_report.measure.choices import place_of
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.method import method_lines

# tables and figures that are shown at first; the others are in sections that the reader opens
SHOWN = 3
# (question, beginnings of the names of tables, beginnings of the questions of the table
# "questions")
QUESTIONS = (
    ("Training time by batch, until memory is full", ("assignment-1", "batch-"), ()),
    (
        "Speedup; weak or strong scaling",
        ("assignment-1", "weak-scaling", "strong-scaling"),
        ("Which scaling", "Which speedup"),
    ),
    ("Compute and communication time", ("assignment-2", "table-2"), ("How wrong",)),
    ("Communication bandwidth utilisation", ("assignment-3", "table-3", "allreduce-sweep"), ()),
    (
        "Accuracy with a large batch, and how to improve it",
        ("accuracy", "learning-curves"),
        ("What does the large batch",),
    ),
    ("What is communicated besides gradients", (), ("What is sent",)),
)


# {name of a section: (title, names or beginnings of names of its tables, in their order on the
# page)}
SECTIONS = {
    "assignment": ("Questions of the assignment", ("assignment",)),
    "times": ("Time, communication and bandwidth", ("table-1", "table-2", "table-3")),
    "ladder": ("Batch ladder", ("batch-ladder", "batch-sizes")),
    "scaling": ("Weak and strong scaling", ("weak-scaling", "strong-scaling", "phases")),
    "accuracy": ("Accuracy", ("accuracy", "time-to-accuracy", "learning-curves")),
    "explanation": (
        "Explanation and advice",
        ("questions", "advice", "efficiency-causes", "scaling-laws", "alpha-beta", "stragglers"),
    ),
    "further": ("Further tables", ("",)),  # everything else
}
FIGURES = ("scaling", "phases", "efficiency-causes", "strong-scaling", "waiting")

# (beginnings of the names of tables, the runs that would add them).
NEEDED = (
    (
        SECTIONS["times"][1],
        "tables 1 to 3: lockstep train --output RUN.h5, with 1 rank and with several ranks",
    ),
    (SECTIONS["ladder"][1], "batch ladder: lockstep ladder --output LADDER.h5"),
    (
        SECTIONS["accuracy"][1],
        "accuracy and learning curves: lockstep train with --evaluate-every and several --epochs",
    ),
    (
        "strong-scaling",
        "strong scaling: runs with the same --global-batch on 1 and on several ranks",
    ),
    ("weak-scaling", "weak scaling: runs with the same --batch-per-rank on 1 and on several ranks"),
    (
        "allreduce-sweep",
        "bandwidth over message size: mpirun -n N lockstep allreduce --output SWEEP.h5",
    ),
    (
        "efficiency-causes",
        "causes of lost efficiency: a run with 1 rank and the batch of the other runs",
    ),
    ("stragglers", "slow ranks: lockstep train on several ranks"),
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
    title = title_of(material.points, material.runs)
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
{element("header", element("h1", title), element("button", "Dark or light", type="button", id="theme", hidden=True))}
{element("main", *content(material, file_notes, problems))}
<script>{script}</script>
</body>
</html>
"""


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def title_of(points, runs):
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
    tables = {
        name: list(map(table_element, chosen)) for name, chosen in divided(material.tables).items()
    }
    shown, further = figure_elements(material)
    missing = [
        text for names, text in NEEDED if not any(t.name.startswith(names) for t in material.tables)
    ]
    warnings = [
        f"{note} ({', '.join(dict.fromkeys(p.source for p in material.points if note in p.notes))})"
        for note in validity.letters(material.points)
    ]
    return [
        section("answer", "Answer", listed(answer(material.tables, material.points), "ol")),
        section(
            "assignment",
            SECTIONS["assignment"][0],
            [*question_list(material.tables), *tables["assignment"]],
            True,
        ),
        section("times", SECTIONS["times"][0], tables["times"]),
        section("figures", "Figures", shown),
        *(
            section(name, SECTIONS[name][0], tables[name], True)
            for name in ("scaling", "explanation", "ladder", "accuracy", "further")
        ),
        section("further-figures", "Further figures", further, True),
        section(
            "checks", "Checks of published values", list(map(table_element, material.checks)), True
        ),
        section(
            "method",
            "Method",
            [
                *listed(method_lines(material.points, material.runs, file_notes)),
                (
                    element("p", "Sections without data, and the runs that would add them:")
                    if missing
                    else None
                ),
                *listed(missing),
            ],
            True,
        ),
        section("warnings", "Assumptions and warnings", listed(warnings), True),
        section("problems", "Files with problems", listed(problems)),
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
            material.points, material.runs, material.link_gbit, material.explanation, ("svg",)
        )
    found = {
        name: figure_element(name, images["svg"].decode(), tables_of(name, material.tables))
        for name, images in made.items()
    }
    kinds = grouped(found, kind_of)
    shown = [
        kinds[kind][0] for kind in sorted(kinds, key=lambda kind: place_of(kind, FIGURES))[:SHOWN]
    ]
    return [
        [element("div", *(found[name] for name in names), class_="figures")] if names else []
        for names in (shown, [name for name in found if name not in shown])
    ]


def figure_element(name, svg, tables):
    values = join([" Values: ", join(map(link_to, tables), ", "), "."]) if tables else None
    return element(
        "figure", Markup(svg), element("figcaption", caption(name), values), id=f"figure-{name}"
    )


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


def question_list(tables):
    if not any(table.name.startswith("assignment") for table in tables):
        return []
    answers = [row for table in tables if table.name == "questions" for row in table.rows]
    made = []
    for title, names, questions in QUESTIONS:
        found = join(
            [link_to(t) for name in names for t in tables if t.name.startswith(name)], "; "
        )
        texts = [
            element("p", row["text"])
            for row in answers
            if questions and row["question"].startswith(questions)
        ]
        made.append(
            element(
                "li",
                element("strong", title),
                ": ",
                found if found or texts else "no run shows it",
                *texts,
            )
        )
    return [element("ol", *made)]


def divided(tables):
    """Returns {name of a section: tables}: each table in the first section that names it. Without
    training runs, "times" has the first tables of the others."""
    rest, found = list(tables), {}
    for section, (_, starts) in SECTIONS.items():
        found[section] = [t for start in starts for t in rest if t.name.startswith(start)]
        rest = [t for t in rest if t not in found[section]]
    if found["times"]:
        return found
    first = [table for tables in found.values() for table in tables][:SHOWN]
    return {
        name: [table for table in tables if table not in first] for name, tables in found.items()
    } | {"times": first}
