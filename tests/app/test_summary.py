# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the console summary, --json and `lockstep-report summary` give the same values for the
same run: the sums of the timed steps, which both compute."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from command_line import HANG, environment, start_ranks, train

ANALYSIS = pathlib.Path(__file__).parents[2] / "analysis"
SHARED = (
    "images_per_second",
    "epoch_seconds",
    "training_seconds",
    "exposed_communication_share",
    "timed_epoch",
    "timed_steps",
    "steps_per_epoch",
    "images_per_epoch",
    "is_extrapolated",
    "lacking_processor_share",
)
# The data have 24 images, and the batch per rank is 2, so an epoch has 12 steps on one rank and 6
# steps on two ranks.
RUNS = {
    "incomplete epoch": {"steps": 5},
    "one epoch": {"steps": None, "epochs": 1},
    "two epochs": {"steps": None, "epochs": 2},
}
# (ranks, kind of the run); the others are slow.
CASES = [
    pytest.param(
        ranks,
        kind,
        marks=(
            ()
            if (ranks, kind) in ((1, "incomplete epoch"), (2, "two epochs"))
            else pytest.mark.slow
        ),
    )
    for ranks in (1, 2)
    for kind in RUNS
]


def report(path, *options):
    """Returns the output of `lockstep-report summary`."""
    result = subprocess.run(
        [sys.executable, "-B", "-m", "lockstep_report", "summary", path, *options],
        env=environment() | {"PYTHONPATH": str(ANALYSIS), "MPLBACKEND": "Agg"},
        text=True,
        capture_output=True,
        timeout=HANG,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def run(ranks, path, *arguments, **options):
    result = start_ranks(
        (
            ranks,
            train(*arguments, output=path, conv_algorithm="direct", all_reduce="mpi", **options),
        )
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def values_in(text, pattern):
    """Returns the groups of `pattern`, which must match in `text`, without thousands separators."""
    match = re.search(pattern, text)
    assert match, f"{pattern}\n{text}"
    return tuple(group.replace(",", "") for group in match.groups() if group is not None)


@pytest.mark.parametrize("ranks, kind", CASES)
def test_json_output_agrees_with_the_report(tmp_path, ranks, kind):
    results = json.loads(run(ranks, tmp_path / "run.h5", "--json", **RUNS[kind]))["results"]
    values = json.loads(report(tmp_path / "run.h5", "--json"))
    for name in SHARED:
        assert results[name] == pytest.approx(values[name], rel=1e-12), name
    assert (values["all_reduce_waiting_seconds"] is None) == (ranks == 1)
    steps_per_epoch = 12 // ranks
    timed = {
        "incomplete epoch": 4,
        "one epoch": steps_per_epoch - (1 if ranks == 2 else 2),
        "two epochs": steps_per_epoch,
    }
    assert results["timed_steps"] == timed[kind]
    assert results["timed_epoch"] == (2 if kind == "two epochs" else 1)
    assert results["is_extrapolated"] == (kind == "incomplete epoch")
    # Correlated steps are worth fewer than their number.
    assert values["step_seconds_interval"] is None or timed[kind] >= 6


def test_the_number_of_ranks_changes_no_option_that_is_not_given(tmp_path):
    """Otherwise the report would not take a run on one rank as the base case of one on two
    ranks."""
    one, two = (
        json.loads(run(ranks, tmp_path / f"{ranks}.h5", "--json", steps=1))["config"]
        for ranks in (1, 2)
    )
    assert {name for name in one if one[name] != two[name]} == {"global-batch", "output"}


@pytest.mark.parametrize("ranks, kind", CASES)
def test_console_summary_agrees_with_the_report(tmp_path, ranks, kind):
    console = run(ranks, tmp_path / "run.h5", **RUNS[kind])
    text = report(tmp_path / "run.h5")
    assert values_in(console, r"Total img/sec on \d CPU rank\(s\): ([\d.]+)\n") == values_in(
        text, r"Throughput: ([\d.,]+) images/s"
    )
    number = r"([\d.]+)"
    values_in(text, rf"Step: median {number} ms(?: \[{number}, {number}\])?")
    if ranks > 1:
        assert values_in(
            console, rf"Exposed communication is {number} % of the epoch"
        ) == values_in(text, rf"exposed = {number}% of the epoch")
        time = rf"{number} [mun]?s"
        values_in(
            text, rf"{time} = \d+% of waiting\nfor the last rank, (?:{time} to )?{time} of transfer"
        )
    if kind == "incomplete epoch":
        pattern = r"scaled from (\d+) of (\d+) steps"
        assert values_in(console, pattern) == values_in(text, pattern) == ("4", str(12 // ranks))
    else:
        assert "scaled" not in console and "scaled" not in text
