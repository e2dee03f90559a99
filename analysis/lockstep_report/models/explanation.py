# SPDX-License-Identifier: BSD-3-Clause
"""The explanation of a set of runs, and the measurements of a run on which its advice is based. One
`Explanation` feeds tables, figures and JSON. Times are in seconds, in `StepEvidence` per step."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.measure.choices import algorithm_of
from lockstep_report.measure.points import link_bytes_of
from lockstep_report.measure.stragglers import Straggler, straggler_of
from lockstep_report.measure.waiting import exposed_interval, timed_run
from lockstep_report.measure.window import step_seconds
from lockstep_report.models.all_advice import all_advice
from lockstep_report.models.answers.all_answers import all_answers
from lockstep_report.models.causes import losses
from lockstep_report.models.fits import alpha_beta_fits, scaling_fits


@dataclass(frozen=True)
class StepEvidence:
    """Means over the timed steps and the ranks of one run with several ranks."""

    source: str
    ranks: int
    hosts: int
    reducer: str
    algorithm: str
    step: float  # mean step time
    phases: dict  # phase -> mean over steps and ranks
    largest_bucket: int = 0  # bytes
    buckets: int = 0
    waiting: float = None  # exposed; None if the clocks of the ranks do not permit the division
    transfer: float = None  # exposed
    last_bucket: float = None  # exposed transfer of the last bucket alone
    all_reduce_transfer: float = None  # hidden and exposed, upper bound
    link_gbit: float = None
    link_bytes: float = None  # of a step over the link of a host; None if unknown
    straggler: Straggler = None

    @property
    def link_rate(self):
        """Lower bound of the bytes/s over the link of a host during the transfer; None if
        unknown."""
        if not self.link_bytes or not self.all_reduce_transfer:
            return None
        return self.link_bytes / self.all_reduce_transfer


def step_evidence(timed):
    run, phases, times = timed.run, timed.phase_seconds, timed.times
    found = {}
    if times is not None:
        found = {
            "last_bucket": float(last_bucket_seconds(phases, run.phases, times).mean()),
            "all_reduce_transfer": timed.split.transfer_bounds.high / len(phases),
        }
        if timed.split.divides_exposed:
            found |= {
                "waiting": timed.split.mean("exposed_waiting") / len(phases),
                "transfer": timed.split.mean("exposed_transfer") / len(phases),
            }
    return StepEvidence(
        run.label,
        run.rank_count,
        run.host_count,
        run.option("reducer"),
        algorithm_of(run),
        float(step_seconds(run, timed.window.steps).mean()),
        {name: float(phases[:, :, i].mean()) for i, name in enumerate(run.phases)},
        int(max(run.bucket_bytes, default=0)),
        len(run.bucket_bytes),
        link_gbit=run.link_gbit,
        link_bytes=link_bytes_of(run),
        straggler=straggler_of(timed),
        **found,
    )


def last_bucket_seconds(phase_seconds, phases, times):
    """Returns (step, rank): the time after the backward pass in which only the last bucket was
    transferred, which all ranks had started."""
    begin, _ = exposed_interval(phase_seconds, phases, times)
    last_start, last_end = times.start[:, :, -1], times.end[:, :, -1]
    begin = np.maximum(begin, last_start.max(axis=1, keepdims=True))
    if times.end.shape[2] > 1:
        end_of_others = times.end[:, :, :-1].max(axis=2)
        begin = np.maximum(begin, end_of_others)
    return np.maximum(0.0, last_end - begin)


@dataclass(frozen=True)
class Explanation:
    losses: list  # [causes.Loss]
    laws: list  # [fits.ScalingFit]
    all_reduces: list  # [fits.AlphaBeta]
    steps: list  # [StepEvidence]
    advice: list  # [advice.Advice]
    answers: list  # [answers.answer.Answer]


def explain(points, runs, link_gbit=None):
    counted = {source for p in points for source in p.sources}
    timed = [timed_run(run) for run in runs if run.label in counted]
    timed = [t for t in timed if t and t.run.stage_count == 1]
    steps = [step_evidence(t) for t in timed]
    found = losses(points)
    lacks = {name: lack for p in points for name, lack in p.lacks.items()}
    fits = alpha_beta_fits(runs, [t for t in timed if t.run.label not in lacks])
    advice = all_advice(steps, found, fits, link_gbit, points, lacks)
    return Explanation(
        losses=found,
        laws=scaling_fits([p for p in points if not p.lacks_processors]),
        all_reduces=fits,
        steps=steps,
        advice=advice,
        answers=all_answers(points, runs, found, advice, steps, link_gbit),
    )


def explanation_values(explanation):
    """Returns the explanation as values for `json_text`. Times are in seconds, sizes in bytes."""
    return {
        "answers": list(map(answer_values, explanation.answers)),
        "causes": list(map(cause_values, explanation.losses)),
        "scaling_laws": list(map(law_values, explanation.laws)),
        "alpha_beta": list(map(all_reduce_values, explanation.all_reduces)),
        "stragglers": [straggler_values(step.straggler) for step in explanation.steps],
        "advice": list(map(advice_values, explanation.advice)),
    }


def place_values(point):
    return {
        "runs": point.source,
        "setting": point.setting,
        "ranks": point.ranks,
        "batch_per_rank": point.batch_per_rank or None,
        "mode": point.mode,
    }


def answer_values(answer):
    return {
        "kind": answer.kind.name.lower(),
        "question": answer.question,
        "runs": answer.source,
        "text": answer.text,
        "values": answer.values,
    }


def cause_values(loss):
    return {
        **place_values(loss.point),
        "scaling": loss.scaling,
        "base": loss.base.source,
        "epoch_seconds": loss.point.epoch_seconds,
        "base_epoch_seconds": loss.base.epoch_seconds,
        "efficiency": loss.efficiency,
        "loss_seconds": loss.seconds,
        "causes_seconds": loss.causes,
    }


def law_values(law):
    return {
        **place_values(law.points[-1]),
        "ranks": law.ranks,
        "law": law.law,
        "seconds": law.seconds,
        "fitted_seconds": law.fit and law.predicted(law.ranks),
        "relative_residuals": law.fit and law.residuals,
        "serial_fraction": law.serial,
        "degrees_of_freedom": law.fit and law.fit.dof,
        "notes": law.notes,
    }


def all_reduce_values(found):
    return {
        "algorithm": found.algorithm,
        "from": found.origin,
        "ranks": found.ranks,
        "hosts": found.hosts,
        "runs": found.sources,
        "alpha_seconds": found.alpha,
        "beta_seconds_per_byte": found.beta,
        "bytes": found.sizes,
        "seconds": found.seconds,
        "fitted_seconds": found.fit and found.fit.fitted,
        "relative_residuals": found.fit and found.fit.residuals,
        "degrees_of_freedom": found.fit and found.fit.dof,
        "notes": found.notes,
    }


def straggler_values(slow):
    return {
        "run": slow.source,
        "ranks": slow.ranks,
        "rank": slow.rank,
        "host": slow.host,
        "excess_seconds": slow.excess,
        "is_significant": slow.is_significant,
        "last_share": slow.last_share,
        "clock_rank": slow.clock_rank,
        "clock_deviation_seconds": slow.clock,
        "clock_error_seconds": slow.clock_error,
        "is_clock_wrong": slow.is_clock_wrong,
    }


def advice_values(advice):
    return {
        "rule": advice.rule,
        "run": advice.source,
        "text": advice.text,
        "repeats": advice.repeats,
        "of": advice.of,
        "threshold": advice.threshold,
        "evidence": advice.evidence,
    }
