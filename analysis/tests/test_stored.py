# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that stay in the run file until their rows are used."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
from lockstep_report.errors import ReportError
from lockstep_report.measure.points import from_run
from lockstep_report.runfile import stored
from lockstep_report.runfile.input_files import join_parts
from lockstep_report.runfile.read import read_run
from synthetic import write_run


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


def test_rows_in_the_file_index_like_an_array(path):
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
