# SPDX-License-Identifier: BSD-3-Clause
"""Tests tables, reports and summaries of batch ladders and all-reduce sweeps."""

import csv

from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.ladder import ladder_run_tables
from synthetic import phases, write_ladder, write_run, write_sweep


def page_of(tmp_path, *paths):
    out = tmp_path / "out"
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    return (out / "report.md").read_text()


def test_extrapolated_points_are_marked(tmp_path):
    page = page_of(tmp_path, write_ladder(tmp_path / "l.h5"))
    assert (
        "| 32 | complete | 40.00 | 39.00 | 1,250.0 | complete epoch, 1562 steps | 100 | 110 |"
        in page
    )
    assert (
        "| 128 | complete | 20.00 | 19.00 | 2,500.0 | 3 steps, extrapolated | 400 | 410 |" in page
    )
    assert "- extrapolated: the epoch was not run to its end" in page
    with (tmp_path / "out" / "batch-ladder.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["steps"], r["is_extrapolated"]) for r in rows][:2] == [("1562", "0"), ("3", "1")]
    assert "extrapolated" in (tmp_path / "out" / "batch-ladder.svg").read_text()


def test_the_report_of_a_ladder_says_nothing_about_base_cases(tmp_path):
    page = page_of(tmp_path, write_ladder(tmp_path / "l.h5"))
    for words in ("Base case", "n = 1", "one rank", "Warm-up"):
        assert words not in page
    assert "### Batch ladder: 1 rank (device)" in page
    assert "setting: resnet18-cifar, cpu (device), 1 thread per rank, host node1" in page


def test_ladders_of_other_ranks_machines_and_threads_are_separate_tables(tmp_path):
    runs = [
        read_run(write_ladder(tmp_path / name, **options))
        for name, options in (
            ("a.h5", {}),
            ("b.h5", {"ranks": 2}),
            ("c.h5", {"ranks_of": {"device_name": "H200"}}),
            ("d.h5", {"config": {"threads": "2"}}),
            ("e.h5", {"ranks": 2, "ranks_of": {"hostname": ["node1", "node2"]}}),
        )
    ]
    tables = ladder_run_tables(runs)
    assert [t.title for t in tables] == [
        "Batch ladder: 1 rank (device), 1 thread per rank",
        "Batch ladder: 2 ranks (device), 1 thread per rank",
        "Batch ladder: 1 rank (H200), 1 thread per rank",
        "Batch ladder: 1 rank (device), 2 threads per rank",
        "Batch ladder: 2 ranks on 2 hosts (device), 1 thread per rank",
    ]
    assert len({t.name for t in tables}) == 5
    assert all(len(t.rows) == 3 for t in tables)


def test_two_ladders_of_one_setting_keep_all_rows_and_name_the_file(tmp_path):
    runs = [read_run(write_ladder(tmp_path / name)) for name in ("a.h5", "b.h5")]
    (table,) = ladder_run_tables(runs)
    assert [row["source"] for row in table.rows] == ["a.h5"] * 3 + ["b.h5"] * 3


def test_an_unfinished_ladder_is_marked(tmp_path):
    page = page_of(tmp_path, write_ladder(tmp_path / "l.h5", status="failed"))
    assert "l.h5: the ladder did not finish (status failed); larger batches may fit" in page


def test_batches_of_training_runs_with_two_thread_counts(tmp_path):
    paths = []
    for threads, seconds in (("1", 0.4), ("2", 0.2)):
        for batch in (10, 20):
            path = tmp_path / f"{threads}-{batch}.h5"
            paths.append(
                write_run(
                    path,
                    phases(200 // batch, (0, 0, seconds, 0, 0, 0)),
                    batch,
                    epochs=2,
                    batch=batch,
                    config={"threads": threads},
                )
            )
    page = page_of(tmp_path, *paths)
    assert page.count("### Batch sizes on 1 rank") == 2


def test_summary_of_a_ladder_prints_its_table(tmp_path, capsys):
    assert main(["summary", str(write_ladder(tmp_path / "l.h5"))]) == 0
    text = capsys.readouterr().out
    assert "No steps" not in text
    assert "Batch ladder: 1 rank (device):" in text
    (line,) = [line for line in text.splitlines() if line.strip().startswith("128")]
    assert line.split() == [
        "128",
        "complete",
        "20.00",
        "19.00",
        "2,500.0",
        "3",
        "steps,",
        "extrapolated",
        "400",
        "410",
    ]


def test_summary_of_a_sweep_prints_its_table(tmp_path, capsys):
    assert main(["summary", str(write_sweep(tmp_path / "s.h5"))]) == 0
    text = capsys.readouterr().out
    assert "No steps" not in text
    assert "Median time (µs)" in text and "1,000 " in text


def test_sweep_figure_shows_every_algorithm_and_the_link(tmp_path):
    out = tmp_path / "out"
    path = str(write_sweep(tmp_path / "s.h5", hosts=["node1", "node2"]))
    assert main(["figures", path, "--link-gbit", "10", "--out", str(out)]) == 0
    text = (out / "allreduce-sweep.svg").read_text()
    assert all(word in text for word in ("mpi", "direct", "link, 10 Gbit/s", "2 ranks"))
