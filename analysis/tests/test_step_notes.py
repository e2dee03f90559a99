# SPDX-License-Identifier: BSD-3-Clause
"""Tests the notes about times that something disturbed."""

import h5py
import numpy as np
import pytest
from lockstep_report.measure.points import from_run
from lockstep_report.measure.step_notes import step_notes
from lockstep_report.runfile.read import read_run
from synthetic import dataset, write_run


@pytest.mark.parametrize(
    "step, text",
    [
        ([0.19, 0.15, 0.12, 0.10, 0.10], "start-up): the epoch is up to 32% too long"),
        ([0.10, 0.11, 0.10, 0.11, 0.10], None),
        ([0.1006, 0.1004, 0.1002, 0.1, 0.1], None),  # the effect is below 2 %
        ([0.2], None),
    ],
)
def test_start_up_in_short_runs(step, text):
    notes = step_notes(step)
    assert len(notes) == (text is not None)
    assert text is None or text in notes[0]


def quiet(count, seed=1):
    """Returns the times of `count` steps of 0.1 s with a deviation of 1 %."""
    return 0.1 * (1 + 0.01 * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize(
    "step, text",
    [
        (
            [*quiet(11), 10.2, *quiet(8)],
            "the timed step 12 takes 10.2 s, but the others 0.1 s (median): the excess is 83%",
        ),
        ([0.1, 3.3], "the timed step 2 takes 3.3 s, but the others 0.1 s"),
        (
            [1.0, 1.01, 1.9, 1.0],
            "the timed step 3 takes 1.9 s, but the others 1 s (median): the excess is 18%",
        ),
        ([*quiet(60), 2.0, 3.0], "2 timed steps take up to 3 s (step 62), but the others"),
        (
            [*quiet(7), 0.18, 10.1, 0.17],
            "the timed step 9 takes 10.1 s",
        ),  # beside smaller disturbances
        ([0.1, 0.1, 0.1, 0.3] * 10, None),  # every fourth step
        ([*quiet(500), 0.2], None),  # 0.2 % of the epoch
        ([0.1, 0.3] * 10, None),  # every second step: so the program is
        ([*quiet(9), *quiet(10) + 0.1], None),  # half of the steps: a change, not an exception
        ([0.1, 0.12], None),
        ([0.1], None),
        ([], None),
    ],
)
def test_long_steps(step, text):
    notes = [note for note in step_notes(step) if "but the others" in note]
    assert len(notes) == (text is not None), notes
    assert text is None or text in notes[0]


def test_long_steps_have_their_numbers_and_are_no_trend():
    notes = step_notes([*quiet(7), 9.0], range(41, 49))
    assert len(notes) == 1 and "the timed step 48 takes" in notes[0]


def test_eight_rising_steps_are_a_trend():
    assert [
        "the steps become longer" in note for note in step_notes(quiet(8) * np.linspace(1, 1.2, 8))
    ] == [True]


@pytest.mark.parametrize("count", [18, 24, 97, 99])
def test_throttling_is_a_trend_of_few_steps_too(count):
    hot = np.where(np.arange(count) < count // 2, 1.0, 1.3)
    assert [
        "longer during the timed window (+" in note for note in step_notes(quiet(count) * hot)
    ] == [True]
    assert step_notes(quiet(count) * np.where(np.arange(count) < count // 2, 1.0, 1.03)) == ()


@pytest.mark.parametrize("change, text", [(0.2, "longer"), (-0.2, "shorter"), (0.0, None)])
def test_drift(change, text):
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal(200)
    notes = step_notes(noise * (1 + change * np.arange(200) / 200))
    assert [f"the steps become {text} during" in note for note in notes] == [True] * (
        text is not None
    )


@pytest.mark.parametrize("steps", [5, 12, 40])
def test_noise_has_no_trend(steps):
    random = np.random.default_rng(2)
    false = sum(bool(step_notes(1 + 0.05 * random.standard_normal(steps))) for _ in range(400))
    assert false <= 0.05 * 400


def notes_of_epochs(path, seconds, slow_step=None):
    """Writes a run with epochs of these durations of ten steps, of which the second epoch is
    timed."""
    step = np.repeat(np.asarray(seconds) / 10, 10)
    if slow_step is not None:
        step[slow_step] *= 40
    parts = np.array([0, 0, 0.4, 0.6, 0, 0])
    write_run(
        path,
        (step[:, None, None] * parts),
        32,
        epochs=len(seconds),
        attributes={"part": 1, "steps_per_epoch": 10, "images_per_epoch": 320},
    )
    with h5py.File(path, "r+") as file:
        if "seconds" in file["epochs"]:
            del file["epochs/seconds"]
        dataset(file, "/epochs/seconds", step.reshape(len(seconds), 10).sum(axis=1))
    return from_run(read_run(path)).notes


@pytest.mark.parametrize(
    "seconds, text",
    [
        (
            [12, 14.1, 10.5, 10.7, 10.9],
            "the timed epoch 2 takes 14.1 s, 32% longer than the 3 other epochs (median 10.7 s)",
        ),
        ([12, 10, 12.5], "the timed epoch 2 takes 10 s, 20% shorter than the other epoch (12.5 s)"),
        ([12, 10, 10.5, 9.5, 12.5], None),
        ([20, 10, 10.2], None),  # the first epoch is the warm-up
        ([12, 10], None),
    ],
)
def test_the_timed_epoch_is_compared_with_the_others(tmp_path, seconds, text):
    notes = notes_of_epochs(tmp_path / "a.h5", seconds)
    assert len(notes) == (text is not None), notes
    assert text is None or text in notes[0]


def test_the_long_step_of_a_suspended_run_is_named(tmp_path):
    notes = notes_of_epochs(tmp_path / "a.h5", [1, 1], slow_step=16)
    assert (
        len(notes) == 1
        and "the timed step 17 takes 4 s, but the others 0.1 s (median): the excess is 80%"
        in notes[0]
    )
