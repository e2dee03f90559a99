# SPDX-License-Identifier: BSD-3-Clause
"""lockstep-report export and index."""

import csv
import json
import shutil
import struct
import sys

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.tables.export.trace import lanes_of
from synthetic import PHASES, dataset, write_run

OFFSET = 5.0  # of the clock of rank 1, in seconds


def run_with_clocks(path, offset=OFFSET, part=1):
    """Writes 2 epochs of 10 steps on 2 ranks of 2 hosts. Each phase takes 1 ms times its number;
    a step starts every 25 ms on both ranks; the clock of rank 1 is ahead by `offset`."""
    times = np.tile(np.arange(1, 7) * 1e-3, (20, 2, 1))
    start = np.zeros((20, 2, 3)) + [0.004, 0.006, 0.008]
    write_run(
        path,
        times,
        64,
        epochs=2,
        bucket_bytes=[100, 200, 300],
        bucket_start=start,
        bucket_end=start + 0.003,
        ranks_of={"hostname": ["n1", "n2"]},
        attributes={"part": part, "first_step": 0, "steps_per_epoch": 10, "images_per_epoch": 640},
    )
    with h5py.File(path, "r+") as file:
        dataset(file, "/clock_reading", ["begin", "end"])
        begin = 100 + 0.025 * np.arange(20)[:, None] + [0.0, offset]
        dataset(file, "/steps/start_seconds", begin)
        clocks = np.zeros((2, 2, 2)) + np.array([0.0, offset])[:, None]
        dataset(file, "/epochs/clock_offset_seconds", clocks)
        dataset(file, "/epochs/clock_error_seconds", np.full((2, 2, 2), 1e-6))
    return path


def export(*arguments):
    return main(["export", *map(str, arguments)])


def trace_of(folder, name="run"):
    return json.loads((folder / f"{name}.trace.json").read_text())


@pytest.fixture
def path(tmp_path):
    return run_with_clocks(tmp_path / "run.h5")


def test_csv_has_every_value(path, tmp_path):
    assert export(path, "--to", "csv", "--out", tmp_path / "out") == 0
    with (tmp_path / "out" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20 * 2
    row = rows[2 * 7 + 1]
    assert (row["run"], row["step"], row["epoch"], row["rank"], row["host"]) == (
        "run.h5",
        "8",
        "1",
        "1",
        "n2",
    )
    assert [float(row[f"{name}_seconds"]) for name in PHASES] == [
        0.001,
        0.002,
        0.003,
        0.004,
        0.005,
        0.006,
    ]
    assert float(row["step_seconds"]) == pytest.approx(0.025)  # to the start of the next step
    assert float(row["start_seconds"]) == pytest.approx(100 + 7 * 0.025 + OFFSET)
    assert [r["is_timed"] for r in rows[:40:2]] == ["0"] * 10 + ["1"] * 10  # epoch 2
    with (tmp_path / "out" / "buckets.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 20 * 2 * 3
    with (tmp_path / "out" / "epochs_by_rank.csv").open() as file:
        assert float(list(csv.DictReader(file))[1]["clock_offset_seconds_begin"]) == OFFSET


def test_csv_has_the_options_of_a_run(tmp_path):
    path = write_run(tmp_path / "=1+1.h5", np.ones((10, 1, 6)), 32, config={"batch-per-rank": "32"})
    assert export(path, "--to", "csv", "--out", tmp_path / "out") == 0
    with (tmp_path / "out" / "runs.csv").open() as file:
        row = next(csv.DictReader(file))
    assert row["option_batch_per_rank"] == "32"
    assert row["run"] == "'=1+1.h5"  # spreadsheets evaluate texts that begin with =


def test_csv_of_chosen_steps_and_ranks(path, tmp_path):
    assert (
        export(path, "--to", "csv", "--steps", "3-4,20", "--ranks", "1", "--out", tmp_path / "out")
        == 0
    )
    with (tmp_path / "out" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["rank"]) for row in rows] == [("3", "1"), ("4", "1"), ("20", "1")]
    assert float(rows[0]["step_seconds"]) == pytest.approx(0.025)


def test_runs_with_different_columns_share_a_table(path, tmp_path):
    write_run(tmp_path / "old.h5", np.ones((10, 1, 6)), 32)
    assert export(path, tmp_path / "old.h5", "--to", "csv", "--out", tmp_path / "out") == 0
    with (tmp_path / "out" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == ["run.h5"] * 40 + ["old.h5"] * 10
    assert rows[-1]["start_seconds"] == ""  # not recorded


@pytest.mark.parametrize(
    "form",
    [
        "csv",
        "extra-p",
        "trace",
        pytest.param("tensorboard", marks=pytest.mark.requires("TENSORBOARD")),
    ],
)
def test_same_input_same_bytes_and_no_outdated_files(path, tmp_path, form):
    out, again = tmp_path / "out", tmp_path / "again"
    second = shutil.copy(path, tmp_path / "other.h5")
    with h5py.File(second, "r+") as file:
        file.attrs["run_id"] = "other"
    assert export(path, second, "--to", form, "--out", out) == 0
    assert export(path, "--to", form, "--out", out) == 0
    assert export(path, "--to", form, "--out", again) == 0
    files = {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}
    for name, content in files.items():
        if form != "tensorboard" or name.parent.name:
            assert (out / name).read_bytes() == content
    if form == "trace":
        assert not (out / "other.trace.json").exists()


def test_trace_is_on_the_clock_of_rank_0(path, tmp_path):
    assert export(path, "--to", "trace", "--steps", "1-3", "--out", tmp_path) == 0
    trace = trace_of(tmp_path)
    assert trace["otherData"]["clock"].startswith("clock of rank 0")
    assert trace["otherData"]["clock_error_us"] == pytest.approx(2.0)  # 1 µs for each rank
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(events) == 3 * 2 * (6 + 3)
    forward = {(e["pid"], e["args"]["step"]): e for e in events if e["name"] == "forward"}
    for (_, step), event in forward.items():  # both ranks at the same time; 1/8 µs by rounding
        assert event["ts"] == pytest.approx(25e3 * (step - 1) + 3000, abs=0.2)
        assert event["dur"] == pytest.approx(3000, abs=0.2)
    bucket = next(e for e in events if e["name"] == "bucket 2" and e["pid"] == 1)
    assert bucket["ts"] == pytest.approx(8000, abs=0.2) and bucket["args"]["bytes"] == 300


def test_trace_with_unknown_clock_errors_has_no_common_clock(path, tmp_path):
    with h5py.File(path, "r+") as file:
        file["epochs/clock_error_seconds"][...] = np.nan
    assert export(path, "--to", "trace", "--out", tmp_path) == 0
    assert trace_of(tmp_path)["otherData"]["clock"].startswith("no common clock")


def test_events_of_a_thread_do_not_overlap(tmp_path):
    generator = np.random.default_rng(2)
    begin = np.sort(generator.random((30, 2, 5)), axis=2) * 0.01
    path = write_run(
        tmp_path / "run.h5",
        generator.random((30, 2, 6)),
        64,
        bucket_bytes=[8] * 5,
        bucket_start=begin,
        bucket_end=begin + 0.01 * generator.random((30, 2, 5)),
    )
    assert export(path, "--to", "trace", "--steps", "1-30", "--out", tmp_path) == 0
    trace = trace_of(tmp_path)
    assert trace["otherData"]["clock"].startswith("no common clock")
    threads = {}
    for event in trace["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= set(event)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for events in threads.values():
        # Viewers convert to integers of nanoseconds; equal ends and begins must remain equal.
        ends = [int(e["ts"] * 1000) + int(e["dur"] * 1000) for e in events]
        for end, following in zip(ends, events[1:]):
            assert end <= int(following["ts"] * 1000)


def test_lanes_are_as_few_as_possible():
    lane, count = lanes_of(
        np.array([[0.0, 1.0, 2.0], [10.0, 10.0, 10.0]]),
        np.array([[1.5, 1.8, 3.0], [11.0, 11.0, 11.0]]),
    )
    assert lane.tolist() == [[0, 1, 0], [0, 1, 2]] and count == 3


def test_extra_p(tmp_path):
    runs = []
    for ranks in (1, 2, 4):
        for seed in range(2):
            times = np.tile([0, 0, 0.01 * ranks, 0, 0, 0], (20, ranks, 1)) + 0.001 * seed
            buckets = {"bucket_bytes": [8], "bucket_end": 0.002} if ranks > 1 else {}
            runs.append(
                write_run(
                    tmp_path / f"{ranks}-{seed}.h5",
                    times,
                    32 * ranks,
                    **buckets,
                    attributes={
                        "part": 1,
                        "first_step": 0,
                        "steps_per_epoch": 20,
                        "images_per_epoch": 3200,
                    },
                    config={"seed": str(seed), "train-samples": "3200"},
                )
            )
    assert export(*runs, "--to", "extra-p", "--out", tmp_path / "out") == 0
    content = json.loads((tmp_path / "out" / "extra-p-overlap.json").read_text())
    assert content["parameters"] == ["ranks"]
    forward = content["measurements"]["step->forward"]["time"]
    assert [m["point"] for m in forward] == [[1], [2], [4]]
    assert forward[2]["values"] == pytest.approx([0.04, 0.041])
    assert set(content["measurements"]) == {
        "step",
        "all-reduce",
        "all-reduce->calls",
        *(f"step->{name}" for name in PHASES),
    }
    # Extra-P refuses call paths that do not have all points.
    assert content["measurements"]["all-reduce"]["time"][0] == {"point": [1], "values": [0.0, 0.0]}
    for path in content["measurements"].values():
        assert [m["point"] for m in path["time"]] == [[1], [2], [4]]


def read_records(data):
    """Returns the data of the records of an event file: length (8 bytes), checksum (4), data,
    checksum (4)."""
    found = []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found


@pytest.mark.requires("TENSORBOARD")
def test_tensorboard_records(path, tmp_path):
    from tensorboardX.proto.event_pb2 import Event

    assert export(path, "--to", "tensorboard", "--steps", "9-10", "--out", tmp_path) == 0
    written = sorted((tmp_path / "run").glob("events.out.tfevents.*"))
    assert len(written) == 1
    first, *steps = map(Event.FromString, read_records(written[0].read_bytes()))
    assert first.file_version == "brain.Event:2" and [event.step for event in steps] == [9, 10]
    tags = {value.tag: value.simple_value for value in steps[1].summary.value}
    assert {"step/loss", "step/images_per_second"} <= set(tags)
    assert tags["phase_seconds/forward"] == pytest.approx(0.003)
    assert steps[1].wall_time - steps[0].wall_time == pytest.approx(tags["step/seconds"], abs=1e-6)
    assert tags["epoch/test_accuracy"] == pytest.approx(0.5)  # of epoch 1, whose last step is 10


@pytest.mark.requires("TENSORBOARD")
@pytest.mark.parametrize("name", ["run.h5.partial", "run.hdf5", "run.part2.h5"])
def test_tensorboard_export_of_unfinished_and_resumed_runs(path, name, tmp_path):
    path.rename(tmp_path / name)
    assert export(tmp_path / name, "--to", "tensorboard", "--out", tmp_path / "out") == 0
    assert (
        len(list((tmp_path / "out" / name.partition(".h")[0]).glob("events.out.tfevents.*"))) == 1
    )


@pytest.mark.parametrize("name", ["run.h5.partial", "run.hdf5", "RUN.H5"])
def test_exports_are_named_after_the_run(path, name, tmp_path):
    path.rename(tmp_path / name)
    for kind in ("csv", "trace", "extra-p"):
        assert export(tmp_path / name, "--to", kind, "--out", tmp_path / kind) == 0
    assert [file.name for file in (tmp_path / "trace").glob("[!.]*.json")] == [
        f"{name.partition('.')[0]}.trace.json"
    ]


def test_tensorboard_needs_a_library(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert export(path, "--to", "tensorboard", "--out", tmp_path / "out") == 2
    assert (
        capsys.readouterr().err
        == "lockstep-report: export to TensorBoard needs tensorboardX: pip install tensorboardX, or"
        " export to CSV\n"
    )


@pytest.mark.parametrize(
    "code, reason",
    [
        (
            "raise ValueError('numpy.dtype size changed\\nsee')",
            "ValueError: numpy.dtype size changed",
        ),
        ("import no_such_part", "ModuleNotFoundError: No module named 'no_such_part'"),
    ],
)
def test_library_that_is_broken_is_not_reported_as_missing(
    path, tmp_path, capsys, monkeypatch, code, reason
):
    (tmp_path / "tensorboardX").mkdir()
    (tmp_path / "tensorboardX" / "__init__.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "tensorboardX", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert export(path, "--to", "tensorboard", "--out", tmp_path / "out") == 2
    assert (
        capsys.readouterr().err
        == f"lockstep-report: export to TensorBoard needs tensorboardX, which {sys.executable}"
        f" cannot import from {tmp_path}/tensorboardX ({reason}); repair this library, or use"
        " another Python\n"
    )


@pytest.mark.requires("PANDAS")
def test_parquet_needs_a_library(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    assert export(path, "--to", "parquet", "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "needs pyarrow or fastparquet" in error and error.count("\n") == 1


@pytest.mark.requires("PYARROW")
def test_parquet(path, tmp_path):
    import pandas

    assert export(path, "--to", "parquet", "--out", tmp_path / "out") == 0
    frame = pandas.read_parquet(tmp_path / "out" / "steps.parquet")
    assert len(frame) == 40 and frame.forward_seconds.iloc[0] == 0.003


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--to", "trace", "--steps", "21"], "has no step of --steps; its steps are 1 to 20"),
        (["--to", "trace", "--ranks", "2"], "has no rank of --ranks; its ranks are 0 to 1"),
    ],
)
def test_wrong_selections(path, tmp_path, capsys, arguments, words):
    assert export(path, *arguments, "--out", tmp_path / "out") == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--to", "xml"], ["--to", "csv", "--steps", "4-2"], ["--to", "csv", "--ranks", "a"]],
)
def test_wrong_options(path, arguments):
    with pytest.raises(SystemExit) as stopped:
        export(path, *arguments, "--out", "out")
    assert stopped.value.code == 2


def test_index_marks_copies_parts_and_damaged_files(path, tmp_path, capsys):
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(path, folder / "a.h5")
    shutil.copy(path, folder / "copy.h5")
    write_run(folder / "failed.h5", np.ones((10, 1, 6)), 32, status="failed")
    (folder / "z.h5").write_text("no HDF5")
    assert main(["index", str(folder), "--json"]) == 3  # z.h5 cannot be read
    rows = json.loads(capsys.readouterr().out)
    assert [row["remark"] for row in rows[:3]] == [
        "one of several files of this run",
        "copy of an earlier row",
        "not finished: failed",
    ]
    assert "not an HDF5 file" in rows[3]["remark"] and rows[3]["ranks"] is None
    assert rows[0]["ranks"] == 2 and rows[0]["epoch_seconds"] == pytest.approx(
        9 * 0.025 + 0.021
    )  # nine steps end with the start of the next
    assert main(["index", str(folder), "--csv", str(tmp_path / "index.csv")]) == 3
    assert (tmp_path / "index.csv").read_text().count("\n") == 5
    assert main(["index", str(folder / "z.h5")]) == 3


def test_a_missing_library_gives_one_line(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # its import fails
    assert export(path, "--to", "parquet", "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "install python3-pandas (Debian) or pip install pandas" in error
    assert error.count("\n") == 1
