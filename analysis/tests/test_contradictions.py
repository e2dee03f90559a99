# SPDX-License-Identifier: BSD-3-Clause
"""Tests that `validate` reports values that contradict each other, with the dataset and what the
tables lack or have wrong because of it."""

import json

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.validate import notes, problems
from planted import write_training
from synthetic import phases, write_run


@pytest.fixture
def run(tmp_path):
    return write_training(tmp_path / "run.h5", np.random.default_rng(1), ranks=2, steps=5)


def put(path, key, value):
    return lambda file: file[path].__setitem__(key, value)


def attribute(name, value, group="/"):
    return lambda file: file[group].attrs.__setitem__(name, value)


CASES = [
    (attribute("steps_per_epoch", 4), "/steps/epoch has 5 steps of epoch 2, steps_per_epoch is 4"),
    (put("/steps/epoch", 5, 1), "/steps/epoch decreases"),
    (put("/steps/epoch", 5, 3), "has steps of epoch 3, which /epoch does not list"),
    (put("/steps/epoch", 0, 2), "/epoch lists epoch 1, of which /steps has no steps"),
    (put("/epoch", slice(None), [2, 1]), "/epoch does not increase"),
    (put("/buckets/bytes", 0, 7), "not a multiple of the 4 bytes"),
    (
        attribute("gradient_elements", "1750001", "/environment"),
        "the 1,750,001 elements of the gradients need 7,000,004: tables 2 and 3",
    ),
    (
        lambda file: (
            attribute("gradient_elements", "1750000", "/environment")(file),
            put("/buckets/bytes", slice(None), [3000000, 1000000, 3000000])(file),
        ),
        "only the last bucket may differ",
    ),
    (put("/ranks/rank", 1, 5), "/ranks/rank is not 0, 1, 2, ..."),
    (
        lambda file: (
            put("/ranks/local_rank", slice(None), 0)(file),
            put("/ranks/host", slice(None), 0)(file),
        ),
        "/ranks/local_rank has equal numbers",
    ),
    (put("/steps/images", 3, 7), "images_per_epoch is 640"),
    (put("/steps/phase_seconds", (3, 1, 2), 5.0), "the phases of rank 1 in step 4 of the file"),
    (put("/epochs/seconds", 1, 0.01), "/epochs/seconds has 0.01 s for epoch 2"),
    (put("/buckets/end_seconds", (2, 0, 2), 9.0), "an all-reduce of rank 0 ends after step 3"),
    (put("/buckets/call_seconds", (2, 0, 1), 0.9), "rank 0 is longer in calls of bucket 1 than"),
    (
        put("/buckets/end_seconds", (2, 0, 2), 0.0),
        "/buckets/end_seconds is less than /buckets/start_seconds",
    ),
    (
        put("/epochs/test_accuracy", 0, 1.5),
        "/epochs/test_accuracy has 1.5, which is not from 0 to 1",
    ),
    (put("/epochs/train_accuracy", 1, -0.1), "the accuracy table and the learning curves"),
    (
        put("/epochs/test_loss", 0, np.inf),
        "/epochs/test_loss has inf, which is not a number from 0 on",
    ),
    (put("/epochs/evaluation_seconds", 0, -1.0), "/epochs/evaluation_seconds has -1, which is not"),
    (put("/steps/loss", 2, np.nan), "/steps/loss has nan, which is not a number"),
    (put("/steps/phase_seconds", (1, 0, 0), -1.0), "tables 1 to 3 and the scaling tables lack"),
    (
        put("/steps/phase_seconds", (1, 0, 0), np.nan),
        "has nan, which is not a number from 0 on: tables 1 to 3",
    ),
    (put("/buckets/start_seconds", (1, 0, 0), np.nan), "tables 2 and 3"),
]


@pytest.mark.parametrize("damage, complaint", CASES, ids=[text[:30] for _, text in CASES])
def test_each_contradiction_gives_a_line_with_its_consequence(run, damage, complaint):
    with h5py.File(run, "r+") as file:
        damage(file)
    found = problems(run)
    assert any(complaint in line for line in found), found
    assert all(line.startswith("/") and ": " in line and "\n" not in line for line in found)


def test_a_consistent_file_has_notes_only_about_what_it_lacks(run, capsys):
    assert problems(run) == []
    assert main(["validate", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{run}: valid" and all(" note: /" in line for line in lines[:-1])
    assert any("/telemetry/seconds is missing" in line for line in lines)
    assert not any("/buckets" in line or "clock_offset" in line for line in lines)
    assert main(["validate", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_valid"] and len(found["notes"]) == len(lines) - 1


def test_missing_clocks_and_buckets_are_noted_on_several_ranks_only(tmp_path):
    step = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)
    one = write_run(tmp_path / "1.h5", phases(10, step), 10)
    two = write_run(tmp_path / "2.h5", phases(10, step, step), 10)
    for path, count in ((one, 0), (two, 3)):
        found = [line for line in notes(path) if "clock" in line or "buckets" in line]
        assert len(found) == count


def test_a_rank_may_wait_for_rank_0_between_two_epochs(run):
    """Rank 0 times the epoch, and may begin it after the other ranks."""
    with h5py.File(run, "r+") as file:
        file["/steps/phase_seconds"][-1, 1, 4] += 5.0
    assert problems(run) == []
