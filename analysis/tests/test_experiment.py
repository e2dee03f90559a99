# SPDX-License-Identifier: BSD-3-Clause
"""Tests over the whole option table that runs which differ in one option are merged only if it has
no effect, and that the difference is named otherwise."""

import numpy as np
import pytest
from lockstep_report.measure.cases import cases_of, changed_settings
from lockstep_report.measure.comparison import base_of, merge_repeats, scaling_series
from lockstep_report.measure.points import from_run
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.fits import SIZES, alpha_beta_fits, scaling_fits
from lockstep_report.models.prediction.basis import best_bases
from lockstep_report.output import Folder
from lockstep_report.runfile.experiment import OPTION_TABLE, SEED, STATED
from lockstep_report.runfile.input_files import changed_options
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.accuracy import accuracy_table, learning_table, time_to_accuracy_table
from lockstep_report.tables.export import extra_p
from lockstep_report.tables.ladder import ladder_run_tables
from lockstep_report.tables.times import time_table
from planted import write_sweep, write_training
from synthetic import phases, write_ladder, write_run

UNKNOWN = "option-of-a-later-version"
OPTIONS = [*OPTION_TABLE, UNKNOWN]
VALUES = {
    "reducer": ("overlap", "allreduce"),
    "gradient-dtype": ("fp32", "bf16"),
    "device": ("cpu", "reference"),
    "data": ("synthetic:60", "cifar10:/d"),
    "grad-clip": ("1", "2"),
    "precision": ("fp32", "bf16"),
    "global-batch": ("120", "240"),
    "pipeline-stages": ("1", "2"),
    "bucket-mib": ("4.1", "4.7"),
}


def effect_of(option):
    return OPTION_TABLE.get(option, {"effect": "both"})["effect"]


def values_of(option):
    return VALUES.get(option, ("41", "47"))


def write(path, option, value, ranks=2, seconds=0.1):
    """Writes a run in which an epoch has 6 images and takes 6 steps on one rank."""
    config = {"bn": "broadcast", option: value}
    batch = 30
    if option == "batch-per-rank":
        batch = int(value)
    if option == "global-batch":
        batch = int(value) // ranks
        config["batch-per-rank"] = "0"
    write_run(
        path,
        phases(12 // ranks, *[(0, 0, seconds, 0, 0, 0)] * ranks),
        batch * ranks,
        epochs=2,
        batch=batch,
        config=config,
    )
    return read_run(path)


def pair(folder, option, ranks=2):
    return [
        write(folder / f"{i}.h5", option, value, ranks) for i, value in enumerate(values_of(option))
    ]


def texts(rows, columns):
    return [" ".join(str(row.get(name)) for name in columns) for row in rows]


def check(found, expected, option):
    """Asserts that there are `expected` different texts, of which at most one, that of the default,
    names no value of the option."""
    assert len(set(found)) == len(found) == expected
    values = [value.split(":")[0] for value in values_of(option)]
    if option == "batch-per-rank":
        values += [str(2 * int(value)) for value in values]  # the global batch on 2 ranks
    assert (
        sum(any(value in text.replace(",", "") for value in values) for text in found)
        >= expected - 1
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_rows_of_times(tmp_path, option):
    has_effect = effect_of(option) in ("time", "both")
    points = merge_repeats([from_run(run) for run in pair(tmp_path, option)])
    rows = time_table(points).rows
    check(
        sorted(texts(rows, ("setting", "batch_per_rank", "global_batch", "mode"))),
        1 + has_effect,
        option,
    )
    notes = " ".join(note for p in points for note in p.notes)
    assert (f"the runs differ in {option} (" in notes) == (
        effect_of(option) == "results" and option != SEED
    )


@pytest.mark.parametrize(
    "option", [name for name, row in OPTION_TABLE.items() if row.get("effect_requires")]
)
def test_one_rank_does_not_use_the_options_of_several(tmp_path, option):
    runs = pair(tmp_path, option, 1)
    assert len(merge_repeats([from_run(run) for run in runs])) == 1
    assert len(accuracy_table(runs).rows) == 1


@pytest.mark.parametrize("option", OPTIONS)
def test_rows_of_trainings(tmp_path, option):
    has_effect = effect_of(option) != "neither" and option != SEED
    runs = pair(tmp_path, option)
    for table in (accuracy_table, learning_table, time_to_accuracy_table):
        rows = table(runs).rows
        check(set(texts(rows, ("data", "model", "global_batch", "recipe"))), 1 + has_effect, option)
        assert {row["runs"] for row in rows} == {2 - has_effect}


@pytest.mark.parametrize("data, rows", [("hdf5:own.h5", 2), ("synthetic:60", 1)])
def test_images_of_another_content_are_another_experiment(tmp_path, data, rows):
    """Synthetic images of another seed are those of a repeat."""
    runs = []
    for seed, digest in (("1", "0123456789abcdef"), ("2", "fedcba9876543210")):
        path = write_run(
            tmp_path / f"{seed}.h5",
            phases(6, (0, 0, 0.1, 0, 0, 0)),
            30,
            config={"data": data, "seed": seed},
            environment={"data_digest": digest},
        )
        runs.append(read_run(path))
    table = accuracy_table(runs).rows
    assert len(table) == rows and len(set(texts(table, ("data", "recipe")))) == rows
    assert ("data digest 01234567" in str(table)) == (rows == 2)


@pytest.mark.parametrize("option", OPTIONS)
def test_cases_of_a_comparison_and_parts_of_a_run(tmp_path, option):
    has_effect = effect_of(option) != "neither"
    runs = pair(tmp_path, option)
    assert len(cases_of(runs)) == 1 + (has_effect and option != SEED)
    (one,), (other,) = (cases_of([run]) for run in runs)
    assert bool(changed_settings(one, other)) == has_effect
    assert bool(changed_options(runs)) == has_effect


@pytest.mark.parametrize("option", OPTIONS)
def test_curves_over_the_ranks(tmp_path, option):
    """The runs scale perfectly, but the run on 4 ranks differs in the option from those on 1 and
    2."""
    has_effect = effect_of(option) in ("time", "both")
    first, second = values_of(option)
    runs = [write(tmp_path / f"{n}.h5", option, second if n == 3 else first, n) for n in (1, 2, 3)]
    points = add_comparison_notes(merge_repeats([from_run(run) for run in runs]))
    series = scaling_series(points, base_of, lambda p: p.batch_per_rank)
    assert all(len(group) == 1 for _, group in series) == has_effect
    for fit in scaling_fits(points):
        assert not has_effect or len(fit.points) < 3
        if (
            has_effect
            and fit.points[-1].ranks == 3
            and "effect_requires" not in OPTION_TABLE.get(option, {})
        ):
            assert any(option in note for note in (*fit.notes, *fit.points[-1].notes))


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_bases_of_predictions_and_files_of_extra_p(tmp_path, option):
    has_effect = effect_of(option) in ("time", "both")
    runs = []
    for name, value in zip("ab", values_of(option)):
        config = {option: value} | ({"batch-per-rank": "0"} if option == "global-batch" else {})
        path = write_training(
            tmp_path / f"{name}.h5", np.random.default_rng(1), steps=4, config=config
        )
        runs.append(read_run(path))
    assert len(best_bases([(run, from_run(run)) for run in runs])) == 1 + (
        has_effect and option != "pipeline-stages"
    )  # pipelines are not predicted
    folder = Folder(tmp_path / "out", "export extra-p")
    extra_p.write(folder, runs, None)
    assert len(set(folder.written)) == 1 + (
        has_effect and option not in ("batch-per-rank", "global-batch")
    )  # a parameter of the models


@pytest.mark.parametrize(
    "option", [name for name in OPTIONS if name not in (*STATED, "train-samples")]
)
def test_tables_of_files_name_the_difference(tmp_path, option):
    runs = [
        read_run(write_ladder(tmp_path / f"{value}.h5", 2, config={option: value}))
        for value in values_of(option)
    ]
    notes = " ".join(note for table in ladder_run_tables(runs) for note in table.notes)
    assert (f"the runs differ in {option}: " in notes) == (
        effect_of(option) != "neither" and option != SEED
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_fits_of_sweeps(tmp_path, option):
    has_effect = effect_of(option) in ("time", "both") and option not in SIZES
    runs = [
        read_run(
            write_sweep(
                tmp_path / f"{name}.h5",
                np.random.default_rng(1),
                2,
                1e-5,
                1e-9,
                (1e4, 1e5, 1e6),
                config={option: value},
            )
        )
        for name, value in zip("ab", values_of(option))
    ]
    assert len(alpha_beta_fits(runs, [])) == 1 + has_effect
