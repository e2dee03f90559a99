# SPDX-License-Identifier: BSD-3-Clause
"""Tests how run files become points and rows of tables."""

from dataclasses import replace

import numpy as np
import pytest
from lockstep_report.measure import points
from lockstep_report.measure.comparison import independent_of, merge_repeats
from lockstep_report.models.answers import scaling as answers_scaling
from lockstep_report.runfile.read import read_run
from lockstep_report.tables import scaling as tables_scaling
from lockstep_report.tables.bandwidth import bandwidth_table
from lockstep_report.tables.communication import split_table
from lockstep_report.tables.method import method_lines
from lockstep_report.tables.registry import all_tables
from lockstep_report.tables.scaling import strong_table, weak_table
from lockstep_report.tables.times import time_table
from synthetic import phases, write_clocks, write_run


@pytest.fixture
def scaling_set(tmp_path):
    """Three runs with 10 images per rank and step. Step time: 0.1 s on one rank (40 steps per
    epoch), 0.125 s on two ranks (20 steps per epoch), 0.1 s on two ranks without communication.
    Each run has two epochs; the first is twice as slow and must not affect the result."""

    def write(name, step, ranks, steps, **options):
        epoch = phases(steps, *[step] * ranks)
        seconds = np.concatenate([2 * epoch, epoch])
        path = write_run(tmp_path / name, seconds, 10 * ranks, epochs=2, batch=10, **options)
        ends = np.cumsum(seconds.sum(axis=2), axis=0)
        write_clocks(path, ends - ends[0])
        return points.from_run(read_run(path))

    one = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)
    two = (0.01, 0.01, 0.03, 0.04, 0.025, 0.01)
    # buckets of 100 and 300 bytes: the union of [0.05, 0.07] and [0.06, 0.115] lasts 0.065 s
    buckets = {
        "bucket_bytes": [100, 300],
        "bucket_start": [0.05, 0.06],
        "bucket_end": [0.07, 0.115],
    }
    return merge_repeats(
        [
            write("one.h5", one, 1, 40),
            write("two.h5", two, 2, 20, **buckets),
            write("alone.h5", one, 2, 20, reducer="none"),
        ]
    )


def row_of(table, **wanted):
    rows = [r for r in table.rows if all(r[k] == v for k, v in wanted.items())]
    assert len(rows) == 1
    return rows[0]


def test_point_of_a_run(scaling_set):
    two = next(p for p in scaling_set if p.reducer == "overlap" and p.ranks == 2)
    assert two.epoch_seconds == pytest.approx(20 * 0.125)
    assert two.training_seconds == pytest.approx(20 * 0.115)
    assert two.images_per_second == pytest.approx(20 / 0.125)
    assert two.compute_seconds == pytest.approx(20 * 0.09)
    assert two.exposed_seconds == pytest.approx(0.5)
    assert two.allreduce_seconds == pytest.approx(20 * 0.065)
    assert two.hidden_seconds == pytest.approx(0.8)
    assert two.bytes_per_step == 400
    assert (two.steps, two.global_batch) == (20, 20)


def test_table_1(scaling_set):
    table = time_table(scaling_set)
    row = row_of(table, mode="overlap")
    assert row["speedup"] == pytest.approx(4.0 / 2.5)
    assert row["scaled_speedup"] == pytest.approx(2 * 4.0 / 2.5)
    assert row_of(table, mode="1 rank")["speedup"] == 1


def test_table_2_measured_beside_derived(scaling_set):
    row = row_of(split_table(scaling_set), mode="overlap")
    assert row["derived_compute"] == pytest.approx(2.0)
    assert row["derived_communication"] == pytest.approx(0.5)
    assert row["exposed"] == pytest.approx(0.5)
    assert row["data_wait"] == pytest.approx(0.2)
    parts = ("compute", "exposed", "data_wait", "imbalance")
    assert sum(row[p] for p in parts) == pytest.approx(row["epoch_seconds"])


def test_table_3(scaling_set):
    table = bandwidth_table(
        [replace(p, host_count=2, link_bytes=400) for p in scaling_set], link_gbit=1e-4
    )
    row = row_of(table, ranks=2)  # the only row: not the 1-rank run, not the independent run
    # 2*(2-1)/2 * 400 bytes * 20 steps = 8000 bytes; measured 1.3 s, derived 0.5 s
    assert row["measured_gb_s"].value == pytest.approx(8000 / 1.3 / 1e9)
    assert row["derived_gb_s"] == pytest.approx(8000 / 0.5 / 1e9)
    assert row["derived_percent"] == pytest.approx(100 * 8 * 16000 / 1e5)


def test_weak_scaling_has_both_baselines(scaling_set):
    row = row_of(weak_table(scaling_set), mode="overlap")
    assert row["efficiency"] == pytest.approx(0.1 / 0.125)
    assert row["efficiency_independent"] == pytest.approx(0.1 / 0.125)
    assert row["step_low_ms"] == pytest.approx(125)


def test_the_no_communication_baseline_is_a_run_without_a_reducer(scaling_set):
    two = next(p for p in scaling_set if p.reducer == "overlap" and p.ranks == 2)
    for order in (scaling_set, scaling_set[::-1]):
        assert independent_of(two, order).reducer == "none"


def test_independent_replicas_are_marked_in_every_table(scaling_set):
    for table in all_tables(scaling_set, []):
        if any(row.get("ranks") == 2 and row.get("mode") != "overlap" for row in table.rows):
            assert any("baseline" in note for note in table.footnotes), table.name
            row_of(table, mode="independent replicas, no communication")


def test_strong_scaling_needs_the_same_global_batch(tmp_path):
    one = points.from_run(
        read_run(write_run(tmp_path / "a.h5", phases(10, (0, 0, 0.2, 0.2, 0, 0)), 20, batch=20))
    )
    two = points.from_run(
        read_run(
            write_run(tmp_path / "b.h5", phases(10, *[(0, 0, 0.1, 0.1, 0.05, 0)] * 2), 20, batch=10)
        )
    )
    row = row_of(strong_table([one, two]), ranks=2)
    assert row["speedup"] == pytest.approx(0.4 / 0.25)
    assert row["efficiency"] == pytest.approx(0.8)
    assert strong_table([one]).rows == []
    times = time_table([one, two])
    assert [row["ranks"] for row in times.printed_rows] == [1]
    assert [row["epoch_seconds"] for row in times.rows] == [one.epoch_seconds, two.epoch_seconds]
    assert any("in the table of strong scaling" in str(note) for note in times.notes)
    base = replace(one, batch_per_rank=10)
    assert len(time_table([one, two, base]).printed_rows) == 3
    assert len(time_table([two]).printed_rows) == 1  # no table of strong scaling


def test_ideal_speedup_has_a_serial_fraction_of_0(tmp_path):
    one = points.from_run(
        read_run(write_run(tmp_path / "a.h5", phases(10, (0, 0, 0.2, 0.2, 0, 0)), 20, batch=20))
    )
    two = replace(one, ranks=2, epoch_seconds=one.epoch_seconds / 2, batch_per_rank=10)
    assert row_of(strong_table([one, two]), ranks=2)["karp_flatt"] == 0
    two = replace(two, batch_per_rank=20)
    assert row_of(weak_table([one, two]), ranks=2)["karp_flatt"] == 0


def test_imbalance_is_what_the_slowest_rank_adds(tmp_path):
    run = read_run(
        write_run(
            tmp_path / "a.h5", phases(10, (0, 0, 0.1, 0, 0, 0), (0, 0, 0.3, 0, 0, 0)), 20, batch=10
        )
    )
    point = points.from_run(run)
    # one epoch of 10 steps: the first step is warm-up, so 9 steps are scaled to 10
    assert point.epoch_seconds == pytest.approx(3.0)
    assert point.phase_seconds["forward"] == pytest.approx(2.0)
    assert point.phase_seconds["imbalance"] == pytest.approx(1.0)


def test_a_run_of_few_steps_is_scaled_to_the_data_set(tmp_path):
    run = read_run(
        write_run(
            tmp_path / "a.h5",
            phases(10, (0, 0, 0.1, 0.1, 0, 0)),
            20,
            batch=20,
            config={"steps": "10", "train-samples": "1000"},
        )
    )
    point = points.from_run(run)
    assert point.scaled
    assert point.steps == 50
    assert point.epoch_seconds == pytest.approx(50 * 0.2)
    assert point.images_per_second == pytest.approx(100)


def test_repeats_become_medians_with_an_interval_from_six(tmp_path):
    def repeats(count):
        return merge_repeats(
            [
                points.from_run(
                    read_run(
                        write_run(
                            tmp_path / f"{count}-{i}.h5",
                            phases(20, (0, 0, 0.1 * (i + 1), 0, 0, 0)),
                            10,
                            epochs=2,
                            batch=10,
                        )
                    )
                )
                for i in range(count)
            ]
        )

    (five,) = repeats(5)
    assert five.repeats == 5 and five.epoch_interval is None
    assert five.epoch_seconds == pytest.approx(3.0)
    (six,) = repeats(6)
    assert six.epoch_seconds == pytest.approx(3.5)
    assert (six.epoch_interval.low, six.epoch_interval.high) == pytest.approx((1.0, 6.0))


def test_runs_that_evaluate_are_no_repeats_of_runs_that_do_not(tmp_path):
    """Their epochs take 1 s and 5 s: the median of both would be no time of either study."""

    def made(name, seconds, **config):
        path = write_run(
            tmp_path / name, phases(20, (0, 0, seconds, 0, 0, 0)), 10, epochs=2, config=config
        )
        return points.from_run(read_run(path))

    timed = made("timed.h5", 0.1, **{"evaluate-every": "never"})
    evaluated = made("accuracy.h5", 0.5, **{"evaluate-every": "1"})
    (both,) = merge_repeats([evaluated, timed])
    assert both.epoch_seconds == pytest.approx(1.0) and both.repeats == 1
    assert any(note.startswith("accuracy.h5 evaluates its test accuracy") for note in both.notes)
    (alone,) = merge_repeats([evaluated])
    assert alone.epoch_seconds == pytest.approx(5.0) and alone.notes == evaluated.notes


def test_other_models_are_no_base_case(tmp_path):
    one = points.from_run(
        read_run(
            write_run(
                tmp_path / "a.h5",
                phases(10, (0, 0, 0.1, 0, 0, 0)),
                10,
                batch=10,
                config={"model": "vgg11"},
            )
        )
    )
    two = points.from_run(
        read_run(
            write_run(tmp_path / "b.h5", phases(10, *[(0, 0, 0.1, 0, 0, 0)] * 2), 20, batch=10)
        )
    )
    table = time_table(merge_repeats([one, two]))
    assert row_of(table, ranks=2)["speedup"] is None
    assert row_of(table, ranks=1)["setting"] == "vgg11, 100 images"  # the other run: 200 images


def test_runs_with_other_options_are_no_repeats(tmp_path):
    def write(name, seconds, **config):
        return points.from_run(
            read_run(
                write_run(
                    tmp_path / name,
                    phases(10, (0, 0, seconds, 0, 0, 0)),
                    10,
                    batch=10,
                    config=config,
                )
            )
        )

    merged = merge_repeats(
        [
            write("a.h5", 0.2, **{"conv-algorithm": "direct", "output": "a.h5", "seed": "1"}),
            write("b.h5", 0.1, **{"conv-algorithm": "winograd", "output": "b.h5", "seed": "1"}),
            write("c.h5", 0.3, **{"conv-algorithm": "direct", "output": "c.h5", "seed": "2"}),
        ]
    )
    assert [(p.mode, p.repeats) for p in merged] == [
        ("1 rank (conv-algorithm direct)", 2),
        ("1 rank (conv-algorithm winograd)", 1),
    ]
    assert merged[0].epoch_seconds == pytest.approx(2.5)


def test_the_base_case_has_the_most_options_in_common(tmp_path):
    def write(name, ranks, seconds, algorithm):
        return points.from_run(
            read_run(
                write_run(
                    tmp_path / name,
                    phases(10, *[(0, 0, seconds, 0, 0, 0)] * ranks),
                    10,
                    batch=10,
                    config={"conv-algorithm": algorithm},
                )
            )
        )

    table = time_table(
        merge_repeats(
            [
                write("a.h5", 1, 0.4, "direct"),
                write("b.h5", 1, 0.2, "winograd"),
                write("c.h5", 2, 0.1, "winograd"),
            ]
        )
    )
    assert row_of(table, ranks=2)["speedup"] == pytest.approx(2.0)


def test_the_method_lists_some_names_of_many_runs(tmp_path):
    rates = [("a", i, "0.1") for i in range(10)] + [("b", i, str(i + 1)) for i in range(10)]
    found = [
        points.from_run(
            read_run(
                write_run(
                    tmp_path / f"{name}-{i}.h5",
                    phases(10, (0, 0, 0.1, 0, 0, 0)),
                    10,
                    batch=10,
                    config={"conv-algorithm": rate},
                )
            )
        )
        for name, i, rate in rates
    ]
    lines = method_lines(merge_repeats(found), [])
    assert sum(line.startswith("Base case T(1): 1 rank") for line in lines) == 8
    assert any(line.startswith("Base case T(1): 3 more") for line in lines)
    names = ", ".join(f"a-{i}.h5" for i in range(8)) + " and 2 more"
    assert sum(f"n = 10 runs of {names}: medians" in line for line in lines) == 1
    assert all(line.count(".h5") <= 8 for line in lines)


def test_the_base_case_is_looked_up_once_per_point(tmp_path, monkeypatch):
    """The time of a table is not cubic in the number of points."""
    found = merge_repeats(
        [
            points.from_run(
                read_run(
                    write_run(
                        tmp_path / f"{i}.h5",
                        phases(10, *[(0, 0, 0.1, 0, 0, 0)] * (1 + i % 2)),
                        20,
                        batch=20 // (1 + i % 2),
                        config={"conv-algorithm": str(i // 2)},
                    )
                )
            )
            for i in range(20)
        ]
    )
    calls = []

    def counted(lookup):
        def call(*given):
            calls.append(lookup)
            return lookup(*given)

        return call

    for module in (tables_scaling, answers_scaling):
        for name in ("base_of", "strong_base_of"):
            monkeypatch.setattr(module, name, counted(getattr(module, name)))
    assert len(strong_table(found).rows) == 20
    assert len(calls) == 20
    assert len(answers_scaling.scaling_cases(found)) == 10
    assert len(calls) == 20 + 2 * 10


def test_processors_and_their_cores(tmp_path):
    def point(**columns):
        path = write_run(
            tmp_path / "a.h5", phases(2, *[(0, 0, 1, 1, 0, 0)] * 2), 2, ranks_of=columns
        )
        return points.from_run(read_run(path))

    found = point(cpu_list="0-3", core_list="0,2")
    assert (found.processors, found.cores) == (4, 2)
    assert point(cpu_list="0-3").cores is None
