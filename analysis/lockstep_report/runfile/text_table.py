# SPDX-License-Identifier: BSD-3-Clause
"""Tables in texts: values separated by commas, semicolons, tabs, vertical bars (Markdown, psql,
sacct -P) or blanks."""

import csv
import re
from collections import namedtuple

from lockstep_report.errors import INPUT, ReportError

SEPARATORS = ",;\t|"
ALIGNED, BLANKS = "  ", " "  # at least two blanks, at least one
RULE = re.compile(r"[\s|+:\-=\u2500-\u257f]*")  # a line between rows, or a frame
BARS = str.maketrans("\u2502\u2503\u2551", "|||")
MOST_BEFORE = 100  # lines with a title, settings or comments before the names of the columns

Line = namedtuple("Line", "number cells names")  # number in the file, cells, names of columns


def lines_with_cells(path, text, is_header, wanted):
    """Returns the separator, the names of the columns in the first header, and the `Line`s of a
    table. `is_header(names)`: whether cells are names of columns. Lines before the first header are
    not used; a later header applies to the lines that follow it. Raises `ReportError` (input) if a
    line has more cells than names; `wanted`: the names, for its message."""
    lines = text.translate(BARS).splitlines()
    start, separator = find_header(lines, is_header)
    first, names, found = [], [], []
    for number, cells in cells_of(path, lines, start, separator, wanted):
        has_blanks = separator in (ALIGNED, BLANKS)
        names_here = header_cells(cells[0], separator) if has_blanks and first else cells
        if not first or is_header(names_here):
            first, names = first or cells, names_here
            continue
        if has_blanks:
            cells = fitting(cells[0], len(names))
            has_index = len(cells) == len(names) + 1  # pandas prints no name for it
            names = ["", *names] if has_index else names
        if any(cells[len(names) :]):
            advice = (
                "commas or tabs if cells contain blanks"
                if has_blanks
                else "; if numbers have decimal commas"
            )
            what = f"{len(cells)} cells, but the first line names {len(names)} columns"
            raise ReportError(INPUT, f"{path}:{number}: {what}; separate columns by {advice}")
        found.append(Line(number, cells, names))
    return separator, first, found


def find_header(lines, is_header):
    """Returns the index of the line with the names of the columns, and the separator: of the first
    line with names that are wanted; if there is none, of the first line that is no comment."""
    for i, line in enumerate(lines[:MOST_BEFORE]):
        for separator in (*sorted(SEPARATORS, key=line.count, reverse=True), ALIGNED, BLANKS):
            if is_header(header_cells(line, separator)):
                return i, separator
    first = next(
        (i for i, line in enumerate(lines) if is_content(line) and not line.startswith("#")), 0
    )
    separator = max(SEPARATORS, key=lines[first].count) if lines else ","
    return first, separator


def is_content(line):
    return RULE.fullmatch(line) is None and not re.fullmatch("sep=.", line.strip(), re.I)


def uncommented(line):
    """Returns the names of columns without the # that NumPy writes before them."""
    return line.lstrip("# ") if line.startswith("#") else line


def header_cells(line, separator):
    line = uncommented(line)
    if separator in (ALIGNED, BLANKS):
        return blank_cells(line, separator)
    try:
        reader = csv.reader([unframed(line)], delimiter=separator, skipinitialspace=True)
        return [cell.strip() for cell in next(reader, [])]
    except csv.Error:
        return []


def unframed(line):
    """Returns a line of a Markdown table without its outer bars."""
    return re.sub(r"^\s*\|(.*?)\|?\s*$", r"\1", line)


def blank_cells(line, separator):
    """Returns the cells between blanks. Units in brackets belong to the word before them."""
    joined = re.sub(r"\s+(?=[(\[])", "\0", line.strip())
    words = re.split(r"\s{2,}" if separator == ALIGNED else r"\s+", joined)
    return [word.replace("\0", " ") for word in words if word]


def fitting(line, count):
    """Returns the cells of a line between blanks: as many as there are columns if one of the
    separators gives them."""
    both = [blank_cells(line, separator) for separator in (ALIGNED, BLANKS)]
    return next(
        (cells for number in (count, count + 1) for cells in both if len(cells) == number), both[1]
    )


def cells_of(path, lines, start, separator, wanted):
    """Returns [(number of the line, cells)] of the lines with cells, from that with the names on.
    With blanks as separator, the line is the only cell of each line but the first."""
    kept = [
        "" if i < start or not is_content(line) or i > start and line.startswith("#") else line
        for i, line in enumerate(lines)
    ]
    if kept:
        kept[start] = uncommented(kept[start])
    if separator in (ALIGNED, BLANKS):
        return [
            (i + 1, blank_cells(line, separator) if i == start else [line])
            for i, line in enumerate(kept)
            if line.strip()
        ]
    if separator == "|" and kept[start].lstrip().startswith("|"):
        kept = list(map(unframed, kept))
    reader = csv.reader(kept, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        found = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise ReportError(
            INPUT, f"{path}: not a CSV table ({error}); give a text with the columns {wanted}"
        ) from error
    return [(number, cells) for number, cells in found if any(cells)]
