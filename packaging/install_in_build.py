# SPDX-License-Identifier: BSD-3-Clause
"""Installs packages from PyPI and Debian into folders of build/; jobs/setup runs it.

install_in_build.py NAME...   NAME: module-programs, cuda-headers, or a list of packages in this
folder (TARGETS)
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALL = ["install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
WITHOUT_DEPENDENCIES = ["--no-deps"]
NOT_IMPORTED = ["--no-deps", "--no-compile"]  # libraries and headers


@dataclass(frozen=True)
class Target:
    """A folder into which pip installs packages."""

    folder: str
    subject: str  # of the messages, with its verb
    options: list  # of pip
    is_imported: bool = False  # by tests, with their interpreter
    is_environment: bool = False  # the folder is a virtual environment

    def commands(self, requirements):
        """Returns the commands that install `requirements` (arguments of pip)."""
        if self.is_environment:
            environment = [sys.executable, "-m", "venv", "--without-pip", self.folder]
            pip = [sys.executable, "-m", "pip", "--python", f"{self.folder}/bin/python3", *INSTALL]
            return [environment, [*pip, *self.options, *requirements]]
        python = os.environ.get("LOCKSTEP_PYTHON") if self.is_imported else None
        pip = [python or sys.executable, "-m", "pip", *INSTALL, "--target", self.folder]
        return [[*pip, *self.options, *requirements]]


def packages_of(name):
    """Returns the packages of a list."""
    lines = (ROOT / "packaging" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def library(name):
    """Returns the target of a library, which needs a prefix of its own. A virtual environment is
    one, also for pip of Debian, which refuses to install elsewhere."""
    subject = f"{' '.join(packages_of(name))} is"
    return Target(f"build/libraries/{name}", subject, NOT_IMPORTED, is_environment=True)


def cuda(version):
    subject = f"The libraries of packaging/cuda-{version}.txt are"
    return Target(f"build/{version}", subject, NOT_IMPORTED)


TARGETS = {
    "cuda-newest": cuda("newest"),
    "cuda-oldest": cuda("oldest"),
    "openmpi5": library("openmpi5"),
    "mpich": library("mpich"),
    "onednn3": library("onednn3"),
    "python-tests": Target(
        "build/python-packages",
        "tensorboardX, safetensors and Extra-P are",
        WITHOUT_DEPENDENCIES,
        is_imported=True,
    ),
    # pip replaces the folder bin of a target, so Ruff needs a target of its own.
    "ruff": Target(
        "build/ruff",
        f"Ruff {packages_of('ruff')[0].partition('==')[2]} is",
        WITHOUT_DEPENDENCIES,
        is_imported=True,
    ),
    "python-newest": Target(
        "build/python-newest",
        "The packages of packaging/python-newest.txt are",
        [],
        is_imported=True,
    ),
}


def run_all(commands, failure, folder="."):
    for command in commands:
        if subprocess.run(command, cwd=folder).returncode != 0:
            sys.exit(f"setup: {failure}")


def install(name):
    """Installs a list, unless the copy of the list in the folder is equal. All packages are
    installed at once, because pip replaces folders that several packages share. The copy is written
    last, so that an interrupted installation is repeated."""
    target, packages = TARGETS[name], f"packaging/{name}.txt"
    folder = Path(target.folder)
    copy = folder / "packages.txt"
    if copy.exists() and filecmp.cmp(packages, copy, shallow=False):
        print(f"{target.subject} already in {folder}.", flush=True)
        return
    if folder.exists():
        shutil.rmtree(folder)
    commands = target.commands(["--requirement", packages])
    run_all(commands, f"pip cannot install {packages} into {folder}")
    link_toolkit(folder / "nvidia" / "cu13")
    shutil.copy(packages, copy)
    print(f"{target.subject} in {folder}.", flush=True)


def link_toolkit(toolkit):
    """Adds the links that the packages of the CUDA toolkit lack: names without a version for the
    linker, and lib64 for nvcc."""
    if toolkit.is_dir():
        for name in ("cudart", "nvrtc"):
            (toolkit / "lib" / f"lib{name}.so").symlink_to(f"lib{name}.so.13")
        (toolkit / "lib64").symlink_to("lib")


def install_cuda_headers():
    """Takes only the headers from cudnn-frontend, in the newest tested version."""
    folder = "build/cudnn-frontend"
    if Path(folder, "include", "cudnn_frontend.h").exists():
        print(f"The headers of cudnn-frontend are already in {folder}.", flush=True)
        return
    package = next(name for name in packages_of("cuda-newest") if "cudnn-frontend" in name)
    with tempfile.TemporaryDirectory() as download:
        run_all(
            Target(download, "", NOT_IMPORTED).commands([package]),
            "pip cannot download nvidia-cudnn-frontend; unpack its include/ folder into "
            f"{folder}, or set CUDNN_FRONTEND_ROOT",
        )
        shutil.copytree(Path(download, "include"), Path(folder, "include"), dirs_exist_ok=True)
    print(f"The headers of cudnn-frontend are in {folder}.", flush=True)


def unpack_module_programs():
    """Unpacks Lmod and Environment Modules. Their Debian packages conflict with each other and
    change the shells of all users, so the tests run the programs from folders."""
    folder = Path("build/module-programs")
    for package in ("lmod", "environment-modules"):
        if (folder / package).is_dir():
            continue
        with tempfile.TemporaryDirectory() as download:
            get = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
            if subprocess.run(get, cwd=download, stderr=subprocess.DEVNULL).returncode != 0:
                update = ["apt-get", "update", "-qq"]
                run_all([update, get], f"apt-get cannot download {package}", download)
            archive = next(Path(download).glob("*.deb"))
            unpacked = Path(download, "root")
            run_all([["dpkg-deb", "-x", archive, unpacked]], f"dpkg-deb cannot unpack {archive}")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(unpacked, folder / package)
        print(f"The programs of {package} are in {folder}.", flush=True)


SPECIAL = {"cuda-headers": install_cuda_headers, "module-programs": unpack_module_programs}

if __name__ == "__main__":
    os.chdir(ROOT)
    for argument in sys.argv[1:]:
        if argument in SPECIAL:
            SPECIAL[argument]()
        else:
            install(argument)
