# SPDX-License-Identifier: BSD-3-Clause
"""Tests the notes about steps that become shorter or longer."""

import numpy as np
import pytest
from lockstep_report.measure.validity import trend_notes


@pytest.mark.parametrize("step, text", [
    ([0.19, 0.15, 0.12, 0.10, 0.10], "start-up): the epoch is up to 32% too long"),
    ([0.10, 0.11, 0.10, 0.11, 0.10], None),
    ([0.1006, 0.1004, 0.1002, 0.1, 0.1], None),  # the effect is below 2 %
    ([0.2], None),
])
def test_start_up_in_short_runs(step, text):
    notes = trend_notes(step)
    assert len(notes) == (text is not None)
    assert text is None or text in notes[0]


@pytest.mark.parametrize("change, text", [(0.2, "longer"), (-0.2, "shorter"), (0.0, None)])
def test_drift(change, text):
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal(200)
    notes = trend_notes(noise * (1 + change * np.arange(200) / 200))
    assert [f"the steps become {text} during" in note for note in notes] == [True] * (text is not None)


@pytest.mark.parametrize("steps", [5, 12, 40])
def test_noise_has_no_trend(steps):
    random = np.random.default_rng(2)
    false = sum(bool(trend_notes(1 + 0.05 * random.standard_normal(steps))) for _ in range(400))
    assert false <= 0.05 * 400
