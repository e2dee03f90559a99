# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the documentation agrees with the code: commands and packages in README.md, exit
statuses, versions, the document map, links."""

import os
import pathlib
import re
import subprocess

import pytest
import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = [
    "jobs/quickstart",
    "jobs/check",
    "jobs/setup",
    "jobs/lint",
    "jobs/slurm/submit",
    "jobs/slurm/status",
    "jobs/study",
]
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {"build", "results", ".git"} & set(path.relative_to(ROOT).parts)
)


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def packages(*arguments):
    """Returns the names of the packages that jobs/setup installs with these arguments."""
    return run("jobs/setup", *arguments, "--list").stdout.split()


def test_first_screen_of_the_readme_has_both_commands():
    first_block = re.search(r"```sh\n(.*?)```", read("README.md"), re.DOTALL)
    commands = [line.split()[0] for line in first_block.group(1).splitlines()]
    assert commands == ["jobs/quickstart", "jobs/check"]
    assert read("README.md").count("\n", 0, first_block.end()) < 25


def test_every_package_is_documented():
    page = read("docs/install.md")
    assert [name for name in packages("--dev") if f"`{name}`" not in page] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_has_help_and_rejects_unknown_options(script):
    assert os.access(ROOT / script, os.X_OK)
    help_text = run(script, "--help")
    assert help_text.returncode == 0 and script in help_text.stdout
    result = run(script, "--no-such-option")
    assert result.returncode != 0 and "--no-such-option" in result.stderr


def test_check_lists_the_modules_if_the_name_is_unknown():
    result = run("jobs/check", "--module", "no-such-module")
    assert result.returncode == 2
    modules = set(result.stderr.rpartition("the modules are ")[2].split())
    assert modules == {*rules.ALLOWED, "report", "weights"}
    if build := os.environ.get("LOCKSTEP_BUILD"):  # CTest sets it
        for module in modules:
            assert f'LABELS "{module}"' in pathlib.Path(
                build, "tests", module, "CTestTestfile.cmake"
            ).read_text(encoding="utf-8")


def test_ci_runs_setup_and_check():
    assert re.search(r"^step \w+ jobs/check ", read(".ci/run"), re.MULTILINE)
    assert re.search(r"^step \w+ jobs/setup ", read(".ci/run"), re.MULTILINE)


def test_exit_statuses_are_documented():
    declared = set(
        re.findall(r"^  \w+ = (\d+),", read("include/lockstep/core/error.hpp"), re.MULTILINE)
    )
    documented = set(re.findall(r"^\| (\d+) \|", read("docs/reliability.md"), re.MULTILINE))
    assert declared and declared == documented


def test_documents_name_the_version_of_the_program():
    version = re.search(r"project\(lockstep VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
    assert f'__version__ = "{version}"' in read("analysis/lockstep_report/__init__.py")
    citation = read("CITATION.cff")
    date = re.search(r"^date-released: (.*)$", citation, re.MULTILINE)[1]
    assert f"\nversion: {version}\n" in citation
    assert re.search(r"^## (\d.*)$", read("CHANGELOG.md"), re.MULTILINE)[1] == f"{version}, {date}"
    assert f"find_package(Lockstep {version.rpartition('.')[0]} " in read("docs/install.md")


def test_every_page_is_in_the_document_map():
    pages = {
        str(page.relative_to(ROOT / "docs")) for page in PAGES if page.parent == ROOT / "docs"
    } - {"README.md"}
    listed = re.findall(r"^\| \[[\w ]+\]\(([\w/-]+\.md)\) ", read("docs/README.md"), re.MULTILINE)
    assert sorted(pages) == sorted(name for name in listed if "/" not in name)


def anchors(page):
    """Returns the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_link_targets_exist(page):
    for path, _, anchor in (
        link.partition("#")
        for link in re.findall(r"\]\(([^)\s]+)", page.read_text(encoding="utf-8"))
    ):
        if "://" not in path:
            target = page.parent / path if path else page
            assert target.exists() and (not anchor or anchor in anchors(target)), f"{path}#{anchor}"
