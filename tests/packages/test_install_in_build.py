# SPDX-License-Identifier: BSD-3-Clause
"""Tests of packaging/install_in_build.py, with recorded commands instead of downloads."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import ROOT

SPEC = importlib.util.spec_from_file_location(
    "install_in_build", ROOT / "packaging" / "install_in_build.py"
)
install_in_build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(install_in_build)


class Commands:
    """Records the commands that the module runs. Instead of running them, it creates the file or
    folder that the module uses afterwards."""

    def __init__(self):
        self.run = []
        self.failing = set()  # words of the commands that fail

    def __call__(self, command, cwd=".", **_):
        self.run.append(command)
        if self.failing & set(command):
            return SimpleNamespace(returncode=1)
        if "--target" in command:
            include = Path(command[command.index("--target") + 1], "include")
            include.mkdir(parents=True)
            (include / "cudnn_frontend.h").touch()
        elif "--without-pip" in command or "dpkg-deb" in command:
            Path(command[-1]).mkdir(parents=True)
        elif "download" in command:
            Path(cwd, "package.deb").touch()
        elif "update" in command:
            self.failing = set()
        return SimpleNamespace(returncode=0)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands that the module runs in a tree without build/."""
    shutil.copytree(ROOT / "packaging", tmp_path / "packaging")
    monkeypatch.chdir(tmp_path)
    recorded = Commands()
    monkeypatch.setattr(install_in_build.subprocess, "run", recorded)
    return recorded


@pytest.mark.parametrize("name", install_in_build.TARGETS)
def test_list_is_installed_once_until_it_changes(commands, name, capsys):
    folder = install_in_build.TARGETS[name].folder
    for _ in range(2):
        install_in_build.install(name)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f" in {folder}.") and second.endswith(f" already in {folder}.")
    installed = len(commands.run)
    Path(folder, "old").touch()
    with Path("packaging", f"{name}.txt").open("a", encoding="utf-8") as file:
        file.write("another\n")
    install_in_build.install(name)
    assert len(commands.run) == 2 * installed and not Path(folder, "old").exists()


def test_failed_installation_is_repeated(commands, capsys):
    commands.failing = {"packaging/ruff.txt"}
    with pytest.raises(SystemExit, match="setup: pip cannot install packaging/ruff.txt into"):
        install_in_build.install("ruff")
    commands.failing = set()
    install_in_build.install("ruff")
    assert capsys.readouterr().out == "Ruff 0.17.6 is in build/ruff.\n"


def test_packages_of_tests_are_those_of_their_interpreter(commands, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PYTHON", "/opt/python3")
    for name in ("python-newest", "cuda-newest"):
        install_in_build.install(name)
    assert [command[0] for command in commands.run] == ["/opt/python3", sys.executable]


def test_library_is_installed_in_an_environment_of_its_own(commands):
    install_in_build.install("mpich")
    environment, pip = commands.run
    assert environment[1:] == ["-m", "venv", "--without-pip", "build/libraries/mpich"]
    assert pip[pip.index("--python") + 1] == "build/libraries/mpich/bin/python3"
    assert {"--no-deps", "packaging/mpich.txt"} <= set(pip) and "--target" not in pip


def test_toolkit_has_the_links_for_the_linker_and_nvcc(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.13").touch()
    install_in_build.link_toolkit(tmp_path)
    assert (tmp_path / "lib64" / "libcudart.so").exists()
    assert os.readlink(tmp_path / "lib" / "libnvrtc.so") == "libnvrtc.so.13"


def test_only_headers_of_cudnn_frontend_are_installed(commands, capsys):
    for _ in range(2):
        install_in_build.install_cuda_headers()
    assert [path.name for path in Path("build/cudnn-frontend").iterdir()] == ["include"]
    assert len(commands.run) == 1 and commands.run[0][-1].startswith("nvidia-cudnn-frontend==")
    assert "already" in capsys.readouterr().out.splitlines()[1]


def test_programs_are_unpacked_after_an_update_of_old_lists(commands, capsys):
    commands.failing = {"lmod"}
    for _ in range(2):
        install_in_build.unpack_module_programs()
    assert [command[1] for command in commands.run] == [
        *("download", "update", "download", "-x"),
        *("download", "-x"),
    ]
    assert capsys.readouterr().out.splitlines() == [
        f"The programs of {name} are in build/module-programs."
        for name in ("lmod", "environment-modules")
    ]
    assert Path("build/module-programs/lmod").is_dir()


def test_options_of_setup_select_the_targets(tmp_path):
    """A failure ends the script before it installs packages of the distribution."""
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho "$@"\nexit 3\n', encoding="utf-8")
    python.chmod(0o755)
    options = ["--libraries", "--cuda-oldest", "--cuda-newest", "--cuda"]
    result = subprocess.run(
        [ROOT / "jobs" / "setup", *options],
        text=True,
        capture_output=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    program, *names = result.stdout.split()
    assert result.returncode == 1 and program == "packaging/install_in_build.py"
    assert names == ["cuda-headers", "cuda-oldest", "cuda-newest", "openmpi5", "mpich", "onednn3"]
    assert set(names[1:]) <= set(install_in_build.TARGETS)
