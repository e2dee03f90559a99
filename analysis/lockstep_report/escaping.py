# SPDX-License-Identifier: BSD-3-Clause
"""Names from run files, CSV files and file names are data: this module makes them safe for a
terminal, Markdown, LaTeX and CSV."""

import re
import unicodedata

# Control and format characters end a line, control a terminal or reorder the text around them.
UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

MARKDOWN = {
    "\\": r"\\",
    "`": r"\`",
    "*": r"\*",
    "$": r"\$",
    "|": r"\|",
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    '"': r"{\ttfamily\char34}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",  # after a line break or a rule, they would be arguments
    "·": r"$\cdot$",
    "×": r"$\times$",
    "–": "--",
    "—": "---",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "−": "$-$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "²": "$^2$",
    "³": "$^3$",
    "°": r"$^\circ$",
    "…": r"\ldots{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "®": r"\textregistered{}",
    "™": r"\texttrademark{}",
    "©": r"\textcopyright{}",
    "§": r"\S{}",
    "\u00a0": "~",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
}
# Combining characters and the commands of their accents.
LATEX_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
LATEX_LIGATURES = re.compile("(?<=[-,?!])(?=[-,])")  # "--" would be one dash


def printable(text):
    """Returns `text` with every unprintable character except the newline replaced."""
    lines = text.split("\n")
    # Most lines have no such character, which `isprintable` tells much faster.
    return "\n".join(line if line.isprintable() else with_replacements(line) for line in lines)


def with_replacements(line):
    return "".join(REPLACEMENT if unicodedata.category(c) in UNPRINTABLE else c for c in line)


def one_line(text):
    """Returns `text` as one line without unprintable characters."""
    return printable(" ".join(text.split("\n")))


def markdown_escape(text):
    """Returns `text` as one line that Markdown shows literally: no HTML, no link, no table cell."""
    text = "".join(MARKDOWN.get(c, c) for c in one_line(text))
    return re.sub(r"\](?=[(\[:])", r"\]", text)


def latex_escape(text):
    """Returns `text` as one line that LaTeX prints literally. Characters that its standard fonts do
    not have are printed as their number: [U+65E5]."""
    parts = LATEX_LIGATURES.split(one_line(text))
    return "{}".join("".join(map(latex_character, part)) for part in parts)


def latex_character(character):
    if character in LATEX or character.isascii():
        return LATEX.get(character, character)
    letter, *accents = unicodedata.normalize("NFD", character)
    if letter.isascii() and letter.isalpha() and len(accents) == 1 and accents[0] in LATEX_ACCENTS:
        return f"\\{LATEX_ACCENTS[accents[0]]}{{{letter}}}"
    return f"{{[}}U+{ord(character):04X}{{]}}"


def csv_cell(text):
    """Returns `text` for a cell of a CSV file. Spreadsheets evaluate a cell that starts with one of
    these characters as a formula; a leading apostrophe makes it a text."""
    text = one_line(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
