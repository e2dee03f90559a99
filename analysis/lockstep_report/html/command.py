"""The command `lockstep-report html`."""

from lockstep_report.escaping import one_line
from lockstep_report.output import File
from lockstep_report.runfile.file_kind import HTML
from lockstep_report.tables.json_output import json_text


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
                         help="file to write; a page that exists is replaced, but no file of "
                              "another kind")
    command.add_argument("--json", action="store_true", help="print the name of the page as JSON")
    command.set_defaults(command=write_page, read=read)


def write_page(options):
    from lockstep_report.html.page import html_page  # the other commands do not need it

    page = File(options.output, options.runs + options.csv, HTML)
    material = options.read(options)
    text = html_page(material, options.file_notes, [str(error) for error in options.skipped])
    page.write(text)
    if options.json:
        print(json_text({"page": str(page.path), "bytes": len(text.encode())}))
    else:
        print(one_line(f"{page.path} ({len(text.encode()):,} bytes)"))
