# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rules of docs/architecture.md on the source tree of Lockstep."""

import pathlib

import pytest
import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_source_tree_has_no_violations(rule):
    assert rule(ROOT) == []


def test_rules_read_files_of_every_module():
    """A rule that reads no files would always pass."""
    modules = {rules.module_of(path) for path, _ in rules.sources(ROOT)}
    assert modules == set(rules.ALLOWED)


@pytest.mark.parametrize("table", [rules.ALLOWED, rules.FOLDERS], ids=["modules", "folders"])
def test_dependencies_have_no_cycle(table):
    order = list(table)
    for module, allowed in table.items():
        assert all(order.index(other) < order.index(module) for other in allowed), module


@pytest.mark.parametrize("column, table", [("module", rules.ALLOWED), ("folder", rules.FOLDERS)])
def test_architecture_page_lists_the_permitted_dependencies(column, table):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert rules.documented_dependencies(page, column) == table


def test_files_without_a_header_exist_and_have_none():
    """An exception that is no longer needed must be removed."""
    for reason, names in rules.WITHOUT_HEADER.items():
        for name in names:
            assert (ROOT / name).is_file(), f"{name} does not exist ({reason})"
            assert rules.own_headers(ROOT, pathlib.Path(name)) == [], reason


def test_architecture_page_states_the_maximum_file_length():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"{rules.MAX_LINES} lines" in page
