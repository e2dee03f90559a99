# SPDX-License-Identifier: BSD-3-Clause
"""Tests the choice of the timed steps, and reading of truncated files."""

from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.measure import window
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.settings import data_of
from synthetic import dataset, phases, write_run


def choose(*counts, size, first=0, starts=(0,)):
    """Chooses the timed steps of a run whose epochs have `counts` steps in its file. `size` is the
    number of steps of a whole epoch, `first` the number of steps before the file, and `starts` has
    the indices of the steps at which a process started."""
    epoch = np.repeat(np.arange(1, len(counts) + 1), counts)
    marks = np.isin(np.arange(len(epoch)), starts)
    found = window.choose_steps(epoch, first + np.arange(len(epoch)), marks, size)
    names = ("steps", "epoch", "rule", "is_complete")
    chosen = SimpleNamespace(**dict(zip(names, found)))
    chosen.steps = chosen.steps.tolist()
    return chosen


def test_the_first_complete_epoch_after_the_start_is_timed_whole():
    assert choose(3, 3, 3, size=3) == SimpleNamespace(
        steps=[3, 4, 5], epoch=2, rule="epoch 2, all 3 steps", is_complete=True
    )


def test_a_resumed_file_that_begins_with_a_rest_times_the_first_complete_epoch():
    found = choose(2, 4, 4, size=4)
    assert (found.steps, found.epoch, found.is_complete) == ([2, 3, 4, 5], 2, True)


def test_an_epoch_in_which_a_process_started_comes_after_one_without():
    assert choose(3, 3, 3, size=3, starts=(0, 4)).steps == [6, 7, 8]


def test_a_joined_epoch_is_timed_without_the_first_steps_of_each_process():
    found = choose(30, size=30, starts=(0, 10))
    assert found.steps == [*range(1, 10), *range(12, 30)] and found.is_complete
    assert "without its first steps of 2 processes, 3 of 30 steps" in found.rule


@pytest.mark.parametrize("steps, skipped", [(2, 1), (10, 1), (11, 2), (100, 10)])
def test_a_single_complete_epoch_is_timed_without_its_first_tenth(steps, skipped):
    found = choose(steps, size=steps)
    assert found.steps == list(range(skipped, steps)) and found.epoch == 1 and found.is_complete
    assert f"without its first {skipped} of {steps} steps" in found.rule


def test_an_epoch_of_one_step_keeps_it():
    assert choose(1, size=1).steps == [0]


def test_without_a_complete_epoch_the_longest_sequence_is_timed_and_marked():
    found = choose(3, 6, size=200)
    assert (found.steps, found.epoch, found.is_complete) == ([4, 5, 6, 7, 8], 2, False)
    assert found.rule.startswith("scaled from 5 of 200 steps of epoch 2")


def test_a_sequence_ends_where_steps_are_missing_and_where_a_process_starts():
    epoch, starts = np.ones(9, dtype=int), np.array([1, 0, 0, 0, 0, 0, 1, 0, 0], dtype=bool)
    step = np.array([0, 1, 5, 6, 7, 8, 9, 10, 11])
    assert window.longest_sequence(epoch, step, starts).tolist() == [2, 3, 4, 5]


SIZE = {"steps_per_epoch": 200, "images_per_epoch": 2000}


def test_a_preempted_run_is_not_presented_as_an_epoch(tmp_path, capsys):
    """The run has 6 of the 200 steps, 0.5 s each: an epoch takes 100 s, not 3 s."""
    path = write_run(
        tmp_path / "a.h5",
        phases(6, (0, 0, 0.5, 0, 0, 0)),
        10,
        batch=10,
        status="preempted",
        attributes=SIZE,
    )
    point = from_run(read_run(path))
    assert point.epoch_seconds == pytest.approx(100)
    assert (point.steps, point.images, point.scaled) == (200, 2000, True)
    assert main(["summary", str(path)]) == 0
    text = capsys.readouterr().out
    assert "An epoch takes 100.0 s (2,000 images in 200 steps), scaled from 5 of 200 steps." in text
    assert main(["report", str(path), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "scaled from 5 of 200 steps" in page.split("### Table 1")[1]
    assert "the run did not finish (status preempted)" in page
    figure = (tmp_path / "out" / "phases.svg").read_text()
    assert "scaled from" in figure and "did not finish" in figure and "(a, b)" in figure


@pytest.mark.parametrize(
    "data, samples, text",
    [
        ("cifar10:/some/where", "1000", "cifar10, 1,000 images"),
        ("synthetic", "10000", "synthetic, 10,000 images"),
        ("synthetic:5000@3x224x224/1000", "5000", "synthetic@3x224x224/1000, 5,000 images"),
        ("hdf5:/home/user/own.h5", "5000", "own.h5, 5,000 images"),
        ("hdf5:own.h5", "5000", "own.h5, 5,000 images"),
        ("synthetic@3x64x64", "10000", "synthetic@3x64x64, 10,000 images"),
        ("synthetic:300/20", "300", "synthetic/20, 300 images"),
        ("cifar100:/some/where", "50000", "cifar100, 50,000 images"),
        ("other:/some/where", "1281167", "other, 1,281,167 images"),
    ],
)
def test_images_of_the_data(tmp_path, data, samples, text):
    config = {"data": data, "train-samples": samples, "steps": "2"}
    run = read_run(
        write_run(tmp_path / "a.h5", phases(2, (0, 0, 1, 0, 0, 0)), 48, batch=48, config=config)
    )
    assert data_of(run) == text


def lengthen(path, rows, columns=("epoch", "images", "loss", "learning_rate", "phase_seconds")):
    """Appends rows to some columns of /steps, as in the file of a killed writer."""
    with h5py.File(path, "r+") as file:
        for name in columns:
            old = file[f"steps/{name}"]
            values = np.concatenate([old[()], np.repeat(old[-1:], rows, axis=0)])
            if name == "epoch":
                values[-rows:] += 1
            if name == "phase_seconds":
                values[-rows:] *= 100
            del file[f"steps/{name}"]
            dataset(file, f"/steps/{name}", values)


def test_rows_beyond_the_last_listed_epoch_are_not_used(tmp_path):
    path = write_run(
        tmp_path / "a.h5", phases(10, (0, 0, 0.1, 0, 0, 0)), 10, batch=10, status="running"
    )
    expected = from_run(read_run(path)).epoch_seconds
    lengthen(path, 10)
    run = read_run(path)
    assert len(run.epoch) == 10
    assert from_run(run).epoch_seconds == expected


def test_columns_of_different_length_are_read_up_to_the_shortest(tmp_path):
    path = write_run(
        tmp_path / "a.h5", phases(10, (0, 0, 0.1, 0, 0, 0)), 10, batch=10, status="running"
    )
    lengthen(path, 4, ("epoch", "loss", "learning_rate"))
    run = read_run(path)
    assert len(run.epoch) == len(run.images) == len(run.phase_seconds) == 10
    with h5py.File(path, "r+") as file:
        del file["epochs/test_loss"]
        dataset(file, "/epochs/test_loss", np.zeros(0))
    assert not read_run(path).has_steps  # no epoch is complete in all columns


def test_a_running_file_is_reported_as_unfinished(tmp_path, capsys):
    path = write_run(
        tmp_path / "a.h5.partial",
        phases(20, (0, 0, 0.1, 0, 0, 0)),
        10,
        batch=10,
        epochs=2,
        status="running",
    )
    assert main(["summary", str(path)]) == 0
    text = capsys.readouterr().out
    assert "a.h5.partial: running" in text
    assert "Note: the run did not finish (status running)." in text


def test_a_missing_file_names_its_partial_file(tmp_path, capsys):
    write_run(tmp_path / "a.h5.partial", phases(2, (0, 0, 0.1, 0, 0, 0)), 10, status="running")
    assert main(["summary", str(tmp_path / "a.h5")]) == 3
    assert "give a.h5.partial" in capsys.readouterr().err


def test_summary_prints_the_number_of_the_epoch(tmp_path, capsys):
    """The resumed run has epochs 3 and 4: its last test was after epoch 4, not after epoch 2."""
    path = write_run(
        tmp_path / "a.h5",
        phases(20, (0, 0, 0.1, 0, 0, 0)),
        10,
        batch=10,
        epoch_of_step=np.repeat([3, 4], 10),
    )
    assert main(["summary", str(path)]) == 0
    assert "60.00% after epoch 4, best 60.00% after epoch 4" in capsys.readouterr().out
