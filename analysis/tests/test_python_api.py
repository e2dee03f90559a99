# SPDX-License-Identifier: BSD-3-Clause
"""lockstep_report from Python: open, steps, runs, and the example notebook."""

import contextlib
from pathlib import Path

import h5py
import lockstep_report as lr
import numpy as np
import pytest
from lockstep_report.errors import ReportError
from lockstep_report.runfile import data_tree, stored
from synthetic import write_run, write_sweep

ANALYSIS = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.requires("PANDAS")
with contextlib.suppress(ImportError):
    import pandas
    import xarray


@pytest.fixture
def path(tmp_path):
    times = np.arange(20 * 2 * 6).reshape(20, 2, 6) * 1e-3
    return write_run(
        tmp_path / "run.h5",
        times,
        64,
        epochs=2,
        bucket_bytes=[8, 16],
        ranks_of={"hostname": ["n1", "n2"]},
        attributes={"part": 1, "first_step": 0, "steps_per_epoch": 10, "images_per_epoch": 640},
    )


@pytest.mark.parametrize("has_tree", [True, False])
def test_tree_has_groups_variables_and_coordinates(has_tree, path, monkeypatch):
    """With new versions of xarray, and with old ones, which have no `DataTree`."""
    if not has_tree:
        monkeypatch.delattr(xarray, "DataTree", raising=False)
    elif not hasattr(xarray, "DataTree"):
        pytest.skip("this version of xarray has no DataTree")
    tree = lr.open(path)
    assert type(tree) is (xarray.DataTree if has_tree else dict)
    groups = {"config", "environment", "ranks", "steps", "epochs", "buckets"}
    assert set(tree.children if has_tree else tree) - {"/"} == groups
    assert tree["/"].attrs["format"] == "lockstep-run"
    assert tree["config"].attrs["model"] == "resnet18-cifar"
    seconds = tree["steps"]["phase_seconds"]
    assert seconds.dims == ("step", "rank", "phase") and seconds.attrs["units"] == "s"
    assert seconds.attrs["long_name"].startswith("time of each phase")
    value = seconds.sel(step=3, rank=1, phase="backward").item()
    assert value == pytest.approx((2 * 12 + 6 + 3) * 1e-3)
    assert seconds.coords["hostname"].values.tolist() == ["n1", "n2"]
    assert seconds.coords["epoch"].values.tolist() == [1] * 10 + [2] * 10
    assert tree["buckets"]["start_seconds"].coords["bytes"].values.tolist() == [8, 16]
    mean = seconds.groupby("epoch").mean()
    assert mean.sizes["epoch"] == 2


def test_large_variables_of_the_tree_are_read_when_they_are_used(path, monkeypatch):
    expected = lr.open(path)["steps"]["phase_seconds"].load()
    monkeypatch.setattr(data_tree, "IN_MEMORY_BYTES", 0)
    read = []
    rows_of = stored.Rows.__getitem__
    monkeypatch.setattr(
        stored.Rows, "__getitem__", lambda rows, key: read.append(key) or rows_of(rows, key)
    )
    for select in (
        lambda seconds: seconds[3],
        lambda seconds: seconds[-1, -1, -1],
        lambda seconds: seconds[2:9:3, 1],
        lambda seconds: seconds[::-1, :, 2],
        lambda seconds: seconds[[4, 2, 2], 0:1, [0, 1, 1]],
        lambda seconds: seconds.isel(step=[1, 5], rank=[1, 0]),
        lambda seconds: seconds.sel(phase="backward").max("rank"),
        lambda seconds: seconds + 1,
    ):
        seconds = lr.open(path)["steps"]["phase_seconds"]
        assert not read and seconds.dtype == float and seconds.shape == expected.shape
        np.testing.assert_array_equal(select(seconds).values, select(expected).values)
        assert len(read) == 1
        read.clear()
    seconds = lr.open(path)["steps"]["phase_seconds"].load()
    path.unlink()
    np.testing.assert_array_equal(seconds.values, expected.values)


def test_one_rank_has_no_buckets(one):
    with h5py.File(one, "r+") as file:
        del file["bucket"]
        file["buckets"].clear()
    tree = lr.open(one)
    assert tree["buckets"].sizes.get("bucket", 0) == 0 and tree["steps"].sizes["rank"] == 1


def test_rows_of_an_unfinished_epoch_are_omitted(path):
    with h5py.File(path, "r+") as file:
        del file["epoch"]
        file["epoch"] = [1]
    steps = lr.open(path)["steps"]
    assert steps["loss"].sizes == {"step": 10} and steps["phase_seconds"].sizes["step"] == 10


def test_other_groups_and_errors(tmp_path):
    sweep = lr.open(write_sweep(tmp_path / "sweep.h5"))["allreduce"]
    assert sweep["seconds"].dims == ("message", "repeat")
    assert sweep["seconds"].coords["algorithm"].values.tolist() == ["mpi", "direct"]
    with pytest.raises(ReportError, match="no such file"):
        lr.open(tmp_path / "none.h5")


@pytest.mark.parametrize("value", [3, "many", None])
def test_an_object_of_another_kind_is_an_error(path, value):
    with h5py.File(path, "r+") as file:
        del file["steps/epoch"]
        if value is None:
            file.create_group("steps/epoch")
        else:
            file["steps/epoch"] = value
    with pytest.raises(ReportError, match="/steps/epoch"):
        lr.open(path)


def test_steps_is_tidy(path, tmp_path):
    write_run(tmp_path / "one.h5", np.ones((10, 1, 6)), 32)
    frame = lr.steps([path, tmp_path / "one.h5"])
    assert len(frame) == 20 * 2 + 10
    assert not frame.duplicated(["run", "step", "rank"]).any()
    row = frame.set_index(["run", "step", "rank"]).loc["run.h5", 3, 1]
    assert row.backward_seconds == pytest.approx(0.033) and row.host == "n2"
    assert row.rank_seconds == pytest.approx(sum(range(30, 36)) * 1e-3)
    assert row.step_seconds == pytest.approx(sum(range(30, 36)) * 1e-3)  # rank 1 is the slowest
    assert frame[frame.run == "run.h5"].is_timed.sum() == 20  # epoch 2 on both ranks
    assert len(lr.steps(tmp_path)) == len(frame)  # a folder
    assert set(lr.steps(path, ranks=[1])["rank"]) == {1}


def test_step_times_are_those_of_the_report(tmp_path):
    """Of two ranks that are late in turn, neither takes as long as the later one of each step."""
    seconds = np.full((20, 2, 6), 0.01)
    seconds[::2, 0], seconds[1::2, 1] = 0.03, 0.03
    path = write_run(tmp_path / "run.h5", seconds, 32, epochs=2)
    frame = lr.steps(path, ranks=[1])
    assert frame[frame.is_timed].step_seconds.sum() == pytest.approx(lr.runs(path).epoch_seconds[0])


def test_steps_in_blocks(path, monkeypatch):
    expected = lr.steps(path)
    monkeypatch.setattr(stored, "BLOCK_BYTES", 3 * 8 * 6 * 2)
    pandas.testing.assert_frame_equal(lr.steps(path), expected)


def test_runs(path):
    frame = lr.runs(path)
    assert len(frame) == 1 and frame.option_model[0] == "resnet18-cifar"
    assert frame["ranks"][0] == 2 and frame.timed_epoch[0] == 2


def test_example_notebook(path, tmp_path, monkeypatch):
    import nbclient
    import nbformat

    content = nbformat.read(ANALYSIS / "examples" / "steps.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells)  # stored without results
    monkeypatch.setenv("LOCKSTEP_RUNS", str(path.parent))
    monkeypatch.setenv("PYTHONPATH", str(ANALYSIS))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    nbclient.NotebookClient(
        content,
        timeout=1800,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    outputs = [output for cell in content.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
