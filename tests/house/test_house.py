"""Holds the rules of docs/architecture.md on this source tree."""

import pathlib

import pytest

import house

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_source_tree_keeps(rule):
    assert rule(ROOT) == []


def test_tree_is_looked_at():
    """A rule that sees no files would hold anywhere."""
    rooms = {house.room_of(path) for path, _ in house.sources(ROOT)}
    assert rooms == set(house.ALLOWED)


def test_arrows_have_no_circle():
    order = list(house.ALLOWED)
    for room, allowed in house.ALLOWED.items():
        assert all(order.index(other) < order.index(room) for other in allowed), room


def test_architecture_page_shows_the_checked_arrows():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert house.documented_arrows(page) == house.ALLOWED


def test_architecture_page_names_the_rule_for_long_files():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"{house.LONGEST} lines" in page
