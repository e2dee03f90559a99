# SPDX-License-Identifier: BSD-3-Clause
"""Installs the Python package of analysis/ with pip into a virtual environment, without network
access."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.requires("PACKAGES")
ENVIRONMENT = {
    key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LOCKSTEP_PYTHON")
}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a virtual environment with the package. NumPy, h5py and Matplotlib are
    those of the machine."""
    folder = tmp_path_factory.mktemp("pip")
    source = shutil.copytree(
        ROOT / "analysis",
        folder / "analysis",
        ignore=shutil.ignore_patterns("__pycache__", "tests"),
    )
    subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", folder / "venv"],
        check=True,
    )
    python = folder / "venv" / "bin" / "python"
    before = sorted(source.rglob("*"))
    result = subprocess.run(
        [python, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", source],
        env=ENVIRONMENT | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(source.rglob("*")) == before
    return python


def run(*command, cwd="/"):
    return subprocess.run(
        command, env=ENVIRONMENT | {"MPLBACKEND": "Agg"}, cwd=cwd, text=True, capture_output=True
    )


@pytest.mark.parametrize(
    "package", ["lockstep_report", "lockstep_weights", "lockstep_data", "lockstep_recorder"]
)
def test_package_is_complete(package, python):
    """Every file of the source is installed, also the schema and other data files, except pages on
    the source."""
    result = run(python, "-c", f"import {package}; print({package}.__path__[0])")
    assert result.returncode == 0, result.stderr
    installed = pathlib.Path(result.stdout.strip())
    assert python.parents[1] in installed.parents
    sources = {
        path.relative_to(ROOT / "analysis" / package)
        for path in (ROOT / "analysis" / package).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".md"}
    }
    assert sources == {
        path.relative_to(installed)
        for path in installed.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize(
    "command, text",
    [
        ("lockstep-report", "Makes tables"),
        ("lockstep-weights", "to-pytorch"),
        ("lockstep-data", "cifar-python"),
        ("lockstep-study", "submits a study"),
    ],
)
def test_commands_run(python, tmp_path, command, text):
    """In a folder with files that have the names of modules."""
    for name in ("random", "copy", "csv", "types", "numpy"):
        (tmp_path / f"{name}.py").write_text(
            "raise SystemExit('not the module of Python')\n", encoding="utf-8"
        )
    result = run(python.with_name(command), "--help", cwd=tmp_path)
    assert result.returncode == 0 and text in result.stdout.replace("\n", " "), result.stderr


def test_command_writes_a_report(python, tmp_path):
    synthetic = (
        "import sys; sys.path.append(sys.argv[1]); import synthetic\n"
        "synthetic.write_run(sys.argv[2], synthetic.phases(8, [0.1] * 6), 32)"
    )
    written = run(python, "-c", synthetic, ROOT / "analysis" / "tests", tmp_path / "run.h5")
    assert written.returncode == 0, written.stderr
    result = run(
        python.with_name("lockstep-report"),
        "report",
        tmp_path / "run.h5",
        "--out",
        tmp_path / "report",
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "report" / "report.md").read_text(encoding="utf-8").startswith("#")


def test_version_is_that_of_the_program(python):
    result = run(
        python, "-c", "from importlib.metadata import version; print(version('lockstep-report'))"
    )
    project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f"project(lockstep VERSION {result.stdout.strip()} " in project
