# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the page in headless Chromium."""

import re

import pytest
from browser import Browser
from html_study import write_points, write_study
from lockstep_report.cli import main

pytestmark = pytest.mark.requires("CHROMIUM")


@pytest.fixture(scope="module")
def browser():
    with Browser() as process:
        yield process


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    assert main(["html", str(write_study(folder / "runs", (1, 2, 8), 2)), "-o", str(path)]) == 0
    return path


def test_page_runs_under_its_security_policy(browser, page):
    browser.open(page)
    assert browser.value("document.title") == "Lockstep report: resnet18-cifar, 1 to 8 ranks"
    assert browser.value("document.getElementById('theme').hidden === false")  # the script ran
    assert browser.messages == []


def test_violation_of_the_security_policy_is_noticed(browser, page):
    browser.open(page)
    browser.value("fetch('https://example.org').catch(() => 0)")
    assert "Content Security Policy" in "".join(browser.messages)


# The width of the window and of the page, and the elements that extend beyond it.
SIDEWAYS = """[innerWidth, document.documentElement.scrollWidth,
  [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll")
      && e.getBoundingClientRect().right > innerWidth + 0.5)
      .map((e) => e.outerHTML.slice(0, 90))].join()"""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_does_not_scroll_sideways(browser, page, width):
    browser.open(page, width)
    browser.value(OPEN)
    assert browser.value(SIDEWAYS) == f"{width},{width},"


PLACES = """[...document.querySelectorAll("#figures SELECTOR")].map(
    (e) => e.getBoundingClientRect().top)"""
OVERFLOW = (
    """[...document.querySelectorAll("#times .scroll")].map((e) => e.scrollWidth - e.clientWidth)"""
)
SPEEDUP = """[...document.querySelectorAll("#table-table-1-time-speedup th")]
    .find((e) => e.textContent.startsWith("Speedup")).getBoundingClientRect().right"""


def test_first_tables_fit_a_laptop_and_the_speedup_a_phone(browser, page):
    browser.open(page, 1200)
    assert browser.value(OVERFLOW) == [0, 0, 0]
    browser.open(page, 400)
    assert browser.value(SPEEDUP) <= 400


def test_figures_of_a_row_and_their_captions_begin_together(browser, page):
    browser.open(page, 1200)
    for selector in ("svg", "figcaption"):
        places = browser.value(PLACES.replace("SELECTOR", selector))
        assert len(places) == 3 and max(places) - min(places) < 1


OPEN = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
TEXTS = """[...document.querySelectorAll("figure svg")].flatMap((chart) => {
      const inside = chart.getBoundingClientRect();
      const boxes = [...chart.querySelectorAll("text")].map(
        (t) => [t.textContent, t.getBoundingClientRect()]);
      return boxes.flatMap(([text, a], i) => [
        ...(a.left < inside.left - 1 || a.right > inside.right + 1 || a.top < inside.top - 1
            || a.bottom > inside.bottom + 1 ? [`outside: ${text}`] : []),
        ...boxes.slice(i + 1).filter(([, b]) =>
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2
          ).map(([t]) => `overlap: ${text}, ${t}`)]);
    }).join("; ")"""


@pytest.mark.parametrize("width", [320, 1280])
def test_texts_of_charts_are_inside_and_do_not_overlap(browser, page, width):
    browser.open(page, width)
    browser.value(OPEN)
    assert browser.value(TEXTS) == ""


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_texts_of_many_points(browser, tmp_path, count):
    path = tmp_path / "page.html"
    assert main(["html", str(write_points(tmp_path / "runs", count)), "-o", str(path)]) == 0
    browser.open(path, 390)
    browser.value(OPEN)
    assert browser.value(TEXTS) == ""
    assert browser.value(SIDEWAYS) == "390,390,"


def test_text_is_large_enough_on_a_phone(browser, page):
    script = """Math.min(...[...document.querySelectorAll("figure svg text")]
      .map((t) => t.getBoundingClientRect().height))"""
    browser.open(page, 390)
    browser.value(OPEN)
    assert browser.value(script) >= 9.99  # height of a line, pixels of CSS


def test_theme_and_values(browser, page):
    browser.open(page)
    dark = """(() => {
      document.getElementById("theme").click();
      const filter = getComputedStyle(document.querySelector("figure svg")).filter;
      return getComputedStyle(document.body).backgroundColor + filter;
    })()"""
    assert browser.value(dark) == "rgb(22, 24, 28)invert(0.91) hue-rotate(180deg)"
    mark = """[...document.querySelectorAll("#figure-scaling use > title")].map((title) => [
        title.textContent, title.parentNode.getBoundingClientRect().width > 4]).join()"""
    assert re.search(r"batch 32 per rank, 2 ranks: \d\.\d\d,true", browser.value(mark))


def test_epoch_time_and_speedup_are_visible_without_scrolling(browser, page):
    script = """(() => {
      const box = document.querySelector("#answer li").getBoundingClientRect();
      return box.top >= 0 && box.bottom <= innerHeight;
    })()"""
    for width, height in ((390, 844), (1100, 800)):
        browser.open(page, width, height)
        assert browser.value(script), (width, height)


def test_first_columns_and_header_remain_visible_in_a_scrolled_table(browser, page):
    script = """(() => {
      const box = document.querySelector("#table-table-2-compute-communication .scroll");
      box.style.maxHeight = "10rem";
      const edge = (name, side) => box.querySelector(name).getBoundingClientRect()[side];
      const before = [edge("tbody th", "left"), edge("td", "left"), edge("thead th", "top")];
      box.scrollTo(120, 0);
      box.scrollBy(0, 80);
      return [edge("tbody th", "left") === before[0], edge("td", "left") === before[1],
              box.scrollLeft, box.scrollTop,
              edge("thead th", "top") === box.getBoundingClientRect().top].join();
    })()"""
    browser.open(page, 390)
    assert browser.value(script) == "true,true,120,80,true"


def test_copied_table_is_the_text_of_the_file(browser, page):
    """The script uses the clipboard, or selects the text if there is no access to it."""
    script = """(async () => {
      let copied = "";
      const writeText = async (text) => { if (!ALLOWED) throw new Error(); copied = text; };
      const clipboard = { writeText };
      Object.defineProperty(navigator, "clipboard", { value: clipboard, configurable: true });
      document.addEventListener("copy", () => { copied = document.activeElement.value; });
      const button = document.querySelector(".copy button");
      button.click();
      await new Promise((done) => setTimeout(done, 50));
      return [copied === button.nextElementSibling.value, copied.startsWith("\\\\begin{table}"),
              button.nextElementSibling.hidden].join();
    })()"""
    for allowed in ("true", "false"):
        browser.open(page)
        assert browser.value(script.replace("ALLOWED", allowed)) == "true,true,true", allowed


def test_link_opens_the_section_of_its_target(browser, page):
    browser.open(page)
    browser.value("document.querySelector('a[href=\"#table-weak-scaling\"]').click()")
    visible = (
        "document.getElementById('table-weak-scaling').checkVisibility({contentVisibilityAuto:"
        " true})"
    )
    assert browser.value(f"new Promise((done) => setTimeout(() => done({visible}), 50))") is True


def test_printed_page(browser, page):
    browser.open(page)
    content = browser.printed()
    assert browser.value("document.querySelectorAll('details[open]').length") == 0
    assert content.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 40
