# SPDX-License-Identifier: BSD-3-Clause
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
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def marked(name, spec):
    return f"`{name}`{'' if spec.required else '*'}"


def described(spec):
    text = spec.description
    if spec.values:
        text += f": {', '.join(f'`{value}`' for value in spec.values)}"
    return text


def groups_table():
    return table(
        ("group", "contents"),
        [(marked(spec.path, spec), described(spec)) for spec in schema.GROUPS],
    )


def attributes_table(path):
    return table(
        ("attribute", "type", "description"),
        [(marked(spec.name, spec), spec.type, described(spec)) for spec in schema.attributes(path)],
    )


def datasets_table():
    return table(
        ("dataset", "shape", "unit", "description"),
        [
            (marked(spec.path, spec), ", ".join(spec.dimensions), spec.units, described(spec))
            for spec in schema.DATASETS
        ],
    )


def with_tables(page):
    """Returns the text of the page with current tables."""

    def replacement(found):
        name = found[2]
        made = {"groups": groups_table, "datasets": datasets_table}.get(
            name, lambda: attributes_table(name)
        )()
        return f"{found[1]}\n{made}\n{found[3]}"

    return MARKED.sub(replacement, page)
