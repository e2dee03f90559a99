# SPDX-License-Identifier: BSD-3-Clause
"""The sentences about the largest causes of lost efficiency, and the first advice about them."""

from dataclasses import dataclass

from lockstep_report.measure.digits import number_text
from lockstep_report.models.advice import LACKING_PROCESSORS
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.models.causes import LABELS, NAMED_SHARE, Loss
from lockstep_report.runfile.settings import some_of

COMMUNICATION = ("exposed-buckets", "no-overlap", "link-limit", "latency", "better-algorithm")
# cause of lost efficiency -> rules of the advice about it
RULES = {
    "imbalance": ("waiting-rank",),
    "waiting": ("waiting-rank", "waiting-in-turn"),
    "slow_rank": ("waiting-rank",),
    "transfer": COMMUNICATION,
    "communication": COMMUNICATION,
    "calls": ("better-algorithm",),
    "data_wait": ("input-wait",),
    "upload": ("input-wait",),
    "smaller_batch": ("small-batch",),
    "computation": ("small-batch",),
    "slower_compute": ("slower-compute",),
}
MOST_CAUSES = 3  # that the answer names
SHARE_DIGITS = 1


@dataclass(frozen=True)
class LargestCauses:
    """The loss that the answer explains, and its largest causes in descending order."""

    loss: Loss
    causes: tuple
    gains: tuple  # causes that are negative, the largest gain first

    @property
    def sources(self):
        return self.loss.point.sources


def largest_causes(losses, chosen):
    """Returns the `LargestCauses` of the first comparison in `chosen` that has a loss; without one,
    of the fastest point on the most ranks; None without losses."""
    of_comparison = {(loss.point, loss.scaling): loss for loss in losses}
    named = [of_comparison.get((c.point, c.scaling)) for c in chosen]
    found = next(filter(None, named), None)
    if found is None and losses:
        most = max(loss.point.ranks for loss in losses)
        found = min(
            (loss for loss in losses if loss.point.ranks == most),
            key=lambda loss: loss.point.epoch_seconds,
        )
    if found is None:
        return None
    shown = sorted(
        (name for name in found.causes if name != "remainder" and found.is_shown(name)),
        key=lambda name: -abs(found.causes[name]),
    )
    causes = [name for name in shown if found.causes[name] > 0]
    gains = [name for name in shown if found.causes[name] < 0]
    return LargestCauses(found, tuple(causes[:MOST_CAUSES]), tuple(gains))


def causes_text(largest, chosen, points, names):
    """Returns the sentence about the causes of lost efficiency; `chosen`: the comparisons of the
    sentence before."""
    if largest is None:
        if any(p.ranks > 1 and not p.is_independent for p in points):
            return (
                "The causes of lost efficiency are unknown without the phases of a 1-rank run with "
                "the same setting and batch."
            )
        return "Causes of lost efficiency need a run with several ranks and one with 1 rank."
    loss = largest.loss
    is_only_one = [(c.point, c.scaling) for c in chosen] == [(loss.point, loss.scaling)]
    case = "" if is_only_one else f" ({names.place(loss.point)}, {loss.scaling})"
    if "lacking" in loss.causes:
        return (
            f"The causes of lost efficiency{case} cannot be told apart, because ranks lacked "
            "processors."
        )
    if not largest.causes:
        return no_cause_text(loss, case)
    gains = ""
    if largest.gains:
        gains = f" Gains offset a part of them: {listed_shares(loss, largest.gains)}."
    listed = listed_shares(loss, largest.causes)
    if len(largest.causes) == 1:
        return (
            f"The largest cause of lost efficiency{case}, in per cent of the epoch, is "
            f"{listed}.{gains}"
        )
    return (
        f"The largest causes of lost efficiency{case}, in per cent of the epoch, are "
        f"{listed}.{gains}"
    )


def listed_shares(loss, causes):
    """Returns the causes with their shares of the epoch: "“a” (1.0 %), “b” (2.0 %) and ..."."""
    shares = [
        f"“{LABELS[name]}” ({number_text(100 * loss.share(name), SHARE_DIGITS)} %)"
        for name in causes
    ]
    return " and ".join(filter(None, (", ".join(shares[:-1]), shares[-1])))


def no_cause_text(loss, case):
    if loss.efficiency >= 1:
        return f"No efficiency is lost{case}."
    return (
        f"No single cause of lost efficiency is both at least {100 * NAMED_SHARE:.0f} % of the "
        f"epoch and larger than the differences between repeated runs{case}."
    )


def advice_answer(advice, largest, steps, points=()):
    """The first advice about the largest cause for which there is one; otherwise about the runs
    that the answer explains; None without advice. The answer about runs whose ranks lacked
    processors contains the advice about them."""
    others = [one for one in advice if one.rule != LACKING_PROCESSORS]
    if not others:
        return None
    causes = largest.causes if largest else ()
    sources = largest.sources if largest else ()
    most = largest.loss.point.ranks if largest else 0
    ranks = {step.source: step.ranks for step in steps}

    def order(one):
        is_about_runs = one.source in (*sources, ", ".join(sources))
        about = [i for i, cause in enumerate(causes) if one.rule in RULES.get(cause, ())]
        place = min(about, default=len(causes)) if is_about_runs else len(causes)
        return (place, not is_about_runs, ranks.get(one.source) != most)

    chosen = min(others, key=order)
    runs_of = {p.source: p.sources for p in points}
    runs = runs_of.get(chosen.source, (chosen.source,))
    repeats = ""
    if chosen.of > 1:
        repeats = f", seen in {chosen.repeats} of {chosen.of} repeated runs"
    text = f"Advice ({some_of(runs, 1)}{repeats}): {chosen.text}"
    return Answer(AnswerKind.ADVICE, text, chosen.source, chosen.evidence)
