# SPDX-License-Identifier: BSD-3-Clause
"""Finds HDF5 also if the compiler wrapper h5cc names libhdf5_serial, as in Debian's HDF5 2.2."""

import pathlib
import shlex
import subprocess

import pytest

from conftest import ROOT

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(find LANGUAGES C)
list(APPEND CMAKE_MODULE_PATH "{modules}")
find_package(SerialHDF5 1.10.3 REQUIRED)
add_executable(version version.c)
target_link_libraries(version PRIVATE hdf5::hdf5_hl hdf5::hdf5)
"""
PROGRAM = """#include <hdf5.h>
#include <hdf5_hl.h>
#include <stdio.h>
int main(void) {
  unsigned major, minor, release;
  H5get_libversion(&major, &minor, &release);
  printf("%u.%u.%u %d\\n", major, minor, release, (int)H5DSis_scale(-1));
}
"""


@pytest.fixture
def wrapper(tmp_path):
    """A compiler wrapper that names the installed HDF5 libhdf5_serial."""
    shown = subprocess.run(["h5cc", "-show"], text=True, capture_output=True, check=True).stdout
    folders = [pathlib.Path(word[2:]) for word in shlex.split(shown) if word.startswith("-L")] + [
        pathlib.Path("/usr/lib/x86_64-linux-gnu")
    ]
    for name in ("", "_hl"):
        library = next(
            file
            for folder in folders
            for file in (folder / f"libhdf5{name}.so", folder / f"libhdf5_serial{name}.so")
            if file.exists()
        )
        (tmp_path / f"libhdf5_serial{name}.so").symlink_to(library)
    include = next(word for word in shlex.split(shown) if word.startswith("-I"))
    script = tmp_path / "h5cc"
    script.write_text(
        f"#!/bin/sh\necho cc cmake_hdf5_test.c {include} -L{tmp_path} -lhdf5_serial_hl"
        " -lhdf5_serial\n"
    )
    script.chmod(0o755)
    return script


def test_libraries_that_are_called_serial_are_linked(wrapper, tmp_path):
    project, build = tmp_path / "project", tmp_path / "build"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT.format(modules=ROOT / "cmake"))
    (project / "version.c").write_text(PROGRAM)
    configured = subprocess.run(
        [
            "cmake",
            "-G",
            "Ninja",
            "-S",
            project,
            "-B",
            build,
            f"-DHDF5_C_COMPILER_EXECUTABLE={wrapper}",
        ],
        text=True,
        capture_output=True,
    )
    assert configured.returncode == 0, configured.stderr
    assert "libhdf5_serial" in configured.stdout
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    assert (
        subprocess.run(
            [build / "version"], text=True, capture_output=True, check=True
        ).stdout.count(".")
        == 2
    )
