# SPDX-License-Identifier: BSD-3-Clause
"""Tests that names in run files, CSV files and file names are shown literally: they cannot insert
HTML, links, LaTeX commands, formulas or control sequences, or end a line."""

import csv
import html.parser
import io
import re
import xml.etree.ElementTree

import h5py
import pytest
from lockstep_report.cli import main
from lockstep_report.escaping import csv_cell, latex_escape, markdown_escape, one_line
from lockstep_report.tables.table import Column, Table, latex, markdown
from synthetic import phases, write_ladder, write_layers, write_run, write_stack, write_sweep

STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)
NAMES = [
    "</script><script>alert(1)</script>",
    "$(touch pwned)`id`",
    "a|b\n\n# heading",
    "$\\frac{$ $x$",
    "\\input{/etc/passwd}% & #_{}~^",
    "[x](javascript:alert) ![x](y) [z]: w",
    "'quote\" \x1b[31mred",
    "\u202ereversed\x00nul",
    "=cmd|'/c calc'!A1",
]
# The same names in two texts, because a report takes a second.
TEXTS = [" ".join(NAMES[:4]), " ".join(NAMES[4:])]


class Elements(html.parser.HTMLParser):
    """Collects the tags of an HTML or Markdown text."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)

    def handle_comment(self, data):
        self.found.append(data)


def run_with(tmp_path, name, ranks=2):
    """Writes a run file in which the host, the device, the model and the failure are `name`."""
    text = name.replace("\x00", "")  # HDF5 ends a text at the first zero byte
    return write_run(
        tmp_path / "run.h5",
        phases(20, *[STEP] * ranks),
        10,
        epochs=2,
        batch=10,
        config={"model": text, "data": f"cifar10:{text}"},
        failure=text,
        environment={"warnings": text},
        ranks_of={"hostname": text, "device_name": text},
        status="failed",
    )


def assert_harmless_markdown(text):
    assert Elements(text).found == []
    assert not re.search(
        r"(?<!\\)(`|\*(?!\*)(?<!\*\*)|\$)", re.sub(r"^\*[^*\n]+\*$", "", text, flags=re.M)
    )
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", text)
    assert all(re.fullmatch(r"[A-Za-z0-9._%~-]+\.svg", link) for link in links), links
    assert all(
        line == "# Lockstep report" or not line.startswith("# ") for line in text.splitlines()
    )


def assert_plain(text):
    """No control sequence reaches a terminal."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("name", TEXTS)
def test_report_shows_names_literally(tmp_path, name, capfd):
    run_with(tmp_path, name)
    out = tmp_path / "out"
    assert main(["report", str(tmp_path / "run.h5"), "--out", str(out)]) == 0
    for page in out.glob("*.md"):
        assert_harmless_markdown(page.read_text(encoding="utf-8"))
    for page in out.glob("*.tex"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\\(input|frac)\b", text)
        plain = text.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
    for figure in out.glob("*.svg"):
        root = xml.etree.ElementTree.fromstring(figure.read_text(encoding="utf-8"))
        assert not any(element.tag.endswith("script") for element in root.iter())
    for page in out.iterdir():
        if page.suffix in (".md", ".tex", ".csv"):
            assert_plain(page.read_text(encoding="utf-8"))
    assert list(out.glob("*.svg")) and list(out.glob("*.tex"))
    answers = capfd.readouterr()
    assert_plain(answers.out + answers.err)


@pytest.mark.parametrize("name", TEXTS)
def test_summary_shows_no_control_sequence(tmp_path, name, capfd):
    assert main(["summary", str(run_with(tmp_path, name))]) == 0
    answers = capfd.readouterr()
    assert_plain(answers.out + answers.err)
    assert "The run failed: " in answers.out


@pytest.mark.parametrize("name", [name.replace("/", "_").replace("\x00", "") for name in TEXTS])
def test_names_of_files_are_shown_literally(tmp_path, name, capfd):
    folder = tmp_path / name
    folder.mkdir()
    write_run(folder / f"{name}.h5", phases(20, STEP), 10, epochs=2, batch=10)
    write_ladder(folder / f"{name}-l.h5")
    write_sweep(folder / f"{name}-s.h5")
    write_layers(folder / f"{name}-a.h5")
    write_layers(folder / f"{name}-b.h5")
    write_stack(folder / f"{name}-d.h5")
    times = folder / f"{name}.csv"
    times.write_text(
        "ranks,batch_per_rank,epoch_seconds,published_speedup\n1,32,10,1\n2,32,6,1.67\n"
    )
    out = folder / "out"
    assert main(["report", str(folder), "--csv", str(times), "--out", str(out)]) == 0
    assert_harmless_markdown((out / "report.md").read_text(encoding="utf-8"))
    for path in out.glob("*.svg"):
        xml.etree.ElementTree.fromstring(path.read_text(encoding="utf-8"))
    for label in re.findall(
        r"\\label\{([^\n]*)\}\n", "".join(p.read_text() for p in out.glob("*.tex"))
    ):
        assert re.fullmatch(r"tab:[A-Za-z0-9.-]+", label)
    assert main(["validate", str(folder / f"{name}.h5")]) == 0
    assert main(["report", str(folder / "missing.h5"), "--out", str(out)]) == 3
    answers = capfd.readouterr()
    assert_plain(answers.out + answers.err)
    assert len(answers.err.splitlines()) == 1


def test_text_that_is_not_utf8_is_replaced(tmp_path):
    path = run_with(tmp_path, "model")
    with h5py.File(path, "r+") as file:
        file["ranks/hostname"][0] = b"node\xff1"
        file.attrs["failure"] = b"\xfe failed"
    assert main(["report", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "node\N{REPLACEMENT CHARACTER}1" in (tmp_path / "out" / "report.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", NAMES)
def test_table_keeps_its_shape(name):
    table = Table("t", name, [Column("x", name), Column("y", "Y")], [{"x": name, "y": 1}], [name])
    lines = [line for line in markdown(table).splitlines() if line]
    assert len(lines) == 5
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines[1:4])
    rows = latex(table).split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(rows) == 1 and len(re.findall(r"(?<!\\)&", rows[0])) == 1


@pytest.mark.parametrize(
    "text, shown",
    [
        ("node-1_a.b", "node-1_a.b"),
        ("12 [11, 13]", "12 [11, 13]"),
        ("<b>", "&lt;b&gt;"),
        ("a|b\nc", r"a\|b c"),
        ("[a](b)", r"[a\](b)"),
        ("\x1b[0m", "\N{REPLACEMENT CHARACTER}[0m"),
    ],
)
def test_markdown_escapes_what_has_a_meaning(text, shown):
    assert markdown_escape(text) == shown


@pytest.mark.parametrize(
    "text, shown",
    [("node_1", r"node\_1"), ("a\nb", "a b"), ("<", "$<$"), ("\\x{%}", r"\textbackslash{}x\{\%\}")],
)
def test_latex_escapes_what_has_a_meaning(text, shown):
    assert latex_escape(text) == shown


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum"])
def test_csv_texts_are_no_formulas(text):
    stream = io.StringIO()
    csv.writer(stream).writerow([csv_cell(text), csv_cell(f"a{text}")])
    assert next(csv.reader([stream.getvalue()])) == [f"'{text}", f"a{text}"]


def test_lines_are_joined():
    assert one_line("a\nb\r\u2028c") == "a b\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}c"
