# SPDX-License-Identifier: BSD-3-Clause
"""Tests of profiles and traces."""

import json
import re

import h5py
import pytest
from command_line import expect_failure, start, start_ranks, train


def test_run_file_has_the_phases_of_both_ranks(tmp_path):
    path = tmp_path / "run.h5"
    result = start_ranks((2, train(steps=None, epochs=1, output=path)))
    assert result.returncode == 0, result.stderr
    assert "Total img/sec on 2 CPU rank(s): " in result.stdout
    assert "Img/sec per CPU rank: " in result.stdout
    with h5py.File(path) as file:
        assert file["steps/phase_seconds"].shape == (6, 2, 6)
        assert (file["steps/images"][:] == 4).all()


def test_profile_is_in_the_output_the_run_file_and_the_trace(tmp_path):
    path, trace = tmp_path / "run.h5", tmp_path / "trace.json"
    result = start_ranks((2, train("--json", steps=1, output=path, profile=2, trace=trace)))
    assert result.returncode == 0, result.stderr
    profile = json.loads(result.stdout)["profile"]
    assert profile["steps"] == 2
    assert profile["step_seconds"] > 0 and profile["step_seconds_without_profile"] > 0
    rows = {(row["name"], row["phase"]): row for row in profile["operations"]}
    assert rows["conv1", "backward weights"]["calls"] == 1
    assert rows["all-reduce", "all-reduce"]["bytes"] == pytest.approx(4 * 11_173_962, rel=1e-5)
    with h5py.File(path) as file:
        assert list(file["profile/name"].asstr()) == [row["name"] for row in profile["operations"]]
        assert file["profile/seconds"].shape == (len(profile["operations"]), 2)
        assert set(file["profile/ceiling"].asstr()) <= {"compute", "memory", "cache", "none"}
        assert file["results"].attrs["profile_step_seconds"] == profile["step_seconds"]
        assert len(file["steps/loss"]) == 1, "profiled steps are not part of the training"
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} >= {
        "steps",
        "compute",
        "communication",
    }


def test_profile_describes_its_cost():
    result = start(*train(profile=1))
    assert result.returncode == 0, result.stderr
    assert re.search(r"convolution 3x3, 3x32x32 -> 64x32x32 +forward +1 +\d", result.stdout)
    assert re.search(
        r"Cost of the profile: a step takes .* with it and .* without \([+-]", result.stdout
    )


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({"trace": "t.json"}, 2, "--trace requires --profile"),
        ({"profile": -1}, 2, "--profile"),
        ({"profile": 1, "trace": "/nowhere/t.json"}, 6, "/nowhere"),
        (
            {"profile": 1, "trace": "./t.h5", "output": "t.h5"},
            2,
            "--trace and --output name the same file",
        ),
        (
            {"output": "t.h5", "init_from": "./t.h5"},
            2,
            "--output and --init-from name the same file",
        ),
    ],
)
def test_wrong_profile_options_are_refused(options, status, text):
    assert text in expect_failure(start(*train(**options)), status)
