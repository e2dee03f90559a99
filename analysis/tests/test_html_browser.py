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
      && !e.closest(".skip") && e.getBoundingClientRect().right > innerWidth + 0.5)
      .map((e) => e.outerHTML.slice(0, 90))].join()"""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_does_not_scroll_sideways(browser, page, width):
    browser.open(page, width)
    assert browser.value(SIDEWAYS) == f"{width},{width},"


TEXTS = """[...document.querySelectorAll("figure svg")].flatMap((chart) => {
      const inside = chart.getBoundingClientRect();
      const boxes = [...chart.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
      return boxes.flatMap(([text, a], i) => [
        ...(a.left < inside.left - 1 || a.right > inside.right + 1 || a.top < inside.top - 1
            || a.bottom > inside.bottom + 1 ? [`outside: ${text}`] : []),
        ...boxes.slice(i + 1).filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2).map(([t]) => `overlap: ${text}, ${t}`)]);
    }).join("; ")"""


@pytest.mark.parametrize("width", [320, 1280])
def test_texts_of_charts_are_inside_and_do_not_overlap(browser, page, width):
    browser.open(page, width)
    assert browser.value(TEXTS) == ""


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_texts_of_many_points(browser, tmp_path, count):
    path = tmp_path / "page.html"
    assert main(["html", str(write_points(tmp_path / "runs", count)), "-o", str(path)]) == 0
    browser.open(path, 390)
    assert browser.value(TEXTS) == ""
    assert browser.value(SIDEWAYS) == "390,390,"


def test_text_is_large_enough_on_a_phone(browser, page):
    script = """Math.min(...[...document.querySelectorAll("figure svg text")]
      .map((t) => t.getBoundingClientRect().height))"""
    browser.open(page, 390)
    assert browser.value(script) >= 9.99  # height of a line, pixels of CSS


def test_theme_and_values(browser, page):
    browser.open(page)
    dark = """(() => {
      document.getElementById("theme").click();
      const filter = getComputedStyle(document.querySelector("figure svg")).filter;
      return getComputedStyle(document.body).backgroundColor + filter;
    })()"""
    assert browser.value(dark) == "rgb(22, 24, 28)invert(0.91) hue-rotate(180deg)"
    mark = """[...document.querySelectorAll("#figure-scaling use > title")].map((title) => [title.textContent,
        title.parentNode.getBoundingClientRect().width > 4]).join()"""
    assert re.search(r"batch 32 per rank, 2 ranks: \d\.\d\d,true", browser.value(mark))


def test_printed_page(browser, page):
    browser.open(page)
    content = browser.printed()
    assert content.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 40
