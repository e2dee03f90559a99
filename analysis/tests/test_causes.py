# SPDX-License-Identifier: BSD-3-Clause
"""Tests the decomposition of the lost efficiency."""

import numpy as np
import pytest
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.causes import STRONG, WEAK, losses
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.runfile.read import read_run
from planted import write_training
from synthetic import phases, write_run


def write(path, *ranks, batch=32, steps=4, reducer="allreduce", images=256):
    """Writes two epochs of steps with the phases `ranks`."""
    return write_run(
        path,
        phases(2 * steps, *ranks),
        batch * len(ranks),
        batch=batch,
        epochs=2,
        reducer=reducer,
        config={"train-samples": str(images)},
        attributes={"part": 1, "steps_per_epoch": steps, "images_per_epoch": images},
    )


def losses_of(*paths):
    return losses(merge_repeats([from_run(run) for run in load_runs(paths).runs]))


def test_weak_scaling_by_hand(tmp_path):
    """One rank: 8 steps of 0.1 + 1 + 2 + 0.5 = 3.6 s, T(1) = 28.8 s. Two ranks: 4 steps, rank 0:
    0.3 + 0.1 + 1.1 + 2.2 + 0.4 + 0.5 = 4.6 s, rank 1: 0.1 s less of forward: T(2) = 18.4 s.
    Loss: 18.4 - 14.4 = 4 s. Each cause is 4 steps of the mean over the ranks less half of 8 steps
    of the base, which are also 4 steps:
    imbalance 4.6 - 4.55 = 0.05; data wait 0.3 - 0.1 = 0.2; upload 0.1; exposed 0.4;
    computation (1.05 + 2.2 + 0.5) - 3.5 = 0.25; sum 1.0 s per step."""
    (loss,) = losses_of(
        write(tmp_path / "1.h5", (0.1, 0, 1, 2, 0, 0.5), steps=8),
        write(tmp_path / "2.h5", (0.3, 0.1, 1.1, 2.2, 0.4, 0.5), (0.3, 0.1, 1.0, 2.2, 0.4, 0.5)),
    )
    assert loss.scaling == WEAK
    assert loss.seconds == pytest.approx(4.0)
    assert loss.efficiency == pytest.approx(28.8 / (2 * 18.4))
    expected = {
        "imbalance": 0.2,
        "data_wait": 0.8,
        "upload": 0.4,
        "communication": 1.6,
        "slow_rank": 0,
        "slower_compute": 1.0,
        "smaller_batch": 0,
        "remainder": 0,
    }
    assert loss.causes == pytest.approx(expected, abs=1e-12)
    shares = sum(loss.share(name) for name in loss.causes)
    assert loss.efficiency + shares == pytest.approx(1)


def test_strong_scaling_divides_smaller_batch_and_slower_computation(tmp_path):
    """Batch 32 on one rank: 8 steps of 4 s. Batch 16 on one rank: 16 steps of 2.5 s. Two ranks of
    batch 16: 8 steps of 3 s. T(2) - T(1)/2 = 24 - 16 = 8 s: a rank computes half of the images in
    20 s instead of 16 s (smaller batch, 4 s), and in 24 s on two ranks (slower, 4 s)."""
    found = losses_of(
        write(tmp_path / "1.h5", (0, 0, 1, 3, 0, 0), steps=8),
        write(tmp_path / "s.h5", (0, 0, 1, 1.5, 0, 0), steps=16, batch=16),
        write(tmp_path / "2.h5", *[(0, 0, 1, 2, 0, 0)] * 2, steps=8, batch=16),
    )
    (strong,) = (loss for loss in found if loss.scaling == STRONG)
    assert strong.seconds == pytest.approx(8)
    assert strong.causes["smaller_batch"] == pytest.approx(4)
    assert strong.causes["slower_compute"] == pytest.approx(4)
    (weak,) = (loss for loss in found if loss.scaling == WEAK)
    assert weak.causes["slower_compute"] == pytest.approx(4)


def test_without_a_run_at_the_smaller_batch_the_computation_is_not_divided(tmp_path):
    (strong,) = losses_of(
        write(tmp_path / "1.h5", (0, 0, 1, 3, 0, 0), steps=8),
        write(tmp_path / "2.h5", *[(0, 0, 1, 2, 0, 0)] * 2, steps=8, batch=16),
    )
    assert "smaller_batch" not in strong.causes
    assert strong.causes["computation"] == pytest.approx(8)


def test_a_gain_is_negative(tmp_path):
    (strong,) = losses_of(
        write(tmp_path / "1.h5", (0, 0, 1, 3, 0, 0), steps=8),
        write(tmp_path / "2.h5", *[(0, 0, 0.5, 1, 0, 0)] * 2, steps=8, batch=16),
    )
    assert strong.causes["computation"] == pytest.approx(12 - 16)
    assert strong.efficiency > 1


def test_causes_of_medians_over_runs_add_up(tmp_path):
    """The median of sums is not the sum of medians; the remainder is the difference."""
    random = np.random.default_rng(1)
    paths = [write(tmp_path / "1.h5", (0.1, 0, 1, 2, 0, 0.5), steps=8)]
    for i in range(4):
        paths.append(write(tmp_path / f"2-{i}.h5", *random.random((2, 6))))
    (loss,) = losses_of(*paths)
    assert loss.point.repeats == 4
    assert abs(loss.causes["remainder"]) > 1e-3
    assert sum(loss.causes.values()) == pytest.approx(loss.seconds)


def test_causes_compare_the_same_number_of_images(tmp_path):
    """Two ranks leave out 3 of 1,000 images (the setting is the same): T(2) = 14.955 s is half of
    T(1) for 997 images, 0.997 · 30 s, so nothing is lost."""
    one = write(tmp_path / "1.h5", (0, 0, 1, 2, 0, 0), batch=100, steps=10, images=1000)
    two = write_run(
        tmp_path / "2.h5",
        phases(10, *[(0, 0, 1, 2, 0, 0)] * 2),
        200,
        batch=100,
        epochs=2,
        reducer="allreduce",
        config={"train-samples": "1000"},
        attributes={"part": 1, "steps_per_epoch": 5, "images_per_epoch": 997},
    )
    points = [from_run(read_run(path)) for path in (one, two)]
    (loss,) = losses(merge_repeats(points))
    assert loss.point.epoch_seconds == pytest.approx(14.955)
    assert loss.seconds == pytest.approx(0, abs=1e-12)
    assert loss.efficiency == pytest.approx(1)
    assert sum(loss.causes.values()) == pytest.approx(loss.seconds)


def test_exposed_communication_is_divided_into_waiting_and_transfer(tmp_path):
    """Rank 1 works 10 ms longer, so rank 0 waits for it in each step."""
    path = write_training(
        tmp_path / "2.h5",
        np.random.default_rng(2),
        ranks=2,
        sigma=0,
        slow_rank=1,
        slow=0.01,
        reducer="allreduce",
        sizes=(1e6,),
        alpha=4e-3,
        beta=0.0,
        jitter=0,
    )
    run = read_run(path)
    split = timed_run(run).split
    assert split.exposed_waiting == pytest.approx((40 * 0.01, 0), abs=1e-9)
    assert split.exposed_transfer == pytest.approx((40 * 0.004, 40 * 0.004), abs=1e-9)


@pytest.mark.parametrize("clock_error, is_divided", [(4e-4, True), (6e-4, False)])
def test_exposed_communication_is_not_divided_by_inaccurate_clocks(
    tmp_path, clock_error, is_divided
):
    """5 ms per step are exposed on average, of which the error of two clocks is 0.8 or 1.2 ms."""

    def made(ranks, **options):
        return write_training(
            tmp_path / f"{ranks}.h5",
            np.random.default_rng(2),
            ranks=ranks,
            sigma=0,
            jitter=0,
            reducer="allreduce",
            steps=80 // ranks,
            images=64 * ranks,
            **options,
        )

    (loss,) = losses_of(
        made(1, sizes=()),
        made(
            2, slow_rank=1, slow=2e-3, sizes=(1e6,), alpha=4e-3, beta=0.0, clock_error=clock_error
        ),
    )
    named = {
        name: round(1e3 * loss.causes.get(name, 0) / 40, 6)
        for name in ("waiting", "transfer", "communication")
    }
    assert named == (
        {"waiting": 1, "transfer": 4, "communication": 0}
        if is_divided
        else {"waiting": 0, "transfer": 0, "communication": 5}
    )


def test_waiting_and_transfer_are_causes(tmp_path):
    random = np.random.default_rng(3)
    one = write_training(
        tmp_path / "1.h5",
        random,
        ranks=1,
        sigma=0,
        sizes=(),
        steps=80,
        images=64,
        reducer="allreduce",
    )
    two = write_training(
        tmp_path / "2.h5",
        random,
        ranks=2,
        sigma=0,
        slow_rank=1,
        slow=0.01,
        reducer="allreduce",
        sizes=(1e6,),
        alpha=4e-3,
        beta=0.0,
        jitter=0,
    )
    (loss,) = losses_of(one, two)
    assert loss.causes["waiting"] == pytest.approx(40 * 0.005)
    assert loss.causes["transfer"] == pytest.approx(40 * 0.004)
    assert loss.causes["communication"] == pytest.approx(0, abs=1e-9)
    assert loss.causes["slow_rank"] == pytest.approx(40 * 0.005)
    assert loss.causes["slower_compute"] == pytest.approx(0, abs=1e-9)
    assert sum(loss.causes.values()) == pytest.approx(loss.seconds)


@pytest.mark.parametrize("ranks, slow", [(2, [1]), (4, [0, 3]), (5, [2, 4])])
def test_work_beyond_the_median_rank_is_the_cause_slow_rank(tmp_path, ranks, slow):
    """The mean over the ranks of what the slow ranks compute longer: 0.3 s in each of 10 steps."""
    one = write(tmp_path / "1.h5", (0, 0, 1, 2, 0, 0), steps=10 * ranks, images=320 * ranks)
    rows = [(0, 0, 1.3, 2, 0, 0) if rank in slow else (0, 0, 1, 2, 0.3, 0) for rank in range(ranks)]
    (loss,) = losses_of(one, write(tmp_path / "n.h5", *rows, steps=10, images=320 * ranks))
    assert loss.causes["slow_rank"] == pytest.approx(10 * 0.3 * len(slow) / ranks)
    assert loss.causes["slower_compute"] == pytest.approx(0, abs=1e-9)
    assert sum(loss.causes.values()) == pytest.approx(loss.seconds)


def test_a_cause_that_compares_runs_is_shown_if_it_exceeds_their_spread(tmp_path):
    one = [write(tmp_path / f"1-{i}.h5", (0, 0, 1, 2 + 0.02 * i, 0, 0), steps=8) for i in range(3)]
    two = [
        write(tmp_path / f"2-{i}.h5", *[(0, 0, 1.1, 2.2 + 0.02 * i, 0, 0)] * 2) for i in range(3)
    ]
    assert [losses_of(*one[:n], *two[:n])[0].is_shown("slower_compute") for n in (1, 3)] == [
        False,
        True,
    ]
