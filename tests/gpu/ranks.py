# SPDX-License-Identifier: BSD-3-Clause
"""Checks of several ranks: training compared with one rank, and all-reduces."""

import environment
from bisection import FAILED, HUNG, NOT_RUN, PASSED, agreement, changed, variables_of
from measures import Unreadable, parse_json

GLOBAL_BATCH = 64
# (last step, bound of the relative difference of the losses up to this step). On CPUs, 1, 2 and 4
# ranks differed by at most 8e-8 in step 1, 8e-5 up to step 5 and 5.1e-3 up to step 20.
BOUNDS = ((1, 1e-5), (5, 5e-3), (20, 2e-2))
SECONDS = 40  # time limit of one run
WATCHDOG = ["--watchdog", "20"]


def start(context, ranks):
    """Returns the words that start a program with several ranks."""
    return [*context.programs.mpirun, "-n", str(ranks)] if ranks > 1 else []


def training(context, name, ranks, steps, *options, label="", **variables):
    """Trains with the same global batch on any number of ranks, and returns the Training. `label`
    is a change (bisection.py). Engines are not timed: ranks could select different ones."""
    arguments = context.train_arguments(
        name, "fp32", "--data", f"synthetic:{steps * GLOBAL_BATCH}", "--global-batch", GLOBAL_BATCH,
        "--steps", steps, "--bn", "sync", "--lr", "0.001", "--augment", "none", *WATCHDOG, *options,
        engines="quick", fusion="none")
    return context.train(name, changed(arguments, label), SECONDS, start(context, ranks), **variables,
                         **environment.nccl_log(context.path(name)), **context.core_dump(),
                         **variables_of(label))


def one_rank_losses(context, report, steps):
    """Returns the losses of one rank, or None if it fails."""
    one = training(context, "one rank", 1, steps)
    if one.run is None:
        report.add_outcome(one.outcome)
        report.not_run("several ranks", "the run with one rank has no losses")
        return None
    return one.run.loss


def training_check(context, reference, ranks, *options, **variables):
    """Returns an attempt (bisection.py) that compares several ranks with the losses of one rank."""
    def attempt(name, label):
        one = training(context, name, ranks, len(reference), *options, label=label, **variables)
        return agreement(one, reference, BOUNDS)

    return attempt


def all_reduce_check(context, report, ranks, *options, **variables):
    """Returns an attempt that runs `lockstep allreduce`, which compares every element of the sums."""
    def attempt(name, label):
        outcome = context.run(name, context.lockstep(
            *changed(["allreduce", "--device", "cuda", *options, *WATCHDOG, "--json"], label),
            prefix=start(context, ranks), **variables, **environment.nccl_log(context.path(name)),
            **variables_of(label)), SECONDS)
        if outcome.is_cut_off:
            return NOT_RUN, outcome.reason
        if not outcome.ok:
            return HUNG if outcome.timed_out else FAILED, outcome.reason
        try:
            rows = parse_json(outcome.stdout, "lockstep allreduce").get("allreduce") or []
        except Unreadable as error:
            return FAILED, str(error)
        report.numbers[name] = rows
        wrong = sum(row["wrong"] for row in rows)
        if wrong or not rows:
            return FAILED, f"{wrong} wrong elements in {len(rows)} sizes"
        return PASSED, (f"{len(rows)} sizes; {rows[-1]['bytes']:,} bytes take "
                        f"{rows[-1]['median_seconds'] * 1e6:,.0f} us")

    return attempt
