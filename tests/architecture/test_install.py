"""Tests of the files that `cmake --install` installs, including environment module files. CTest sets LOCKSTEP_BUILD to
the build directory; without it (if pytest is run directly) these tests are skipped."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

BUILD = os.environ.get("LOCKSTEP_BUILD", "")
LMOD = next(iter(sorted(pathlib.Path("/usr/share/lmod").glob("*/libexec/lmod"))), None)

pytestmark = pytest.mark.skipif(not BUILD, reason="LOCKSTEP_BUILD names no build directory; run by ctest")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation in a directory whose name has a space. It lacks the program, which may not be built yet."""
    prefix = tmp_path_factory.mktemp("an installation")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", "surroundings"], check=True,
                   capture_output=True)
    return prefix


def modules(prefix):
    return sorted((prefix / "share" / "modulefiles" / "lockstep").iterdir())


def test_one_module_file_for_each_kind_of_modules(prefix):
    tcl, lua = modules(prefix)
    assert re.fullmatch(r"\d+\.\d+\.\d+", tcl.name) and lua.name == tcl.name + ".lua"


def test_module_files_are_filled(prefix):
    for module in modules(prefix):
        text = module.read_text(encoding="utf-8")
        assert f'"{prefix}/bin"' in text
        assert "@" not in text.replace("lockstep@", "")


def test_tcl_module_starts_with_its_cookie(prefix):
    assert modules(prefix)[0].read_text(encoding="utf-8").startswith("#%Module")


@pytest.mark.skipif(not shutil.which("tclsh"), reason="no tclsh")
def test_tcl_module_evaluates(prefix):
    """Evaluates the module file in tclsh with test doubles of the commands of Environment Modules."""
    script = """
      proc module-whatis {text} {}
      proc conflict {name} {}
      proc prepend-path {variable value} {puts "$variable=$value"}
      source [lindex $argv 0]
    """
    answer = subprocess.run(["tclsh", "/dev/stdin", modules(prefix)[0]], input=script, text=True, capture_output=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"PATH={prefix}/bin\n"


@pytest.mark.skipif(LMOD is None, reason="no Lmod (Debian: lmod)")
def test_lmod_loads_the_lua_module(prefix):
    environment = os.environ | {"MODULEPATH": str(prefix / "share" / "modulefiles")}
    answer = subprocess.run([LMOD, "python", "load", "lockstep"], env=environment, text=True, capture_output=True)
    assert answer.returncode == 0 and f"{prefix}/bin" in answer.stdout, answer.stderr


def test_report_command_finds_its_package_after_a_move(prefix, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["LOCKSTEP_PYTHON"] = sys.executable
    answer = subprocess.run([moved / "bin" / "lockstep-report", "--help"], env=environment, text=True, capture_output=True)
    assert answer.returncode == 0, answer.stderr
    assert "report" in answer.stdout


def report_command(prefix, *arguments, **variables):
    """Runs `lockstep-report` without PYTHONPATH and LOCKSTEP_PYTHON; then `variables` are set in its environment."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LOCKSTEP_PYTHON")}
    return subprocess.run([prefix / "bin" / "lockstep-report", *arguments], env=environment | variables, text=True,
                          capture_output=True)


@pytest.fixture
def path_without_modules(tmp_path):
    """A value of PATH with which python3 cannot import NumPy."""
    python = tmp_path / "bare" / "python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I \"$@\"\n", encoding="utf-8")
    python.chmod(0o755)
    answer = subprocess.run([python, "-c", "import numpy"], capture_output=True)
    assert answer.returncode != 0
    return f"{python.parent}:{os.environ['PATH']}"


def test_report_command_passes_over_a_python_without_numpy(prefix, path_without_modules):
    answer = report_command(prefix, "--help", PATH=path_without_modules, LOCKSTEP_PYTHON=sys.executable)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.skipif(subprocess.run(["/usr/bin/python3", "-c", "import numpy, h5py, matplotlib"],
                                   capture_output=True).returncode != 0, reason="/usr/bin/python3 has no NumPy")
def test_report_command_finds_the_python_of_the_system(prefix, path_without_modules):
    answer = report_command(prefix, "--help", PATH=path_without_modules)
    assert answer.returncode == 0, answer.stderr


def test_report_command_without_any_python_prints_one_line(prefix, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('none')\n", encoding="utf-8")
    answer = report_command(prefix, "--help", PYTHONPATH=str(tmp_path))
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1 and "LOCKSTEP_PYTHON" in answer.stderr


def test_links_of_the_installed_documentation_lead_somewhere(prefix):
    pages = sorted((prefix / "share" / "doc" / "lockstep").rglob("*.md"))
    assert {"README.md", "analysis.md", "CONTRIBUTING.md"} <= {page.name for page in pages}
    for page in pages:
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == [], page


def test_cluster_scripts_are_complete(prefix):
    jobs = prefix / "share" / "lockstep" / "jobs"
    answer = subprocess.run([jobs / "slurm" / "submit", "--dry-run", jobs / "slurm" / "weak.tsv"], cwd=prefix, text=True,
                            capture_output=True)
    assert answer.returncode == 0, answer.stderr
    assert "scaling.sbatch" in answer.stdout
