# SPDX-License-Identifier: BSD-3-Clause
"""Installs the libraries and builds the project in `consumer` with find_package(Lockstep)."""

import pathlib
import shutil
import subprocess

import pytest

from conftest import ROOT

CONSUMER = pathlib.Path(__file__).parent / "consumer"


@pytest.fixture(scope="module")
def prefix(install, tmp_path_factory):
    """An installation of the libraries that was moved after `cmake --install`."""
    installed = install("libraries", tmp_path_factory.mktemp("libraries") / "first")
    moved = installed.with_name("the libraries")
    shutil.move(installed, moved)
    return moved


def cmake(*arguments):
    return subprocess.run(["cmake", *arguments], text=True, capture_output=True)


@pytest.fixture(scope="module")
def consumer(prefix, tmp_path_factory):
    build = tmp_path_factory.mktemp("consumer")
    configured = cmake(
        "-S",
        CONSUMER,
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_CXX_FLAGS=-Wall -Werror",
    )
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = cmake("--build", build)
    assert built.returncode == 0, built.stdout[-5000:]
    return build


@pytest.mark.slow
def test_consumer_computes_a_forward_pass(consumer):
    result = subprocess.run([consumer / "forward"], text=True, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["resnet18-cifar", "11173962", "2.3026"]


@pytest.mark.slow
def test_every_symbol_of_the_libraries_is_found(consumer):
    assert subprocess.run([consumer / "everything"]).returncode == 0


def test_every_public_header_is_installed(prefix):
    public = {path.relative_to(ROOT / "include") for path in (ROOT / "include").rglob("*.hpp")}
    installed = {
        path.relative_to(prefix / "include") for path in (prefix / "include").rglob("*.hpp")
    }
    private = {pathlib.Path("lockstep/core") / name for name in ("cuda.hpp", "hdf5.hpp")}
    assert public - installed == private and not installed - public


def test_package_does_not_contain_paths_of_the_source_or_the_first_prefix(prefix):
    for path in sorted((prefix / "lib" / "cmake" / "Lockstep").iterdir()):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text and str(prefix.with_name("first")) not in text, path


@pytest.mark.parametrize("version", ["0.1", "1.0"])
def test_another_minor_version_is_refused(prefix, tmp_path, version):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES NONE)\n"
        f"find_package(Lockstep {version} REQUIRED)\n",
        encoding="utf-8",
    )
    result = cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert result.returncode != 0 and "version" in result.stderr, result.stderr
