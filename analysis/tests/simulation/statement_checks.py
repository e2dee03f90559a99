# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the report rarely makes false statements."""

from functools import partial

import numpy as np
from checks import RARELY, Check, explained, in_folder
from lockstep_report.measure.changes import change, verdict
from lockstep_report.measure.estimates import BY_NAME, estimate
from lockstep_report.measure.points import Point
from lockstep_report.measure.stragglers import straggler_of
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.answers.all_answers import headline_texts
from lockstep_report.models.answers.scaling import which_scaling
from lockstep_report.runfile.read import read_run
from systems import deviations, write_steps, write_study

NOISE = ((1, 1), (1, 4), (3, 1))  # (runs, ranks per host)


def slow_rank(random, ranks, kind):
    def simulated(folder):
        path = write_steps(folder / "a.h5", random, ranks, steps=60, sigma=0.02, correlation=kind)
        return straggler_of(timed_run(read_run(path))).is_significant

    return in_folder(simulated)


def slow_rank_checks():
    for ranks in (4, 16):
        for kind in ("independent", "AR(1) 0.6", "two states", "skewed"):
            simulate = partial(slow_rank, ranks=ranks, kind=kind)
            truth = f"{ranks} equal ranks, {kind}, 60 steps"
            yield Check("A rank is significantly slow", truth, RARELY, simulate)


def noisy_steps(random, kind):
    """Returns the estimate of the steps of a run on a machine that may be 5 % slower or faster."""
    machine = 0.05 * random.standard_normal()
    return estimate(np.exp(machine + 0.02 * deviations(random, kind, 100)), "steps")


def single_change(random, kind):
    a, b = (noisy_steps(random, kind) for _ in range(2))
    return verdict(change(a, b), BY_NAME["step_seconds"]).startswith("significant")


def repeated_change(random):
    a, b = (estimate(np.exp(0.05 * random.standard_normal(6)), "runs") for _ in range(2))
    return verdict(change(a, b), BY_NAME["epoch_seconds"]).startswith("significant")


def change_checks():
    for kind in ("independent", "AR(1) 0.6"):
        truth = f"two single runs of equal machines that differ by 5 %, {kind}"
        yield Check("compare: significant", truth, RARELY, partial(single_change, kind=kind))
    truth = "6 and 6 runs of equal machines that differ by 5 %"
    yield Check("compare: significant", truth, RARELY, repeated_change, 400)


def looks_better(random):
    def made(ranks, batch, seconds):
        return Point(
            f"{ranks}-{batch}", ranks, batch, seconds * np.exp(0.05 * random.standard_normal())
        )

    points = [made(1, 32, 40.0), made(4, 32, 12.0), made(4, 8, 12.0)]
    return "looks better than" in which_scaling(points)[0].text


def compares_runs(advice):
    """Whether advice compares runs without saying that it compares single ones."""
    return (
        advice.rule in ("slower-compute", "small-batch")
        and "one run with one run" not in advice.text
    )


def noisy_study(random, folder, repeats, per_host):
    """Returns the explanation of a study of equal machines, whose runs differ by 5 %."""
    return explained(
        write_study(folder, random, 4, per_host=per_host, repeats=repeats, spread=0.05, steps=20)
    )


def false_advice(random, repeats, per_host):
    def simulated(folder):
        found = noisy_study(random, folder, repeats, per_host)
        return any(map(compares_runs, found.explanation.advice))

    return in_folder(simulated)


def false_cause(random, repeats, per_host):
    def text(folder):
        found = noisy_study(random, folder, repeats, per_host)
        return " ".join(headline_texts(found.explanation.answers))

    return "The largest cause" in in_folder(text)


def noise_checks():
    for repeats, per_host in NOISE:
        runs, ranks = f"{repeats} run{'s' * (repeats > 1)}", f"rank{'s' * (per_host > 1)}"
        truth = f"equal machines, runs differ by 5 %, {runs} each, {per_host} {ranks} per host"
        advice = partial(false_advice, repeats=repeats, per_host=per_host)
        yield Check("Advice that compares runs", truth, RARELY, advice, 100)
        cause = partial(false_cause, repeats=repeats, per_host=per_host)
        yield Check("A largest cause is named", truth, RARELY, cause, 150)


CHECKS = [
    *slow_rank_checks(),
    *change_checks(),
    Check(
        "One scaling looks better",
        "equal epochs of single runs that differ by 5 %",
        RARELY,
        looks_better,
        400,
    ),
    *noise_checks(),
]
