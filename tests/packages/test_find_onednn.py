# SPDX-License-Identifier: BSD-3-Clause
"""Finds a oneDNN that was built for OpenMP, and refuses those for other runtimes, whose results or
threads would be wrong."""

import subprocess

import pytest

from conftest import ROOT

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(find LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "{modules}")
find_package(oneDNN 2.6 REQUIRED)
"""
VERSION = (
    "#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 13\n#define DNNL_VERSION_PATCH 2\n"
)


@pytest.fixture
def configure(tmp_path):
    """Returns a function that configures a project with a oneDNN of the runtime."""

    def with_runtime(runtime):
        headers = tmp_path / "onednn/include/oneapi/dnnl"
        headers.mkdir(parents=True)
        (headers / "dnnl.hpp").touch()
        (headers / "dnnl_version.h").write_text(VERSION)
        # A list of all runtimes stands before the definition, as in the header of oneDNN.
        (headers / "dnnl_config.h").write_text(
            "#define DNNL_RUNTIME_OMP 2u\n#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_OMP\n"
            f"#define DNNL_CPU_RUNTIME DNNL_RUNTIME_{runtime}\n"
        )
        (tmp_path / "onednn/lib").mkdir()
        (tmp_path / "onednn/lib/libdnnl.so").touch()
        (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(modules=ROOT / "cmake"))
        return subprocess.run(
            ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DoneDNN_ROOT={tmp_path}/onednn"],
            text=True,
            capture_output=True,
        )

    return with_runtime


def test_openmp_is_accepted(configure):
    result = configure("OMP")
    assert result.returncode == 0 and "3.13.2" in result.stdout, result.stderr


@pytest.mark.parametrize("runtime", ["SYCL", "DPCPP", "TBB", "THREADPOOL", "SEQ"])
def test_another_runtime_is_refused(configure, runtime):
    result = configure(runtime)
    assert result.returncode != 0
    assert (
        f"is of a oneDNN with DNNL_CPU_RUNTIME={runtime}. Set oneDNN_ROOT to the prefix of one"
        " with OMP" in result.stderr
    )
