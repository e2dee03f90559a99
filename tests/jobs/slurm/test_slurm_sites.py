# SPDX-License-Identifier: BSD-3-Clause
"""Tests of files of sites, and of paths with odd characters."""

import pathlib
import shlex
import shutil

import pytest
from in_process import write_program
from lockstep_study import site
from slurm_scripts import ROOT, options, run_task_process, submit, submit_process


@pytest.fixture
def copy(tmp_path):
    """A copy of the scripts, in a folder with special characters in its name, whose sites a test
    may change."""
    root = tmp_path / "a copy, 100%j $(touch x) `touch x` 'of' \"it\" [1]; & é"
    shutil.copytree(ROOT / "jobs", root / "jobs")
    (root / "analysis").mkdir()
    for name in ("run-python", "start.py"):
        shutil.copy(ROOT / "analysis" / name, root / "analysis")
    package = pathlib.Path("analysis", "lockstep_study")
    shutil.copytree(ROOT / package, root / package)
    return root


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """A copy of the sites, which a test may change; commands in this process read it."""
    folder = tmp_path / "jobs" / "slurm" / "sites"
    shutil.copytree(ROOT / "jobs" / "slurm" / "sites", folder)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "SITES", folder)
    return folder


@pytest.mark.parametrize(
    "text, message",
    [
        ("needs_account=no\nranks_per_node=(\n", "the file of the site is invalid: "),
        ("ranks_per_node=four\n", "ranks_per_node is 'four', but must be a positive integer"),
        ("ranks_per_node=0\n", "ranks_per_node is '0', but must be"),
        ("cores_per_rank=\n", "cores_per_rank is '', but must be"),
        (
            "memory_per_core='4G; x'\n",
            "memory_per_core is '4G; x', but must be an amount such as 4G",
        ),
        ("needs_account=perhaps\n", "needs_account is 'perhaps', but must be yes or no"),
        ("unset -f site_environment\n", "site_environment is '', but must be a function"),
    ],
)
def test_invalid_site_file_is_one_error(sites, table, text, message):
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8") + text, encoding="utf-8"
    )
    result = submit("--site", "own", table)
    assert result.returncode != 0 and result.stdout == "" and message in result.stderr
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("submit: "), (
        result.stderr
    )


def test_options_are_attributed_with_the_environment_of_the_site(sites, table, tmp_path):
    """The program needs modules, and rejects options of the other command."""
    stub = tmp_path / "lockstep"
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8")
        + "site_environment() { export LOADED=1; }\n",
        encoding="utf-8",
    )
    write_program(
        stub,
        """#!/bin/bash
[ -n "${LOADED:-}" ] || exit 127
case "$1 $2 $*" in
  "help options"*)
    echo '| `--epochs E` | | `train` | | |'
    echo '| `-b`, `--min-bytes B` | | `allreduce` | | |'
    ;;
  train*--min-bytes* | allreduce*--epochs*) exit 2 ;;
esac
""",
    )
    table.write_text("one\t1\ttrain\ntwo\t1\tallreduce\n", encoding="utf-8")
    words = ["--site", "own", "--dir", tmp_path / "out", table, "--", "-b", "4K", "--epochs", "3"]
    result = submit(*words, LOCKSTEP_BIN=str(stub))
    assert (result.returncode, result.stderr) == (0, "") and "-b 4K --epochs 3" in result.stdout


def test_odd_characters_in_paths_stay_words(copy, table):
    odd = copy / "points $HOME;x.tsv"
    table.rename(odd)
    result = submit_process("--dir", copy / "results", odd, root=copy, folder=copy)
    assert result.returncode == 0, result.stderr
    for line in result.stdout.splitlines():
        words = shlex.split(line)
        assert (
            str(copy) in words
            and str(copy / "results") in words
            and str(copy / "results" / "table.tsv") in words
        )
        assert options(line)["--output"].startswith(str(copy / "results").replace("%", "%%"))
        assert options(line)["--job-name"].startswith("lockstep-points__HOME_x-")
    assert not list(copy.rglob("x")) and not list(copy.rglob("results"))


@pytest.mark.parametrize("name", ["a\nb", "a\\b"])
def test_paths_that_sbatch_cannot_write_are_one_error(table, tmp_path, name):
    result = submit("--dir", tmp_path / name, table)
    assert result.returncode != 0 and "contains a backslash or a control character" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_scripts_of_a_site_may_read_unset_variables(copy, tmp_path, table):
    """Scripts of modules and conda do."""
    sites = copy / "jobs" / "slurm" / "sites"
    (sites / "own.sh").write_text(
        (sites / "generic.sh").read_text(encoding="utf-8")
        + "site_environment() { export MINE=$NOT_SET; }\n",
        encoding="utf-8",
    )
    result = run_task_process(tmp_path, table, 1, 0, root=copy, site="own")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("failing", ["no-such-module load x; export MINE=1", "[ -n '' ]"])
def test_environment_of_a_site_that_fails_ends_the_task(copy, tmp_path, table, failing):
    """The ranks would otherwise run with other libraries."""
    sites = copy / "jobs" / "slurm" / "sites"
    text = (sites / "generic.sh").read_text(encoding="utf-8")
    own = f"{text}site_environment() {{ {failing}; }}\n"
    (sites / "own.sh").write_text(own, encoding="utf-8")
    result = run_task_process(tmp_path, table, 1, 0, root=copy, site="own")
    assert result.returncode != 0 and not (tmp_path / "srun.calls").exists()
    assert (
        "jobs/slurm/sites/own.sh: a command of site_environment failed: "
        in result.stderr.splitlines()[-1]
    )
