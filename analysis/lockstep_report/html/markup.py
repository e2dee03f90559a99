# SPDX-License-Identifier: BSD-3-Clause
"""Builds HTML elements, and those of a `Table` with the columns, digits and notes of its Markdown
form. Every text that is not `Markup` is escaped, so a text of a run file cannot become an element
or an attribute."""

import html
import itertools

from lockstep_report.escaping import one_line
from lockstep_report.tables.table import RENDERERS

LONG, MEDIUM = 60, 30  # characters of texts that are wrapped, in a wide and in a narrower column
GROUPS = "setting"  # key of a first column whose values are headings of groups of rows
MANY = 12  # columns of a table that is printed smaller
FORMATS = {"tex": "LaTeX", "md": "Markdown", "csv": "CSV"}


class Markup(str):
    """Text that is HTML already."""


def escaped(text):
    return text if isinstance(text, Markup) else Markup(html.escape(one_line(str(text))))


def join(parts, separator=""):
    """Joins texts and elements; None is left out."""
    return Markup(separator.join(escaped(part) for part in parts if part is not None))


def element(tag, *children, **attributes):
    """Returns an element. `class_` is the attribute class, and `_` in other names stands for `-`.
    Attributes that are None are left out; those that are True have no value."""
    opening = tag
    for name, value in attributes.items():
        if value is not None:
            opening += (
                " "
                + name.rstrip("_").replace("_", "-")
                + ("" if value is True else f'="{escaped(value)}"')
            )
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def table_element(table):
    """Returns the table in a container that scrolls, and below it the notes and the texts to
    copy; the title and the notes if the table has no printed rows."""
    if not table.printed_rows:
        notes = [element("p", note, class_="notes") for note in table.footnotes]
        title = element("p", table.title, class_="title")
        return element("div", title, *notes, class_="table", id=f"table-{table.name}")
    name = f"table-{table.name}"
    container = element(
        "div",
        grid_element(table, name),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_labelledby=f"{name}-title",
    )
    copies = [copy_element(table, *format_) for format_ in FORMATS.items()]
    return element(
        "div",
        container,
        element("p", "Copy as ", *copies, class_="copy", hidden=True),
        notes_element(table.footnotes),
        class_="table",
        id=name,
    )


def grid_element(table, name):
    """Returns the element table."""
    kinds = table.alignment(None, "number")
    headers, *rows = table.texts()
    is_divided = table.without_empty_columns()[0].key == GROUPS
    if is_divided:
        headers, kinds = headers[1:], kinds[1:]
    cells = [
        element("th", header, scope="col", class_=kind) for header, kind in zip(headers, kinds)
    ]
    bodies = divided_bodies(rows, kinds) if is_divided else [body_element(rows, kinds)]
    size = "many" if len(kinds) > MANY else None
    return element(
        "table",
        element("caption", table.title, id=f"{name}-title"),
        element("thead", element("tr", *cells)),
        *bodies,
        data_table=table.name,
        class_=join([f"pin-{pinned_columns(kinds)}", size], " "),
    )


def pinned_columns(kinds):
    """Returns what stays visible: the first column if it has texts ("text"), otherwise up to two
    leading columns with numbers."""
    if not kinds or kinds[0] is None:
        return "text"
    return 2 if kinds[1:2] == ["number"] else 1


def copy_element(table, suffix, name):
    """Returns the button that copies the table in a format, and the text that it copies."""
    text = Markup(html.escape(RENDERERS[suffix](table)))
    button = element("button", name, type="button")
    return join([button, element("textarea", text, readonly=True, hidden=True)])


def notes_element(notes):
    """Returns the notes, which the reader opens; None without notes."""
    if not notes:
        return None
    items = [element("li", note) for note in notes]
    summary = element("summary", f"Notes ({len(notes)})")
    return element("details", summary, element("ul", *items), class_="notes")


def divided_bodies(rows, kinds):
    """Returns one body per group of rows with the same first text, which is the heading of the
    group instead of a column."""
    made = []
    for text, group in itertools.groupby(rows, key=lambda texts: texts[0]):
        heading = element("th", element("div", text), scope="rowgroup", colspan=len(kinds))
        title = element("tr", heading, class_="group")
        made.append(body_element([texts[1:] for texts in group], kinds, title))
    return made


def body_element(rows, kinds, *titles):
    return element("tbody", *titles, *(row_element(texts, kinds) for texts in rows))


def row_element(texts, kinds):
    """Returns a row. `kinds`: the classes of its cells; None for a text, whose class depends on its
    length."""
    kinds = [kind or class_of_text(text) for text, kind in zip(texts, kinds)]
    return element(
        "tr",
        element("th", texts[0], scope="row", class_=kinds[0]),
        *(element("td", text, class_=kind) for text, kind in zip(texts[1:], kinds[1:])),
    )


def class_of_text(text):
    if len(text) > LONG:
        return "text"
    return "phrase" if len(text) > MEDIUM else None
