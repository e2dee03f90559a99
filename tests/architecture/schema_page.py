"""The tables of docs/run-file.md, from the schema.

In the page, a table is between the lines "<!-- schema: NAME -->" and "<!-- end -->", where NAME is
`groups`, `datasets`, or the path of a group whose attributes are listed.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))

from lockstep_report.runfile import schema  # noqa: E402

MARKED = re.compile(r"(<!-- schema: (\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def table(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def presence(spec):
    return f"{spec.since}{'' if spec.required else ', optional'}"


def described(spec):
    text = spec.description
    if spec.values:
        text += f": {', '.join(f'`{value}`' for value in spec.values)}"
    return text


def groups_table():
    return table(("group", "since version", "contents"),
                 [(f"`{spec.path}`", presence(spec), described(spec)) for spec in schema.GROUPS])


def attributes_table(path):
    return table(("attribute", "type", "since version", "description"),
                 [(f"`{spec.name}`", spec.type, presence(spec), described(spec))
                  for spec in schema.attributes(path)])


def datasets_table():
    return table(("dataset", "dimensions", "type", "units", "since version", "description"),
                 [(f"`{spec.path}`", ", ".join(spec.dimensions), spec.type, spec.units,
                   presence(spec), described(spec)) for spec in schema.DATASETS])


def with_tables(page):
    """Returns the text of the page with current tables."""
    def replacement(found):
        name = found[2]
        made = {"groups": groups_table, "datasets": datasets_table}.get(name, lambda: attributes_table(name))()
        return f"{found[1]}\n{made}\n{found[3]}"

    return MARKED.sub(replacement, page)
