# SPDX-License-Identifier: BSD-3-Clause
"""Checks that intervals contain the true value."""

from functools import partial

import numpy as np
from checks import ALWAYS, AT_LEAST, COVERED, RARELY, Check, covers, in_folder
from lockstep_report.measure.inference import median_interval, series_interval
from lockstep_report.measure.points import point_of
from lockstep_report.measure.stragglers import straggler_of
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.fits import AMDAHL, GUSTAFSON, alpha_beta, fit_law
from lockstep_report.runfile.read import read_run
from planted import write_training
from systems import deviations

SERIES = (
    ("independent", 20),
    ("independent", 200),
    ("AR(1) 0.6", 100),
    ("AR(1) 0.6", 400),
    ("two states", 200),
    ("skewed", 100),
)
LAWS = {AMDAHL: lambda n, s: s + (1 - s) / n, GUSTAFSON: lambda n, s: n / (n - s * (n - 1))}


def median_step(random, kind, count):
    return covers(series_interval(deviations(random, kind, count)), 0.0)


def median_epoch(random, count):
    return covers(median_interval(random.standard_normal(count)), 0.0)


def median_checks():
    for kind, count in SERIES:
        simulate = partial(median_step, kind=kind, count=count)
        repeats = 400 if count > 20 else 2000
        yield Check("Median step", f"{kind}, {count} steps", COVERED, simulate, repeats)
    for count in (6, 20):
        truth = f"{count} runs, standard deviation 5 %"
        bounds = AT_LEAST if count < 20 else COVERED
        yield Check("Median epoch", truth, bounds, partial(median_epoch, count=count), 400)


def transfer_bounds(random, error, transfer):
    """Returns the bounds of the transfer of a step on two hosts whose clocks differ."""

    def simulated(folder):
        path = write_training(
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
        return point_of(read_run(path)).split.transfer_bounds.times(1 / 20)

    return in_folder(simulated)


def transfer_is_within(random, error, transfer):
    found = transfer_bounds(random, error, transfer)
    return found.low <= 1.02 * transfer and found.high >= 0.98 * transfer


def transfer_is_wrong(random, error, transfer):
    value = transfer_bounds(random, error, transfer).value
    return value is not None and abs(value / transfer - 1) > 0.2


def transfer_checks():
    for error, transfer in ((1e-5, 1.4e-3), (1e-3, 1.4e-3), (1e-3, 3e-4)):
        system = f"clocks wrong by up to {1e3 * error:g} ms, transfer of {1e3 * transfer:g} ms"
        within = partial(transfer_is_within, error=error, transfer=transfer)
        yield Check("Bounds of the transfer", system, ALWAYS, within, 60)
        wrong = partial(transfer_is_wrong, error=error, transfer=transfer)
        yield Check("A transfer is wrong by more than 20 %", system, RARELY, wrong, 60)


def law_interval(random, law, serial, session):
    ranks = np.repeat((1, 2, 4, 8), 3)
    sessions = np.repeat(np.exp(session * random.standard_normal(4)), 3)
    noise = np.exp(0.02 * random.standard_normal(len(ranks)))
    return fit_law(law, ranks, LAWS[law](ranks, serial) * sessions * noise)[1]


def serial_fraction(random, law, session):
    return covers(law_interval(random, law, 0.1, session), 0.1)


def is_above_zero(random, law):
    found = law_interval(random, law, 0.0, 0.05)
    return found.has_interval and found.low > 0


def law_checks():
    for law in LAWS:
        for session, text in ((0.0, "independent runs"), (0.05, "sessions differ by 5 %")):
            simulate = partial(serial_fraction, law=law, session=session)
            yield Check(f"{law}: s", f"{text}, 4 rank counts, 3 runs each", AT_LEAST, simulate, 400)
        truth = "ideal scaling, sessions differ by 5 %"
        yield Check(f"{law}: s is above 0", truth, RARELY, partial(is_above_zero, law=law), 400)


def cost(random, files, session, index):
    sizes = np.tile(4096.0 * 4 ** np.arange(8), files)
    jobs = np.repeat(np.arange(files), 8)
    seconds = (50e-6 + 2e-9 * sizes) * np.exp(session * random.standard_normal(files)[jobs])
    seconds *= np.exp(0.02 * random.standard_normal(len(sizes)))
    return covers(alpha_beta(sizes, seconds, jobs)[index], (50e-6, 2e-9)[index])


def cost_checks():
    for files, session in ((1, 0.0), (3, 0.0), (3, 0.05)):
        truth = f"{files} file{'s' * (files > 1)}, jobs differ by {100 * session:.0f} %"
        for index, name in enumerate(("alpha", "beta")):
            simulate = partial(cost, files=files, session=session, index=index)
            yield Check(name, truth, AT_LEAST, simulate, 300)


def excess(random, correlation):
    def simulated(folder):
        path = write_training(
            folder / "a.h5", random, steps=60, slow_rank=2, slow=0.003, correlation=correlation
        )
        return covers(straggler_of(timed_run(read_run(path))).excess, 0.003)

    return in_folder(simulated)


def excess_checks():
    for correlation, kind in ((0.0, "independent"), (0.6, "AR(1) 0.6")):
        truth = f"rank 2 of 4 slower by 6 %, {kind}, 60 steps"
        simulate = partial(excess, correlation=correlation)
        yield Check("Excess of a slow rank", truth, AT_LEAST, simulate, 100)


CHECKS = [
    *median_checks(),
    *transfer_checks(),
    *law_checks(),
    *cost_checks(),
    *excess_checks(),
]
