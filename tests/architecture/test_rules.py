# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rules of docs/architecture.md on the source tree of Lockstep."""

import pathlib

import folder_rules
import pytest
import rules
import source_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_source_tree_has_no_violations(rule):
    assert rule(ROOT) == []


def test_rules_read_files_of_every_module():
    """A rule that reads no files would always pass."""
    modules = {source_tree.module_of(path) for path, _ in source_tree.sources(ROOT)}
    assert modules == set(rules.ALLOWED)


@pytest.mark.parametrize("table", [rules.ALLOWED, folder_rules.FOLDERS], ids=["modules", "folders"])
def test_dependencies_have_no_cycle(table):
    order = list(table)
    for module, allowed in table.items():
        assert all(order.index(other) < order.index(module) for other in allowed), module


@pytest.mark.parametrize(
    "column, table",
    [
        ("module", rules.ALLOWED),
        ("folder", folder_rules.FOLDERS),
        ("folders of", folder_rules.BASE),
    ],
)
def test_architecture_page_lists_the_permitted_dependencies(column, table):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert rules.documented_dependencies(page, column) == table


def test_files_without_a_header_exist_and_have_none():
    """An exception that is no longer needed must be removed."""
    for reason, names in rules.WITHOUT_HEADER.items():
        for name in names:
            assert (ROOT / name).is_file(), f"{name} does not exist ({reason})"
            assert source_tree.own_headers(ROOT, pathlib.Path(name)) == [], reason


def test_files_that_folders_may_include_exist():
    components = {source_tree.component_of(path) for path, _ in source_tree.sources(ROOT)}
    listed = {f"{folder}/{name}" for folder, names in folder_rules.BASE.items() for name in names}
    assert listed <= components


def test_permitted_upward_includes_exist():
    found = {
        (path.as_posix(), target.as_posix())
        for path, _, target in source_tree.included_files(ROOT)
        if not folder_rules.may_include(path, target)
    }
    for reason, includes in folder_rules.UPWARD_INCLUDES.items():
        assert includes <= found, reason


def test_permitted_circles_exist():
    found = folder_rules.component_circles(ROOT)
    for reason, circles in folder_rules.CIRCLES.items():
        for circle in circles:
            assert any(circle.issuperset(other) for other in found), reason


def test_architecture_page_states_the_maximum_file_length():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"{rules.MAX_LINES} lines" in page
