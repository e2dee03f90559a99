# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the tables with LaTeX and reads the text of the pages. Needs pdflatex and pdftotext
(Debian: texlive-latex-base texlive-latex-recommended poppler-utils)."""

import re
import subprocess
import unicodedata

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.escaping import latex_escape
from lockstep_report.tables.latex import LATEX_ROWS
from lockstep_report.tables.table import Column, Table, latex
from planted import write_sweep, write_training
from synthetic import write_ladder, write_layers, write_stack

pytestmark = pytest.mark.requires("LATEX")

HOSTILE = [
    "$x_1$ 50% & #1 {a} ~b ^c \\d",
    "\\input{/etc/passwd}",
    "$$ \\begin{x} \\end{tabular} % }",
    "[4pt] text ]",
    "* star",
    "--batch ---x `grave' \"quoted\" 'single' |bar| <tag>",
    "a\nb",
    "M\u00fcller \u0141\u00f3d\u017a na\u00efve \u00df",
    "?`!` ,,",
    "\\\\ & \\hline",
    "^^M^^5c",
    "50 \u00b5s \u2265 2\u00d7 \u2212 \u03b1 + \u03b2 \u2026 25\u00b0",
    "\u65e5\u672c \U0001f600 \u0430 \u0105",
    "\x1b[31m \u202e \x00",
]


def compiled(folder, body):
    """Compiles a document with the LaTeX text `body` and returns the text of its pages."""
    (folder / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{body}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "paper.tex"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1800,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-2000:]
    assert "Missing character" not in log
    subprocess.run(["pdftotext", "-layout", "paper.pdf", "text"], cwd=folder, check=True)
    return (folder / "text").read_text(encoding="utf-8")


def shown(text):
    """What a page shows, without spaces and without what pdftotext extracts in another way: accents
    and the underscore, which is a line."""
    for given, printed in (
        ("\n", ""),
        ("\x1b", "[U+FFFD]"),
        ("\u202e", "[U+FFFD]"),
        ("\x00", "[U+FFFD]"),
        ("\u00b5", "\u03bc"),
        ("\u2026", "..."),
        ("\u65e5", "[U+65E5]"),
        ("\u672c", "[U+672C]"),
        ("\u0105", "[U+0105]"),
        ("\U0001f600", "[U+1F600]"),
        ("\u0430", "[U+0430]"),
        ("\u00b0", "\u25e6"),
        ("\u22c5", "\u00b7"),
        ("\u0141", "L"),
        ("\u0142", "l"),
    ):
        text = text.replace(given, printed)
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return re.sub("[\\s_~^\u02dc\u02c6\u00a8\u00b4\u02d9\u0131i]", "", text)


def test_hostile_texts_compile_and_are_printed_literally(tmp_path):
    rows = [{"x": text, "y": number} for number, text in enumerate(HOSTILE)]
    table = Table(
        "t",
        "Title " + HOSTILE[0],
        [Column("x", HOSTILE[5]), Column("y", HOSTILE[1])],
        rows,
        HOSTILE,
    )
    text = compiled(tmp_path, latex(table))
    if text is not None:
        page = shown(text)
        for name in (*HOSTILE, table.title):
            assert shown(name) in page, (name, text)


def test_all_tables_of_a_report_compile(tmp_path):
    random = np.random.default_rng(1)
    runs, out = tmp_path / "runs", tmp_path / "out"
    runs.mkdir()
    for ranks in (1, 2, 4):
        sizes = (4e6, 2e6) if ranks > 1 else ()
        write_training(runs / f"train_{ranks}#$.h5", random, ranks=ranks, steps=8, sizes=sizes)
    write_sweep(runs / "sweep_%.h5", random, 2, 1e-4, 1e-9, [1024, 2**16, 2**20])
    write_ladder(runs / "ladder&.h5")
    write_layers(runs / "layers~.h5")
    write_stack(runs / "stack^.h5")
    assert main(["tables", str(runs), "--link-gbit", "10", "--out", str(out)]) == 0
    made = sorted(out.glob("*.tex"))
    assert len(made) > 10
    body = "\n\\clearpage\n".join(path.read_text(encoding="utf-8") for path in made)
    text = compiled(tmp_path, body)
    if text is not None:
        for name in ("train_4#$.h5", "sweep_%.h5", "stack^.h5"):
            assert shown(name) in shown(text), text
    assert len(set(re.findall(r"\\label\{[^}]*\}", body))) == len(made)


def test_long_tables_continue_on_further_pages_with_the_same_number(tmp_path):
    tables = [
        Table(
            name,
            f"Table of {name}",
            [Column("x", "Column X"), Column("y", "Column Y")],
            [{"x": f"{name}{row}", "y": row} for row in range(rows)],
            [f"Footnote {number} of {name}, " + "with more words" * 6 for number in range(5)],
        )
        for name, rows in (("long", 3 * LATEX_ROWS), ("short", 2))
    ]
    text = compiled(tmp_path, "\n".join(latex(table) for table in tables))
    assert "Float too large" not in (tmp_path / "paper.log").read_text()
    if text is None:
        return
    pages = text.rstrip("\f").split("\f")
    assert [page.count("Table 1: Table of long") for page in pages[:3]] == [1, 1, 1]
    assert text.count("(continued)") == 2 and text.count("Footnote 1 of long") == 1
    assert text.count("Column X") == 4 and "Table 2: Table of short" in text
    assert all(f"long{row} " in text for row in range(3 * LATEX_ROWS))


def test_tables_of_thousands_of_rows_compile(tmp_path):
    rows = 60 * LATEX_ROWS
    table = Table("t", "Title", [Column("x", "X")], [{"x": f"row{row}"} for row in range(rows)])
    text = compiled(tmp_path, latex(table))
    assert text is None or text.count("row") == rows


def test_escaped_texts():
    assert latex_escape("a--b") == "a-{}-b"
    assert latex_escape("[x]") == "{[}x{]}"
    assert latex_escape("\u00e9\u65e5") == r"\'{e}{[}U+65E5{]}"
