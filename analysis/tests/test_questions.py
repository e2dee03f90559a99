# SPDX-License-Identifier: BSD-3-Clause
"""Tests the answers to the questions of a report: known answers from points and runs made by
hand."""

from dataclasses import replace

import numpy as np
import pytest
from lockstep_report.measure.points import Point
from lockstep_report.models.answers.accuracy import large_batches
from lockstep_report.models.answers.communication import derived_communication, other_messages
from lockstep_report.models.answers.scaling import which_scaling, which_speedup
from lockstep_report.models.causes import STRONG, WEAK, Loss
from lockstep_report.runfile.read import read_run
from synthetic import phases, write_run
from test_accuracy import write

STEP = (0.1, 0.0, 1.0, 2.0, 0.4, 0.5)


def point(ranks, batch, seconds, **options):
    return Point(f"{ranks}-{batch}.h5", ranks, batch, seconds, **options)


def test_both_scalings_from_one_base():
    """T(1) = 40 s. Weak: 40 / 12.5 = 3.2 on 4 ranks, efficiency 0.8. Strong: 40 / 20 = 2, 0.5."""
    (found,) = which_scaling(
        [point(1, 32, 40.0), point(2, 32, 22.0), point(4, 32, 12.5), point(4, 8, 20.0)]
    )
    assert "1 rank with batch 32 takes 40.00 s per epoch. " in found.text
    assert (
        "Weak scaling (fixed batch per rank 32): 12.50 s on 4 ranks, speedup T(1)/T(N) 3.20, "
        "efficiency 0.80, at global batch 128." in found.text
    )
    assert (
        "Strong scaling (fixed global batch 32): 20.00 s on 4 ranks, speedup T(1)/T(N) 2.00, "
        "efficiency 0.50, at batch per rank 8." in found.text
    )
    assert "Weak scaling looks better than strong scaling here." in found.text
    assert "1/4 of the updates" in found.text
    assert found.source == "1-32.h5, 4-32.h5, 4-8.h5"
    assert found.values["strong_efficiency"] == 0.5


def test_only_weak_scaling_names_the_missing_run():
    (found,) = which_scaling([point(1, 32, 40.0), point(4, 32, 12.5)])
    assert found.text.endswith(
        "Strong scaling was not measured: it needs a run on 4 ranks with --global-batch 32."
    )


def test_smaller_batch_on_one_rank_bounds_strong_scaling():
    """At batch 8 one rank takes 50 s, so 4 ranks of batch 8 take at least 12.5 s: 40/(4·12.5)."""
    found = which_scaling([point(1, 32, 40.0), point(4, 32, 12.5), point(1, 8, 50.0)])[0]
    assert found.values["largest_strong_efficiency"] == pytest.approx(40 / (4 * 12.5))
    assert "Its efficiency would be at most 0.80, because 1 rank with batch 8 takes 50.00 s." in (
        found.text
    )


def test_only_strong_scaling_names_the_missing_run():
    (found,) = which_scaling([point(1, 32, 40.0), point(4, 8, 20.0)])
    assert found.text.endswith("it needs a run on 4 ranks with --batch-per-rank 32.")


def test_bases_of_both_scalings_are_preferred():
    """Batch 16 per rank on 2 ranks is strong scaling from batch 32, and weak scaling from batch
    16."""
    (found,) = which_scaling(
        [point(1, 32, 40.0), point(1, 16, 44.0), point(2, 32, 22.0), point(2, 16, 24.0)]
    )
    assert found.text.startswith("1 rank with batch 32")


def test_scalings_on_different_numbers_of_ranks_are_not_compared():
    (found,) = which_scaling([point(1, 32, 40.0), point(4, 32, 12.5), point(2, 16, 25.0)])
    assert "12.50 s on 4 ranks" in found.text and "25.00 s on 2 ranks" in found.text
    assert found.text.endswith("so they cannot be compared.")


def test_independent_replicas_and_unknown_batches_are_no_scaling():
    assert which_scaling([point(1, 32, 40.0), point(4, 32, 9.0, reducer="none")]) == []
    assert which_scaling([point(1, 0, 40.0), point(4, 0, 9.0)]) == []


def test_both_speedups_on_the_largest_number_of_ranks():
    (found,) = which_speedup([point(1, 32, 40.0), point(2, 32, 25.0), point(4, 32, 12.5)])
    assert found.values == {"speedup": 3.2, "scaled_speedup": 12.8, "ranks": 4}
    assert "T(1)/T(N) = 3.20 is the speedup (ideal: 4)" in found.text
    assert "N·T(1)/T(N) = 12.80 counts the ranks twice (ideal: N² = 16)" in found.text
    assert which_speedup([point(1, 32, 40.0), point(4, 8, 20.0)]) == []


def loss(ranks, seconds, causes, scaling=WEAK, **options):
    return Loss(point(ranks, 32, seconds, **options), point(1, 32, 40.0), scaling, causes)


def test_error_of_the_derived_communication():
    """T(4) - T(1)/4 = 14 - 10 = 4 s, of which 1.5 + 0.5 s are communication."""
    causes = {
        "transfer": 1.5,
        "waiting": 0.5,
        "imbalance": 1.7,
        "data_wait": 0.1,
        "slower_compute": 0.2,
    }
    (found,) = derived_communication([loss(2, 21.0, {}), loss(4, 14.0, causes)])
    assert found.values == {"derived_seconds": 4.0, "exposed_seconds": 2.0, "hidden_seconds": None}
    assert (
        "T(N) − T(1)/N = 4.00 s per epoch, but the exposed communication is 2.00 s. The "
        "derived time is 2.00 s too large (100 % of the exposed communication), because it also "
        "contains imbalance of the step times (1.70 s), slower computation at the same batch "
        "(0.20 s)." in found.text
    )


def test_derived_communication_can_be_too_small():
    (found,) = derived_communication(
        [loss(4, 10.5, {"transfer": 1.0, "computation": -0.5}, STRONG)]
    )
    assert "The derived time is 0.50 s too small (50 % of the exposed communication)" in found.text


@pytest.mark.parametrize(
    "options",
    [
        {"reducer": "parameter-server"},
        {"variant": frozenset({("bn", "sync")})},
        {"variant": frozenset({("pipeline-stages", "2")})},
    ],
)
def test_communication_in_passes_is_no_error_of_the_derived_one(options):
    assert derived_communication([loss(4, 14.0, {"transfer": 1.0}, **options)]) == []


def runs_of(*paths):
    return [read_run(path) for path in paths]


def test_accuracy_lost_by_a_large_batch_and_its_remedies(tmp_path):
    paths = [
        write(tmp_path / "a.h5", (0.2, 0.7)),
        write(tmp_path / "b.h5", (0.2, 0.5), images=64),
        write(tmp_path / "c.h5", (0.2, 0.6), images=64, **{"lr-scaling": "linear"}),
    ]
    (found,) = large_batches(runs_of(*paths))
    assert (
        "After 2 epochs, the test accuracy is 70.00 % at global batch 32 and 50.00 % at 64 with "
        "the same optimiser, 20.00 points less." in found.text
    )
    assert "With lr 0.1, lr-scaling linear it is 60.00 % at 64." in found.text
    assert "Not tried at 64: " in found.text and "--lr-scaling" not in found.text
    assert "--warmup-epochs" in found.text and "One run per batch" in found.text
    assert large_batches(runs_of(paths[0])) == []


def test_number_of_ranks_is_no_remedy(tmp_path):
    runs = runs_of(
        write(tmp_path / "a.h5", (0.2, 0.7)), write(tmp_path / "b.h5", (0.2, 0.5), images=64)
    )
    runs += [
        replace(
            runs[1],
            path=tmp_path / "c.h5",
            ranks={name: np.repeat(values, 2) for name, values in runs[1].ranks.items()},
            epochs={**runs[1].epochs, "test_accuracy": np.array([0.2, 0.6])},
        )
    ]
    (found,) = large_batches(runs)
    assert "60.00 % at 64 with the same optimiser, 10.00 points less." in found.text
    assert "With lr" not in found.text


def test_longer_training_is_a_remedy(tmp_path):
    runs = runs_of(
        write(tmp_path / "a.h5", (0.2, 0.7)), write(tmp_path / "b.h5", (0.2, 0.5), images=64)
    )
    longer = {name: np.concatenate([values, values]) for name, values in runs[1].epochs.items()}
    longer["test_accuracy"][-1] = 0.65
    runs += [
        replace(
            runs[1],
            path=tmp_path / "c.h5",
            epochs=longer,
            epoch_numbers=np.arange(1, 1 + len(longer["test_accuracy"])),
        )
    ]
    (found,) = large_batches(runs)
    assert "After 4 epochs it is 65.00 % (lr 0.1)." in found.text
    assert "more epochs" not in found.text


def test_part_of_the_images_is_another_data_set(tmp_path):
    runs = runs_of(
        write(tmp_path / "a.h5", (0.2, 0.7)),
        write(tmp_path / "b.h5", (0.2, 0.5), images=64, **{"train-samples": "1024"}),
    )
    assert large_batches(runs) == []


def messages(tmp_path, ranks=2, **options):
    path = write_run(tmp_path / f"{ranks}.h5", phases(2, *[STEP] * ranks), 32 * ranks, **options)
    return other_messages(runs_of(path))


def test_messages_besides_gradients(tmp_path):
    """A step sums 5 numbers and one flag per rank, of 8 bytes."""
    (found,) = messages(tmp_path, reducer="overlap", config={"bn": "broadcast"})
    assert "56 bytes of other numbers" in found.text
    assert "rank 0 has sent its statistics of batch norm" in found.text
    assert found.values["other_bytes_per_step"] == 56
    assert messages(tmp_path, ranks=1) == []


@pytest.mark.parametrize(
    "options, text",
    [
        ({"reducer": "none"}, "No gradients are sent"),
        ({"reducer": "parameter-server"}, "the inputs and the parameters in each step"),
        (
            {"reducer": "overlap", "config": {"bn": "sync"}},
            "the ranks sum its statistics in the forward pass",
        ),
        (
            {"reducer": "overlap", "config": {"pipeline-stages": "2"}},
            "activations and their gradients",
        ),
    ],
)
def test_messages_of_other_methods(tmp_path, options, text):
    (found,) = messages(tmp_path, **options)
    assert text in found.text


def test_messages_are_listed_once_for_the_most_ranks(tmp_path):
    paths = [
        write_run(tmp_path / f"{n}.h5", phases(2, *[STEP] * n), 32 * n, reducer="overlap")
        for n in (2, 4)
    ]
    (found,) = other_messages(runs_of(*paths))
    assert found.source == "4.h5" and found.values["ranks"] == 4
