# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the numbers and statements of the report against simulated measurements with known
truth."""

import shutil
import tempfile
from dataclasses import dataclass
from itertools import combinations, cycle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from lockstep_report.measure.compare import BY_NAME, change, estimate, verdict
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.inference import median_interval, series_interval
from lockstep_report.measure.points import Point, point_of
from lockstep_report.measure.stragglers import straggler_of
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.answers.all_answers import headline_texts
from lockstep_report.models.answers.scaling import which_scaling
from lockstep_report.models.explanation import explain
from lockstep_report.models.fits import AMDAHL, GUSTAFSON, alpha_beta, fit_law
from lockstep_report.models.prediction.basis import Basis
from lockstep_report.models.prediction.predict import predict
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.runfile.read import read_run
from planted import write_training
from predictions import ring_network
from systems import EFFECTS, STEP, deviations, write_steps, write_study

COVERED = (0.90, 0.99)
AT_LEAST = (0.90, 1.0)  # of conservative intervals, such as those of few values
PREDICTED = (0.85, 1.0)
RARELY = (0.0, 0.05)  # false statements
ALWAYS = (0.95, 1.0)  # true statements
NEVER = (0.0, 0.0)


@dataclass(frozen=True)
class Check:
    """`simulate(random)` returns whether an interval covers the truth, or whether the report makes
    a statement; None if it gives no interval. The share must be within `bounds`."""

    group: str
    truth: str
    bounds: tuple
    repeats: int
    simulate: object

    @property
    def name(self):
        return f"{self.group}: {self.truth}"

    def run(self):
        """Returns (share, number of the repeats that count)."""
        random = np.random.default_rng([7, *self.name.encode()])
        found = [
            one for one in (self.simulate(random) for _ in range(self.repeats)) if one is not None
        ]
        return (sum(map(bool, found)) / len(found) if found else 0.0), len(found)


CHECKS = []


def check(group, truth, bounds, repeats=200):
    def add(simulate):
        CHECKS.append(Check(group, truth, bounds, repeats, simulate))
        return simulate

    return add


def covers(interval, value):
    if interval is None or interval.low is None:
        return None
    return interval.low <= value <= interval.high


def in_folder(function):
    """Calls `function(folder)` with a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp())
    try:
        return function(folder)
    finally:
        shutil.rmtree(folder)


# --- Intervals

for kind, count in (
    ("independent", 20),
    ("independent", 200),
    ("AR(1) 0.6", 100),
    ("AR(1) 0.6", 400),
    ("two states", 200),
    ("skewed", 100),
):

    @check("Median step", f"{kind}, {count} steps", COVERED, 400 if count > 20 else 2000)
    def median_step(random, kind=kind, count=count):
        return covers(series_interval(deviations(random, kind, count)), 0.0)


for count in (6, 20):

    @check(
        "Median epoch",
        f"{count} runs, standard deviation 5 %",
        AT_LEAST if count < 20 else COVERED,
        400,
    )
    def median_epoch(random, count=count):
        return covers(median_interval(random.standard_normal(count)), 0.0)


for error, transfer in ((1e-5, 1.4e-3), (1e-3, 1.4e-3), (1e-3, 3e-4)):
    system = f"clocks wrong by up to {1e3 * error:g} ms, transfer of {1e3 * transfer:g} ms"

    def transfer_bounds(random, error=error, transfer=transfer):
        """Returns the bounds of the transfer of a step on two hosts whose clocks differ."""
        return in_folder(
            lambda folder: point_of(
                read_run(
                    write_training(
                        folder / "a.h5",
                        random,
                        ranks=2,
                        steps=20,
                        sizes=(4e5,),
                        alpha=transfer,
                        beta=0.0,
                        reducer="allreduce",
                        clock_rank=1,
                        clock=random.uniform(-error, error),
                        clock_error=error,
                    )
                )
            ).split.transfer_bounds.times(1 / 20)
        )

    @check("Bounds of the transfer", system, ALWAYS, 60)
    def transfer_is_within(random, bounds=transfer_bounds, transfer=transfer):
        found = bounds(random)
        return found.low <= 1.02 * transfer and found.high >= 0.98 * transfer

    @check("A transfer is wrong by more than 20 %", system, RARELY, 60)
    def transfer_is_wrong(random, bounds=transfer_bounds, transfer=transfer):
        value = bounds(random).value
        return value is not None and abs(value / transfer - 1) > 0.2


LAWS = {AMDAHL: lambda n, s: s + (1 - s) / n, GUSTAFSON: lambda n, s: n / (n - s * (n - 1))}


def law_interval(random, law, serial, session):
    ranks = np.repeat((1, 2, 4, 8), 3)
    sessions = np.repeat(np.exp(session * random.standard_normal(4)), 3)
    return fit_law(
        law,
        ranks,
        LAWS[law](ranks, serial) * sessions * np.exp(0.02 * random.standard_normal(len(ranks))),
    )[1]


for law in LAWS:
    for session, text in ((0.0, "independent runs"), (0.05, "sessions differ by 5 %")):

        @check(f"{law}: s", f"{text}, 4 rank counts, 3 runs each", AT_LEAST, 400)
        def serial_fraction(random, law=law, session=session):
            return covers(law_interval(random, law, 0.1, session), 0.1)

    @check(f"{law}: s is above 0", "ideal scaling, sessions differ by 5 %", RARELY, 400)
    def above_zero(random, law=law):
        found = law_interval(random, law, 0.0, 0.05)
        return found.has_interval and found.low > 0


for files, session in ((1, 0.0), (3, 0.0), (3, 0.05)):
    for index, name in enumerate(("alpha", "beta")):

        @check(
            name,
            f"{files} file{'s' * (files > 1)}, jobs differ by {100 * session:.0f} %",
            AT_LEAST,
            300,
        )
        def cost(random, files=files, session=session, index=index):
            sizes = np.tile(4096.0 * 4 ** np.arange(8), files)
            jobs = np.repeat(np.arange(files), 8)
            seconds = (50e-6 + 2e-9 * sizes) * np.exp(session * random.standard_normal(files)[jobs])
            seconds *= np.exp(0.02 * random.standard_normal(len(sizes)))
            return covers(alpha_beta(sizes, seconds, jobs)[index], (50e-6, 2e-9)[index])


for correlation, kind in ((0.0, "independent"), (0.6, "AR(1) 0.6")):

    @check("Excess of a slow rank", f"rank 2 of 4 slower by 6 %, {kind}, 60 steps", AT_LEAST, 100)
    def excess(random, correlation=correlation):
        return in_folder(
            lambda folder: covers(
                straggler_of(
                    timed_run(
                        read_run(
                            write_training(
                                folder / "a.h5",
                                random,
                                steps=60,
                                slow_rank=2,
                                slow=0.003,
                                correlation=correlation,
                            )
                        )
                    )
                ).excess,
                0.003,
            )
        )


# --- Predictions

SPREADS = {"normal": lambda z: 0.05 * z, "skewed": None, "AR(1) 0.6": lambda z: 0.05 * z}


def work_of(random, kind, steps, ranks):
    scale = 0.1 if kind == "skewed" else 0.05
    return 0.05 * (
        1 + scale * deviations(random, {"normal": "independent"}.get(kind, kind), steps, ranks)
    )


def mean_maximum(kind, ranks, cache={}):  # noqa: B006
    """Returns the mean of the longest work of `ranks` ranks in a step."""
    if (kind, ranks) not in cache:
        random = np.random.default_rng(3)
        cache[kind, ranks] = np.mean(
            [work_of(random, kind, 500, ranks).max(axis=1).mean() for _ in range(40)]
        )
    return cache[kind, ranks]


def predicted_step(random, kind, ranks, measured):
    """Returns whether the predicted interval covers the mean step, from 10 pairs per predicted
    rank, or 40 correlated ones."""
    steps = 10 * ranks // measured * (4 if kind.startswith("AR") else 1)
    work = work_of(random, kind, steps, measured)
    zero = np.zeros_like(work)
    basis = Basis(
        "a",
        None,
        32,
        "allreduce",
        "MPI",
        "ring",
        work[:, :, None],
        zero,
        work,
        zero + 1e-3,
        np.array([1e3]),
        False,
        0.0,
    )
    found = predict(basis, ring_network(1e-9, 1e-12), ranks, seed=int(random.integers(1 << 30)))
    return found.step[1] <= mean_maximum(kind, ranks) + 1e-3 <= found.step[2]


for kind in SPREADS:
    for ranks, measured in ((8, 2), (64, 1), (64, 4)):

        @check(
            "Predicted step",
            f"{ranks} ranks from {measured}, {kind}, 10 independent pairs per rank",
            PREDICTED,
            40,
        )
        def prediction(random, kind=kind, ranks=ranks, measured=measured):
            return predicted_step(random, kind, ranks, measured)


# --- False statements

for ranks in (4, 16):
    for kind in ("independent", "AR(1) 0.6", "two states", "skewed"):

        @check("A rank is significantly slow", f"{ranks} equal ranks, {kind}, 60 steps", RARELY)
        def slow_rank(random, ranks=ranks, kind=kind):
            return in_folder(
                lambda folder: (
                    straggler_of(
                        timed_run(
                            read_run(
                                write_steps(
                                    folder / "a.h5",
                                    random,
                                    ranks,
                                    steps=60,
                                    sigma=0.02,
                                    correlation=kind,
                                )
                            )
                        )
                    ).is_significant
                )
            )


for kind in ("independent", "AR(1) 0.6"):

    @check(
        "compare: significant",
        f"two single runs of equal machines that differ by 5 %, {kind}",
        RARELY,
    )
    def single_change(random, kind=kind):
        a, b = (
            estimate(
                np.exp(0.05 * random.standard_normal() + 0.02 * deviations(random, kind, 100)),
                "steps",
            )
            for _ in range(2)
        )
        return verdict(change(a, b), BY_NAME["step_seconds"]).startswith("significant")


@check("compare: significant", "6 and 6 runs of equal machines that differ by 5 %", RARELY, 400)
def repeated_change(random):
    a, b = (estimate(np.exp(0.05 * random.standard_normal(6)), "runs") for _ in range(2))
    return verdict(change(a, b), BY_NAME["epoch_seconds"]).startswith("significant")


@check("One scaling looks better", "equal epochs of single runs that differ by 5 %", RARELY, 400)
def looks_better(random):
    def made(ranks, batch, seconds):
        return Point(
            f"{ranks}-{batch}", ranks, batch, seconds * np.exp(0.05 * random.standard_normal())
        )

    return (
        "looks better than"
        in which_scaling([made(1, 32, 40.0), made(4, 32, 12.0), made(4, 8, 12.0)])[0].text
    )


def explained(paths):
    runs = load_runs(paths).runs
    points = merge_repeats([point_of(run) for run in runs])
    return SimpleNamespace(points=points, runs=runs, explanation=explain(points, runs))


def compares_runs(advice):
    """Whether advice compares runs without saying that it compares single ones."""
    return (
        advice.rule in ("slower-compute", "small-batch")
        and "one run with one run" not in advice.text
    )


NOISE = ((1, 1), (1, 4), (3, 1))
for repeats, per_host in NOISE:
    place = (
        f"{repeats} run{'s' * (repeats > 1)} each, {per_host} rank{'s' * (per_host > 1)} per host"
    )

    @check("Advice that compares runs", f"equal machines, runs differ by 5 %, {place}", RARELY, 100)
    def false_advice(random, repeats=repeats, per_host=per_host):
        return in_folder(
            lambda folder: any(
                map(
                    compares_runs,
                    explained(
                        write_study(
                            folder,
                            random,
                            4,
                            per_host=per_host,
                            repeats=repeats,
                            spread=0.05,
                            steps=20,
                        )
                    ).explanation.advice,
                )
            )
        )

    @check("A largest cause is named", f"equal machines, runs differ by 5 %, {place}", RARELY, 150)
    def false_cause(random, repeats=repeats, per_host=per_host):
        def text(folder):
            found = explained(
                write_study(
                    folder, random, 4, per_host=per_host, repeats=repeats, spread=0.05, steps=20
                )
            )
            return " ".join(headline_texts(found.explanation.answers))

        return "The largest cause" in in_folder(text)


# --- Planted causes

ADVICE = {
    "waiting": "waiting-in-turn",
    "transfer": "no-overlap",
    "data_wait": "input-wait",
    "slow_rank": "waiting-rank",
    "slower_compute": "slower-compute",
    "kernels": "slower-compute",
}
# Delays in turn also hit the slow rank. If all-reduces start during the backward pass, the waiting
# for the next call of a rank that still computes counts as transfer (docs/analysis.md, "Causes of
# lost efficiency").
NOT_SEPARABLE = ({"waiting", "slow_rank"}, {"waiting", "calls"}, {"slow_rank", "calls"})
TOLERANCE = 0.012  # of a step: the passes of the ranks vary by 0.2 %


def has_causes(loss, effects, ranks, steps):
    """Whether the causes are those of the effects and no other one has more than the tolerance."""
    expected = {}
    for name in effects:
        for cause, seconds in EFFECTS[name].causes(ranks).items():
            expected[cause] = expected.get(cause, 0.0) + seconds
    adds_up = abs(sum(loss.causes.values()) - loss.seconds) < 1e-9 * loss.point.epoch_seconds
    return (
        adds_up
        and all(
            abs(seconds / steps - expected.pop(cause, 0.0)) <= TOLERANCE * STEP
            for cause, seconds in loss.causes.items()
        )
        and not expected
    )


for per_host, ranks in ((1, 2), (1, 4), (4, 8)):
    for effects in [(name,) for name in EFFECTS]:
        place = f"{ranks} ranks, {per_host} per host"

        @check("Cause and advice", f"{effects[0]}, {place}", ALWAYS, 10)
        def single_cause(random, effects=effects, ranks=ranks, per_host=per_host):
            found = in_folder(
                lambda folder: explained(write_study(folder, random, ranks, effects, per_host))
            )
            texts = {advice.rule: advice.text for advice in found.explanation.advice}
            is_alone = per_host > 1 or not any(
                "share processors" in text for text in texts.values()
            )
            is_named = effects != ("kernels",) or "another kernel" in texts.get(
                "slower-compute", ""
            )
            return (
                has_causes(found.explanation.losses[0], effects, ranks, 30)
                and is_alone
                and is_named
                and ADVICE.get(effects[0], "") in ("", *texts)
            )

    @check(
        "Causes",
        f"all pairs, {ranks} ranks, {per_host} per host",
        ALWAYS,
        len(EFFECTS) * (len(EFFECTS) - 1) // 2,
    )
    def pairs_of_causes(
        random, ranks=ranks, per_host=per_host, pairs=cycle(combinations(EFFECTS, 2))
    ):
        effects = next(pairs)
        found = in_folder(
            lambda folder: explained(write_study(folder, random, ranks, effects, per_host))
        )
        if set(effects) in NOT_SEPARABLE:
            return None
        return has_causes(found.explanation.losses[0], effects, ranks, 30)


for most in (2e-3, 10e-3):

    @check(
        "Waiting is named as a cause",
        f"no waiting, transfer of 20 ms, clocks wrong by up to {1e3 * most:g} ms",
        RARELY,
        60,
    )
    def wrong_clock(random, most=most):
        found = in_folder(
            lambda folder: (
                explained(
                    write_study(
                        folder,
                        random,
                        2,
                        ("transfer",),
                        clock=random.uniform(-most, most),
                        clock_error=most,
                    )
                ).explanation
            )
        )
        return found.losses[0].is_shown("waiting") or "waiting-in-turn" in [
            advice.rule for advice in found.advice
        ]


@check("Cause and advice", "a smaller batch computes 20 % slower, fixed global batch", ALWAYS, 10)
def smaller_batch(random):
    def found(folder):
        paths = [
            write_steps(folder / "1.h5", random, 1, steps=40, batch=128, factor=4.0, images=5120),
            write_steps(folder / "s.h5", random, 1, steps=160, batch=32, factor=1.2, images=5120),
            write_steps(folder / "n.h5", random, 4, steps=40, batch=32, factor=1.2, images=5120),
        ]
        return explained(paths).explanation

    explanation = in_folder(found)
    (loss,) = (loss for loss in explanation.losses if loss.scaling == "fixed global batch")
    return abs(loss.share("smaller_batch") - 1 / 6) < 0.01 and "small-batch" in [
        a.rule for a in explanation.advice
    ]


@check("Cause and advice", "4 ranks lack a processor for 20 % of the epoch", ALWAYS, 10)
def busy_machine(random):
    found = in_folder(
        lambda folder: (
            explained(write_study(folder, random, 4, ("slower_compute",), lack=0.2)).explanation
        )
    )
    return list(found.losses[0].causes) == ["lacking"] and [a.rule for a in found.advice] == [
        "lacking-processors"
    ]
