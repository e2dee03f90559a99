# SPDX-License-Identifier: BSD-3-Clause
"""Tests the table and the figure that compare gradient reducers."""

import h5py
import numpy as np
from lockstep_report.cli import main
from lockstep_report.measure.points import from_run
from lockstep_report.runfile import input_files
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.reducers import compared_points
from synthetic import dataset, phases, write_run


def write_reducer(path, reducer, exposed, sent=None, hosts=("node1", "node1"), **options):
    """Writes a run of 2 ranks, 4 steps and 2 epochs: 10 ms forward, 20 ms backward, 2 ms update and
    `exposed` ms of communication on both ranks. `sent`: bytes per step of each rank; the ranks
    receive what the other one sends."""
    rank = (0, 0, 0.010, 0.020, exposed / 1e3, 0.002)
    write_run(
        path,
        phases(8, rank, rank),
        64,
        epochs=2,
        reducer=reducer,
        ranks_of={"hostname": list(hosts)},
        **options,
    )
    if sent is not None:
        with h5py.File(path, "a") as file:
            for name, values in (("sent", sent), ("received", sent[::-1])):
                dataset(
                    file, f"/steps/{name}_bytes", np.tile(np.array(values, dtype=float), (8, 1))
                )
    return path


def rows_of(out):
    lines = (out / "reducers.md").read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]


def test_reducers_are_compared_per_step(tmp_path):
    paths = [
        write_reducer(tmp_path / "a.h5", "allreduce", 8, (5e6, 5e6)),
        write_reducer(tmp_path / "b.h5", "gather-scatter", 16, (9e6, 3e6)),
    ]
    out = tmp_path / "out"
    assert main(["tables", *map(str, paths), "--out", str(out)]) == 0
    head, _, *rows = rows_of(out)
    found = {row[head.index("Mode")]: dict(zip(head, row)) for row in rows}
    assert list(found) == ["allreduce", "gather-scatter"]
    passes = {"Forward (ms)": "10.0", "Backward (ms)": "20.0", "Update (ms)": "2.0"}
    allreduce = {
        "Exposed communication (ms)": "8.0",
        "Step (ms)": "40.0",
        "Sent, most of a rank (MB)": "5.00",
        "Received, most of a rank (MB)": "5.00",
        "Sent by all ranks (MB)": "10.00",
    }
    gather_scatter = {
        "Exposed communication (ms)": "16.0",
        "Step (ms)": "48.0",
        "Sent, most of a rank (MB)": "9.00",
        "Received, most of a rank (MB)": "9.00",
        "Sent by all ranks (MB)": "12.00",
    }
    assert found["allreduce"].items() >= (passes | allreduce).items()
    assert found["gather-scatter"].items() >= (passes | gather_scatter).items()


def test_one_reducer_is_no_comparison(tmp_path):
    paths = [write_reducer(tmp_path / f"{name}.h5", "overlap", 8, (5e6, 5e6)) for name in "ab"]
    assert compared_points([from_run(read_run(path)) for path in paths]) == []
    out = tmp_path / "out"
    assert main(["tables", *map(str, paths), "--out", str(out)]) == 0
    assert not (out / "reducers.md").exists()


def test_traffic_that_is_not_known_is_missing(tmp_path):
    nan = float("nan")
    point = from_run(read_run(write_reducer(tmp_path / "a.h5", "allreduce", 8, (nan, nan))))
    assert point.sent_bytes is None and point.all_sent_bytes is None
    old = from_run(read_run(write_reducer(tmp_path / "b.h5", "allreduce", 8)))
    assert old.sent_bytes is None
    paths = [tmp_path / "a.h5", write_reducer(tmp_path / "c.h5", "overlap", 4, (5e6, 5e6))]
    out = tmp_path / "out"
    assert main(["figures", *map(str, paths), "--out", str(out)]) == 0
    figure = next(out.glob("reducers*.svg")).read_text()
    for text in ("not known", "allreduce", "overlap", "MB sent per step", "exposed communication"):
        assert text in figure


def test_the_figure_names_the_hosts(tmp_path):
    hosts = ("node1", "node2")
    paths = [
        write_reducer(
            tmp_path / f"{reducer}.h5", reducer, 8, (5e6, 5e6), hosts, attributes={"part": 1}
        )
        for reducer in ("overlap", "parameter-server")
    ]
    out = tmp_path / "out"
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    assert "2 hosts" in next(out.glob("reducers*.svg")).read_text()
    assert "Gradient reducers: the phases of a step" in (out / "report.md").read_text()


def test_joined_parts_keep_their_traffic(tmp_path):
    runs = [
        read_run(
            write_reducer(
                tmp_path / f"{part}.h5",
                "overlap",
                8,
                (part * 1e6, 0),
                attributes={"part": part, "run_id": "same", "first_step": 8 * (part - 1)},
            )
        )
        for part in (1, 2)
    ]
    joined = input_files.join_parts(runs)
    assert joined.traffic["sent"].tolist() == [[1e6, 0]] * 8 + [[2e6, 0]] * 8
