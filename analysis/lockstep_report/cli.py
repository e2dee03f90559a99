"""Command-line interface: lockstep-report COMMAND ..."""

import sys
from contextlib import suppress
from dataclasses import dataclass

from lockstep_report import __version__, compare as compare_command, export as export_command, index, report, watch
from lockstep_report.arguments import Parser, positive_integer, positive_number, rank_list, share
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.escaping import one_line, printable
from lockstep_report.figures.canvas import CANVASES, canvas
from lockstep_report.figures.loading import figure_module
from lockstep_report.html import command as html_command
from lockstep_report.measure import points
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.explanation import explain, explanation_values
from lockstep_report.models.prediction.predict import SEED
from lockstep_report.models.published import check
from lockstep_report.models.published.formulas import KNOWN_PARAMETERS, Assumptions
from lockstep_report.output import CHECK, FIGURE, PAGE, PREDICTION, TABLE, Folder
from lockstep_report.predict import predicted_rows
from lockstep_report.runfile.input_files import each, read_files, read_some, require, skipped_lines
from lockstep_report.runfile.paths import one_file
from lockstep_report.runfile.settings import plural
from lockstep_report.runfile.times_csv import read_times
from lockstep_report.runfile.validate import notes, problems
from lockstep_report.stdout import with_stdout
from lockstep_report.tables import contents, traffic
from lockstep_report.tables.json_output import files_values, json_text, table_values
from lockstep_report.tables.prediction import prediction_table, prediction_values
from lockstep_report.tables.summary import summary, summary_values
from lockstep_report.tables.table import markdown


CSV_IMAGES = 50_000  # per epoch of a CSV, unless --train-samples is given


def main(arguments=None):
    """Runs one command and returns the exit status."""
    errors = []
    status = with_stdout(lambda: run(arguments, errors), errors)
    with suppress(OSError):  # of stderr
        for error in errors:
            print(f"lockstep-report: {one_line(str(error))}", file=sys.stderr)
    return status or (INPUT if errors else 0)


def run(arguments, errors):
    """Runs one command and returns its exit status. Appends its error to the list `errors`."""
    options = parser().parse_args(arguments)
    options.skipped = errors  # of input files, see `input_files`
    try:
        return options.command(options) or 0
    except ReportError as error:
        errors.append(error)
        return error.status


def parser():
    top = Parser(
        prog="lockstep-report",
        description="Makes tables and figures from the run files of lockstep.",
        epilog="Formulas and method: docs/analysis.md. Exit status: 0 done, 2 bad option, "
               "3 bad or missing input, 6 output cannot be written.")
    top.add_argument("--version", action="version", version=f"lockstep-report {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name, function, text in (
        ("tables", write_tables, "write the tables as Markdown, CSV and LaTeX"),
        ("figures", write_figures, "write the figures as SVG, PNG and PDF"),
        ("report", write_report, "write report.md with all tables, figures and the method"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        add_inputs(command)
        command.add_argument("--out", required=name != "tables", metavar="DIR",
                             help="output directory" + (
                                 "; not needed with --json" if name == "tables" else ""))
        command.add_argument("--json", action="store_true",
                             help="print the values of the tables as JSON" if name == "tables" else
                             "print the names of the files as JSON")
        if name == "figures":
            command.add_argument("--width", choices=CANVASES, default="screen",
                                 help="one-column, two-column: 85 or 178 mm for a paper, with texts "
                                      "of at least 6 points; screen: as wide as the content needs "
                                      "[screen]")
        command.set_defaults(command=function)
    html_command.add(commands, add_inputs, read_material)
    text = "print advice, causes of lost efficiency, fits and stragglers"
    command = commands.add_parser("explain", help=text, description=text)
    command.add_argument("runs", nargs="+", metavar="RUN.h5",
                         help="run files of training and of `lockstep allreduce`, or directories")
    command.add_argument("--link-gbit", type=positive_number, metavar="G",
                         help="rate of the link between the ranks in Gbit/s [that of each run]")
    command.add_argument("--json", action="store_true", help="print the values as JSON")
    command.set_defaults(command=print_explanation, csv=[], parameters=None, train_samples=None)
    text = "predict the step time on other numbers of ranks"
    command = commands.add_parser(
        "predict", help=text,
        description="Predicts the step time from the measured steps of training runs and from a "
                    "network. Nothing of it is measured.")
    command.add_argument("runs", nargs="+", metavar="RUN.h5",
                         help="run files of training on several ranks, or directories")
    command.add_argument("--ranks", type=rank_list, required=True, metavar="LIST",
                         help="numbers of ranks, for example 8,64,512")
    command.add_argument("--network", nargs="+", required=True, metavar="FILE",
                         help="network description (JSON); or run files of `lockstep allreduce`, or "
                              "outputs of all_reduce_perf of nccl-tests (text or JSON), to which it "
                              "is fitted")
    command.add_argument("--algorithm", metavar="NAME",
                         help="algorithm of the sweeps [that of the training run; nccl-tests: ring]")
    command.add_argument("--overlap", type=share, metavar="SHARE",
                         help="rate of all-reduces during the backward pass, relative to their "
                              "rate after it, 0 to 1 [1, or that of the network]")
    command.add_argument("--global-batch", type=positive_integer, metavar="B",
                         help="strong scaling: images of a step over all ranks; needs runs with "
                              "smaller and larger batches per rank [batch per rank of the runs]")
    command.add_argument("--bucket-mib", type=positive_number, metavar="MIB",
                         help="size of the gradient buckets [as measured]")
    command.add_argument("--seed", type=int, default=SEED, help="seed of the random draws [1]")
    command.add_argument("--json", action="store_true", help="print the values as JSON")
    command.add_argument("--out", metavar="DIR", help="write the table and the figure there")
    command.set_defaults(command=print_prediction)
    command = commands.add_parser("summary", help="print a summary of each run")
    command.add_argument("runs", nargs="+", metavar="RUN.h5",
                         help="run files; other parts of a run in the same directory are "
                              "read as well")
    command.add_argument("--json", action="store_true", help="print the values as JSON")
    command.set_defaults(command=print_summary)
    command = commands.add_parser("validate", help="check a run file against the format")
    command.add_argument("run", metavar="RUN.h5")
    command.add_argument("--json", action="store_true", help="print the problems as JSON")
    command.set_defaults(command=print_problems)
    command = commands.add_parser(
        "published", help="check published values against the epoch times in the same table",
        description="Compares each column published_* of a CSV of epoch times with the value that "
                    "follows from the times, and names the formula that gives the printed digits.")
    command.add_argument("csv", nargs="+", metavar="TIMES.csv")
    command.add_argument("--out", metavar="DIR",
                         help="output directory; without it, the tables are only printed")
    command.add_argument("--json", action="store_true", help="print the tables as JSON")
    add_assumptions(command)
    command.set_defaults(command=print_published)
    for added in (compare_command, export_command, index, watch):
        added.add(commands)
    return top


def add_inputs(command):
    """Adds the options of the input of tables, figures and reports."""
    command.add_argument("runs", nargs="*", metavar="RUN.h5",
                         help="run files, or directories with run files (*.h5)")
    command.add_argument("--csv", action="append", default=[], metavar="TIMES.csv",
                         help="epoch times with the columns ranks (gpus, workers), batch_per_rank "
                              "(batch_per_gpu) and epoch_seconds; can be repeated")
    command.add_argument("--link-gbit", type=positive_number, metavar="G",
                         help="rate of the link between the ranks in Gbit/s [--link-gbit of each "
                              "run]")
    add_assumptions(command)


def add_assumptions(command):
    known = ", ".join(f"{name} {count:,}" for name, count in KNOWN_PARAMETERS.items())
    command.add_argument("--parameters", type=positive_integer, metavar="P",
                         help="number of trainable parameters (4 bytes each) of the model in a "
                              f"CSV. Known models: {known} [tables: the first of them; published: "
                              "all are tried]")
    command.add_argument("--train-samples", type=positive_integer, metavar="D",
                         help=f"images per epoch of a CSV [{CSV_IMAGES:,}]")


def assumptions_of(options):
    images = options.train_samples or CSV_IMAGES
    if options.parameters:
        return Assumptions(images, (("as given", options.parameters),))
    return Assumptions(images)


def default_notes(options):
    """Returns validity notes about values that are neither in the CSV nor given as options."""
    notes = []
    if not options.train_samples:
        notes.append(f"{CSV_IMAGES:,} images per epoch is a default (--train-samples)")
    if not options.parameters:
        name, count = assumptions_of(options).models[0]
        notes.append(f"{count:,} parameters ({name}) is a default (--parameters)")
    return notes


def read_input(options):
    """Reads the run files and CSVs of a command. Returns (points, runs, times). Raises
    `ReportError` if no file can be read or there is nothing to report."""
    if not options.runs and not options.csv:
        raise ReportError(USAGE, "nothing to report: give run files, or epoch times with --csv")
    loaded = read_some(options, options.runs)
    times = [table for _, table in each(options.skipped, options.csv, read_times)]
    assumptions = assumptions_of(options)
    usable = each(options.skipped, loaded.runs, points.point_of)
    runs, found = [run for run, _ in usable], [point for _, point in usable if point]
    for table in times:
        found += [points.from_times(row, assumptions.models[0][1], assumptions.samples,
                                    default_notes(options)) for row in table.rows]
    useful = found or any(run.has_tables for run in runs)
    if not useful:
        require(options.skipped, runs)
        raise ReportError(INPUT, f"{runs[0].path}: holds no steps (status {runs[0].status}); "
                                 "nothing to report")
    options.file_notes = loaded.notes
    return add_comparison_notes(merge_repeats(found), options.link_gbit), runs, times


def tables_of(options, found, runs, explanation=None):
    tables = contents.all_tables(found, runs, options.link_gbit, explanation)
    if options.csv:
        name, count = assumptions_of(options).models[0]
        for table in tables:
            if table.name == "table-3-bandwidth":
                table.notes.append(
                    f"rows from a CSV: M = 4 · {count:,} bytes ({name}), "
                    f"{assumptions_of(options).samples:,} images per epoch, ceil(D/(b·N)) steps")
    return tables


def checks_of(options, times):
    """Returns tables that check the published columns and the network traffic of the CSVs."""
    assumptions = assumptions_of(options)
    made = []
    for table in times:
        made += check.published_tables(table, assumptions)
        sent = traffic.traffic_table(table, assumptions, f"{table.path.stem}-traffic")
        made += [sent] if sent else []
    return made


@dataclass(frozen=True)
class Material:
    """What a report shows."""

    points: list
    runs: list
    explanation: object
    tables: list
    checks: list  # tables that check published values
    link_gbit: float


def read_material(options):
    found, runs, times = read_input(options)
    explanation = explain(found, runs, options.link_gbit)
    return Material(found, runs, explanation, tables_of(options, found, runs, explanation),
                    checks_of(options, times), options.link_gbit)


def write_tables(options):
    if not options.out and not options.json:
        raise ReportError(USAGE, "tables needs --out DIR, or --json to print the values")
    found, runs, times = read_input(options)
    tables, checks = tables_of(options, found, runs), checks_of(options, times)
    files = []
    if options.out:
        folder = Folder(options.out, TABLE, CHECK, inputs=options.csv)
        write_all(folder, tables, checks)
        folder.finish()
        files = [str(path) for path in folder.written]
    if options.json:
        print(json_text({"tables": list(map(table_values, tables + checks)), "files": files}))
    else:
        print("\n".join(files))


def write_all(folder, tables, checks):
    for table in tables:
        folder.write_table(table)
    for table in checks:
        folder.write_table(table, CHECK)


def write_figures(options):
    found, runs, _ = read_input(options)
    folder = Folder(options.out, FIGURE, inputs=options.csv)
    with canvas(options.width):
        made = save_figures(folder, found, runs, options.link_gbit, formats=("svg", "png", "pdf"))
    if not made:
        print("no figure has data: give runs with several rank counts or batches", file=sys.stderr)
    folder.finish()
    if options.json:
        print(json_text(files_values(folder)))
    else:
        print_files(folder)


def save_figures(folder, found, runs, link_gbit, explanation=None, formats=("svg", "png")):
    figures = figure_module("all_figures")  # here because importing Matplotlib is slow
    made = figures.all_figures(found, runs, link_gbit, explanation, formats)
    for name, images in made.items():
        for suffix, content in images.items():
            folder.write(f"{name}.{suffix}", content, FIGURE)
    return list(made)


def write_report(options):
    found = read_material(options)
    folder = Folder(options.out, TABLE, CHECK, FIGURE, PAGE, inputs=options.csv)
    write_all(folder, found.tables, found.checks)
    names = save_figures(folder, found.points, found.runs, options.link_gbit, found.explanation)
    text = report.report_markdown(found.points, found.runs, found.tables, names, found.checks,
                                  options.file_notes + skipped_lines(options))
    page = folder.write("report.md", text, PAGE)
    folder.finish()
    if options.json:
        print(json_text(files_values(folder, page=str(page))))
    else:
        print(one_line(f"{page} ({len(folder.written)} files in {folder.path})"))


def print_files(folder):
    for path in folder.written:
        print(one_line(str(path)))


def print_summary(options):
    runs = read_files(options, options.runs).runs
    found = each(options.skipped, runs, summary_values if options.json else summary)
    require(options.skipped, found)
    if options.json:
        values = [value for _, value in found]
        print(json_text(values[0] if len(runs) == 1 else values))
    else:
        print("\n\n".join("\n".join(map(printable, lines)) for _, lines in found))


def print_explanation(options):
    found, runs, _ = read_input(options)
    explanation = explain(found, runs, options.link_gbit)
    if options.json:
        print(json_text(explanation_values(explanation)))
        return
    tables = contents.tables_of_explanation(explanation, found)
    if not tables:
        raise ReportError(INPUT, "nothing to explain: give training runs with several rank counts "
                                 "and their base case, or sweeps of lockstep allreduce")
    print("\n".join(markdown(table) for table in tables))


def print_prediction(options):
    rows = predicted_rows(options, read_files(options, options.runs).runs)
    table = prediction_table(rows)
    if options.out:
        figure = figure_module("prediction").prediction_figure(rows)
        folder = Folder(options.out, PREDICTION)
        folder.write_table(table, PREDICTION)
        images = figure_module("style").render(figure, ("svg", "png", "pdf"))
        for suffix, content in images.items():
            folder.write(f"{table.name}.{suffix}", content, PREDICTION)
        folder.finish()
    if options.json:
        print(json_text(prediction_values(rows, options.seed)))
    else:
        print(markdown(table), end="")


def print_problems(options):
    found = problems(one_file(options.run))
    lacking = [] if found else notes(options.run)
    if options.json:
        print(json_text({"run": options.run, "is_valid": not found, "problems": found,
                         "notes": lacking}))
    for line in found if not options.json else ():
        print(one_line(f"{options.run}: {line}"))
    if found:
        raise ReportError(INPUT, f"{options.run}: {plural(len(found), 'problem')} in the file")
    if not options.json:
        for line in lacking:
            print(one_line(f"{options.run}: note: {line}"))
        print(one_line(f"{options.run}: valid"))


def print_published(options):
    times = [read_times(path) for path in options.csv]
    tables = checks_of(options, times)
    if not tables:
        raise ReportError(INPUT, f"{options.csv[0]}: no columns published_* and no network "
                                 "traffic; nothing to check")
    if options.out:
        folder = Folder(options.out, CHECK, inputs=options.csv)
        write_all(folder, [], tables)
        folder.finish()
    if options.json:
        print(json_text({"tables": list(map(table_values, tables))}))
    else:
        print("\n".join(markdown(table) for table in tables))
