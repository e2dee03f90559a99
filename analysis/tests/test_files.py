# SPDX-License-Identifier: BSD-3-Clause
"""Tests the commands of lockstep-report, the files they write, and their exit statuses."""

import csv
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import failure
from lockstep_report.cli import main
from lockstep_report.runfile.validate import problems
from synthetic import dataset, phases, write_ladder, write_run, write_sweep

OWN = Path(__file__).parent / "data" / "own-times.csv"
STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)
TWO = (0.01, 0.01, 0.03, 0.04, 0.025, 0.01)


def test_report_writes_every_table_three_times_and_the_figures(runs, tmp_path):
    out = tmp_path / "out"
    assert main(["report", *runs, "--link-gbit", "10", "--out", str(out)]) == 0
    page = (out / "report.md").read_text()
    for name in (
        "table-1-time-speedup",
        "table-2-compute-communication",
        "table-3-bandwidth",
        "weak-scaling",
    ):
        assert {f"{name}.{s}" for s in ("md", "csv", "tex")} <= set(os.listdir(out))
        assert (out / f"{name}.md").read_text().strip() in page
    for name in ("phases", "scaling"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"</svg>" in (out / f"{name}.svg").read_bytes()
        assert f"({name}.svg)" in page
    for word in ("Base case", "Clock", "Warm-up", "n = 1"):
        assert word in page
    assert not [name for name in os.listdir(out) if name.endswith(".partial")]


def test_markdown_csv_and_latex_have_the_same_values(runs, tmp_path):
    out = tmp_path / "out"
    main(["tables", *runs, "--out", str(out)])
    with (out / "table-1-time-speedup.csv").open() as file:
        row = [r for r in csv.DictReader(file) if r["ranks"] == "2"][0]
    # 1 rank: 10 steps of 0.1 s; 2 ranks: 5 steps of 0.125 s
    assert float(row["epoch_seconds"]) == pytest.approx(0.625)
    assert float(row["speedup"]) == pytest.approx(1.6)
    assert "| 10 | 2 | overlap | 0.62 | 1.60 |" in (out / "table-1-time-speedup.md").read_text()
    assert r"10 & 2 & overlap & 0.62 & 1.60 &" in (out / "table-1-time-speedup.tex").read_text()


def test_ladder_table_has_the_batch_that_does_not_fit(tmp_path):
    out = tmp_path / "out"
    assert main(["report", str(write_ladder(tmp_path / "l.h5")), "--out", str(out)]) == 0
    text = (out / "batch-ladder.md").read_text()
    assert (
        "| 128 | complete | 20.00 | 19.00 | 2,500.0 | 3 steps, extrapolated | 400 | 410 |" in text
    )
    assert "| 512 | out of memory | – | – | – | – | 1,600 | – |" in text
    assert (out / "batch-ladder.png").exists()


def test_sweep_in_the_columns_of_a_bus_bandwidth_table(tmp_path):
    out = tmp_path / "out"
    assert main(["tables", str(write_sweep(tmp_path / "s.h5")), "--out", str(out)]) == 0
    with (out / "allreduce-sweep.csv").open() as file:
        first, second = csv.DictReader(file)
    assert second["algorithm"] == "direct"
    # 1e6 bytes in 1e-3 s on 2 ranks: algbw = 1 GB/s, busbw = 2*(2-1)/2 * algbw
    assert float(first["algbw"]) == pytest.approx(1.0)
    assert float(first["busbw"]) == pytest.approx(1.0)


def test_summary_has_epoch_time_throughput_and_communication(runs, capsys):
    assert main(["summary", runs[1]]) == 0
    text = capsys.readouterr().out
    assert "An epoch takes 0.62 s (100 images in 5 steps)" in text
    assert "160.0 images/s" in text
    assert "20.0% of the epoch" in text  # exposed communication: 0.025 s of 0.125 s
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 100


def test_device_readings_are_reported(tmp_path, capsys):
    """2 ranks use 50 J each in an epoch of 1.25 s and 100 images: 1 J per image, 40 W per rank."""
    path = write_run(tmp_path / "g.h5", phases(20, TWO, TWO), 10, epochs=2, batch=5)
    assert main(["summary", str(path)]) == 0
    assert "Device:" not in capsys.readouterr().out
    with h5py.File(path, "r+") as file:
        for name, values in (
            ("energy_joules", [[90, 90], [50, 50]]),
            ("utilisation", [[0.5, 0.5], [0.9, 1.0]]),
            ("memory_used_bytes", [[1e9, 2e9], [1e9, 2e9]]),
        ):
            dataset(file, f"/epochs/{name}", np.array(values, float))
    assert main(["summary", str(path)]) == 0
    line = "Device: 1 J per image, 40 W per device, GPU utilisation 95%, "
    assert line + "2.00 GB of device memory in use." in capsys.readouterr().out
    assert main(["validate", str(path)]) == 0
    with h5py.File(path, "r+") as file:
        file["epochs/energy_joules"][1, 0] = np.nan
    assert main(["summary", str(path)]) == 0
    assert "Device: GPU utilisation" in capsys.readouterr().out


def test_summary_of_a_failed_run_has_the_failure(tmp_path, capsys):
    path = write_run(
        tmp_path / "f.h5", phases(4, STEP), 10, status="failed", failure="loss is not finite"
    )
    assert main(["summary", str(path)]) == 0
    assert "loss is not finite" in capsys.readouterr().out


def test_epoch_times_from_a_csv(tmp_path):
    out = tmp_path / "out"
    assert main(["tables", "--csv", str(OWN), "--out", str(out)]) == 0
    assert "| 100 | 2 | synchronous | 25.00 |" in (out / "table-1-time-speedup.md").read_text()
    assert "ONE all-reduce" in (out / "own-times-published_bandwidth_gb_per_s.md").read_text()


def test_published_prints_verdicts(capsys):
    assert main(["published", str(OWN)]) == 0
    text = capsys.readouterr().out
    assert "| published_speedup_t1_over_tn | agrees |" in text
    assert "| published_speedup | differs |" in text


def test_files_of_the_format_are_valid(runs, tmp_path, capsys):
    for path in (*runs, write_ladder(tmp_path / "l.h5"), write_sweep(tmp_path / "s.h5")):
        assert main(["validate", str(path)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "damage, complaint",
    [
        (lambda f: f.__delitem__("steps/loss"), "dataset /steps/loss is missing"),
        (
            lambda f: f["steps/loss"].attrs.__delitem__("units"),
            "/steps/loss has no attribute units",
        ),
        (lambda f: f.attrs.__delitem__("run_id"), "attribute run_id of the root is missing"),
        (lambda f: f.attrs.__setitem__("status", "fine"), 'status is "fine"'),
        (
            lambda f: f["steps/images"].dims[0].detach_scale(f["step"]),
            "/steps/images: the scale /step is not attached to dimension 0",
        ),
        (
            lambda f: f["steps/phase_seconds"].__setitem__((0, 0, 0), -1.0),
            "has -1, which is not a number from 0 on",
        ),
        (lambda f: f["steps/phase_seconds"].__setitem__((0, 0, 0), np.nan), "has nan, which"),
        (lambda f: f.__delitem__("environment"), "group /environment is missing"),
        (
            lambda f: f.__delitem__("epochs/parameter_hash"),
            "dataset /epochs/parameter_hash is missing",
        ),
        (
            lambda f: f.__delitem__("epochs/evaluation_seconds"),
            "dataset /epochs/evaluation_seconds is missing",
        ),
    ],
)
def test_validate_lists_each_problem(runs, damage, complaint):
    with h5py.File(runs[0], "r+") as file:
        damage(file)
    found = problems(runs[0])
    assert any(complaint in line for line in found), found
    assert len(found) == 1
    assert main(["validate", runs[0]]) == 3


def test_not_hdf5(tmp_path, capfd):
    path = tmp_path / "x.h5"
    path.write_text("not HDF5")
    status, line = failure(capfd, "summary", path)
    assert status == 3 and "not an HDF5 file" in line


def test_cut_off_file(runs, capfd):
    data = Path(runs[0]).read_bytes()
    Path(runs[0]).write_bytes(data[: len(data) // 2])
    status, line = failure(capfd, "summary", runs[0])
    assert status == 3 and "cut-off" in line


def test_no_such_file(tmp_path, capfd):
    status, line = failure(capfd, "tables", tmp_path / "none.h5", "--out", tmp_path / "out")
    assert status == 3 and "no such file" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name, value, complaint",
    [
        ("format", "something", 'its format is "something"'),
        ("format_version", 2, "run file of version 2; this lockstep-report reads only version 3"),
    ],
)
def test_another_format(runs, capfd, name, value, complaint):
    with h5py.File(runs[0], "r+") as file:
        file.attrs[name] = value
    status, line = failure(capfd, "summary", runs[0])
    assert status == 3 and complaint in line


def test_missing_dataset(runs, capfd):
    with h5py.File(runs[0], "r+") as file:
        del file["steps/images"]
    status, line = failure(capfd, "summary", runs[0])
    assert status == 3 and "/steps/images is missing" in line


def test_no_steps(tmp_path, capfd):
    path = write_run(tmp_path / "e.h5", np.zeros((0, 1, 6)), 10, status="running", epoch_of_step=[])
    status, line = failure(capfd, "tables", path, "--out", tmp_path / "out")
    assert status == 3 and "holds no steps" in line


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("a,b\n1,2\n", "no column ranks or gpus or workers"),
        ("ranks,epoch_seconds\n", "no column"),
        ("ranks,epoch_seconds\n1,fast\n", 'epoch_seconds is "fast"'),
        ("ranks,epoch_seconds\n1.5,3\n", "ranks is 1.5"),
        ("ranks,epoch_seconds\n1,0\n", "no line has a result (epoch_seconds is 0 in 1 line)"),
        ("ranks,epoch_seconds\n1,nan\n", "no line has a result (epoch_seconds is nan in 1 line)"),
    ],
)
def test_bad_csv(tmp_path, capfd, text, complaint):
    path = tmp_path / "t.csv"
    path.write_text(text)
    status, line = failure(capfd, "tables", "--csv", path, "--out", tmp_path / "out")
    assert status == 3 and complaint in line


def test_out_that_cannot_be_written(runs, tmp_path, capfd):
    blocked = tmp_path / "file"
    blocked.write_text("kept")
    status, line = failure(capfd, "report", *runs, "--out", blocked / "deep")
    assert status == 6 and "cannot be written" in line
    assert blocked.read_text() == "kept"


def test_nothing_given_is_a_usage_error(tmp_path, capfd):
    assert failure(capfd, "tables", "--out", tmp_path)[0] == 2
    with pytest.raises(SystemExit) as stop:
        main(["tables", "--link-gbit", "-1", "--out", str(tmp_path)])
    assert stop.value.code == 2
