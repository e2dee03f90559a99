# SPDX-License-Identifier: BSD-3-Clause
"""Tests of run files and checkpoints with independent readers: h5py and h5dump (CTest:
record.python)."""

import os
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.runfile import schema  # noqa: E402
from lockstep_report.runfile.validate import problems  # noqa: E402

RUNS = ("run.h5", "failed.h5", "running.h5.partial", "sweep.h5")
SCALES = ("step", "rank", "phase", "epoch", "bucket", "clock_reading")
PHASES = ["data_wait", "upload", "forward", "backward", "exposed_communication", "update"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    directory = tmp_path_factory.mktemp("samples")
    subprocess.run([os.environ["LOCKSTEP_RECORD_SAMPLE"], directory], check=True)
    return directory


def datasets(file):
    found = {}
    file.visititems(
        lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    return found


def type_name(dataset):
    """Returns the element type of a dataset as the schema names it."""
    text = h5py.check_string_dtype(dataset.dtype)
    if text is None:
        return dataset.dtype.name
    return "string64" if dataset.name in ("/epochs/parameter_hash", "/ladder/status") else "string"


@pytest.mark.parametrize("name", RUNS)
def test_every_dataset_is_in_the_schema(samples, name):
    with h5py.File(samples / name) as file:
        for path, dataset in datasets(file).items():
            spec = schema.dataset(f"/{path}")
            assert type_name(dataset) == spec.type, path
            assert dataset.attrs["units"].decode() == spec.units, path
            assert dataset.attrs["long_name"].decode() == spec.description.replace("`", ""), path
            # xarray reads a text as bytes without this attribute of the NetCDF conventions.
            assert dataset.attrs.get("_Encoding", b"").decode() == (
                "utf-8" if spec.is_text else ""
            ), path
            if not spec.is_scale:
                assert tuple(dim[0].name.strip("/") for dim in dataset.dims) == spec.dimensions, (
                    path
                )


@pytest.mark.parametrize("name", RUNS)
def test_every_dataset_of_the_schema_is_written(samples, name):
    with h5py.File(samples / name) as file:
        for group in schema.GROUPS:
            if group.path not in file:
                assert not group.required
                continue
            expected = {spec.name for spec in schema.datasets(group.path)}
            assert set(file[group.path]) == (set() if len(file[group.path]) == 0 else expected)
            if group.path in ("/ranks", "/steps", "/epochs"):
                assert len(file[group.path]) > 0


@pytest.mark.parametrize("name", RUNS)
def test_attributes_are_those_of_the_schema(samples, name):
    with h5py.File(samples / name) as file:
        assert set(file.attrs) == {spec.name for spec in schema.attributes("/")} - {
            "program"
        }  # of other programs
        assert set(file["results"].attrs) <= {spec.name for spec in schema.attributes("/results")}


@pytest.mark.parametrize("name", RUNS)
def test_validation_finds_no_problem(samples, name):
    assert problems(samples / name) == []


@pytest.mark.parametrize("name", RUNS)
def test_every_dimension_has_its_scale_in_the_root(samples, name):
    with h5py.File(samples / name) as file:
        for path, dataset in datasets(file).items():
            if "/" not in path:
                assert h5py.h5ds.is_scale(dataset.id), path
                continue
            for axis, dimension in enumerate(dataset.dims):
                assert len(dimension) == 1, (path, axis)
                scale = dimension[0]
                assert scale.name.count("/") == 1
                assert scale.shape == (dataset.shape[axis],), (path, axis)


@pytest.mark.parametrize("name", RUNS)
def test_texts_have_a_fixed_length(samples, name):
    """HDF5 stores texts of variable length in a heap without checksums."""

    def is_fixed(dtype):
        text = h5py.check_string_dtype(dtype)
        return text is None or text.length is not None

    def check(path, item):
        assert isinstance(item, h5py.Group) or is_fixed(item.dtype), path
        for attribute in set(item.attrs) - {"DIMENSION_LIST", "REFERENCE_LIST"}:
            assert is_fixed(item.attrs.get_id(attribute).dtype), (path, attribute)

    with h5py.File(samples / name) as file:
        check("/", file)
        file.visititems(check)


@pytest.mark.parametrize("name", RUNS)
def test_all_datasets_have_checksums(samples, name):
    with h5py.File(samples / name) as file:
        for path, dataset in datasets(file).items():
            assert dataset.fletcher32, path


def test_root_attributes(samples):
    with h5py.File(samples / "run.h5") as file:
        attributes = dict(file.attrs)
    assert attributes["format"] == b"lockstep-run"
    assert attributes["format_version"] == 3
    assert attributes["status"] == b"complete"
    assert attributes["failure"] == b""
    assert attributes["command_line"].decode() == 'lockstep train --model "Größe"'
    assert attributes["git_dirty"] in (0, 1)
    assert np.datetime64(attributes["date_utc"].decode().removesuffix("Z")) > np.datetime64(
        "2020-01-01"
    )
    assert attributes["date_utc"].endswith(b"Z")
    for name in ("software_version", "git_commit", "run_id"):
        assert isinstance(attributes[name], bytes) and attributes[name]


def test_parts_of_a_run(samples):
    names = ("part", "first_step", "steps_per_epoch", "images_per_epoch")
    with h5py.File(samples / "run.h5") as file:
        assert [file.attrs[name] for name in names] == [1, 0, 5, 320]
        assert all(file.attrs[name].dtype == np.int64 for name in names)
    with h5py.File(samples / "run.part2.h5") as file:
        assert [file.attrs[name] for name in names] == [2, 10, 5, 320]
        first_part = h5py.File(samples / "run.h5").attrs["run_id"]
        assert file.attrs["run_id"] == first_part
    with h5py.File(samples / "sweep.h5") as file:
        assert [file.attrs[name] for name in names] == [1, 0, 0, 0]


def test_run_ids_differ(samples):
    runs = [samples / name for name in RUNS]
    ids = [h5py.File(path).attrs["run_id"] for path in runs]
    assert len(set(ids)) == len(ids)


def test_the_layout(samples):
    with h5py.File(samples / "run.h5") as file:
        assert set(SCALES) <= set(file)
        assert set(file["steps"]) == {
            "epoch",
            "learning_rate",
            "loss",
            "images",
            "phase_seconds",
            "start_seconds",
            "end_seconds",
            "sent_bytes",
            "received_bytes",
        }
        assert set(file["buckets"]) == {"bytes", "start_seconds", "end_seconds", "call_seconds"}
        assert file["phase"].asstr()[()].tolist() == PHASES
        assert file["clock_reading"].asstr()[()].tolist() == ["begin", "end"]
        assert file["epochs/clock_offset_seconds"].shape == (3, 3, 2)
        assert file["ranks/host"][()].tolist() == [0, 0, 1]
        assert file["ranks/hostname"].asstr()[()].tolist() == ["node0", "node0", "node1"]
        assert file["ranks/device_uuid"].asstr()[()].tolist() == ["", "", ""]
        assert file["steps/phase_seconds"].shape == (12, 3, 6)
        assert file["steps/phase_seconds"].maxshape == (None, 3, 6)
        assert file["steps/phase_seconds"].attrs["units"] == b"s"
        assert file["steps/epoch"][()].tolist() == [1] * 5 + [2] * 5 + [3] * 2
        np.testing.assert_array_equal(
            file["steps/phase_seconds"][5:10].ravel(), 2 + 1e-6 * np.arange(5 * 3 * 6)
        )
        assert np.isnan(file["epochs/test_accuracy"][1])
        assert file["epochs/energy_joules"][()].tolist() == [[900.5] * 3] * 3
        assert np.isnan(file["epochs/utilisation"][()]).all(), "the sample has no values"
        assert file["epochs/parameter_hash"].asstr()[0] == "0123456789abcdef"
        assert file["config"].attrs["batch-per-rank"] == b"32"
        assert file["environment"].attrs["hdf5_version"]
        assert dict(file["results"].attrs) == {"last_test_accuracy": 0.3}


def test_telemetry_of_all_epochs(samples):
    with h5py.File(samples / "run.h5") as file:
        assert file["sample"][()].tolist() == list(range(9))
        telemetry = file["telemetry"]
        assert telemetry["rank"][()].tolist() == [0, 1, 2] * 3
        assert telemetry["seconds"][()].tolist() == [1] * 3 + [2] * 3 + [3] * 3
        assert telemetry["sampler_cpu_seconds"][-1] == 3 + 11
        assert telemetry["received_bytes"][()].tolist() == [[1e6]] * 9
        assert telemetry["sent_bytes"][()].tolist() == [[2e6]] * 9
        assert telemetry["interface_name"].asstr()[()].tolist() == [["eth0"], ["eth0"], [""]]


def test_a_failed_run_has_the_error_message(samples):
    with h5py.File(samples / "failed.h5") as file:
        assert file.attrs["status"] == b"failed"
        assert file.attrs["failure"] == b"rank 0: the loss is not finite"
        assert len(file["buckets"]) == 0 and "bucket" not in file


def test_a_running_file_opens_with_and_without_swmr(samples):
    for options in ({}, {"swmr": True, "libver": "latest"}):
        with h5py.File(samples / "running.h5.partial", "r", **options) as file:
            assert file.attrs["status"] == b"running"
            assert file["step"][()].tolist() == [1, 2, 3, 4]


def test_sweep_and_ladder(samples):
    with h5py.File(samples / "sweep.h5") as file:
        assert file["allreduce/algorithm"].asstr()[()].tolist() == ["mpi", "direct"]
        assert file["allreduce/bytes"][()].tolist() == [4096, 8192]
        assert file["allreduce/seconds"][()].tolist() == [[1e-5, 2e-5, 3e-5], [2e-5, 3e-5, 4e-5]]
        assert file["allreduce/wrong"][()].tolist() == [0, 1]
        assert file["ladder/batch_per_rank"][()].tolist() == [32, 128]
        assert file["ladder/status"].asstr()[()].tolist() == ["complete", "out_of_memory"]
        assert np.isnan(file["ladder/epoch_seconds"][1])
        assert file["ladder/training_seconds"][0] == 9.5
        assert file["ladder/steps"][()].tolist() == [3, 0]
        assert file["ladder/is_extrapolated"][()].tolist() == [1, 0]
        assert file["ladder/training_seconds"].attrs["units"] == b"s"
        assert file["point"][()].tolist() == [0, 1]


def test_a_checkpoint_is_one_dataset_per_tensor(samples):
    with h5py.File(samples / "weights.h5") as file:
        state = {name: file["state"][name][()] for name in file["state"]}
        assert file["state/layer1.0.conv1.weight"].chunks is None
        assert file.attrs["step"] == 12
        assert file["momentum"]["layer1.0.conv1.weight"][()].ravel().tolist() == [
            7,
            8,
            9,
            10,
            11,
            12,
        ]
    assert state["layer1.0.conv1.weight"].dtype == np.float32
    assert state["layer1.0.conv1.weight"].shape == (1, 2, 3, 1)
    assert state["layer1.0.bn1.running_mean"].tolist() == [0.5, -0.5]
    assert state["layer1.0.bn1.num_batches_tracked"] == 12
    assert state["layer1.0.bn1.num_batches_tracked"].dtype == np.int64


@pytest.mark.parametrize("name", RUNS + ("weights.h5",))
def test_h5dump_reads_the_file(samples, name):
    result = subprocess.run(["h5dump", samples / name], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", RUNS)
def test_columns_make_a_table(samples, name):
    """Runs the pandas example of docs/run-file.md up to the creation of the table."""
    with h5py.File(samples / name) as file:
        columns = {n: d[()] for n, d in file["steps"].items() if d.ndim == 1}
    assert len({len(values) for values in columns.values()}) == 1
