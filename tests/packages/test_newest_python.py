# SPDX-License-Identifier: BSD-3-Clause
"""lockstep-report with the packages of packaging/python-newest.txt, which have HDF5 2."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEWEST = ROOT / "build" / "python-newest"  # of jobs/setup --dev
pytestmark = pytest.mark.requires("PYTHON_NEWEST")
TESTED = ("export", "hdf5_access", "python_api", "schema", "validity", "write")

WRITE = """
import h5py, numpy, sys
assert h5py.version.hdf5_version_tuple[0] == 2
random, folder = numpy.random.default_rng(1), sys.argv[1]
packed = {"chunks": (8, 3, 8, 8), "compression": "gzip", "shuffle": True, "fletcher32": True}
files = {"default": ({}, packed),
         "track_order": ({"track_order": True}, packed),
         "latest": ({"libver": "latest", "track_order": True}, {}),
         "latest-gzip": ({"libver": "latest"}, packed),
         "v108": ({"libver": "v108"}, packed)}
for name, (options, storage) in files.items():
    with h5py.File(f"{folder}/{name}.h5", "w", **options) as file:
        for split in ("train", "test"):
            images = random.integers(0, 256, (16, 3, 8, 8), dtype="u1")
            file.create_dataset(f"{split}/images", data=images, **storage)
            file[f"{split}/labels"] = random.integers(0, 2, 16)
        file["class_names"] = numpy.array(["cat", "dog"], "S")
        file["mean"], file["std"] = numpy.full(3, 0.5), numpy.full(3, 0.2)
        # More than an object header contains.
        file["train/images"].attrs.update({f"note {i}": i for i in range(12)})
"""

READ = """
import sys, h5py, xarray, lockstep_report
path, folder = sys.argv[1:]
assert h5py.version.hdf5_version_tuple[0] == 2
def content(tree):
    steps = tree["steps"]["phase_seconds"]
    return (float(steps.sel(phase="forward").max("rank").mean("step")),
            [str(name) for name in tree["ranks"]["hostname"].values],
            [str(name) for name in tree["epochs"]["parameter_hash"].values])
own = lockstep_report.open(path)
for engine, options in (("h5netcdf", {}), ("netcdf4", {"decode_cf": False})):
    with xarray.open_datatree(path, engine=engine, **options) as tree:
        assert content(tree) == content(own), engine
    own.to_netcdf(f"{folder}/{engine}.nc", engine=engine)
    for reader in ("h5netcdf", "netcdf4"):
        with xarray.open_datatree(f"{folder}/{engine}.nc", engine=reader) as tree:
            assert content(tree) == content(own), (engine, reader)
"""


def python(*arguments, **variables):
    """Runs Python with the newest packages; returns its output."""
    environment = (
        {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("LOCKSTEP_REQUIRE_")
        }
        | {"PYTHONPATH": f"{NEWEST}{os.pathsep}{ROOT / 'analysis'}"}
        | variables
    )
    result = subprocess.run(
        [sys.executable, *arguments], env=environment, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def train(build, data, output):
    return subprocess.run(
        [
            build / "bin" / "lockstep",
            "train",
            "--data",
            f"hdf5:{data}",
            "--batch-per-rank",
            "8",
            "--threads",
            "1",
            "--output",
            output,
        ],
        text=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Returns a folder with images that HDF5 2 wrote."""
    folder = tmp_path_factory.mktemp("images")
    python("-c", WRITE, folder)
    return folder


@pytest.mark.parametrize("name", ["default", "track_order", "latest", "v108"])
def test_images_of_hdf5_2_are_read(build, images, tmp_path, name):
    result = train(build, images / f"{name}.h5", tmp_path / "run.h5")
    assert result.returncode == 0, result.stderr
    assert python("-m", "lockstep_report", "validate", tmp_path / "run.h5").endswith(": valid\n")


def test_images_in_a_newer_format_are_refused(build, images, tmp_path):
    """HDF5 2 reads them; before, the error names the format."""
    result = train(build, images / "latest-gzip.h5", tmp_path / "run.h5")
    assert result.returncode == 0 or (
        result.returncode == 3
        and result.stderr.count("\n") == 1
        and "in the format of a newer HDF5 than" in result.stderr
    )


def test_xarray_and_netcdf_read_run_files(build, images, tmp_path):
    assert train(build, images / "default.h5", tmp_path / "run.h5").returncode == 0
    python("-c", READ, tmp_path / "run.h5", tmp_path)
    for engine in ("h5netcdf", "netcdf4"):
        text = subprocess.run(
            ["ncdump", tmp_path / f"{engine}.nc"], text=True, capture_output=True, check=True
        ).stdout
        assert '"data_wait", "upload", "forward"' in text and "group: steps {" in text


def test_the_report_works():
    tests = [ROOT / "analysis" / "tests" / f"test_{name}.py" for name in TESTED]
    output = python(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
        "--deselect",
        tests[TESTED.index("python_api")].as_posix() + "::test_example_notebook",
        LOCKSTEP_REQUIRE_PANDAS="1",
        LOCKSTEP_TEST_SHARD="1/1",
    )
    assert " passed" in output and " failed" not in output
