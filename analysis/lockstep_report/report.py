# SPDX-License-Identifier: BSD-3-Clause
"""The commands that report on runs: `tables`, `figures`, `report`, `html` and `explain`."""

import sys
from textwrap import wrap
from urllib.parse import quote

from lockstep_report.arguments import finish, positive_number
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.escaping import markdown_escape, one_line
from lockstep_report.figures.canvas import CANVASES, canvas, figure_module
from lockstep_report.material import Material, add_inputs
from lockstep_report.models.explanation import explanation_values
from lockstep_report.output import CHECK, FIGURE, PAGE, TABLE, File, Folder
from lockstep_report.runfile.file_kind import HTML
from lockstep_report.tables.method import method_lines
from lockstep_report.tables.registry import Section, section_tables
from lockstep_report.tables.table import files_values, json_text, markdown, table_values

LINE = 100  # characters of a line of the answer


def add(commands):
    add_tables(commands)
    add_figures(commands)
    add_report(commands)
    add_page(commands)
    add_explain(commands)


def add_tables(commands):
    text = "write the tables as Markdown, CSV and LaTeX"
    command = commands.add_parser("tables", help=text, description=text)
    add_inputs(command)
    command.add_argument("--out", metavar="DIR", help="output directory; not needed with --json")
    finish(command, write_tables, "print the values of the tables as JSON")


def add_figures(commands):
    text = "write the figures as SVG, PNG and PDF"
    command = commands.add_parser("figures", help=text, description=text)
    add_inputs(command)
    command.add_argument("--out", required=True, metavar="DIR", help="output directory")
    command.add_argument(
        "--width",
        choices=CANVASES,
        default="screen",
        help=(
            "one-column, two-column: 85 or 178 mm for a paper, with texts of at least 6 "
            "points; screen: as wide as the content needs [screen]"
        ),
    )
    finish(command, write_figures, "print the names of the files as JSON")


def add_report(commands):
    text = "write report.md with all tables, figures and the method"
    command = commands.add_parser("report", help=text, description=text)
    add_inputs(command)
    command.add_argument("--out", required=True, metavar="DIR", help="output directory")
    finish(command, write_report, "print the names of the files as JSON")


def add_page(commands):
    command = commands.add_parser(
        "html",
        help="write one page with the answer, tables, figures, explanation and method",
        description=(
            "Writes one self-contained HTML page with the answer, tables, figures, explanation and"
            " method, and prints the begin of the answer. The page loads nothing from the network."
        ),
    )
    add_inputs(command)
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PAGE.html",
        help="file to write; a page that exists is replaced, but no file of another kind",
    )
    finish(command, write_page, "print the name of the page as JSON")


def add_explain(commands):
    text = "print advice, causes of lost efficiency, fits and stragglers"
    command = commands.add_parser("explain", help=text, description=text)
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help=(
            "run files of training and of `lockstep allreduce`, outputs of nccl-tests, OSU or IMB,"
            " or directories"
        ),
    )
    command.add_argument(
        "--link-gbit",
        type=positive_number,
        metavar="G",
        help="rate of the link between the ranks in Gbit/s [that of each run]",
    )
    finish(command, print_explanation, csv=[], parameters=None, train_samples=None, note=[])


def write_tables(options):
    if not options.out and not options.json:
        raise ReportError(USAGE, "tables needs --out DIR, or --json to print the values")
    found, files = Material(options), []
    if options.out:
        folder = Folder(options.out, TABLE, CHECK, inputs=options.csv)
        folder.write_tables(found.tables)
        folder.write_tables(found.checks, CHECK)
        folder.finish()
        files = [str(path) for path in folder.written]
    values = {"tables": list(map(table_values, found.tables + found.checks)), "files": files}
    print(json_text(values) if options.json else "\n".join(files))


def write_figures(options):
    found = Material(options)
    folder = Folder(options.out, FIGURE, inputs=options.csv)
    with canvas(options.width):
        made = save_figures(folder, found, ("svg", "png", "pdf"))
    if not made:
        print("no figure has data: give runs with several rank counts or batches", file=sys.stderr)
    folder.finish()
    print(json_text(files_values(folder)) if options.json else folder.listing())


def save_figures(folder, found, formats):
    """Writes the figures to the folder and returns them."""
    figures = figure_module("all_figures")  # loaded here because importing Matplotlib is slow
    made = figures.all_figures(
        found.points, found.runs, found.link_gbit, found.explanation, formats
    )
    for name, figure in made.items():
        for suffix, content in figure.images.items():
            folder.write(f"{name}.{suffix}", content, FIGURE)
    return made


def write_report(options):
    found = Material(options)
    folder = Folder(options.out, TABLE, CHECK, FIGURE, PAGE, inputs=options.csv)
    folder.write_tables(found.tables)
    folder.write_tables(found.checks, CHECK)
    figures = save_figures(folder, found, ("svg", "png"))
    file_notes = found.file_notes + [f"not used: {error}" for error in options.skipped]
    text = report_markdown(found, figures, file_notes)
    page = folder.write("report.md", text, PAGE)
    folder.finish()
    print(
        json_text(files_values(folder, page=str(page)))
        if options.json
        else one_line(f"{page} ({len(folder.written)} files in {folder.path})")
    )


def report_markdown(material, figures, file_notes):
    method = method_lines(material.points, material.runs, file_notes)
    parts = [
        "# Lockstep report\n",
        quoted("Answer", material.headline),
        quoted("Method", method),
        *(figure_markdown(name, figure.kind.caption) for name, figure in figures.items()),
        *map(markdown, material.tables + material.checks),
    ]
    return "\n".join(filter(None, parts))


def quoted(title, lines):
    """Returns a block quote with a title and a list of the lines; None without lines."""
    if not lines:
        return None
    return "\n".join([f"> **{title}**", *(f"> - {markdown_escape(line)}" for line in lines)]) + "\n"


def figure_markdown(name, caption):
    return f"![{markdown_escape(name)}]({quote(name)}.svg)\n\n*{caption}*\n"


def write_page(options):
    from lockstep_report.html.page import html_page  # the other commands do not need it

    page = File(options.output, options.runs + options.csv, HTML)
    material = Material(options)
    text = html_page(material, material.file_notes, [str(error) for error in options.skipped])
    page.write(text)
    size, answer = len(text.encode()), material.headline
    if options.json:
        print(json_text({"page": str(page.path), "bytes": size, "answer": answer}))
        return
    first = wrap(one_line(answer[0]), LINE)
    print(one_line(f"{page.path} ({size:,} bytes)"), *first, sep="\n")


def print_explanation(options):
    found = Material(options)
    if options.json:
        print(json_text(explanation_values(found.explanation)))
        return
    tables = section_tables(found.content, Section.EXPLANATION)
    if not tables:
        raise ReportError(
            INPUT,
            "nothing to explain: give training runs with several rank counts "
            "and their base case, or sweeps of lockstep allreduce",
        )
    print("\n".join([quoted("Answer", found.headline), *map(markdown, tables)]))
