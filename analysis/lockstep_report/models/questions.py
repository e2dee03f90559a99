# SPDX-License-Identifier: BSD-3-Clause
"""Answers to the questions of a report on data-parallel training. Each question is a function that
returns an `Answer` per case that the runs measure; docs/analysis.md lists the questions."""

import math
from dataclasses import dataclass, field

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.accuracy import RECIPE, accuracy_curves, is_shown, last_accuracy
from lockstep_report.measure.comparison import base_of, differences, one_rank, strong_base_of
from lockstep_report.measure.inference import difference
from lockstep_report.models.causes import LABELS, STRONG, WEAK
from lockstep_report.runfile.experiment import LOCKSTEP, PROGRAM, program_of, unlike
from lockstep_report.runfile.settings import setting_names

NUMBER_BYTES = 8  # of a number that is not a gradient
STEP_NUMBERS = 5  # loss, correct predictions, images, request to stop, request to save
COMMUNICATION = ("waiting", "transfer", "communication")
LISTED_SHARE = 0.1  # of the error of the derived communication, from which a cause is listed
HIDDEN_SHARE = 0.05  # of the exposed communication, from which hidden communication is named
REMEDIES = tuple(pair for pair in RECIPE if pair[0] != "lr")  # of large batches


@dataclass(frozen=True)
class Answer:
    """`values`: name with unit -> number, as in the text but not rounded."""

    question: str
    source: str
    text: str
    values: dict = field(default_factory=dict)


def scaled_from(points):
    """Yields (base, weak, strong) for each 1-rank point from which a scaling was measured: the
    fastest points at fixed batch per rank and at fixed global batch, or None; on the largest number
    of ranks that both have, otherwise on the largest number of each."""
    usable = [
        p
        for p in points
        if p.batch_per_rank and not p.is_independent and 0 < p.epoch_seconds < math.inf
    ]
    several = [p for p in usable if p.ranks > 1]
    by_base = [
        grouped(several, lambda p, lookup=lookup: id(lookup(p, usable)))
        for lookup in (base_of, strong_base_of)
    ]
    for base in (p for p in usable if p.ranks == 1):
        weak, strong = (groups.get(id(base), []) for groups in by_base)
        common = {p.ranks for p in weak} & {p.ranks for p in strong}
        if weak or strong:
            yield (
                base,
                *(
                    max(
                        group,
                        default=None,
                        key=lambda p, common=common: (p.ranks in common, p.ranks, -p.epoch_seconds),
                    )
                    for group in (weak, strong)
                ),
            )


def which_scaling(points):
    """Which scaling was measured, and whether the other one would look better; of base cases with
    both, if there are any."""
    found = list(scaled_from(points))
    both = [case for case in found if None not in case]
    return [scaling_answer(points, *case) for case in both or found]


def named(point, points):
    """Returns the begin of an answer: what distinguishes the setting of a point; "" for a single
    setting."""
    name = setting_names(p.setting for p in points)[point.setting]
    return f"{name}: " if name else ""


def scaling_answer(points, base, weak, strong):
    start = (
        f"{named(base, points)}1 rank with batch {base.batch_per_rank} takes"
        f" {base.epoch_seconds:.2f} s per epoch. "
    )
    texts, values = [], {"base_epoch_seconds": base.epoch_seconds}
    for point, name, kind, other in (
        (weak, "weak", WEAK, "global batch"),
        (strong, "strong", STRONG, "batch per rank"),
    ):
        if point is not None:
            size = point.global_batch if name == "weak" else point.batch_per_rank
            speedup = metrics.speedup(base.epoch_seconds, point.epoch_seconds)
            share = metrics.strong_efficiency(base.epoch_seconds, point.epoch_seconds, point.ranks)
            texts.append(
                f"{name.capitalize()} scaling ({kind} {base.batch_per_rank}):"
                f" {point.epoch_seconds:.2f} s on {point.ranks} ranks, speedup T(1)/T(N)"
                f" {speedup:.2f}, efficiency {share:.2f}, at {other} {size}."
            )
            values |= {
                "ranks": point.ranks,
                f"{name}_epoch_seconds": point.epoch_seconds,
                f"{name}_efficiency": share,
            }
    if None not in (weak, strong):
        texts += [f"The runs differ in {text}." for text in differences(weak, strong)]
    if any(p.lacks_processors for p in (base, weak, strong) if p is not None):
        texts.append(
            "Ranks lacked processors in these runs, so they do not show how the program scales."
        )
    elif strong is None:
        texts.append(missing_strong(points, base, weak, values))
    elif weak is None:
        texts.append(
            "Weak scaling was not measured: it needs a run on "
            f"{strong.ranks} ranks with --batch-per-rank {base.batch_per_rank}."
        )
    elif weak.ranks != strong.ranks:
        texts.append(
            "They were not measured on the same number of ranks, so they cannot be compared."
        )
    else:
        better, worse = (
            ("Weak", "strong") if weak.epoch_seconds < strong.epoch_seconds else ("Strong", "weak")
        )
        is_shown = difference(weak.epoch_repeats, strong.epoch_repeats).is_shown
        texts.append(
            f"{better} scaling looks better than {worse} scaling here."
            if is_shown
            else "Their epochs differ by no more than runs may differ, so neither looks better."
        )
        texts.append(f"Weak scaling makes 1/{weak.ranks} of the updates per epoch.")
    source = ", ".join(dict.fromkeys(p.source for p in (base, weak, strong) if p is not None))
    return Answer(
        "Which scaling was measured, and would the other scaling look better?",
        source,
        start + " ".join(texts),
        values,
    )


def missing_strong(points, base, weak, values):
    text = (
        f"Strong scaling was not measured: it needs a run on {weak.ranks} ranks with "
        f"--global-batch {base.batch_per_rank}"
    )
    small = one_rank(
        base, [p for p in points if not p.lacks_processors], base.batch_per_rank / weak.ranks
    )
    if small is None:
        return text + "."
    most = base.epoch_seconds / small.epoch_seconds
    values["largest_strong_efficiency"] = most
    return (
        f"{text}. Its efficiency would be at most {most:.2f}, because 1 rank with batch "
        f"{small.batch_per_rank} takes {small.epoch_seconds:.2f} s."
    )


def which_speedup(points):
    """The two definitions of the speedup at fixed batch per rank."""
    found = [(base, weak) for base, weak, _ in scaled_from(points) if weak is not None]
    if not found:
        return []
    base, point = max(found, key=lambda pair: (pair[1].ranks, -pair[1].epoch_seconds))
    n, ratio = point.ranks, metrics.speedup(base.epoch_seconds, point.epoch_seconds)
    scaled = metrics.scaled_speedup(base.epoch_seconds, point.epoch_seconds, n)
    return [
        Answer(
            "Which speedup: T(1)/T(N) or N·T(1)/T(N)?",
            point.source,
            f"{named(base, points)}T(N) is the time of the same images on any number of ranks, so"
            f" T(1)/T(N) = {ratio:.2f} is the speedup (ideal: {n}). N·T(1)/T(N) = {scaled:.2f}"
            f" counts the ranks twice (ideal: N² = {n * n}): it is a speedup only if T is the time"
            " of the same number of steps, in which N ranks process N times the images.",
            {"speedup": ratio, "scaled_speedup": scaled, "ranks": n},
        )
    ]


def communicates_in_passes(point):
    """Whether ranks also communicate in a pass or the upload, which the exposed communication does
    not contain."""
    options = dict(point.variant)
    return (
        options.get("bn") == "sync"
        or point.reducer == "parameter-server"
        or options.get("pipeline-stages", "1") != "1"
    )


def derived_communication(losses):
    """How far the derived communication, T(N) - T(1)/N, is from the exposed communication."""
    groups = grouped(
        (
            loss
            for loss in losses
            if not communicates_in_passes(loss.point) and "lacking" not in loss.causes
        ),
        lambda loss: (loss.point.setting, loss.scaling),
    )
    found = [
        max(group, key=lambda loss: (loss.point.ranks, -loss.point.epoch_seconds))
        for group in groups.values()
    ]
    return [
        derived_answer(loss, named(loss.point, [loss.point for loss in found])) for loss in found
    ]


def derived_answer(loss, start):
    exposed = sum(loss.causes.get(name, 0.0) for name in COMMUNICATION)
    error = loss.seconds - exposed
    text = (
        f"{start}On {loss.point.ranks} ranks ({loss.scaling}), T(N) − T(1)/N = {loss.seconds:.2f} s"
        f" per epoch, but the exposed communication is {exposed:.2f} s. The derived time is"
        f" {abs(error):.2f} s too {'large' if error >= 0 else 'small'}"
    )
    if exposed > 0:
        text += f" ({100 * abs(error) / exposed:.0f} % of the exposed communication)"
    others = sorted(
        (
            (name, seconds)
            for name, seconds in loss.causes.items()
            if name not in COMMUNICATION and abs(seconds) >= LISTED_SHARE * abs(error)
        ),
        key=lambda pair: -abs(pair[1]),
    )
    if others and error:
        text += ", because it also contains " + ", ".join(
            f"{LABELS[name]} ({seconds:.2f} s)" for name, seconds in others
        )
    hidden = loss.point.hidden_seconds
    is_beside = loss.point.threads is None  # GPUs communicate beside the computation
    if hidden is not None and is_beside and hidden > HIDDEN_SHARE * exposed:
        text += f". It cannot show the {hidden:.2f} s of communication behind the backward pass"
    return Answer(
        "How wrong is the derived communication T(N) − T(1)/N?",
        loss.point.source,
        text + ".",
        {"derived_seconds": loss.seconds, "exposed_seconds": exposed, "hidden_seconds": hidden},
    )


def large_batches(runs):
    """What a larger global batch costs in accuracy, and which remedies were measured."""
    groups = grouped(
        accuracy_curves(runs), lambda curve: (curve.data, curve.model, program_of_curve(curve))
    )
    return [
        batch_answer(curves, runs, epochs)
        for curves in groups.values()
        for epochs in sorted({curve.epochs for curve in curves})
        if len({curve.global_batch for curve in curves if curve.epochs == epochs}) > 1
    ]


def program_of_curve(curve):
    return dict(curve.options).get(PROGRAM, LOCKSTEP)


def accuracy(curve):
    """Returns the median over the runs of the last test accuracy, in per cent."""
    return 100 * float(np.median(curve.last))


def accuracy_text(curve):
    spread = f" ({100 * curve.last.min():.2f} to {100 * curve.last.max():.2f})"
    return f"{accuracy(curve):.2f} %{spread if len(curve.last) > 1 else ''}"


def batch_answer(curves, runs, epochs):
    """Answers from the curves of `epochs` epochs. `curves`: of the same data and model."""
    equal = [c for c in curves if c.epochs == epochs]
    batches = sorted({c.global_batch for c in equal})
    small = max((c for c in equal if c.global_batch == batches[0]), key=accuracy)
    large = [c for c in equal if c.global_batch == batches[-1]]
    best = max(large, key=accuracy)
    changes = {id(c): unlike((c.options, c.ranks), (small.options, small.ranks)) for c in large}
    shown = min(large, key=lambda c: (len(changes[id(c)]), -accuracy(c)))
    lost = accuracy(small) - accuracy(shown)
    fewer = small.steps / shown.steps
    recipe = (
        f"{shown.recipe} instead of {small.recipe}" if changes[id(shown)] else "the same optimiser"
    )
    text = (
        f"After {epochs} epochs, the test accuracy is {accuracy_text(small)} at global batch "
        f"{batches[0]} and {accuracy_text(shown)} at {batches[-1]} with {recipe}, "
        f"{abs(lost):.2f} points {'less' if lost >= 0 else 'more'}"
        + (f", with {fewer:.3g} times fewer updates." if fewer > 1 else ".")
    )
    if best is not shown:
        text += f" With {best.recipe} it is {accuracy_text(best)} at {batches[-1]}."
    tried = [c for c in curves if c.global_batch == batches[-1]]
    longer = max((c for c in tried if c.epochs > epochs), key=accuracy, default=None)
    if longer:
        text += f" After {longer.epochs} epochs it is {accuracy_text(longer)} ({longer.recipe})."
    chosen = [run for run in runs if any(run.label in c.labels for c in tried)]
    untried = [
        f"--{name}"
        for name, value in REMEDIES
        if not any(is_shown(run.option(name), value) for run in chosen)
    ]
    untried += [] if longer else ["more epochs"]
    if (
        lost > 0 and untried and program_of_curve(small) == LOCKSTEP
    ):  # other programs do not record these options
        text += f" Not tried at {batches[-1]}: {', '.join(untried)}."
    if min(len(small.last), len(shown.last)) < 2:
        text += " One run per batch does not show how much of this is the seed."
    labels = dict.fromkeys(
        label for c in (small, shown, best, longer or best) for label in c.labels
    )
    return Answer(
        "What does the large batch cost in accuracy, and what helps?",
        ", ".join(labels),
        text,
        {
            "small_batch": batches[0],
            "small_percent": accuracy(small),
            "large_batch": batches[-1],
            "large_percent": accuracy(shown),
            "best_large_percent": accuracy(best),
        },
    )


def other_messages(runs):
    """What the ranks of Lockstep send besides gradients: one answer for runs that differ only in
    the number of ranks."""
    trained = (
        run
        for run in runs
        if run.has_steps and not run.ladder and run.rank_count > 1 and program_of(run) == LOCKSTEP
    )
    return [
        messages_answer(group)
        for group in grouped(
            trained,
            lambda run: (
                run.option("reducer"),
                run.option("bn"),
                run.stage_count,
                tuple(run.bucket_bytes),
            ),
        ).values()
    ]


def messages_answer(runs):
    run = max(runs, key=lambda run: run.rank_count)
    is_independent, ranks = run.option("reducer") == "none", run.rank_count
    gradients = int(run.bucket_bytes.sum())
    step = 0 if is_independent else NUMBER_BYTES * (STEP_NUMBERS + ranks)
    record = NUMBER_BYTES * (4 + len(run.phases) + 2 * len(run.bucket_bytes))
    has_stages = run.stage_count > 1
    texts = (
        (
            is_independent,
            (
                "No gradients are sent: the replicas are independent, and only the results "
                "of the steps are summed at the end of an epoch."
            ),
        ),
        (
            gradients and not has_stages,
            (
                f"Per step, each of the {ranks} ranks contributes {gradients / 1e6:.2f} MB of"
                " gradients."
            ),
        ),
        (
            has_stages,
            (
                "Pipeline stages send activations and their gradients; the replicas of a stage "
                "reduce their gradients."
            ),
        ),
        (
            step,
            (
                f"The ranks also sum {step} bytes of other numbers per step (loss, correct"
                " predictions, images, requests to stop or save, a flag per rank for a loss that"
                " is not finite)."
            ),
        ),
        (
            run.option("reducer") == "parameter-server",
            "Rank 0 also sends the inputs and the parameters in each step.",
        ),
        (
            run.option("bn") == "sync" and not is_independent,
            (
                "If the network has batch norm, the ranks sum its statistics in the forward pass,"
                " and two sums per channel in the backward pass."
            ),
        ),
        (
            last_accuracy(run) is not None,
            "An evaluation sums three numbers over the ranks"
            + (
                ", after rank 0 has sent its statistics of batch norm, if there are any."
                if run.option("bn") == "broadcast" and not is_independent
                else "."
            ),
        ),
        (
            not is_independent,
            "Per epoch, the ranks compare hashes of their parameters, and their clocks.",
        ),
        (
            True,
            (
                f"Per epoch, each rank sends {record} bytes per step for this file, outside of the"
                " timed steps."
            ),
        ),
    )
    source = ", ".join(other.label for other in runs if other.rank_count == ranks)
    return Answer(
        "What is sent besides gradients?",
        source,
        " ".join(text for applies, text in texts if applies),
        {"ranks": ranks, "gradient_bytes_per_step": gradients, "other_bytes_per_step": step},
    )


def answers(points, runs, losses):
    return [
        *which_scaling(points),
        *which_speedup(points),
        *derived_communication(losses),
        *large_batches(runs),
        *other_messages(runs),
    ]
