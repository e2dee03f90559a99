# SPDX-License-Identifier: BSD-3-Clause
"""Tables as LaTeX."""

import re

from lockstep_report.escaping import latex_escape
from lockstep_report.groups import equal_parts

LATEX_PARTS = 15  # of one table that LaTeX keeps in memory; it has room for 52 at most
LATEX_ROWS = 34  # that fit on a page of the class `article` together with a caption and footnotes


def latex(table):
    """Returns the table as LaTeX `table` environments, which need the packages booktabs and
    graphicx. A table that is wider than a line is scaled down. A table of more than LATEX_ROWS rows
    becomes several environments with the same number, because LaTeX does not divide one."""
    align = "".join(table.alignment("l", "r"))
    header, *rows = (" & ".join(map(latex_escape, texts)) + r" \\" for texts in table.texts())
    title = re.sub(r"^Table \d+: ", "", table.title)  # LaTeX numbers the tables
    caption = latex_escape(title[:1].upper() + title[1:])
    lines = []
    for index, part in enumerate(equal_parts(rows, LATEX_ROWS)):
        if index > 0 and index % LATEX_PARTS == 0:
            lines.append(r"\clearpage")
        number = (
            [r"\addtocounter{table}{-1}", rf"\caption{{{caption} (continued)}}"]
            if lines
            else [
                rf"\caption{{{caption}}}",
                rf"\label{{tab:{re.sub('[^A-Za-z0-9.-]', '-', table.name)}}}",
            ]
        )
        lines += [
            r"\begin{table}",
            r"\centering",
            *number,
            *(tabular(align, header, part) if part else []),
            r"\end{table}",
        ]
    lines[-1:] = [
        *(rf"\par\footnotesize {latex_escape(note)}" for note in table.footnotes),
        lines[-1],
    ]
    return "\n".join(lines) + "\n"


def tabular(align, header, rows):
    """Returns the lines of a part of a table, which is scaled down to the width of a line."""
    return [
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        header,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}}",
    ]
