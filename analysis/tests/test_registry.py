# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the registries of tables and figures: each kind has one entry, and each table and figure
has the kind of its entry."""

import pytest
from html_study import write_study
from lockstep_report.cli import parser
from lockstep_report.figures.all_figures import ENTRIES as FIGURES, all_figures
from lockstep_report.figures.kinds import FigureKind, tables_of
from lockstep_report.html.page import CLOSED, FIGURES as SHOWN_FIGURES
from lockstep_report.material import Material
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.registry import (
    ENTRIES,
    ENTRY_OF,
    Section,
    missing_runs,
    tables_of_section,
)


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    study = write_study(tmp_path_factory.mktemp("study"), counts=(1, 2), repeats=1)
    options = parser().parse_args(["html", str(study), "-o", "unused.html"])
    options.skipped = []
    return Material(options)


def test_each_kind_has_one_entry():
    assert sorted(e.kind.name for e in ENTRIES) == sorted(kind.name for kind in TableKind)
    assert sorted(e.kind.name for e in FIGURES) == sorted(kind.name for kind in FigureKind)
    assert len({kind.value.name for kind in FigureKind}) == len(FigureKind)


def test_each_section_is_on_the_page():
    assert {Section.ASSIGNMENT, Section.TIMES, *CLOSED} == set(Section)
    assert {entry.section for entry in ENTRIES} == set(Section)
    assert len(set(SHOWN_FIGURES)) == len(SHOWN_FIGURES)


def test_tables_have_the_kind_and_the_section_of_their_entries(material):
    assert len(material.tables) > 15
    for table in material.tables:
        assert table.name.startswith(table.kind.value), table.name
        assert table in tables_of_section(material.tables, ENTRY_OF[table.kind].section)
    sections = [tables_of_section(material.tables, section) for section in Section]
    assert sum(map(len, sections)) == len(material.tables)


def test_figures_have_the_kind_of_their_entries_and_tables_with_their_values(material):
    made = all_figures(material.points, material.runs, None, material.explanation, ("svg",))
    assert len(made) > 8
    for name, figure in made.items():
        assert name.startswith(figure.kind.value.name), name
        assert tables_of(figure.kind, name, material.tables), name


def test_runs_that_would_add_a_table_are_listed_only_without_it(material):
    present = {ENTRY_OF[table.kind].needs for table in material.tables} - {""}
    assert len(present) > 5 and not present & set(missing_runs(material.tables))
    assert missing_runs([]) == list(dict.fromkeys(e.needs for e in ENTRIES if e.needs))
