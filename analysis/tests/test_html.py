# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the page: the numbers are those of the tables, texts are shown literally, nothing is
loaded from the network, the same input gives the same bytes, and the structure is accessible."""

import html.parser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from html_page import Page, assert_isolated
from html_study import write_study
from lockstep_report.cli import main, parser
from lockstep_report.figures.style import short_number
from lockstep_report.html.markup import Markup, element, escaped, table_element
from lockstep_report.material import Material
from lockstep_report.tables.table import Column, Table
from synthetic import phases, write_ladder, write_layers, write_run, write_stack, write_sweep
from test_hostile_names import NAMES, run_with


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study") / "runs", counts=(1, 2, 8), repeats=6)


@pytest.fixture(scope="module")
def material(study):
    options = parser().parse_args(["html", str(study), "-o", "unused.html"])
    options.skipped = []
    return Material(options)


@pytest.fixture(scope="module")
def text(study):
    return make(study.parent / "report.html", study)


def make(path, *inputs):
    assert main(["html", *map(str, inputs), "-o", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def markdown_tables(folder):
    """Returns {name: rows of cells} of the Markdown tables of `tables --out`."""
    found = {}
    for path in folder.glob("*.md"):
        lines = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
        ]
        found[path.stem] = [
            [
                html.unescape(re.sub(r"\\(.)", r"\1", cell.strip()))
                for cell in re.split(r"(?<!\\)\|", line)[1:-1]
            ]
            for line in lines
        ]
    return found


def test_all_cells_are_those_of_the_tables(study, text, tmp_path):
    assert main(["tables", str(study), "--out", str(tmp_path)]) == 0
    expected = markdown_tables(tmp_path)
    assert Page(text).tables == expected
    assert {
        "table-1-time-speedup",
        "table-2-compute-communication",
        "table-3-bandwidth",
        "batch-ladder",
        "weak-scaling",
        "strong-scaling",
        "phases",
        "accuracy",
        "advice",
        "learning-curves",
        "efficiency-causes",
        "scaling-laws",
        "alpha-beta",
        "stragglers",
        "allreduce-sweep",
    } <= set(expected)


def numbers_of(text):
    return re.findall(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?(?!\w|\.\d)", text)


def test_numbers_of_the_answer_are_those_of_the_tables(text):
    page = Page(text)
    rows = [row for table in page.tables.values() for row in table]
    known = {n for row in rows for n in numbers_of(" ".join(row))}
    answer = re.search(r'<section id="answer".*?</section>', text, re.S)[0]
    sentences = [data for parent, data in Page(answer).texts if parent == "li"]
    assert len(sentences) == 7
    for data in sentences:
        # The base case, "95 %".
        unknown = [n for n in numbers_of(data) if n not in known | {"1", "95"}]
        assert not unknown or "fewer than 6" in data and unknown == ["6"], (unknown, data)


PHASES = ("forward", "backward", "exposed_communication", "update", "imbalance")


@pytest.mark.parametrize(
    "figure, table, keys, unit, factor",
    [
        ("phases", "phases", PHASES, " s", 1),
        ("scaling", "table-1-time-speedup", ("speedup",), "", 1),
        ("scaling", "weak-scaling", ("efficiency",), " %", 100),
        ("strong-scaling", "strong-scaling", ("speedup",), "", 1),
        ("strong-scaling", "strong-scaling", ("efficiency",), " %", 100),
        ("efficiency-causes", "efficiency-causes", ("efficiency_percent",), " %", 1),
        ("allreduce-sweep", "allreduce-sweep", ("busbw",), " GB/s", 1),
    ],
)
def test_values_at_the_marks_are_those_of_the_table(
    material, text, figure, table, keys, unit, factor
):
    """All values of the column are at marks, and the phases at marks are in the table."""
    (drawn,) = re.findall(f'<figure id="figure-{figure}">.*?</figure>', text, re.S)
    marks = {
        number
        for data in re.findall("<title>(.*?)</title>", drawn)
        for number in re.findall(rf": (-?[\d.,e-]+){unit}$", data)
    }
    rows = next(t for t in material.tables if t.name == table).rows
    values = {
        short_number(factor * row[key]) for row in rows for key in keys if row[key] is not None
    }
    assert len(values) > 2
    if figure == "phases":
        assert marks <= values and len(marks) > len(values) / 2
    else:
        assert values <= marks and (figure == "efficiency-causes" or marks - values <= {"1", "100"})
    assert f'href="#table-{table}"' in drawn


def test_answer_names_epoch_scaling_and_cause(text):
    section = re.search(r'<section id="answer".*?</section>', text, re.S)[0]
    sentences = [data for parent, data in Page(section).texts if parent == "li"]
    scaling, throughput, memory = sentences[:3]
    communication, accuracy, advice = sentences[3], *sentences[5:]
    rows = Page(text).tables["table-1-time-speedup"]
    place = rows[0].index("Images/s")
    row = max(rows[1:], key=lambda row: float(row[place].replace(",", "")))
    assert f"{row[rows[0].index('Epoch (s)')]} s (95 % interval " in throughput
    assert throughput.startswith(f"The highest throughput is {row[place]} images/s: an epoch of ")
    assert "batch 512 exceeds the memory limit" in memory
    assert "exposed communication takes " in communication
    assert accuracy.startswith("After 2 epochs, the test accuracy of resnet18-cifar")
    assert scaling.startswith("On 8 ranks, an epoch takes ") and "fixed global batch" in scaling
    assert "largest causes of lost efficiency" in scaling and advice.startswith("Advice (")


def test_sections_are_in_order_and_complete(text):
    page = Page(text)
    identifiers = [a["id"] for _, a, _ in page.elements if "id" in a]
    assert len(set(identifiers)) == len(identifiers)
    assert [a["id"] for a in page.of("section")] == ["answer", "times", "figures"]
    assert [a["id"] for a in page.of("details") if "id" in a] == [
        "scaling",
        "explanation",
        "ladder",
        "accuracy",
        "further",
        "further-figures",
        "method",
    ]
    assert [a["id"] for a in page.of("figure")] == [
        f"figure-{name}"
        for name in (
            "scaling",
            "phases",
            "efficiency-causes",
            "strong-scaling",
            "waiting",
            "work",
            "batch-ladder",
            "allreduce-sweep",
            "scaling-laws",
            "alpha-beta",
            "learning-curves",
        )
    ]
    references = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    assert len(references) > 50 and references <= set(identifiers)
    targets = {a["href"] for a in page.of("a")}
    assert all(t[0] == "#" and t[1:] in identifiers for t in targets)


def test_page_shows_three_tables_and_three_figures_and_the_rest_in_closed_sections(text):
    page = Page(text)
    for tag in ("table", "figure"):
        assert (
            len(
                [
                    ancestors
                    for name, _, ancestors in page.elements
                    if name == tag and "details" not in ancestors
                ]
            )
            == 3
        )
    assert not any("open" in a for a in page.of("details"))
    assert all(children for children in re.findall("</summary>(.*?)</details>", text, re.S))


def test_texts_to_copy_are_those_of_the_files(study, text, tmp_path):
    assert main(["tables", str(study), "--out", str(tmp_path)]) == 0
    copies = [
        html.unescape(found) for found in re.findall("<textarea[^>]*>(.*?)</textarea>", text, re.S)
    ]
    names = [a["data-table"] for a in Page(text).of("table")]
    assert copies == [
        (tmp_path / f"{name}.{suffix}").read_text(encoding="utf-8")
        for name in names
        for suffix in ("tex", "md", "csv")
    ]


def test_page_is_accessible(text):
    page = Page(text)
    assert page.of("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))
    assert len(page.of("caption")) == len(page.of("table")) > 10
    assert all(a.get("scope") in ("col", "row") for a in page.of("th"))
    regions = [a for a in page.of("div") if a.get("class") == "scroll"]
    names = {a["id"] for _, a, _ in page.elements if "id" in a}
    assert all(a["tabindex"] == "0" and a["aria-labelledby"] in names for a in regions)
    assert len(page.of("figcaption")) == len(page.of("svg")) == len(page.of("figure")) > 8
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in page.of("svg"))


def luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sheet", ["style.css", "dark.css"])
def test_contrast(sheet):
    path = Path(__file__).parent.parent / "lockstep_report" / "html" / sheet
    colours = {}
    for name, value in re.findall(r"--(\w+): (#[0-9a-f]{6});", path.read_text(encoding="utf-8")):
        colours.setdefault(name, value)
    for text in ("text", "faint", "link"):
        assert contrast(colours[text], colours["page"]) >= 4.5, text
        assert contrast(colours[text], colours["panel"]) >= 4.5, text


def test_page_is_self_contained(text):
    assert_isolated(text)
    assert len(text.encode()) < 2**20


def test_names_are_shown_literally(tmp_path):
    names = [name.replace("\x00", "").replace("/", "_") for name in NAMES]
    names += ["<img src=x onerror=alert(1)>", '" onmouseover="alert(1)', "' onload='x", "]]>-->"]
    runs = tmp_path / "runs"
    runs.mkdir()
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_with(folder, name).rename(runs / f"{number}{name[:100]}.h5")
    write_ladder(runs / "<b>l.h5", config={"model": "<i>m"})
    write_sweep(runs / "<b>s.h5")
    write_layers(runs / "<b>y.h5")
    write_stack(runs / "<b>k.h5")
    text = make(tmp_path / "page.html", runs)
    assert_isolated(text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert escaped("<img src=x onerror=alert(1)>") in text
    assert all(escaped(name)[:20] in text for name in names)


def test_a_setting_is_the_heading_of_its_rows():
    columns = [Column("setting", "Setting"), Column("ranks", "Ranks"), Column("x", "X", 1)]
    values = (("a <b>", 1, 2.0), ("a <b>", 2, 1.0), ("c", 1, 3.0))
    rows = [dict(zip(("setting", "ranks", "x"), row)) for row in values]
    page = Page(table_element(Table("t", "Title", columns, rows)))
    assert page.table == [["Ranks", "X"], [""], ["1", "2.0"], ["2", "1.0"], [""], ["1", "3.0"]]
    assert [text for tag, text in page.texts if tag == "div"] == ["a <b>", "c"]
    scopes = [attributes["scope"] for attributes in page.of("th")]
    assert scopes == ["col", "col", "rowgroup", "row", "row", "rowgroup", "row"]
    assert len(page.of("tbody")) == 2


def test_element_escapes_texts_and_attributes():
    assert (
        element("td", "</script>\n&\"'", title="\"'<>")
        == '<td title="&quot;&#x27;&lt;&gt;">&lt;/script&gt; &amp;&quot;&#x27;</td>'
    )
    assert element("p", Markup("<b>"), None, class_="a") == '<p class="a"><b></p>'


def test_the_begin_of_the_answer_is_printed(study, material, tmp_path, capsys):
    first, *others = material.headline
    make(tmp_path / "page.html", study)
    line, *printed = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{tmp_path}/page.html (") and " ".join(printed) == first
    assert main(["html", str(study), "-o", str(tmp_path / "page.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == [first, *others]


def test_equal_input_gives_equal_bytes(study, text, tmp_path):
    code = "import sys; from lockstep_report.cli import main; sys.exit(main(sys.argv[1:]))"
    other = tmp_path / "other.html"
    subprocess.run(
        [sys.executable, "-c", code, "html", str(study), "-o", str(other)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
    )
    assert other.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "write, present",
    [(write_ladder, "batch-ladder"), (write_sweep, "allreduce-sweep"), (write_layers, "layers")],
)
def test_page_without_training(tmp_path, write, present):
    text = make(tmp_path / "page.html", write(tmp_path / "run.h5"))
    assert present in Page(text).tables
    assert "tables 1 to 3: lockstep train" in text
    assert_isolated(text)


def test_one_run(tmp_path):
    text = make(
        tmp_path / "page.html",
        write_run(
            tmp_path / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2
        ),
    )
    assert "this needs a run with 1 rank and one with several ranks" in text
    assert "strong scaling: runs with the same --global-batch" in text


def test_epoch_times_of_a_csv(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("gpus,batch_per_gpu,epoch_seconds\n1,32,40\n2,32,22\n4,32,13\n")
    text = make(tmp_path / "page.html", "--csv", path)
    assert "On 4 ranks, an epoch takes 13.00 s, 3.08 times as fast as on 1 rank" in text
    assert "figure-scaling" in text


def test_output_errors(study, tmp_path, capfd):
    run = str(study / "weak-01-1.h5")
    assert main(["html", run, "-o", str(tmp_path)]) == 6
    assert main(["html", run, "-o", str(tmp_path / "missing" / "page.html")]) == 6
    errors = capfd.readouterr().err.splitlines()
    assert len([line for line in errors if "cannot be written" in line or "directory" in line]) == 2
    assert list(tmp_path.iterdir()) == []


def test_unusable_files_have_a_section(study, tmp_path, capfd):
    (tmp_path / "<b>x.h5").write_text("no run file")
    page = tmp_path / "page.html"
    assert main(["html", str(study), str(tmp_path / "<b>x.h5"), "-o", str(page)]) == 3
    text = page.read_text(encoding="utf-8")
    assert [data for parent, data in Page(text).texts if "x.h5: not an HDF5 file" in data]
    assert Page(text).of("section")[-1]["id"] == "problems"
    assert_isolated(text)
    assert len([line for line in capfd.readouterr().err.splitlines() if "note" not in line]) == 1


def test_page_without_matplotlib_has_a_sentence_instead_of_figures(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(make(tmp_path / "page.html", study))
    assert (
        "p",
        (
            "The figures are missing: drawing figures needs matplotlib: install python3-matplotlib "
            "(Debian) or pip install matplotlib."
        ),
    ) in page.texts
    assert not page.of("svg") and len(page.tables) > 10
    assert main(["figures", str(study), "--out", str(tmp_path / "figures")]) == 2
