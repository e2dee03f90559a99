# SPDX-License-Identifier: BSD-3-Clause
"""Tests of --telemetry: samples in the run file, on the clock of the steps."""

import pathlib
import sys

import h5py
import numpy as np
import pytest
from command_line import expect_failure, start, start_ranks, train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.runfile.validate import problems  # noqa: E402


def test_every_rank_is_sampled_on_the_clock_of_its_steps(tmp_path):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train("--telemetry=100", steps=None, epochs=2, output=path)))
    assert result.returncode == 0, result.stderr
    assert "host energy" in result.stdout
    assert problems(path) == []
    with h5py.File(path) as file:
        telemetry = {name: values[()] for name, values in file["telemetry"].items()}
        ends = file["steps/end_seconds"][()]
        seconds = file["steps/phase_seconds"][()].sum(axis=2)
        energy = file["epochs/host_energy_joules"][()]
        source = file["environment"].attrs["host_energy"].decode()
    assert np.all(np.diff(ends, axis=0) > 0)
    # The times between the ends of two steps of an epoch are those of their phases; the program
    # does little else.
    assert np.all(np.diff(ends[:6], axis=0) > 0.5 * seconds[1:6])
    for rank in (0, 1):
        chosen = telemetry["rank"] == rank
        times = telemetry["seconds"][chosen]
        assert len(times) >= 4 and np.all(np.diff(times) > 0)
        assert times[0] < ends[0, rank] and times[-1] > ends[-1, rank]
        cpu = (telemetry["user_cpu_seconds"] + telemetry["system_cpu_seconds"])[chosen]
        # A rank has one thread that computes, and one that loads images.
        assert 0 < cpu[-1] - cpu[0] < 3 * (times[-1] - times[0]) + 0.1
        assert np.all(telemetry["resident_memory_bytes"][chosen] > 10e6)
        assert telemetry["sampler_cpu_seconds"][chosen][-1] < 0.5 * (times[-1] - times[0])
    # An energy is either measured or unknown, never zero.
    assert np.all(np.isnan(energy)) if source.startswith("not readable: ") else np.all(energy > 0)


def test_without_telemetry_the_file_has_no_samples(tmp_path):
    path = tmp_path / "run.h5"
    assert start(*train("--telemetry=0", output=path)).returncode == 0
    assert problems(path) == []
    with h5py.File(path) as file:
        assert "telemetry" not in file
        assert file["environment"].attrs["host_energy"] == b"not measured"
        assert np.all(file["steps/end_seconds"][()] > 0)


@pytest.mark.parametrize("rate", ("-1", "200", "often"))
def test_rates_out_of_range_are_errors(rate):
    message = expect_failure(start(*train(f"--telemetry={rate}")), 2)
    assert "--telemetry" in message and rate in message
