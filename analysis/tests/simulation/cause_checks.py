# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the report names the causes that are simulated, and gives the advice for them."""

from functools import partial
from itertools import combinations, cycle

from checks import ALWAYS, RARELY, Check, explained, in_folder
from systems import EFFECTS, STEP, write_steps, write_study

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


def explanation_of(random, *arguments, **options):
    """Returns the explanation of a study with known effects."""

    def simulated(folder):
        return explained(write_study(folder, random, *arguments, **options)).explanation

    return in_folder(simulated)


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


def single_cause(random, effect, ranks, per_host):
    found = explanation_of(random, ranks, (effect,), per_host)
    texts = {advice.rule: advice.text for advice in found.advice}
    is_alone = per_host > 1 or not any("share processors" in text for text in texts.values())
    is_named = effect != "kernels" or "another kernel" in texts.get("slower-compute", "")
    return (
        has_causes(found.losses[0], (effect,), ranks, 30)
        and is_alone
        and is_named
        and ADVICE.get(effect, "") in ("", *texts)
    )


def pair_of_causes(random, pairs, ranks, per_host):
    """Simulates the next one of `pairs`."""
    effects = next(pairs)
    found = explanation_of(random, ranks, effects, per_host)
    if set(effects) in NOT_SEPARABLE:
        return None
    return has_causes(found.losses[0], effects, ranks, 30)


def effect_checks():
    for per_host, ranks in ((1, 2), (1, 4), (4, 8)):
        place = f"{ranks} ranks, {per_host} per host"
        for effect in EFFECTS:
            single = partial(single_cause, effect=effect, ranks=ranks, per_host=per_host)
            yield Check("Cause and advice", f"{effect}, {place}", ALWAYS, single, 10)
        pairs = list(combinations(EFFECTS, 2))
        simulate = partial(pair_of_causes, pairs=cycle(pairs), ranks=ranks, per_host=per_host)
        yield Check("Causes", f"all pairs, {place}", ALWAYS, simulate, len(pairs))


def wrong_clock(random, most):
    clock = random.uniform(-most, most)
    found = explanation_of(random, 2, ("transfer",), clock=clock, clock_error=most)
    rules = [advice.rule for advice in found.advice]
    return found.losses[0].is_shown("waiting") or "waiting-in-turn" in rules


def clock_checks():
    for most in (2e-3, 10e-3):
        truth = f"no waiting, transfer of 20 ms, clocks wrong by up to {1e3 * most:g} ms"
        simulate = partial(wrong_clock, most=most)
        yield Check("Waiting is named as a cause", truth, RARELY, simulate, 60)


def smaller_batch(random):
    def simulated(folder):
        paths = [
            write_steps(folder / "1.h5", random, 1, steps=40, batch=128, factor=4.0, images=5120),
            write_steps(folder / "s.h5", random, 1, steps=160, batch=32, factor=1.2, images=5120),
            write_steps(folder / "n.h5", random, 4, steps=40, batch=32, factor=1.2, images=5120),
        ]
        return explained(paths).explanation

    found = in_folder(simulated)
    (loss,) = (loss for loss in found.losses if loss.scaling == "fixed global batch")
    rules = [advice.rule for advice in found.advice]
    return abs(loss.share("smaller_batch") - 1 / 6) < 0.01 and "small-batch" in rules


def busy_machine(random):
    found = explanation_of(random, 4, ("slower_compute",), lack=0.2)
    rules = [advice.rule for advice in found.advice]
    return list(found.losses[0].causes) == ["lacking"] and rules == ["lacking-processors"]


CHECKS = [
    *effect_checks(),
    *clock_checks(),
    Check(
        "Cause and advice",
        "a smaller batch computes 20 % slower, fixed global batch",
        ALWAYS,
        smaller_batch,
        10,
    ),
    Check(
        "Cause and advice",
        "4 ranks lack a processor for 20 % of the epoch",
        ALWAYS,
        busy_machine,
        10,
    ),
]
