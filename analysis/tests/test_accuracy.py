# SPDX-License-Identifier: BSD-3-Clause
"""Tests the table of test accuracies and the learning curves."""

import h5py
import numpy as np
from lockstep_report.cli import main
from lockstep_report.figures.accuracy import labels_of
from lockstep_report.measure.accuracy import accuracy_curves
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.accuracy import accuracy_table, time_to_accuracy_table
from synthetic import phases, write_run

STEP = (5.0, 0.0, 1.0, 2.0, 0.0, 0.5)  # 3.5 s of training, 5 s of waiting for data


def write(path, accuracy, images=32, **config):
    """Writes a run of 2 epochs of 3 steps with the given test accuracies."""
    write_run(
        path,
        phases(6, STEP),
        images,
        epochs=2,
        config={"data": "cifar10:/d", "train-samples": "50000", "lr": "0.1", **config},
    )
    with h5py.File(path, "r+") as file:
        file["epochs/test_accuracy"][:] = accuracy
    return path


def table_of(paths):
    return accuracy_table([read_run(path) for path in paths])


def test_repeats_are_summarised_by_median_and_range(tmp_path):
    values = ((0.2, 0.5), (0.2, 0.7), (0.2, 0.6))
    table = table_of([write(tmp_path / f"{i}.h5", v, seed=str(i)) for i, v in enumerate(values)])
    (row,) = table.rows
    assert [round(row[name], 6) for name in ("accuracy", "lowest", "highest")] == [60.0, 50.0, 70.0]
    assert (row["runs"], row["updates"], row["epochs"]) == (3, 6, 2)
    assert row["seconds"] == 6 * 3.5


def test_batches_and_recipes_are_separate_rows(tmp_path):
    paths = [
        write(tmp_path / "a.h5", (0.2, 0.5)),
        write(tmp_path / "b.h5", (0.2, 0.5), images=64),
        write(tmp_path / "c.h5", (0.2, 0.5), images=64, **{"lr-scaling": "linear"}),
    ]
    rows = table_of(paths).rows
    assert [(r["global_batch"], r["recipe"]) for r in rows] == [
        (32, "lr 0.1"),
        (64, "lr 0.1"),
        (64, "lr 0.1, lr-scaling linear"),
    ]


def test_options_without_effect_are_not_shown(tmp_path):
    """The reference batch matters if the rate is scaled, the trust coefficient with LARS."""
    both = {"lr-reference-batch": "64", "trust-coefficient": "0.002", "optimizer": "sgd"}
    plain = {"lr-reference-batch": "128", "trust-coefficient": "auto", "lr-scaling": "none"}
    paths = [
        write(tmp_path / "a.h5", (0.2, 0.5), **{**plain, "optimizer": "sgd"}),
        write(tmp_path / "b.h5", (0.2, 0.5), images=64, **both, **{"lr-scaling": "linear"}),
        write(tmp_path / "c.h5", (0.2, 0.5), images=96, **{**both, "optimizer": "lars"}),
    ]
    assert [row["recipe"] for row in table_of(paths).rows] == [
        "lr 0.1",
        "lr 0.1, lr-scaling linear, lr-reference-batch 64",
        "optimizer lars, lr 0.1, lr-reference-batch 64, trust-coefficient 0.002",
    ]


def test_epochs_that_were_not_evaluated_are_skipped(tmp_path):
    table = table_of([write(tmp_path / "a.h5", (0.4, np.nan))])
    assert table.rows[0]["accuracy"] == 40.0


def test_runs_without_evaluation_and_independent_replicas_have_no_row(tmp_path):
    path = write_run(tmp_path / "i.h5", phases(2, STEP, STEP), 32, reducer="none")
    assert table_of([write(tmp_path / "a.h5", (np.nan, np.nan)), path]).rows == []


def test_labels_name_only_the_differences(tmp_path):
    paths = [
        write(tmp_path / "a.h5", (0.2, 0.5)),
        write(tmp_path / "c.h5", (0.2, 0.5), images=64, **{"lr-scaling": "linear"}),
    ]
    assert labels_of(accuracy_curves([read_run(path) for path in paths])) == [
        "batch 32",
        "batch 64, lr-scaling linear",
    ]


def test_report_has_table_and_figure(tmp_path):
    out = tmp_path / "out"
    assert main(["report", str(write(tmp_path / "a.h5", (0.2, 0.5))), "--out", str(out)]) == 0
    assert "### Test accuracy by global batch" in (out / "report.md").read_text()
    assert (out / "learning-curves.svg").exists()


def test_time_to_accuracy_is_that_of_the_first_epoch_that_reaches_it(tmp_path):
    """Training takes 3.5 s per step and 10.5 s per epoch; one run reaches 90 % after epoch 1."""
    runs = [
        read_run(write(tmp_path / "a.h5", (0.905, 0.92), seed="1")),
        read_run(write(tmp_path / "b.h5", (0.89, 0.905), seed="2")),
    ]
    rows = {row["target"]: row for row in time_to_accuracy_table(runs).rows}
    assert list(rows) == [90, 91, 92]
    assert rows[90]["seconds"] == (10.5 + 21) / 2 and rows[90]["epochs"] == 1.5
    assert rows[92]["seconds"] is None and (rows[92]["reached"], rows[92]["runs"]) == (1, 2)
    # The targets are those of the best curve.
    worse = read_run(write(tmp_path / "w.h5", (0.3, 0.55), lr="0.01"))
    assert {row["target"] for row in time_to_accuracy_table([*runs, worse]).rows} == {90, 91, 92}
    # NaN: not evaluated.
    late = time_to_accuracy_table([read_run(write(tmp_path / "l.h5", (np.nan, 0.92)))])
    assert {row["epochs"] for row in late.rows} == {2}
    assert time_to_accuracy_table([read_run(write(tmp_path / "c.h5", (0.1, 0.2)))]).rows == []


def test_diverged_runs_reach_no_target(tmp_path):
    """3 of 5 runs reach 90 %; an attempt that was stopped is no run."""
    paths = [write(tmp_path / f"{i}.h5", (0.905, 0.92), seed=str(i)) for i in range(3)]
    for i, failure in enumerate(
        ("the loss is not finite in step 4 on rank 0; lower --lr",) * 2 + ("killed",)
    ):
        paths.append(
            write_run(
                tmp_path / f"d{i}.h5",
                phases(3, STEP),
                32,
                status="failed",
                failure=failure,
                config={"data": "cifar10:/d", "train-samples": "50000", "lr": "0.1"},
            )
        )
    runs = [read_run(path) for path in paths]
    rows = {row["target"]: row for row in time_to_accuracy_table(runs).rows}
    assert (rows[90]["reached"], rows[90]["runs"], rows[90]["seconds"]) == (3, 5, None)
    (row,) = accuracy_table(runs).rows
    assert (row["runs"], row["diverged"]) == (3, 2)


def test_data_in_other_folders_are_the_same_data(tmp_path):
    """For example, on the local disk of a node."""
    paths = [
        write(tmp_path / f"{i}.h5", (0.905, 0.92), seed=str(i), data=f"cifar10:/local/{i}")
        for i in range(2)
    ]
    (curve,) = accuracy_curves([read_run(path) for path in paths])
    assert (curve.data, len(curve.labels)) == ("cifar10, 50,000 images", 2)
