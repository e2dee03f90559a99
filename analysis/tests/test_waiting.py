# SPDX-License-Identifier: BSD-3-Clause
"""Tests the split of the all-reduce into waiting and transfer."""

import csv
from dataclasses import asdict

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.figures.phases import waiting_bars
from lockstep_report.figures.style import render
from lockstep_report.measure import metrics
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.measure.waiting import Times, parts_within
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.validate import problems
from lockstep_report.tables.bandwidth import bandwidth_table
from lockstep_report.tables.summary import summary, summary_values
from synthetic import phases, write_clocks, write_run

# Two buckets on two ranks. Rank 0 has one in progress from 1 s to 6 s; rank 1 starts them after 3 s
# and 5 s. Rank 0 waits 3 s, and transfers from 3 s to 4 s and from 5 s to 6 s. Rank 1 is the last
# in both buckets, does not wait, and transfers for 1.5 s and 1 s.
START = np.array([[1.0, 2.0], [3.0, 5.0]])
END = np.array([[4.0, 6.0], [4.5, 6.0]])
STEPS = 4
BYTES = (300, 100)


def write(path, offset=((0, 0), (50, 53)), error=((0, 0), (1e-5, 3e-5)), starts=True, **options):
    """Writes one epoch of four steps of 10 s, of which the first is not timed. The clock of rank 1
    is ahead by `offset[1]`."""
    write_run(
        path,
        phases(STEPS, *[(0, 0, 4, 4, 2, 0)] * 2),
        20,
        batch=10,
        bucket_bytes=BYTES,
        bucket_start=START,
        bucket_end=END,
        **options,
    )
    times = 100.0 + 10 * np.arange(STEPS)[:, None] + np.zeros(2)
    times[:, 1] += np.linspace(*offset[1], STEPS)
    write_clocks(path, times, offset, error)
    if not starts:
        with h5py.File(path, "r+") as file:
            del file["/steps/start_seconds"]
    return path


def test_starts_are_on_the_clock_of_rank_0():
    starts = np.array([[10.0, 60], [20, 71], [30, 82]])
    common = metrics.common_start(starts, np.array([[0.0, 0], [50, 52]]))
    assert common.tolist() == [[10, 10], [20, 20], [30, 30]]


def test_an_epoch_of_one_step_uses_the_offset_at_its_begin():
    common = metrics.common_start(np.array([[10.0, 60]]), np.array([[0.0, 0], [50, 52]]))
    assert common.tolist() == [[10, 10]]


def test_transfer_begins_when_the_last_rank_starts_the_bucket():
    assert parts_within(Times(None, START[None], END[None], 0.0))[1].tolist() == [[2.0, 2.5]]


def test_transfer_is_not_negative():
    """With a wrong clock, a bucket may seem to end before the last rank has started it."""
    assert parts_within(Times(None, START[None], END[None] - [[3], [0]], 0.0))[1].tolist() == [
        [0.0, 2.5]
    ]


def test_split_of_a_run(tmp_path):
    point = from_run(read_run(write(tmp_path / "a.h5")))
    split, scale = point.split, STEPS  # three of four steps are timed; scaled to four
    assert split.waiting == pytest.approx((3 * scale, 0))
    assert split.transfer == pytest.approx((2 * scale, 2.5 * scale))
    assert split.last_share.tolist() == [0, 1]
    assert split.clock_error == pytest.approx(3e-5)
    assert point.allreduce_seconds == pytest.approx(split.all_reduce_seconds)


def test_error_of_two_other_ranks_is_the_sum_of_their_bounds(tmp_path):
    path = write(tmp_path / "a.h5", error=((2e-6, 1e-6), (1e-5, 3e-5)))
    assert from_run(read_run(path)).split.clock_error == pytest.approx(3.2e-5)


def test_table_3_counts_the_transfer_only(tmp_path):
    point = from_run(read_run(write(tmp_path / "a.h5")))
    table = bandwidth_table([point])
    (row,) = table.rows
    assert row["waiting_seconds"] == pytest.approx(4 * 1.5)
    assert row["transfer_seconds"].value == pytest.approx(4 * 2.25 + 3e-5 * 2 * 4)
    assert row["measured_gb_s"].value == pytest.approx(400 * 4 / (4 * 2.25) / 1e9, rel=1e-4)
    assert any("imbalance of the ranks and is not counted" in note for note in table.footnotes)
    assert not any("waiting for slower ranks" in note for note in table.footnotes)


def test_table_3_names_the_rows_whose_waiting_is_unknown(tmp_path):
    known = from_run(read_run(write(tmp_path / "a.h5")))
    unknown = from_run(read_run(write(tmp_path / "b.h5", starts=False, reducer="allreduce")))
    assert unknown.split is None
    table = bandwidth_table([known, unknown])
    assert table.rows[1]["measured_gb_s_low"] == pytest.approx(400 * 4 / (4 * 3.75) / 1e9)
    assert table.rows[1]["measured_gb_s"].value is table.rows[1]["measured_gb_s_high"] is None
    assert any("waiting for slower ranks" in note for note in table.footnotes)


@pytest.mark.parametrize("offset", [((0, 0), (np.nan, np.nan)), ((np.nan, np.nan), (0, 0))])
def test_unknown_offsets_give_no_split(tmp_path, offset):
    assert from_run(read_run(write(tmp_path / "a.h5", offset=offset))).split is None


def test_report_has_the_table_and_the_figure(tmp_path):
    out = tmp_path / "out"
    assert main(["report", str(write(tmp_path / "a.h5")), "--out", str(out)]) == 0
    with (out / "waiting-transfer.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["waiting_percent"]) == pytest.approx(100 * 1.5 / 3.75)
    assert (row["longest_waiting_rank"], row["last_rank"]) == ("0", "1")
    assert float(row["longest_waiting"]) == pytest.approx(12)
    assert float(row["last_percent"]) == pytest.approx(100)
    assert float(row["clock_error_us"]) == pytest.approx(30)
    page = (out / "report.md").read_text()
    assert "![waiting](waiting.svg)" in page
    assert "two clocks differ by at most 30 µs after that" in page
    assert (out / "waiting.png").stat().st_size > 0


def test_figure_has_one_bar_per_rank_and_part(tmp_path):
    point = from_run(read_run(write(tmp_path / "a.h5")))
    figure = waiting_bars([point])
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert heights == pytest.approx([8, 10, 12, 0])  # transfer, then waiting
    assert render(figure)["png"]


def test_runs_without_arrival_times_have_no_figure(tmp_path):
    assert waiting_bars([from_run(read_run(write(tmp_path / "a.h5", starts=False)))]) is None


def test_repeats_are_merged_by_their_medians(tmp_path):
    runs = [from_run(read_run(write(tmp_path / f"{i}.h5"))) for i in range(2)]
    (merged,) = merge_repeats(runs)
    assert merged.repeats == 2
    np.testing.assert_equal(asdict(merged.split), asdict(runs[0].split))


def test_summary_names_waiting_and_transfer(tmp_path):
    run = read_run(write(tmp_path / "a.h5"))
    text = "\n".join(summary(run))
    assert "15.00 s: 6.00 s = 40% of waiting\nfor the last rank, 9.00 s of transfer." in text
    values = summary_values(run)
    assert values["all_reduce_waiting_seconds"] == pytest.approx(6)
    uncertain = 3e-5 * 2 * STEPS  # error of the clocks for each of two buckets
    assert values["all_reduce_transfer_seconds_low"] == pytest.approx(9 - uncertain, rel=1e-9)
    assert values["all_reduce_transfer_seconds_high"] == pytest.approx(9 + uncertain, rel=1e-9)


def test_a_clock_error_above_the_transfer_leaves_a_range(tmp_path):
    """An error of 2 s for each of two buckets: at least 9 - 16 s, at most the whole 15 s."""
    point = from_run(read_run(write(tmp_path / "a.h5", error=((0, 0), (2, 2)))))
    bounds = point.split.transfer_bounds
    assert (bounds.low, bounds.value) == (0, None)
    assert bounds.high == pytest.approx(15)
    assert point.bandwidth.value is None


def test_run_file_is_valid_and_clocks_of_an_epoch_in_two_parts_are_not_used(tmp_path):
    """The offsets of one process do not apply to the clocks of another."""
    attributes = {"steps_per_epoch": 8, "images_per_epoch": 160, "run_id": "r"}
    write(tmp_path / "r.h5", attributes=attributes | {"part": 1, "first_step": 0})
    write(tmp_path / "r.part2.h5", attributes=attributes | {"part": 2, "first_step": 4})
    assert not [p for p in problems(tmp_path / "r.h5") if "clock" in p or "start_seconds" in p]
    (run,) = load_runs([tmp_path / "r.h5"]).runs
    assert len(run.step_start) == 8
    assert from_run(run).split is None
