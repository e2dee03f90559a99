# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the repository contains no output of programs: its top-level names are listed here."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP_LEVEL = {
    *(".ci", ".clang-format", ".clang-tidy", ".cmake-format.yaml", ".dockerignore"),
    *(".gitattributes", ".gitignore", ".pre-commit-config.yaml", ".ruff.toml"),
    *("CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md"),
    *("LICENSE", "README.md", "conftest.py", "pytest.ini"),
    *("analysis", "cmake", "docs", "findings", "include", "jobs", "modulefiles", "packaging"),
    *("src", "tests"),
}


def test_top_level_names_are_those_of_the_list():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {path.split("/")[0].strip('"') for path in tracked} == TOP_LEVEL
