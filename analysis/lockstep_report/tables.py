"""One table structure, written as Markdown, CSV and LaTeX."""

import csv
import io
from dataclasses import dataclass, field

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """`key` names it in CSV (unit included), `header` elsewhere; `digits` after the point."""

    key: str
    header: str
    digits: int = None  # None: as it is


@dataclass
class Table:
    """`name` becomes the file's name. Rows are dicts by column key; None is a missing value."""

    name: str
    title: str
    columns: list
    rows: list
    notes: list = field(default_factory=list)

    def without_empty_columns(self):
        """The columns that have a value in some row."""
        return [c for c in self.columns if any(row.get(c.key) is not None for row in self.rows)]


def cell(column, row, missing=MISSING):
    value = row.get(column.key)
    if value is None:
        return missing
    if column.digits is None or isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) and abs(value) >= 10000 else str(value)
    return f"{value:,.{column.digits}f}"


def is_text(column, rows):
    return any(isinstance(row.get(column.key), str) for row in rows)


def markdown(table):
    columns = table.without_empty_columns()
    lines = [f"### {table.title}", ""]
    lines.append("| " + " | ".join(c.header for c in columns) + " |")
    align = ("---" if is_text(c, table.rows) else "---:" for c in columns)
    lines.append("|" + "|".join(align) + "|")
    for row in table.rows:
        texts = [cell(c, row).replace("|", "\\|") for c in columns]
        lines.append("| " + " | ".join(texts) + " |")
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def csv_text(table):
    """Every column; numbers with all their digits that mean something."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([c.key for c in table.columns])
    for row in table.rows:
        writer.writerow([raw(row.get(c.key)) for c in table.columns])
    return text.getvalue()


def raw(value):
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "·": r"$\cdot$", "×": r"$\times$", "–": "--", "≥": r"$\ge$", "−": "$-$",
    "µ": r"$\mu$",
}


def latex_escape(text):
    return "".join(LATEX_ESCAPES.get(character, character) for character in text)


def latex(table):
    """A `table` environment; needs the packages booktabs and graphicx (wide tables shrink)."""
    columns = table.without_empty_columns()
    align = "".join("l" if is_text(c, table.rows) else "r" for c in columns)
    fit = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_escape(table.title)}}}",
             rf"\label{{tab:{table.name}}}", fit, rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
    lines.append(" & ".join(latex_escape(c.header) for c in columns) + r" \\")
    lines.append(r"\midrule")
    for row in table.rows:
        lines.append(" & ".join(latex_escape(cell(c, row)) for c in columns) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [rf"\par\footnotesize {latex_escape(note)}" for note in table.notes]
    lines.append(r"\end{table}")
    return "\n".join(lines) + "\n"


RENDERERS = {"md": markdown, "csv": csv_text, "tex": latex}
