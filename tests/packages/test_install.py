# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the report command, the documentation and the scripts that `cmake --install`
installs."""

import os
import re
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def prefix(install, tmp_path_factory):
    """An installation, without the program, in a directory whose name has a space."""
    return install("support", tmp_path_factory.mktemp("an installation"))


@pytest.mark.parametrize("place", ["moved installation", "build folder"])
def test_commands_run(place, prefix, build, tmp_path):
    folder = build
    if place == "moved installation":
        folder = tmp_path / "moved"
        shutil.copytree(prefix, folder)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["LOCKSTEP_PYTHON"] = sys.executable
    for name in ("random", "copy", "csv", "types", "numpy"):  # of the current folder
        (tmp_path / f"{name}.py").write_text(
            "raise SystemExit('not the module of Python')\n", encoding="utf-8"
        )
    for command, text in (
        ("lockstep-report", "Makes tables"),
        ("lockstep-weights", "to-pytorch"),
        ("lockstep-data", "cifar-python"),
        ("lockstep-study", "submits a study"),
    ):
        result = subprocess.run(
            [folder / "bin" / command, "--help"],
            env=environment,
            cwd=tmp_path,
            text=True,
            capture_output=True,
        )
        assert result.returncode == 0, result.stderr
        assert text in result.stdout.replace("\n", " ")


def report_command(prefix, *arguments, **variables):
    """Runs `lockstep-report` without PYTHONPATH and LOCKSTEP_PYTHON, except if `variables` set
    them."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "LOCKSTEP_PYTHON")
    }
    return subprocess.run(
        [prefix / "bin" / "lockstep-report", *arguments],
        env=environment | variables,
        text=True,
        capture_output=True,
    )


@pytest.fixture
def path_without_modules(tmp_path):
    """A value of PATH with which python3 cannot import NumPy."""
    python = tmp_path / "bare" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    result = subprocess.run([python, "-c", "import numpy"], capture_output=True)
    assert result.returncode != 0
    return f"{python.parent}:{os.environ['PATH']}"


def test_report_command_skips_a_python_without_numpy(prefix, path_without_modules):
    result = report_command(
        prefix, "--help", PATH=path_without_modules, LOCKSTEP_PYTHON=sys.executable
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(
    subprocess.run(
        ["/usr/bin/python3", "-c", "import numpy, h5py, matplotlib"], capture_output=True
    ).returncode
    != 0,
    reason="/usr/bin/python3 has no NumPy, h5py or Matplotlib",
)
def test_report_command_finds_usr_bin_python3(prefix, path_without_modules):
    result = report_command(prefix, "--help", PATH=path_without_modules)
    assert result.returncode == 0, result.stderr


def test_link_targets_of_the_installed_documentation_exist(prefix):
    pages = sorted((prefix / "share" / "doc" / "lockstep").rglob("*.md"))
    assert {"README.md", "analysis.md", "CONTRIBUTING.md"} <= {page.name for page in pages}
    for page in pages:
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        assert [
            link for link in links if "://" not in link and not (page.parent / link).exists()
        ] == [], page


@pytest.mark.slow
def test_installed_slurm_scripts_run(prefix):
    jobs = prefix / "share" / "lockstep" / "jobs"
    result = subprocess.run(
        [jobs / "slurm" / "submit", "--dry-run", jobs / "studies" / "weak.tsv"],
        cwd=prefix,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    assert "task.sbatch" in result.stdout


def test_installed_scripts_find_the_python_packages(prefix, tmp_path):
    """At its end, a study writes the report of its run files; studies with PyTorch run the
    examples."""
    (tmp_path / "empty.h5").touch()
    jobs = prefix / "share" / "lockstep" / "jobs"
    start = [prefix / "share" / "lockstep" / "analysis" / "run-python", "--modules", "sys"]
    report = ["lockstep_study", "report", jobs / "studies" / "weak.tsv", "1", tmp_path]
    result = subprocess.run(
        [*start, *report],
        text=True,
        capture_output=True,
        env=os.environ | {"LOCKSTEP_PYTHON": sys.executable, "PYTHONPATH": ""},
    )
    assert "empty.h5: not an HDF5 file" in result.stderr and "No module" not in result.stderr
    scripts = {
        word
        for table in (jobs / "studies").glob("*.tsv")
        for word in re.findall(r"analysis/\S+\.py", table.read_text())
    }
    assert scripts and all((prefix / "share" / "lockstep" / script).exists() for script in scripts)


def test_installed_study_runs(prefix):
    jobs = prefix / "share" / "lockstep" / "jobs"
    result = subprocess.run(
        [jobs / "study", "--dry-run", jobs / "studies" / "weak.tsv"],
        cwd=prefix,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    assert "mpirun -n 8" in result.stdout


def test_installed_download_verifies_a_folder(prefix, tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(b"four")
    result = subprocess.run(
        [prefix / "share" / "lockstep" / "jobs" / "download-cifar10", tmp_path],
        text=True,
        capture_output=True,
    )
    assert result.returncode == 3
    assert "data_batch_1.bin has 4 bytes instead of 30730000" in result.stderr
