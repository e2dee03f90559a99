"""Names from run files, CSV files and file names are data: this module makes them safe for a
terminal, Markdown, LaTeX and CSV."""

import re
import unicodedata

# Control and format characters end a line, control a terminal or reorder the text around them.
UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

MARKDOWN = {
    "\\": r"\\", "`": r"\`", "*": r"\*", "$": r"\$", "|": r"\|", "&": "&amp;", "<": "&lt;",
    ">": "&gt;",
}

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "·": r"$\cdot$", "×": r"$\times$", "–": "--", "≥": r"$\ge$",
    "−": "$-$", "µ": r"$\mu$",
}


def printable(text):
    """Returns `text` with every unprintable character except the newline replaced."""
    return "".join(REPLACEMENT if c != "\n" and unicodedata.category(c) in UNPRINTABLE else c
                   for c in text)


def one_line(text):
    """Returns `text` as one line without unprintable characters."""
    return printable(" ".join(text.split("\n")))


def markdown_escape(text):
    """Returns `text` as one line that Markdown shows literally: no HTML, no link, no table cell."""
    text = "".join(MARKDOWN.get(c, c) for c in one_line(text))
    return re.sub(r"\](?=[(\[:])", r"\]", text)


def latex_escape(text):
    return "".join(LATEX.get(c, c) for c in one_line(text))


def csv_cell(text):
    """Returns `text` for a cell of a CSV file. Spreadsheets evaluate a cell that starts with one of
    these characters as a formula; a leading apostrophe makes it a text."""
    text = one_line(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
