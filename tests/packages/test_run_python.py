# SPDX-License-Identifier: BSD-3-Clause
"""Tests of analysis/run-python, which starts all Python programs, with what users have set up."""

import ast
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

SHADOWS = ("random", "copy", "csv", "types", "queue", "numpy", "h5py")
WORKS = ("-c", "import h5py, random, csv, queue; print(random.randint(1, 1))")


def run_python(*arguments, cwd, **variables):
    """Runs `run-python` with sys.executable as the first candidate, without the variables of the
    tests."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    return subprocess.run(
        [ROOT / "analysis" / "run-python", *arguments],
        cwd=cwd,
        text=True,
        capture_output=True,
        env=environment | {"LOCKSTEP_PYTHON": sys.executable} | variables,
    )


def package(folder, name, code):
    path = folder / name / "__init__.py"
    path.parent.mkdir(parents=True)
    path.write_text(code, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "path, is_isolated",
    [(None, False), (".", False), (":/nowhere", False), ("/nowhere:", True), ("{}", True)],
)
def test_files_of_the_current_folder_are_not_imported(tmp_path, path, is_isolated):
    """An empty entry of PYTHONPATH is the current folder. Isolated: PYTHONHOME is that of another
    Python."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("print('of the current folder')\n", encoding="utf-8")
    variables = {} if path is None else {"PYTHONPATH": path.format(tmp_path)}
    variables |= {"PYTHONHOME": "/nowhere"} if is_isolated else {}
    result = run_python("--modules", "numpy,h5py", *WORKS, cwd=tmp_path, **variables)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


@pytest.mark.parametrize(
    "code",
    [
        "raise ImportError('compiled for NumPy 1')",
        "import os; os.abort()",
        "raise SystemExit(0)",
        "1 / 0",
        "import no_such_module",
        "import warnings; warnings.warn('old', DeprecationWarning)",
    ],
)
def test_broken_packages_of_the_user_are_left_out(tmp_path, code):
    package(tmp_path / "user", "h5py", code)
    package(tmp_path / "user", "plug_in", "name = 'of the user'")
    result = run_python(
        "-c",
        "import h5py, plug_in; print(h5py.File.__name__, plug_in.name)",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path / "user"),
        PYTHONWARNINGS="error",
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "File of the user\n", "")


def test_libraries_of_the_user_are_left_out(tmp_path):
    """Modules and conda set LD_LIBRARY_PATH to libraries that h5py was not built for."""
    maps = subprocess.run(
        [sys.executable, "-c", "import h5py; print(open('/proc/self/maps').read())"],
        text=True,
        capture_output=True,
    ).stdout
    for path in {line.split()[-1] for line in maps.splitlines() if "libhdf5" in line}:
        (tmp_path / os.path.basename(path)).write_text("another library", encoding="utf-8")
        soname = re.sub(r"(\.so\.\d+)\..*", r"\1", os.path.basename(path))
        (tmp_path / soname).write_text("another library", encoding="utf-8")
    result = run_python("--modules", "h5py", *WORKS, cwd=tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
    found = run_python(
        "--modules", "h5py", "--find", cwd=tmp_path, LD_LIBRARY_PATH=str(tmp_path)
    ).stdout.splitlines()
    assert (
        subprocess.run(
            [*found, *WORKS], env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True
        ).stdout
        == b"1\n"
    )


def test_interpreter_that_does_not_exist_is_named(tmp_path):
    result = run_python(
        *WORKS,
        cwd=tmp_path,
        LOCKSTEP_PYTHON="/nowhere/python",
        LOCKSTEP_BUILD_PYTHON=sys.executable,
    )
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert (
        result.stderr
        == "run-python: LOCKSTEP_PYTHON=/nowhere/python was not found; another Python is used\n"
    )


def test_packages_of_the_user_have_precedence_if_they_work(tmp_path):
    package(tmp_path / "user", "h5py", "name = 'of the user'")
    for name, variables in (
        ("PYTHONPATH", {"PYTHONPATH": str(tmp_path / "user")}),
        ("PYTHONINSPECT", {"PYTHONINSPECT": "1"}),
    ):
        result = run_python(
            "-c",
            "import h5py, sys; print(hasattr(h5py, 'name'), sys.argv)",
            "a b",
            cwd=tmp_path,
            **variables,
        )
        assert (result.returncode, result.stdout) == (
            0,
            f"{name == 'PYTHONPATH'} ['-c', 'a b']\n",
        ), result.stderr


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.no_such_backend", "TkAgg", "none"])
def test_backend_of_a_notebook_is_ignored(tmp_path, backend):
    assert run_python(*WORKS, cwd=tmp_path, MPLBACKEND=backend).returncode == 0


@pytest.mark.parametrize(
    "code, reason",
    [
        (
            "raise ImportError('libx.so.1: cannot open')",
            "from {}/own: ImportError: libx.so.1: cannot open",
        ),
        (
            (
                "try:\n    import no_such_part\nexcept ImportError:\n    raise"
                " RuntimeError('see\\nhttps://help')"
            ),
            "from {}/own: ModuleNotFoundError: No module named 'no_such_part'",
        ),
        ("raise ValueError('two\\nlines\x1b')", "from {}/own: ValueError: two"),
    ],
)
def test_first_real_reason_is_one_line(tmp_path, code, reason):
    folder = package(tmp_path / "user", "own", code)
    result = run_python(
        "--modules",
        "h5py,own.part",
        "-c",
        "",
        cwd=tmp_path,
        PYTHONPATH=str(folder),
        LOCKSTEP_COMMAND="lockstep-report",
    )
    assert (
        result.returncode == 2
        and result.stdout == ""
        and len(result.stderr.splitlines()) == 1
        and "\x1b" not in result.stderr
    )
    version = ".".join(map(str, sys.version_info[:3]))
    assert result.stderr.startswith(
        f"lockstep-report: {sys.executable} ({version}): cannot import own {reason.format(folder)}"
    )
    assert (
        "; repair this package, or set LOCKSTEP_PYTHON to a Python 3.9 or newer with h5py own, "
        in result.stderr
    )
    assert " (NumPy " in result.stderr  # its version decides whether h5py works


def test_missing_packages_are_named_with_a_virtual_environment(tmp_path):
    result = run_python("--modules", "no_such_module", "-c", "", cwd=tmp_path)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert (
        ": no module no_such_module; install the packages (jobs/setup), or set LOCKSTEP_PYTHON"
        in result.stderr
    )
    assert result.stderr.endswith("python3 -m venv ENV && ENV/bin/pip install no_such_module\n")


def test_command_is_found_once_for_many_ranks(tmp_path):
    result = run_python("--modules", "h5py", "--find", cwd=tmp_path, PYTHONPATH=f":/a b:{tmp_path}")
    words = result.stdout.splitlines()
    assert words == ["env", "PYTHONPATH=/a b", sys.executable, f"{ROOT}/analysis/start.py"]
    (tmp_path / "part.py").write_text("text = 'beside the program'\n", encoding="utf-8")
    (tmp_path / "own.py").write_text(
        "import lockstep_report, part, sys\nprint(part.text, sys.argv[1:], __name__)\n",
        encoding="utf-8",
    )
    program = subprocess.run(
        [*words, tmp_path / "own.py", "x"], cwd="/", text=True, capture_output=True
    )
    assert program.stdout == "beside the program ['x'] __main__\n", program.stderr


def test_old_interpreters_can_read_the_check():
    source = (ROOT / "analysis" / "start.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 6))
