# SPDX-License-Identifier: BSD-3-Clause
"""Tests the command `explain`, its tables, its JSON and its figures."""

import json

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT
from lockstep_report.figures.explanation import all_reduce_lines, cause_bars, law_curves
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.read import read_run
from planted import write_sweep, write_training
from synthetic import phases, write_ladder, write_run
from test_figures import faults

SIZES = 4096 * 4 ** np.arange(6)
IMAGES = 640  # per epoch in the runs of `study`


def study(folder, ranks=(1, 2, 4), batches=(32,)):
    """Writes weak and strong scaling runs over `ranks`, and a sweep. Every rank computes 1 ms per
    image and 5 ms per step."""
    random = np.random.default_rng(1)
    paths = [write_sweep(folder / "sweep.h5", random, 2, 1e-4, 1e-9, SIZES)]
    for batch in batches:
        for count in ranks:
            for name, own in (("weak", batch), ("strong", max(1, batch // count))):
                steps = max(2, IMAGES // (own * count))
                seconds = 0.005 + 0.001 * own * (1 + 0.01 * random.random((2 * steps, count)))
                made = np.zeros((2 * steps, count, 6))
                made[:, :, 2], made[:, :, 3] = 0.3 * seconds, 0.7 * seconds
                made[:, :, 4] = 0 if count == 1 else seconds.max(axis=1)[:, None] - seconds + 0.004
                paths.append(
                    write_run(
                        folder / f"{name}-{batch}-{count}.h5",
                        made,
                        own * count,
                        batch=own,
                        epochs=2,
                        config={"train-samples": str(IMAGES)},
                        attributes={
                            "part": 1,
                            "steps_per_epoch": steps,
                            "images_per_epoch": IMAGES,
                        },
                    )
                )
    return paths


def explain_files(paths):
    runs = list(map(read_run, paths))
    return explain(merge_repeats([from_run(run) for run in runs if run.has_steps]), runs)


def run_command(capsys, *arguments):
    status = main(["explain", *map(str, arguments)])
    return status, capsys.readouterr()


def test_command_prints_all_tables(tmp_path, capsys):
    status, printed = run_command(capsys, *study(tmp_path))
    assert status == 0
    for title in (
        "Advice",
        "Causes of lost efficiency",
        "Fits of scaling laws",
        "All-reduce time: alpha + beta",
        "Slowest rank and clocks",
    ):
        assert f"### {title}" in printed.out


def test_json_has_typed_values_that_add_up(tmp_path, capsys):
    status, printed = run_command(capsys, *study(tmp_path), "--json")
    values = json.loads(printed.out)
    assert status == 0
    assert set(values) == {
        "answers",
        "causes",
        "scaling_laws",
        "alpha_beta",
        "stragglers",
        "advice",
    }
    for loss in values["causes"]:
        assert sum(loss["causes_seconds"].values()) == pytest.approx(loss["loss_seconds"])
        share = loss["loss_seconds"] / loss["epoch_seconds"]
        assert loss["efficiency"] + share == pytest.approx(1)
    assert {law["law"] for law in values["scaling_laws"]} == {"Amdahl", "Gustafson"}
    (ring,) = values["alpha_beta"]
    low, high = ring["beta_seconds_per_byte"]["interval"]
    assert low < 1e-9 < high


def test_smaller_batches_are_advice_with_their_evidence(tmp_path):
    """5 ms per step are 5/13 of the computation of a batch of 8, 5/21 of that of 16 and 5/37 of
    that of 32."""
    advice = [a for a in explain_files(study(tmp_path)).advice if a.rule == "small-batch"]
    assert [a.evidence["batch_per_rank"] for a in advice] == [8, 16]
    assert all(a.evidence["share"] >= a.threshold for a in advice)


def test_exposed_transfer_of_the_last_bucket_contains_no_waiting(tmp_path):
    """Rank 1 works 10 ms longer than rank 0, which waits for it before the transfer of 4 ms."""
    path = write_training(
        tmp_path / "2.h5",
        np.random.default_rng(2),
        ranks=2,
        sigma=0,
        slow_rank=1,
        slow=0.01,
        sizes=(1e6,),
        alpha=4e-3,
        beta=0.0,
        jitter=0,
    )
    (step,) = explain_files([path]).steps
    assert step.waiting == pytest.approx(0.005)  # mean of 10 ms and 0
    assert step.last_bucket == pytest.approx(0.004)
    assert step.transfer == pytest.approx(0.004)


def test_tables_and_figures_are_part_of_the_report(tmp_path, capsys):
    out = tmp_path / "out"
    paths = list(map(str, study(tmp_path)))
    assert main(["report", *paths, "--out", str(out)]) == 0
    page = (out / "report.md").read_text()
    capsys.readouterr()
    _, printed = run_command(capsys, *paths)
    for line in printed.out.splitlines():
        assert line in page
    for name in ("efficiency-causes", "scaling-laws", "alpha-beta"):
        assert (out / f"{name}.svg").is_file()
        assert f"![{name}]({name}.svg)" in page


def test_planted_runs_get_the_advice_of_their_cause(tmp_path, capsys):
    """Rank 3 works 10 ms longer than 50 ms."""
    path = write_training(tmp_path / "slow.h5", np.random.default_rng(2), slow_rank=3, slow=0.01)
    _, printed = run_command(capsys, path, "--json")
    rules = {a["rule"]: a for a in json.loads(printed.out)["advice"]}
    assert rules["waiting-rank"]["evidence"]["rank"] == 3
    assert rules["waiting-rank"]["evidence"]["excess_seconds"] == pytest.approx(0.01, abs=1e-3)


def test_balanced_hidden_runs_get_no_advice(tmp_path):
    path = write_training(
        tmp_path / "run.h5", np.random.default_rng(3), sigma=0.001, alpha=1e-5, beta=1e-11
    )
    assert explain_files([path]).advice == []


def test_nothing_to_explain_is_one_line(tmp_path, capsys):
    status, printed = run_command(capsys, write_ladder(tmp_path / "ladder.h5"))
    assert status == INPUT
    assert "nothing to explain" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e300])
@pytest.mark.parametrize(
    "name",
    [
        "steps/phase_seconds",
        "buckets/end_seconds",
        "steps/start_seconds",
        "allreduce/seconds",
        "epochs/clock_offset_seconds",
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, about these values
def test_values_that_no_run_has_do_not_end_the_explanation(tmp_path, capsys, name, value):
    random = np.random.default_rng(4)
    paths = [
        write_training(tmp_path / "2.h5", random, ranks=2, steps=8),
        write_sweep(tmp_path / "sweep.h5", random, 2, 1e-4, 1e-9, SIZES),
    ]
    for path in paths:
        with h5py.File(path, "r+") as file:
            if name in file:
                file[name][...] = value
    status, printed = run_command(capsys, *paths, "--json")
    # A run without usable step times is skipped, and the sweep is explained.
    expected = 3 if name == "steps/phase_seconds" and not 0 < value < np.inf else 0
    assert status == expected and printed.err.count("\n") == (expected == 3)
    json.loads(printed.out)
    assert run_command(capsys, *paths)[0] == expected


def test_texts_of_files_are_escaped(tmp_path, capsys):
    path = write_run(
        tmp_path / "a.h5",
        phases(8, *[(1, 0, 4, 4, 2, 0)] * 2),
        64,
        epochs=2,
        ranks_of={"hostname": ["a|b", "c|d"]},
    )
    _, printed = run_command(capsys, path)
    assert "a\\|b" in printed.out or "c\\|d" in printed.out


@pytest.mark.parametrize(
    "ranks, batches",
    [
        ((1, 2), (32,)),
        ((1, 2, 4), (32, 64)),
        pytest.param((1, 2, 3, 4, 5, 6, 8), (32,), marks=pytest.mark.slow),
        pytest.param((1, *range(2, 22)), (64,), marks=pytest.mark.slow),
    ],
)
def test_texts_of_the_figures_fit(tmp_path, ranks, batches):
    """1, 4, 6 and 20 points of each scaling. Two numbers of ranks determine a law, so it is not
    drawn."""
    found = explain_files(study(tmp_path, ranks, batches))
    made = {
        "efficiency-causes": cause_bars(found.losses),
        "scaling-laws": law_curves(found.laws),
        "alpha-beta": all_reduce_lines(found.all_reduces),
    }
    assert made.pop("scaling-laws") is None if len(ranks) == 2 else all(made.values())
    for name, figure in made.items():
        assert faults(figure) == [], name
