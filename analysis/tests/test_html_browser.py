"""Tests of the page in headless Chromium. They are skipped without it, or fail if
LOCKSTEP_REQUIRE_CHROMIUM=1."""

import re

import pytest
from browser import browse, chromium, console_messages, measure
from html_study import write_points, write_study
from lockstep_report.cli import main


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    chromium()
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    assert main(["html", str(write_study(folder / "runs", (1, 2, 8), 2)), "-o", str(path)]) == 0
    return path


def test_page_runs_under_its_security_policy(page):
    output, messages = browse(page, "--dump-dom")
    assert console_messages(messages) == []
    assert 'aria-pressed="true"' in output  # the script ran
    assert "<title>Lockstep report: resnet18-cifar, 1 to 8 ranks</title>" in output


# The width of the window and of the page, and the elements that extend beyond it.
SIDEWAYS = """[innerWidth, document.documentElement.scrollWidth,
  [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, .tip")
      && !e.closest(".skip") && e.getBoundingClientRect().right > innerWidth + 0.5)
      .map((e) => e.outerHTML.slice(0, 90))].join()"""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_does_not_scroll_sideways(page, width):
    assert measure(page, SIDEWAYS, width=width) == f"{width},{width},"


TEXTS = """[...document.querySelectorAll("svg.chart")].flatMap((chart) => {
      const inside = chart.getBoundingClientRect();
      const boxes = [...chart.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
      return boxes.flatMap(([text, a], i) => [
        ...(a.left < inside.left - 1 || a.right > inside.right + 1 || a.top < inside.top - 1
            || a.bottom > inside.bottom + 1 ? [`outside: ${text}`] : []),
        ...boxes.slice(i + 1).filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2).map(([t]) => `overlap: ${text}, ${t}`)]);
    }).join("; ")"""


@pytest.mark.parametrize("width", [320, 1280])
def test_texts_of_charts_are_inside_and_do_not_overlap(page, width):
    assert measure(page, TEXTS, width=width) == ""


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_texts_of_many_points(tmp_path, count):
    chromium()
    path = tmp_path / "page.html"
    assert main(["html", str(write_points(tmp_path / "runs", count)), "-o", str(path)]) == 0
    assert measure(path, TEXTS, width=390) == ""
    assert measure(path, SIDEWAYS, width=390) == "390,390,"


def test_text_is_large_enough_on_a_phone(page):
    script = """Math.min(...[...document.querySelectorAll("svg.chart text")]
      .map((t) => t.getBoundingClientRect().height))"""
    assert float(measure(page, script, width=320)) >= 9.99  # height of a line, pixels of CSS


def test_values_series_and_theme(page):
    key = 'dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}))'
    script = f"""(() => {{
      const figure = document.querySelector("figure"), chart = figure.querySelector(".chart");
      chart.{key}; chart.{key};
      const tip = figure.querySelector(".tip").textContent;
      const entry = figure.querySelector(".legend button"), series = figure.querySelector(".series[data-series]");
      entry.click();
      const hidden = series.getBoundingClientRect().width + entry.getAttribute("aria-pressed");
      entry.click();
      document.getElementById("theme").click();
      const dark = getComputedStyle(document.body).backgroundColor;
      figure.querySelector(".panel .tools button").click();
      const copy = figure.querySelector("dialog .chart");
      copy.{key};
      const large = figure.querySelector("dialog .tip").textContent;
      const map = document.querySelector(".map");
      map.{key};
      return [tip, hidden, dark, large, map.parentElement.querySelector(".tip").textContent].join(" | ");
    }})()"""
    tip, hidden, dark, large, cell = measure(page, script).split(" | ")
    assert re.fullmatch(r"2 ranks: \d\.\d\d", tip)
    assert (hidden, dark, large) == ("0false", "rgb(22, 24, 28)", "1 rank: 1")
    assert re.fullmatch(r"rank 0 \(node0\), step \d+( to \d+)?: up to 2 % above", cell)


def test_printed_page(page, tmp_path):
    path = tmp_path / "page.pdf"
    browse(page, f"--print-to-pdf={path}", "--no-pdf-header-footer")
    content = path.read_bytes()
    assert content.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 40
