"""The command `lockstep-report html`."""

from pathlib import Path

from lockstep_report.errors import OUTPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.json_output import json_text
from lockstep_report.output import write_file


def add(commands, add_inputs, read):
    """Adds the command to the parser. `add_inputs(command)` adds the options of the input;
    `read(options)` returns the `Material` of a report."""
    text = "write one page with the answer, tables, figures, explanation and method"
    command = commands.add_parser(
        "html", help=text,
        description="Writes one self-contained HTML page with the answer, tables, figures, "
                    "explanation and method. The page loads nothing from the network.")
    add_inputs(command)
    command.add_argument("-o", "--output", required=True, metavar="PAGE.html",
                         help="file to write; it is replaced if it exists")
    command.add_argument("--json", action="store_true", help="print the name of the page as JSON")
    command.set_defaults(command=write_page, read=read)


def write_page(options):
    from lockstep_report.html.page import html_page  # the other commands do not need it

    path = Path(options.output)
    if path.is_dir():
        raise ReportError(OUTPUT, f"{path}: is a directory; give the name of a page, such as "
                                  f"{path / 'report.html'}")
    material = options.read(options)
    text = html_page(material, options.file_notes, [str(error) for error in options.skipped])
    write_file(path, text)
    if options.json:
        print(json_text({"page": str(path), "bytes": len(text.encode())}))
    else:
        print(one_line(f"{path} ({len(text.encode()):,} bytes)"))
