# SPDX-License-Identifier: BSD-3-Clause
"""Tests thread scaling: groups, speedups of the passes, and the figure."""

from lockstep_report.cli import main
from lockstep_report.measure import points
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.threads import thread_groups, thread_tables
from synthetic import phases, write_run

#          data_wait upload forward backward exposed update
ONE = (0.0, 0.0, 4.0, 8.0, 0.0, 1.0)
TWO = (0.0, 0.0, 2.0, 5.0, 0.0, 1.0)
FOUR = (0.0, 0.0, 2.0, 4.0, 0.0, 1.5)


def write(tmp_path, threads, step, **options):
    return write_run(
        tmp_path / f"t{threads}.h5",
        phases(20, step),
        32,
        epochs=2,
        config={"threads": str(threads), **options},
        ranks_of={"cpu_list": "0,2-3"},
    )


def found(paths):
    return merge_repeats([points.from_run(read_run(path)) for path in paths])


def test_each_pass_has_its_own_speedup(tmp_path):
    (table,) = thread_tables(
        found(write(tmp_path, n, s) for n, s in ((1, ONE), (2, TWO), (4, FOUR)))
    )
    assert [row["threads"] for row in table.rows] == [1, 2, 4]
    last = table.rows[-1]
    assert (last["forward_speedup"], last["backward_speedup"]) == (2.0, 2.0)
    assert round(last["update_speedup"], 6) == round(1 / 1.5, 6)
    assert round(last["speedup"], 6) == round(13 / 7.5, 6)
    assert round(last["efficiency"], 6) == round(13 / 7.5 / 4, 6)
    assert any("3 processors" in note for note in table.notes)


def test_speedups_are_relative_to_the_fewest_threads(tmp_path):
    (table,) = thread_tables(found(write(tmp_path, n, s) for n, s in ((2, TWO), (4, FOUR))))
    assert table.rows[0]["speedup"] == 1.0 and table.rows[0]["efficiency"] == 1.0
    assert round(table.rows[1]["efficiency"], 6) == round(8 / 7.5 / 2, 6)


def test_runs_that_differ_in_other_options_are_separate_groups(tmp_path):
    paths = [write(tmp_path, 1, ONE), write(tmp_path, 2, TWO, augment="none")]
    assert not thread_groups(found(paths))


def test_tables_of_several_groups_are_numbered(tmp_path):
    paths = [
        write_run(
            tmp_path / f"{batch}-{threads}.h5",
            phases(20, step),
            batch,
            epochs=2,
            config={"threads": str(threads)},
        )
        for batch in (32, 64)
        for threads, step in ((1, ONE), (2, TWO))
    ]
    assert [table.name[:17] for table in thread_tables(found(paths))] == [
        "thread-scaling-1-",
        "thread-scaling-2-",
    ]


def test_gpu_runs_have_no_thread_scaling(tmp_path):
    paths = [write(tmp_path, n, s, device="cuda") for n, s in ((1, ONE), (2, TWO))]
    assert not thread_groups(found(paths))


def test_report_has_table_and_figure(tmp_path):
    paths = [write(tmp_path, n, s) for n, s in ((1, ONE), (2, TWO))]
    out = tmp_path / "out"
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    page = (out / "report.md").read_text()
    assert "### Thread scaling: resnet18-cifar, batch 32 per rank, 1 rank" in page
    assert "3 processors" in (out / "thread-scaling.svg").read_text()
