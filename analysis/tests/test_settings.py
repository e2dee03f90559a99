# SPDX-License-Identifier: BSD-3-Clause
"""Tests which runs count as repeats of one point and which runs are compared."""

import h5py
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.settings import file_endings
from lockstep_report.tables.scaling import weak_table
from lockstep_report.tables.times import time_table
from synthetic import phases, write_run


def point(path, ranks=1, seconds=0.1, **options):
    return from_run(
        read_run(
            write_run(
                path,
                phases(20 // ranks, *[(0, 0, seconds, 0, 0, 0)] * ranks),
                10 * ranks,
                epochs=2,
                batch=10,
                **options,
            )
        )
    )


@pytest.mark.parametrize(
    "options",
    [
        {"ranks_of": {"device_name": "H200"}},
        {"ranks_of": {"hostname": ["node1", "node2"]}},
        {"attributes": {"git_commit": "def"}},
        {"attributes": {"git_dirty": 1}},
        {"attributes": {"program": "pytorch"}},
        {"config": {"link-gbit": "25"}},
        {"config": {"model": "vgg11"}},
        {"config": {"device": "reference"}},
        {"config": {"precision": "bf16"}},
        {"config": {"threads": "2"}},
        {"config": {"data": "synthetic:5000"}},
        {"config": {"all-reduce": "ring"}},
        {"config": {"conv-algorithm": "direct"}},
        {"config": {"option-of-a-later-version": "1"}},
    ],
)
def test_runs_that_differ_in_what_changes_the_time_are_no_repeats(tmp_path, options):
    merged = merge_repeats([point(tmp_path / "a.h5", 2), point(tmp_path / "b.h5", 2, **options)])
    assert [p.repeats for p in merged] == [1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ranks_of": {"hostname": "node7"}},
        {"config": {"seed": "5"}},
        {"config": {"output": "b.h5"}},
        {"config": {"watchdog": "5"}},
        {"attributes": {"date_utc": "2026-02-02T00:00:00Z"}},
    ],
)
def test_runs_that_differ_in_nothing_else_are_repeats(tmp_path, options):
    merged = merge_repeats([point(tmp_path / "a.h5", 2), point(tmp_path / "b.h5", 2, **options)])
    assert [p.repeats for p in merged] == [2]


def test_the_rate_of_the_link_does_not_matter_to_one_rank(tmp_path):
    merged = merge_repeats(
        [point(tmp_path / "a.h5"), point(tmp_path / "b.h5", config={"link-gbit": "25"})]
    )
    assert [p.repeats for p in merged] == [2]


def test_hosts_are_counted_by_the_column_host_if_names_are_equal(tmp_path):
    """Containers can have equal host names on different hosts."""
    path = write_run(tmp_path / "a.h5", phases(20, *[(0, 0, 0.1, 0, 0, 0)] * 2), 20)
    with h5py.File(path, "r+") as file:
        file["ranks/host"][...] = [0, 1]
    assert read_run(path).host_count == 2
    assert main(["validate", str(path)]) == 0


def test_two_thread_counts_are_two_settings_with_their_own_base_cases(tmp_path):
    """Seconds per 10 images: 0.4 on 1 rank and 0.2 on 2 with 1 thread; 0.2 and 0.16 with 2."""

    def run(name, ranks, seconds, threads):
        return point(tmp_path / name, ranks, seconds, config={"threads": threads})

    table = time_table(
        merge_repeats(
            [
                run("a.h5", 1, 0.4, "1"),
                run("b.h5", 2, 0.4, "1"),
                run("c.h5", 1, 0.2, "2"),
                run("d.h5", 2, 0.32, "2"),
            ]
        )
    )
    assert [(r["setting"], r["ranks"], r["speedup"]) for r in table.rows] == [
        ("1 thread per rank", 1, 1),
        ("1 thread per rank", 2, pytest.approx(2.0)),
        ("2 threads per rank", 1, 1),
        ("2 threads per rank", 2, pytest.approx(1.25)),
    ]


def test_two_programs_are_two_settings_with_their_own_base_cases(tmp_path):
    def run(name, ranks, seconds, **attributes):
        return point(tmp_path / name, ranks, seconds, attributes=attributes)

    points = merge_repeats(
        [
            run("a.h5", 1, 0.4),
            run("b.h5", 2, 0.4),
            run("c.h5", 1, 0.2, program="pytorch"),
            run("d.h5", 2, 0.25, program="pytorch", software_version="2.4", git_commit="e"),
        ]
    )
    table = time_table(points)
    assert [(r["setting"], r["ranks"], r["speedup"]) for r in table.rows] == [
        ("lockstep", 1, 1),
        ("lockstep", 2, pytest.approx(2.0)),
        ("pytorch", 1, 1),
        ("pytorch", 2, pytest.approx(1.6)),
    ]
    assert points[-1].version == "pytorch 2.4, commit e"
    assert [
        r["speedup"]
        for r in time_table(
            merge_repeats([run("a.h5", 1, 0.4), run("d.h5", 2, 0.25, program="pytorch")])
        ).rows
    ] == [1, None]


def test_another_number_of_threads_is_no_base_case(tmp_path):
    table = time_table(
        merge_repeats(
            [point(tmp_path / "a.h5", config={"threads": "2"}), point(tmp_path / "b.h5", 2)]
        )
    )
    assert [r["speedup"] for r in table.rows] == [None, 1]  # 1 thread on 2 ranks, 2 threads on 1
    assert "batch 10: no 1-rank run with the same setting and batch per rank" in " ".join(
        table.footnotes
    )


def test_threads_do_not_separate_runs_on_gpus(tmp_path):
    gpu = {"device": "cuda"}
    one = point(tmp_path / "a.h5", config={**gpu, "threads": "8"})
    two = point(tmp_path / "b.h5", 2, config={**gpu, "threads": "4"})
    assert one.setting == two.setting


def test_tables_name_the_setting(tmp_path):
    config = {"data": "synthetic:100", "train-samples": "100"}
    points = merge_repeats(
        [point(tmp_path / "a.h5", ranks_of={"device_name": "AMD EPYC"}, config=config)]
    )
    for table in (time_table(points), weak_table(points)):
        assert (
            "setting: resnet18-cifar, cpu (AMD EPYC), fp32, synthetic, 100 images, "
            "1 thread per rank, host node1, lockstep 0.1.0, commit abc" in table.notes
        )


def test_the_report_names_every_setting(tmp_path):
    paths = []
    for name in ("A100", "H200"):
        paths.append(str(tmp_path / f"{name}.h5"))
        point(tmp_path / f"{name}.h5", ranks_of={"device_name": name})
    assert main(["report", *paths, "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    for name in ("A100", "H200"):
        assert f"> - Setting: resnet18-cifar, cpu ({name}), fp32, 100 images, 1 thread" in page
        assert f"\n| {name} | 10 | 1 |" in page


def test_similar_names_have_different_file_endings():
    names = {1: "Data a_b", 2: "data a-b", 3: "", 4: "data a b", 5: "c"}
    assert file_endings(names) == {
        1: "-data-a-b",
        2: "-data-a-b-2",
        3: "",
        4: "-data-a-b-3",
        5: "-c",
    }
