# SPDX-License-Identifier: BSD-3-Clause
"""Tests that figures do not depend on the home directory and the Matplotlib settings of the
user."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from lockstep_report.errors import OUTPUT, ReportError
from lockstep_report.figures.canvas import figure_module
from programs import can_be_run_by_nobody, run_report
from synthetic import phases, write_run

STYLE = """text.usetex: True
font.family: serif
font.size: 20
axes.grid: True
savefig.bbox: tight
axes.formatter.use_locale: True
backend: TkAgg
no.such.key: 1
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return write_run(
        folder / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2, batch=10
    )


def figures(run, folder, environment=(), **options):
    """Returns the bytes of the figures by name; nothing may be on stderr."""
    out = folder / "out"
    done = run_report("figures", run, "--out", out, environment=environment, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def expected(run, tmp_path_factory):
    return figures(run, tmp_path_factory.mktemp("expected"))


def test_settings_of_the_user_do_not_change_figures(run, expected, tmp_path):
    (tmp_path / "matplotlibrc").write_text(STYLE, encoding="utf-8")
    odd = {
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
        "MPLBACKEND": "module://no_such_backend",
        "PYTHONWARNINGS": "error",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    assert figures(run, tmp_path, odd, cwd=tmp_path) == expected
    assert figures(run, tmp_path, {"MPLBACKEND": "nonsense", "LC_ALL": "xx_YY.FOO"}) == expected


@pytest.mark.parametrize("home", [None, "/", ""])
def test_home_directory_is_not_needed(run, expected, home):
    """As in containers with the numeric id of a user who has no entry in /etc/passwd."""
    if os.geteuid() != 0 or not can_be_run_by_nobody():
        pytest.skip("only root can start a process as another user")
    # Other processes of pytest withdraw the permissions of the folder that contains `tmp_path`.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    copied = Path(shutil.copy(run, folder))
    copied.chmod(0o644)
    temporary = folder / "temporary"  # of this process alone
    temporary.mkdir()
    temporary.chmod(0o777)
    variables = [
        "env",
        "-u",
        "MPLCONFIGDIR",
        *(("-u", "HOME") if home is None else (f"HOME={home}",)),
        f"TMPDIR={temporary}",
    ]
    assert (
        figures(copied, folder, user=12345, group=12345, extra_groups=[], starter=variables)
        == expected
    )
    left = os.listdir(temporary)
    shutil.rmtree(folder)
    assert not left


def test_missing_folder_for_the_fonts_is_an_output_error(monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(
        ReportError, match="Read-only file system.*; set MPLCONFIGDIR to a folder"
    ) as caught:
        figure_module("figures")
    assert caught.value.status == OUTPUT
