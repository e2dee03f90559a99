"""A `Table` as an HTML table, with the columns, digits and notes of its Markdown form."""

from lockstep_report.html.markup import element
from lockstep_report.tables.table import cell_texts, is_text

LONG, MEDIUM = 60, 30  # characters of texts that are wrapped, in a wide and in a narrower column
MANY = 12  # columns of a table that is printed smaller


def table_element(table):
    """Returns the table in a container that scrolls sideways if the table is wider than it."""
    columns = table.without_empty_columns()
    kinds = [None if is_text(c, table.rows) else "number" for c in columns]
    head = element("tr", *(element("th", c.header, scope="col", class_=kind)
                           for c, kind in zip(columns, kinds)))
    rows = [row_element(texts, kinds)
            for texts in zip(*(cell_texts(c, table.rows) for c in columns))]
    name = f"table-{table.name}"
    made = element("table", element("caption", table.title, id=f"{name}-title"),
                   element("thead", head), element("tbody", *rows), data_table=table.name,
                   class_="many" if len(columns) > MANY else None)
    notes = element("ul", *(element("li", note) for note in table.footnotes), class_="notes")
    return element(
        "div", element("div", made, class_="scroll", role="region", tabindex="0",
                       aria_labelledby=f"{name}-title"),
        notes if table.footnotes else None, class_="table", id=name)


def row_element(texts, kinds):
    cells = [element("td" if place else "th", text, scope=None if place else "row",
                     class_=kind or kind_of(text))
             for place, (text, kind) in enumerate(zip(texts, kinds))]
    return element("tr", *cells)


def kind_of(text):
    return "text" if len(text) > LONG else "phrase" if len(text) > MEDIUM else None
