# SPDX-License-Identifier: BSD-3-Clause
"""lockstep-report compare."""

import argparse
import json

import numpy as np
import pytest
from lockstep_report.arguments import positive_integer
from lockstep_report.cli import main
from lockstep_report.measure.cases import cases_of, changed_settings, match
from lockstep_report.measure.changes import change, is_regression, verdict
from lockstep_report.measure.estimates import BY_NAME, MedianEstimate, estimate
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.compare import shortened
from synthetic import write_run

STEP = BY_NAME["step_seconds"]
RATE = BY_NAME["images_per_second"]


def run(path, seconds, *, ranks=2, batch=32, **options):
    """Writes a run with the given forward times (step); the epoch is complete."""
    seconds = np.asarray(seconds, dtype=float)
    times = np.zeros((len(seconds), ranks, 6))
    times[:, :, 2] = seconds[:, None]
    path.parent.mkdir(exist_ok=True)
    return write_run(
        path,
        times,
        ranks * batch,
        batch=batch,
        attributes={
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": len(seconds),
            "images_per_epoch": ranks * batch * len(seconds),
        },
        config=options,
    )


def compare(capsys, *arguments):
    status = main(["compare", *map(str, arguments)])
    return status, capsys.readouterr()


def test_change_of_medians_by_hand():
    found = change(MedianEstimate(2.0, 1.9, 2.1, 9), MedianEstimate(3.0, 2.8, 3.2, 9))
    assert found.difference == pytest.approx(1.0) and found.ratio == pytest.approx(1.5)
    assert (found.difference_low, found.difference_high) == pytest.approx((0.7, 1.3))
    assert (found.ratio_low, found.ratio_high) == pytest.approx((2.8 / 2.1, 3.2 / 1.9))
    assert found.is_significant and verdict(found, STEP) == "significant: worse"
    assert verdict(found, RATE) == "significant: better"
    steps = change(
        MedianEstimate(2.0, 1.9, 2.1, 9, "steps"), MedianEstimate(3.0, 2.8, 3.2, 9, "steps")
    )
    assert steps.is_significant is None and verdict(steps, STEP) == "within these runs: worse"
    assert (
        verdict(
            change(MedianEstimate(2.0, 1, 3, 9, "steps"), MedianEstimate(2.1, 1, 3, 9, "steps")),
            STEP,
        )
        == "none within these runs"
    )
    unknown = change(MedianEstimate(np.nan, 1, 3, 9), MedianEstimate(np.nan, 1, 3, 9))
    assert (unknown.ratio, unknown.ratio_low, unknown.ratio_high) == (None, None, None)


def test_no_interval_if_one_side_has_none_or_other_values():
    single, steps = MedianEstimate(2.0), MedianEstimate(3.0, 2.9, 3.1, 50, "steps")
    runs = MedianEstimate(3.0, 2.9, 3.1, 6, "runs")
    for a, b in ((single, runs), (runs, single), (runs, steps)):
        found = change(a, b)
        assert found.is_significant is None and found.ratio_low is None
        assert verdict(found, STEP) == "unknown (no interval)"


def test_regression_needs_significance_and_more_than_the_tolerance():
    slow = MedianEstimate(2.2, 2.15, 2.25, 50, "steps")
    fast, wide = (
        MedianEstimate(2.0, 1.95, 2.05, 50, "steps"),
        MedianEstimate(2.0, 1.5, 2.5, 50, "steps"),
    )
    assert is_regression(change(fast, slow), STEP, 0.05)
    assert not is_regression(change(fast, slow), STEP, 0.15)
    assert not is_regression(change(wide, slow), STEP, 0.05)  # not significant
    assert not is_regression(change(slow, fast), STEP, 0.05)  # better
    assert is_regression(change(slow, fast), RATE, 0.05)
    assert is_regression(
        change(MedianEstimate(2.0), MedianEstimate(2.2)), STEP, 0.05
    )  # no interval
    assert is_regression(change(MedianEstimate(0.0), MedianEstimate(2.2)), STEP, 0.05)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_equal_runs_are_rarely_significant(correlation):
    """The seeded share of significant changes between runs with equal distributions is at most
    5 %, also if successive steps are correlated (first-order autoregression)."""
    generator = np.random.default_rng(11)
    significant, repeats, steps = 0, 200, 98
    for _ in range(repeats):
        estimates = []
        for _ in range(2):
            noise = generator.normal(size=steps)
            for i in range(1, steps):
                noise[i] += correlation * noise[i - 1]
            estimates.append(estimate(1 + 0.01 * noise, "steps"))
        significant += change(*estimates).is_apart
    assert significant <= 0.05 * repeats


@pytest.mark.parametrize("count, over", [(98, "steps"), (6, "runs"), (15, "runs")])
def test_interval_of_the_ratio_contains_a_planted_ratio(count, over):
    """In at least 95 % of seeded repeats, with skewed values and spreads that differ between the
    sides. 300 repeats at 95 % would give 285 +- 4."""
    generator = np.random.default_rng(7)
    found = 0
    for _ in range(300):
        a = np.exp(0.02 * generator.normal(size=count)) + 0.01 * generator.exponential(size=count)
        b = np.exp(0.05 * generator.normal(size=count)) + 0.01 * generator.exponential(size=count)
        result = change(estimate(a, over), estimate(1.1 * b, over))
        # The medians of a and b are equal up to 1e-3: the exponential terms shift both by 0.007.
        found += result.ratio_low <= 1.1 <= result.ratio_high
    assert found >= 285


def test_a_planted_change_is_found_with_its_settings_first(tmp_path, capsys):
    generator = np.random.default_rng(5)
    a = run(tmp_path / "a.h5", 0.100 + 0.001 * generator.random(60), seed="1")
    b = run(
        tmp_path / "b.h5", 0.120 + 0.001 * generator.random(60), seed="1", **{"bucket-mib": "6"}
    )
    status, printed = compare(capsys, a, b)
    assert status == 0
    lines = printed.out.splitlines()
    assert lines[:2] == ["Changed settings:", "  bucket-mib  (not set) -> 6"]
    row = next(line for line in lines if line.startswith("Step (slowest rank)"))
    assert "within these runs: worse" in row
    status, printed = compare(capsys, a, b, "--json")
    values = json.loads(printed.out)["pairs"][0]
    step = next(q for q in values["quantities"] if q["name"] == "step_seconds")
    assert step["ratio_low"] < 1.2 < step["ratio_high"] and (
        step["is_apart"],
        step["is_significant"],
    ) == (True, None)
    assert step["a"]["count"] == 54 and step["a"]["over"] == "steps"  # without the first 10 %
    assert values["changed_settings"] == [{"name": "bucket-mib", "a": "", "b": "6"}]


def test_repeats_have_intervals_over_runs(tmp_path, capsys):
    for side, seconds in (("a", 0.1), ("b", 0.2)):
        for seed in range(6):
            run(tmp_path / side / f"{seed}.h5", [seconds + 0.001 * seed] * 20, seed=str(seed))
    status, printed = compare(capsys, tmp_path / "a", tmp_path / "b", "--json")
    pair = json.loads(printed.out)["pairs"][0]
    epoch = next(q for q in pair["quantities"] if q["name"] == "epoch_seconds")
    assert epoch["a"]["count"] == 6 and epoch["a"]["over"] == "runs"
    assert epoch["a"]["low"] == pytest.approx(2.0) and epoch["a"]["high"] == pytest.approx(2.1)
    assert epoch["is_significant"] is True and epoch["direction"] == "worse"
    assert pair["changed_settings"] == []
    _, printed = compare(capsys, tmp_path / "a", tmp_path / "b")
    row = next(line for line in printed.out.splitlines() if line.startswith("Epoch"))
    assert row.split()[-8:] == "2.05 4.05 98 90 to 105 significant: worse".split()


def test_exit_status_of_a_check(tmp_path, capsys):
    a = run(tmp_path / "a.h5", [0.1] * 20)
    b = run(tmp_path / "b.h5", [0.104] * 20)
    c = run(tmp_path / "c.h5", [0.12] * 20)
    for path, status in ((a, 0), (b, 0), (c, 7)):
        found, printed = compare(capsys, a, path, "--tolerance", "5%")
        assert found == status
    assert "3 regressions beyond 5 %" in printed.err and "regression" in printed.out
    assert compare(capsys, a, c, "--tolerance", "0.05", "--check", "images_per_second")[0] == 7
    assert compare(capsys, a, c, "--tolerance", "0.05", "--check", "train_loss")[0] == 0
    status, printed = compare(capsys, a, c, "--tolerance", "1%", "--check", "joules_per_image")
    assert status == 3 and "joules_per_image is unknown" in printed.err


def test_a_case_that_is_missing_was_not_checked(tmp_path, capsys):
    for ranks in (1, 2):
        run(tmp_path / "a" / f"{ranks}.h5", [0.1] * 20, ranks=ranks)
    one = run(tmp_path / "one.h5", [0.1] * 20, ranks=1)
    status, printed = compare(capsys, tmp_path / "a", one)
    assert status == 0 and "Only in A: 2 ranks" in printed.out
    status, printed = compare(capsys, tmp_path / "a", one, "--tolerance", "5%")
    assert status == 3 and "it was not checked" in printed.err


def test_cases_match_by_as_much_as_they_share(tmp_path):
    a = [
        run(tmp_path / f"a{r}{b}.h5", [0.1] * 20, ranks=r, batch=b)
        for r, b in ((1, 32), (2, 32), (2, 64))
    ]
    b = [
        run(tmp_path / f"b{r}{b}.h5", [0.1] * 20, ranks=r, batch=b, **{"lr": "0.5"})
        for r, b in ((2, 64), (1, 32), (4, 32))
    ]
    cases = [cases_of([read_run(path) for path in side]) for side in (a, b)]
    pairs, rest_a, rest_b = match(*cases)
    pairs = {x.sources[0]: (x, y) for x, y in pairs}
    assert {name: y.sources[0] for name, (_, y) in pairs.items()} == {
        "a132.h5": "b132.h5",
        "a232.h5": "b432.h5",
        "a264.h5": "b264.h5",
    }
    assert rest_a == rest_b == []
    assert ("lr", "", "0.5") in changed_settings(*pairs["a132.h5"])
    assert ("ranks", "2", "4") in changed_settings(*pairs["a232.h5"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["B", "C"],
        ["B", "--tolerance", "-5%"],
        ["B", "--tolerance", "x"],
        ["B", "--check", "nothing"],
    ],
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "A", *arguments])
    assert stopped.value.code == 2


def test_counts_are_positive_integers():
    assert (positive_integer("1"), positive_integer("50,000")) == (1, 50000)
    with pytest.raises(argparse.ArgumentTypeError, match="positive integer"):
        positive_integer("0")


@pytest.mark.parametrize(
    "a, b",
    [
        ("x" * 300 + "1", "x" * 300 + "2"),
        ("x" * 500, "x" * 501),
        ("a" * 150 + "1" + "b" * 300, "a" * 150 + "2" + "b" * 300),
    ],
)
def test_long_texts_that_differ_are_shown_where_they_differ(a, b):
    one, other = shortened([a, b])
    assert one != other and max(len(one), len(other)) <= 200
    assert shortened([a, a, b])[:2] == [one, one]


def assumed(half_width, after=1.2):
    return verdict(change(MedianEstimate(1.0), MedianEstimate(after), half_width), STEP)


def test_verdict_about_single_runs_uses_the_assumed_spread():
    assert assumed(0.1) == "larger than runs differ (assumed): worse"
    assert assumed(0.1, after=0.8) == "larger than runs differ (assumed): better"
    assert assumed(0.3) == "within what runs differ (assumed)"
    assert assumed(None) == "unknown (no interval)"  # such as of accuracies
    runs = change(MedianEstimate(1.0, 0.9, 1.1, 6), MedianEstimate(1.3, 1.2, 1.4, 6), 0.5)
    assert runs.exceeds_assumed is None and verdict(runs, STEP) == "significant: worse"


@pytest.mark.parametrize(
    "after, text",
    [
        (0.114, "within what runs differ (assumed)"),
        (0.117, "larger than runs differ (assumed): worse"),
        (0.086, "larger than runs differ (assumed): better"),
    ],
)
def test_epochs_of_two_single_runs_differ_from_14_percent_on(tmp_path, capsys, after, text):
    """1.96 · 5 % · sqrt(1 + 1.15²) = 14.9 % of A; 1.96 · 5 % · sqrt(1 + 0.87²) = 13.0 %."""
    paths = [run(tmp_path / f"{name}.h5", [s] * 20) for name, s in (("a", 0.1), ("b", after))]
    _, printed = compare(capsys, *paths)
    row = next(line for line in printed.out.splitlines() if line.startswith("Epoch  "))
    assert text in row
    assert row.split()[4:6] == [f"{100 * (after / 0.1 - 1):.1f}", "–"]  # no interval
    assert "a standard deviation of 5 % between runs is assumed" in printed.out
    _, printed = compare(capsys, *paths, "--json")
    (pair,) = json.loads(printed.out)["pairs"]
    epoch = next(q for q in pair["quantities"] if q["name"] == "epoch_seconds")
    assert epoch["exceeds_assumed"] is text.startswith("larger")
    half = 1.96 * 0.05 * np.hypot(epoch["a"]["median"], epoch["b"]["median"])
    assert epoch["assumed_half_width"] == pytest.approx(half)
    assert epoch["is_apart"] is None and epoch["is_significant"] is None


def test_repeats_without_an_interval_need_a_smaller_difference(tmp_path, capsys):
    """Three runs each: 1.96 · 5 % · sqrt((1 + 1.1²) / 3) = 8.4 % of A."""
    for side, seconds in (("a", 0.1), ("b", 0.11)):
        for seed in range(3):
            run(tmp_path / side / f"{seed}.h5", [seconds] * 20, seed=str(seed))
    _, printed = compare(capsys, tmp_path / "a", tmp_path / "b")
    row = next(line for line in printed.out.splitlines() if line.startswith("Epoch  "))
    assert "larger than runs differ (assumed): worse" in row


def test_parts_are_compared_with_the_spread_of_the_whole(tmp_path, capsys):
    """The data wait of 1 ms doubles, in steps of 101 and 102 ms that differ by less than runs."""
    paths = []
    for name, wait in (("a", 0.001), ("b", 0.002)):
        times = np.zeros((4, 2, 6))  # too few steps for an interval
        times[:, :, 0], times[:, :, 2] = wait, 0.1
        attributes = {"part": 1, "first_step": 0, "steps_per_epoch": 4, "images_per_epoch": 256}
        path = tmp_path / f"{name}.h5"
        paths.append(write_run(path, times, 64, batch=32, attributes=attributes))
    _, printed = compare(capsys, *paths)
    row = next(line for line in printed.out.splitlines() if line.startswith("Step: data wait"))
    assert "100.0 " in row and "within what runs differ (assumed)" in row


def test_a_large_change_is_a_factor(tmp_path, capsys):
    for side, seconds in (("a", 0.001), ("b", 5.89)):
        for seed in range(6):
            run(tmp_path / side / f"{seed}.h5", [seconds * (1 + 0.01 * seed)] * 20, seed=str(seed))
    _, printed = compare(capsys, tmp_path / "a", tmp_path / "b")
    row = next(line for line in printed.out.splitlines() if line.startswith("Epoch  "))
    assert row.split()[-8:] == "– – 5,890 5,610 to 6,180 significant: worse".split()
