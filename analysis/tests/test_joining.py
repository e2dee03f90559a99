# SPDX-License-Identifier: BSD-3-Clause
"""Tests how the parts of a run are joined, with repeated steps and unfinished files."""

import json
import shutil

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.experiment import variant_of
from lockstep_report.runfile.input_files import load_runs, run_files
from lockstep_report.tables.accuracy import accuracy_table, learning_table, time_to_accuracy_table
from synthetic import dataset, phases, write_run

STEPS = 10  # per epoch


def write_part(
    path, part, first, count, seconds, *, status="complete", run_id="run", config=(), **options
):
    """Writes part `part` of a run: `count` steps of `seconds` each, after `first` earlier steps."""
    attributes = {
        "part": part,
        "first_step": first,
        "steps_per_epoch": STEPS,
        "images_per_epoch": 10 * STEPS,
        "run_id": run_id,
        "date_utc": f"2026-01-0{part}T00:00:00Z",
    }
    return write_run(
        path,
        phases(count, (0, 0, seconds, 0, 0, 0)),
        10,
        batch=10,
        status=status,
        epoch_of_step=1 + (first + np.arange(count)) // STEPS,
        attributes=attributes,
        config={"data": "synthetic:100", "train-samples": "100"} | dict(config),
        **options,
    )


def test_a_preempted_run_and_its_resumption_are_one_run(tmp_path):
    """The run is preempted after 6 steps; the second part has the rest of epoch 1, and epoch 2."""
    one = write_part(tmp_path / "run.h5", 1, 0, 6, 0.9, status="preempted")
    write_part(tmp_path / "run.part2.h5", 2, 6, 14, 0.2)
    (run,) = load_runs([one]).runs
    assert run.step.tolist() == list(range(20))
    assert run.status == "complete"
    point = from_run(run)
    assert point.epoch_seconds == pytest.approx(2.0)  # of epoch 2, in which no process started
    assert (point.source, point.repeats, point.scaled) == ("run.h5 (2 parts)", 1, False)
    assert not point.notes


def test_runs_with_the_same_file_name_have_distinct_names(tmp_path):
    names = ["one/a/run.h5", "two/a/run.h5", "two/b/run.h5", "other.h5"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_part(tmp_path / name, 1, 0, 10, 0.9, run_id=name)
    runs = load_runs([tmp_path / name for name in names]).runs
    assert [run.label for run in runs] == ["one/a/run.h5", "two/a/run.h5", "b/run.h5", "other.h5"]


def test_any_part_brings_the_others(tmp_path):
    write_part(tmp_path / "run.h5", 1, 0, 6, 0.9, status="preempted")
    two = write_part(tmp_path / "run.part2.h5", 2, 6, 14, 0.2)
    (run,) = load_runs([two]).runs
    assert len(run.step) == 20


def test_a_killed_first_part_is_joined_from_its_partial_file(tmp_path):
    write_part(tmp_path / "run.h5.partial", 1, 0, 10, 0.9, status="running")
    two = write_part(tmp_path / "run.part2.h5", 2, 10, 10, 0.2)
    (run,) = load_runs([two]).runs
    assert len(run.step) == 20


@pytest.mark.parametrize("given", [".", "a.2.h5"])
def test_earlier_parts_with_other_names_are_found(tmp_path, given):
    """Each process writes another file, as in jobs/slurm. The first two processes were killed."""
    write_part(tmp_path / "a.0.h5.partial", 1, 0, 20, 0.9, status="running")
    write_part(tmp_path / "a.1.h5.partial", 2, 20, 10, 0.5, status="running")
    write_part(tmp_path / "a.2.h5", 3, 30, 20, 0.2)
    write_part(tmp_path / "b.0.h5.partial", 1, 0, 20, 0.9, status="running", run_id="another")
    (tmp_path / "c.0.h5.partial").write_bytes(b"damaged")
    loaded = load_runs(run_files([tmp_path / given]))
    (run,) = loaded.runs
    assert run.step.tolist() == list(range(50))
    assert run.label == "a.0.h5.partial (3 parts)"
    assert loaded.notes == [
        "a.0.h5.partial, a.1.h5.partial, a.2.h5 are parts of one run and were joined"
    ]


def test_an_unfinished_last_part_with_another_name_is_not_joined(tmp_path):
    write_part(tmp_path / "a.0.h5", 1, 0, 20, 0.2, status="preempted")
    write_part(tmp_path / "a.1.h5", 2, 20, 10, 0.2, status="preempted")
    write_part(tmp_path / "a.2.h5.partial", 3, 30, 10, 0.2, status="running")
    (run,) = load_runs(run_files([tmp_path])).runs
    assert len(run.step) == 30 and run.status == "preempted"


def test_a_missing_first_part_is_noted_and_later_epochs_keep_their_numbers(tmp_path):
    path = write_part(tmp_path / "a.1.h5", 2, 20, 20, 0.2)
    loaded = load_runs([path])
    assert loaded.notes == [
        "a.1.h5: part 1 of this run was not found; training seconds lack 20 steps, from step 1 on"
    ]
    assert [(row["epoch"], row["steps"]) for row in learning_table(loaded.runs).rows] == [
        (3, 30),
        (4, 40),
    ]
    assert [(row["target"], row["epochs"]) for row in time_to_accuracy_table(loaded.runs).rows] == [
        (50, 3),
        (60, 4),
    ]
    (row,) = accuracy_table(loaded.runs).rows
    assert (row["epochs"], row["updates"]) == (4, 40)


def test_runs_of_other_epochs_are_not_one_curve(tmp_path):
    paths = [
        write_part(tmp_path / "a.h5", 1, 0, 20, 0.2, run_id="a"),
        write_part(tmp_path / "b.h5", 2, 20, 20, 0.2, run_id="b"),
    ]
    rows = accuracy_table(load_runs(paths).runs).rows
    assert [(row["epochs"], row["runs"]) for row in rows] == [(2, 1), (4, 1)]


def test_a_later_part_replaces_the_steps_that_it_repeats(tmp_path):
    """The first part ran to step 20, but its last checkpoint was written after step 8."""
    one = write_part(tmp_path / "run.h5", 1, 0, 20, 0.9, status="failed")
    two = write_part(tmp_path / "run.part2.h5", 2, 8, 22, 0.2)
    (run,) = load_runs([one, two]).runs
    assert run.step.tolist() == list(range(30))
    assert run.part_of_step.tolist() == [0] * 8 + [1] * 22
    assert run.phase_seconds[:, 0, 2].tolist() == [0.9] * 8 + [0.2] * 22


def test_steps_that_no_part_holds_leave_their_epoch_incomplete(tmp_path):
    """The run was killed in epoch 2 after the checkpoint of step 14: steps 10 to 13 are lost."""
    one = write_part(tmp_path / "run.h5", 1, 0, 10, 0.9, status="running")
    two = write_part(tmp_path / "run.part2.h5", 2, 14, 16, 0.2)
    loaded = load_runs([one, two])
    (run,) = loaded.runs
    assert loaded.notes[-1] == "run.h5 (2 parts): training seconds lack 4 steps, from step 11 on"
    assert run.step.tolist() == [*range(10), *range(14, 30)]
    assert from_run(run).rule == "epoch 3, all 10 steps"


def test_a_part_without_steps_replaces_nothing(tmp_path):
    one = write_part(tmp_path / "run.h5", 1, 0, 20, 0.2, status="preempted")
    two = write_part(tmp_path / "run.part2.h5", 2, 10, 0, 0.9, status="running")
    (run,) = load_runs([one, two]).runs
    assert len(run.step) == 20 and run.status == "running"


def test_values_of_epochs_are_joined(tmp_path):
    one = write_part(tmp_path / "run.h5", 1, 0, 16, 0.2, status="preempted")
    two = write_part(tmp_path / "run.part2.h5", 2, 16, 14, 0.2)
    for path, accuracy, joules in ((one, [0.1, np.nan], [5.0, 5.0]), (two, [0.2, 0.3], [7.0, 7.0])):
        with h5py.File(path, "r+") as file:
            file["epochs/test_accuracy"][()] = accuracy
            dataset(file, "/epochs/energy_joules", np.array([joules]).T)
    (run,) = load_runs([one, two]).runs
    assert run.epoch_numbers.tolist() == [1, 2, 3]
    assert run.epochs["test_accuracy"].tolist() == [0.1, 0.2, 0.3]
    # two processes measured the energy of epoch 2, each for its part of the epoch
    assert run.epochs["energy_joules"][[0, 2], 0].tolist() == [5.0, 7.0]
    assert np.isnan(run.epochs["energy_joules"][1, 0])


def test_files_of_other_runs_are_not_joined(tmp_path):
    one = write_part(tmp_path / "run.h5", 1, 0, 20, 0.2)
    write_part(tmp_path / "run.part2.h5", 2, 20, 20, 0.2, run_id="another")
    (run,) = load_runs([one]).runs
    assert len(run.step) == 20


def test_parts_on_other_ranks_stay_separate_and_are_named(tmp_path):
    one = write_part(tmp_path / "run.h5", 1, 0, 10, 0.2, status="preempted")
    two = tmp_path / "two.h5"
    write_run(
        two,
        phases(10, *[(0, 0, 0.1, 0, 0, 0)] * 2),
        20,
        batch=10,
        attributes={
            "part": 2,
            "first_step": 10,
            "steps_per_epoch": 10,
            "images_per_epoch": 200,
            "run_id": "run",
        },
    )
    loaded = load_runs([one, two])
    assert len(loaded.runs) == 2
    assert "differ in ranks" in loaded.notes[-1]


def test_options_that_changed_between_the_parts_are_named(tmp_path):
    one = write_part(
        tmp_path / "run.h5", 1, 0, 10, 0.2, status="preempted", config={"lr": "0.1", "keep": "3"}
    )
    write_part(tmp_path / "run.part2.h5", 2, 10, 10, 0.2, config={"lr": "0.001", "keep": "5"})
    loaded = load_runs([one])
    assert (
        loaded.notes[-1]
        == "run.h5, run.part2.h5: options or software changed between the parts (lr: 0.1, 0.001);"
        " the tables show those of the last part"
    )
    (run,) = loaded.runs
    assert run.option("lr") == "0.001"
    assert ("changed-on-resume", "lr: 0.1, 0.001") in variant_of(
        run
    )  # no repeat of a run with lr 0.001 alone


def test_a_file_given_six_times_counts_once_and_says_so(tmp_path, capsys):
    path = str(write_part(tmp_path / "run.h5", 1, 0, 20, 0.2))
    assert main(["report", *[path] * 6, "--out", str(tmp_path / "out")]) == 0
    assert "given more than once and is counted once" in capsys.readouterr().err
    page = (tmp_path / "out" / "report.md").read_text()
    assert "n = 1 run" in page and "n = 6" not in page
    assert "given more than once" in page


@pytest.mark.parametrize("version", [1, 2])
def test_a_copy_of_a_file_counts_once(tmp_path, version):
    if version == 2:
        path = write_part(tmp_path / "run.h5", 1, 0, 20, 0.2)
    else:
        path = write_run(tmp_path / "run.h5", phases(20, (0, 0, 0.2, 0, 0, 0)), 10, epochs=2)
    shutil.copy(path, tmp_path / "copy.h5")
    loaded = load_runs([path, tmp_path / "copy.h5"])
    assert len(loaded.runs) == 1 and "is a copy of" in loaded.notes[0]


def test_a_damaged_part_is_named(tmp_path):
    one = write_part(tmp_path / "run.h5", 1, 0, 20, 0.2)
    (tmp_path / "run.part2.h5").write_bytes(b"damaged")
    loaded = load_runs([one])
    assert len(loaded.runs) == 1
    assert "not joined" in loaded.notes[0] and "run.part2.h5" in loaded.notes[0]


def test_unfinished_runs_are_repeats_and_marked_if_none_is_complete(tmp_path):
    one = write_part(tmp_path / "a.h5", 1, 0, 20, 0.2, run_id="a", status="failed")
    two = write_part(tmp_path / "b.h5", 1, 0, 15, 0.4, run_id="b", status="preempted")
    assert main(["tables", str(one), str(two), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "table-1-time-speedup.md").read_text()
    assert "| 2 | a, b" in text
    assert "the run did not finish (status failed) (a.h5)" in text
    assert "the run did not finish (status preempted) (b.h5)" in text


def test_an_attempt_that_failed_is_no_repeat_of_the_complete_run(tmp_path, capsys):
    """As in jobs/study: the first attempt has another run id, and the same options."""
    write_part(tmp_path / "a.0.h5", 1, 0, 20, 0.4, run_id="a", status="failed")
    write_part(tmp_path / "a.1.h5", 1, 0, 30, 0.2, run_id="b")
    note = (
        "a.0.h5 did not finish (status failed) and is not counted, because a complete run has "
        "the same configuration"
    )
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "n = 2" not in page and "a.0.h5: the run did not finish (status failed)" in page
    for name in ("table-1-time-speedup", "learning-curves", "accuracy", "time-to-accuracy"):
        text = (tmp_path / "out" / f"{name}.md").read_text()
        rows = [line for line in text.splitlines() if line.startswith("|")][2:]
        assert all(line.endswith(("| 1 |", "| 1 | a |")) for line in rows), rows
        assert note in text and ("learning" not in name or len(rows) == 3)
    capsys.readouterr()
    assert main(["compare", str(tmp_path), str(tmp_path), "--json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    assert pair["a"]["sources"] == ["a.1.h5"] and note in pair["a"]["notes"]


def test_summary_as_json(tmp_path, capsys):
    one = write_part(tmp_path / "run.h5", 1, 0, 20, 0.2)
    assert main(["summary", "--json", str(one)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["epoch_seconds"] == pytest.approx(2.0)
    assert values["training_seconds"] == pytest.approx(2.0)
    assert values["images_per_second"] == pytest.approx(50.0)
    assert values["step_seconds_median"] == pytest.approx(0.2)
    assert values["step_seconds_interval"] == pytest.approx([0.2, 0.2])
    assert values["exposed_communication_share"] == 0
    assert (values["timed_epoch"], values["timed_steps"]) == (2, 10)
    assert values["is_extrapolated"] is False
