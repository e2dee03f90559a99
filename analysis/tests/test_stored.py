# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that stay in the run file until their rows are used."""

from dataclasses import fields, replace

import h5py
import numpy as np
import pytest
from lockstep_report.errors import ReportError
from lockstep_report.measure.accuracy import seconds_to_epochs
from lockstep_report.measure.points import from_run
from lockstep_report.measure.stragglers import straggler_of
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.fits import bucket_seconds
from lockstep_report.runfile import read, stored
from lockstep_report.runfile.hdf5_access import open_run
from lockstep_report.runfile.input_files import join_parts
from lockstep_report.runfile.read import read_run
from synthetic import write_clocks, write_run


@pytest.fixture
def path(tmp_path):
    """A run of 3 ranks with 2 epochs of 20 steps, with random times and overlapping buckets."""
    generator = np.random.default_rng(3)
    start = generator.random((40, 3, 4))
    return write_run(
        tmp_path / "run.h5",
        generator.random((40, 3, 6)),
        96,
        epochs=2,
        bucket_bytes=[8] * 4,
        bucket_start=start,
        bucket_end=start + 0.1,
        attributes={"part": 1, "first_step": 0, "steps_per_epoch": 20, "images_per_epoch": 1920},
    )


@pytest.mark.parametrize("block_bytes", [stored.BLOCK_BYTES, 3 * 8 * 6 * 7])
def test_rows_in_the_file_index_like_an_array(block_bytes, path, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_BYTES", block_bytes)
    rows = read_run(path, in_memory=0).phase_seconds
    array = read_run(path).phase_seconds
    assert isinstance(rows, stored.Rows) and isinstance(array, np.ndarray)
    assert rows.shape == array.shape and len(rows) == 40 and rows.nbytes == array.nbytes
    for key in (
        3,
        -1,
        slice(5, 9),
        slice(None, None, 7),
        np.array([4, 5, 6]),
        [9, 2, 2],
        np.arange(40) % 3 == 0,
        (slice(2, 4), 1),
        (slice(None), 0, 2),
        (slice(None), slice(None), slice(None, -1)),
        (slice(None), [2, 0], 1),
        (3, 1, 2),
        ...,
        np.zeros(0, dtype=int),
    ):
        np.testing.assert_array_equal(rows[key], array[key])
    np.testing.assert_array_equal(rows.sum(axis=2), array.sum(axis=2))
    np.testing.assert_array_equal(np.asarray(rows) + 1, array + 1)


def test_a_point_is_the_same_from_the_file(path):
    expected = from_run(read_run(path))
    found = from_run(read_run(path, in_memory=0))
    assert found.epoch_seconds == pytest.approx(expected.epoch_seconds)
    assert found.training_seconds == pytest.approx(expected.training_seconds)
    assert found.phase_seconds == pytest.approx(expected.phase_seconds)
    assert found.allreduce_seconds == pytest.approx(expected.allreduce_seconds)
    assert found.step_interval == expected.step_interval


def test_joined_rows_stay_in_the_files(path):
    def joined(in_memory):  # the second part starts after 20 steps of the first
        first, second = read_run(path, in_memory), read_run(path, in_memory)
        return join_parts([first, replace(second, step=second.step + 20)])

    found, expected = joined(0), joined(1 << 30)
    assert isinstance(found.phase_seconds, stored.Rows)
    assert len(found.phase_seconds) == 60
    np.testing.assert_array_equal(
        found.phase_seconds[[0, 19, 20, 59]], expected.phase_seconds[[0, 19, 20, 59]]
    )
    np.testing.assert_array_equal(np.asarray(found.bucket_end), expected.bucket_end)


def test_a_file_that_changes_while_it_is_read_gives_one_line(path):
    rows = read_run(path, in_memory=0).phase_seconds
    with h5py.File(path, "r+") as file:
        del file["steps/phase_seconds"]
    with pytest.raises(ReportError, match="run.h5: cannot be read"):
        rows[0]
    path.unlink()
    with pytest.raises(ReportError, match="no such file"):
        rows.sum()


def test_blocks_of_any_size_give_the_same_bits(path, monkeypatch):
    write_clocks(path, 2.0 * np.arange(40)[:, None] + np.zeros(3), [(0, 0)] * 3, [(0, 0)] * 3)

    def found(in_memory, block_bytes):
        monkeypatch.setattr(stored, "BLOCK_BYTES", block_bytes)
        run = read_run(path, in_memory)
        point, timed = from_run(run), timed_run(run)
        slow = straggler_of(timed)
        return [
            point.epoch_seconds,
            point.training_seconds,
            *point.phase_seconds.values(),
            point.slow_seconds,
            point.allreduce_seconds,
            *(getattr(point.split, field.name) for field in fields(point.split)),
            *(getattr(timed.split, field.name) for field in fields(timed.split)),
            seconds_to_epochs(run),
            bucket_seconds(timed.times),
            slow.excess.value,
            slow.last_share,
            slow.clock.value,
            slow.transfer_seconds,
        ]

    expected = found(1 << 30, 1 << 30)
    for block_bytes in (1, 3 * 8 * 6 * 7):  # one and seven steps
        for mine, other in zip(found(0, block_bytes), expected):
            np.testing.assert_array_equal(mine, other)


def test_several_blocks_open_the_file_once(path, monkeypatch):
    opened = []

    def counted(*arguments, **options):
        opened.append(options)
        return open_run(*arguments, **options)

    monkeypatch.setattr(read, "open_run", counted)
    monkeypatch.setattr(stored, "BLOCK_BYTES", 1)
    run = read_run(path, in_memory=0)
    opened.clear()
    assert len(list(stored.blocks(np.arange(40), run.phase_seconds))) == 40
    assert opened == [{"rdcc_nbytes": stored.SMALLEST_CACHE}]
    both = join_parts([run, replace(run, step=run.step + 40)])
    opened.clear()
    parts = [block for _, block in stored.blocks(np.arange(80), both.phase_seconds)]
    assert len(opened) == 2
    np.testing.assert_array_equal(np.concatenate(parts), np.asarray(both.phase_seconds))


def test_chosen_and_computed_rows_stay_in_the_file(path):
    run = read_run(path, in_memory=0)
    chosen = stored.chosen_rows(run.phase_seconds, np.arange(5, 30, 2))
    doubled = stored.computed_rows(lambda rows, array: 2 * array[rows], chosen.shape, chosen)
    assert isinstance(chosen, stored.Rows) and chosen.shape == (13, 3, 6)
    expected = np.asarray(run.phase_seconds)[5:30:2]
    np.testing.assert_array_equal(np.asarray(chosen), expected)
    np.testing.assert_array_equal(np.asarray(doubled), 2 * expected)
    with stored.opened(doubled) as array:
        np.testing.assert_array_equal(array[[0, 12]], 2 * expected[[0, 12]])
    in_memory = read_run(path).phase_seconds
    assert isinstance(stored.chosen_rows(in_memory, np.arange(3)), np.ndarray)


def test_sum_of_blocks_adds_rows_in_their_order():
    values = np.random.default_rng(1).random((50, 3))
    total = stored.BlockSum()
    assert total.total is None
    for part in np.split(values, [1, 20]):
        total.add(part)
    np.testing.assert_array_equal(total.total, values.sum(axis=0))
