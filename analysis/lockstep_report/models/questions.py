"""Answers to the questions of a report on data-parallel training. Each question is a function that
returns an `Answer` per case that the runs measure; docs/analysis.md lists the questions."""

from dataclasses import dataclass, field

import numpy as np

from lockstep_report import metrics
from lockstep_report.accuracy import RECIPE, accuracy_curves, is_shown
from lockstep_report.comparison import base_of, strong_base_of
from lockstep_report.models.causes import LABELS, STRONG, WEAK

NUMBER_BYTES = 8  # of a number that is not a gradient
STEP_NUMBERS = 5  # loss, correct predictions, images, request to stop, request to save
COMMUNICATION = ("waiting", "transfer", "communication")
LISTED_SHARE = 0.1  # of the error of the derived communication, from which a cause is listed
REMEDIES = tuple(pair for pair in RECIPE if pair[0] != "lr")  # of large batches


@dataclass(frozen=True)
class Answer:
    """`values`: name with unit -> number, as in the text but not rounded."""

    question: str
    source: str
    text: str
    values: dict = field(default_factory=dict)


def fastest(points, ranks):
    """Returns the point with the shortest epoch on this number of ranks; None without one."""
    return min((p for p in points if p.ranks == ranks), key=lambda p: p.epoch_seconds, default=None)


def scaled_from(points):
    """Yields (base, weak, strong) for each 1-rank point from which a scaling was measured: the
    fastest points at fixed batch per rank and at fixed global batch, on the largest number of ranks
    that both have, or that one has if the other is None."""
    usable = [p for p in points if p.batch_per_rank and not p.is_independent]
    for base in (p for p in usable if p.ranks == 1):
        several = [p for p in usable if p.ranks > 1]
        weak = [p for p in several if base_of(p, usable) is base]
        strong = [p for p in several if strong_base_of(p, usable) is base]
        counts = [{p.ranks for p in group} for group in (weak, strong)]
        if found := (counts[0] & counts[1]) or (counts[0] | counts[1]):
            yield base, fastest(weak, max(found)), fastest(strong, max(found))


def efficiency(base, point):
    return metrics.strong_efficiency(base.epoch_seconds, point.epoch_seconds, point.ranks)


def speedup(base, point):
    return metrics.speedup(base.epoch_seconds, point.epoch_seconds)


def measured(base, point):
    return (f"{point.epoch_seconds:.2f} s on {point.ranks} ranks, speedup T(1)/T(N) "
            f"{speedup(base, point):.2f}, efficiency {efficiency(base, point):.3f}")


def which_scaling(points):
    """Which scaling a table measures, and whether the other one would look better."""
    return [scaling_answer(points, *found) for found in scaled_from(points)]


def scaling_answer(points, base, weak, strong):
    start = f"1 rank with batch {base.batch_per_rank} takes {base.epoch_seconds:.2f} s per epoch. "
    texts, values = [], {"base_epoch_seconds": base.epoch_seconds}
    for point, name, kind, other in (
            (weak, "weak", WEAK, "global batch"), (strong, "strong", STRONG, "batch per rank")):
        if point is not None:
            size = point.global_batch if name == "weak" else point.batch_per_rank
            texts.append(f"{name.capitalize()} scaling ({kind} {base.batch_per_rank}): "
                         f"{measured(base, point)}, at {other} {size}.")
            values |= {"ranks": point.ranks, f"{name}_epoch_seconds": point.epoch_seconds,
                       f"{name}_efficiency": efficiency(base, point)}
    if weak is not None and strong is not None:
        better, worse = ("Weak", "strong") if weak.epoch_seconds < strong.epoch_seconds else (
            "Strong", "weak")
        texts.append(f"{better} scaling looks better than {worse} scaling here. The weak one makes "
                     f"1/{weak.ranks} of the updates per epoch.")
    elif strong is None:
        texts.append(missing_strong(points, base, weak, values))
    else:
        texts.append("Weak scaling was not measured: it needs a run on "
                     f"{strong.ranks} ranks with --batch-per-rank {base.batch_per_rank}.")
    source = ", ".join(p.source for p in (base, weak, strong) if p is not None)
    return Answer("Which scaling is this, and would the other one look better?", source,
                  start + " ".join(texts), values)


def missing_strong(points, base, weak, values):
    """Returns what is known about strong scaling from `base` if only `weak` was measured."""
    text = (f"Strong scaling was not measured: it needs a run on {weak.ranks} ranks with "
            f"--global-batch {base.batch_per_rank}")
    small = [p for p in points if p.ranks == 1 and p.setting == base.setting
             and p.batch_per_rank * weak.ranks == base.batch_per_rank]
    if not small:
        return text + "."
    most = base.epoch_seconds / min(p.epoch_seconds for p in small)
    values["largest_strong_efficiency"] = most
    return (f"{text}. Its efficiency would be at most {most:.3f}, because 1 rank with batch "
            f"{base.batch_per_rank // weak.ranks} takes {min(p.epoch_seconds for p in small):.2f} s.")


def which_speedup(points):
    """The two definitions of the speedup at fixed batch per rank."""
    found = [(base, weak) for base, weak, _ in scaled_from(points) if weak is not None]
    if not found:
        return []
    base, point = max(found, key=lambda pair: (pair[1].ranks, -pair[1].epoch_seconds))
    n, ratio = point.ranks, speedup(base, point)
    scaled = metrics.scaled_speedup(base.epoch_seconds, point.epoch_seconds, n)
    return [Answer(
        "Which speedup: T(1)/T(N) or N·T(1)/T(N)?", point.source,
        f"T(N) is the time of the same images on any number of ranks, so T(1)/T(N) = {ratio:.2f} "
        f"is the speedup (ideal: {n}). N·T(1)/T(N) = {scaled:.2f} counts the ranks twice "
        f"(ideal: N² = {n * n}): it is a speedup only if T is the time of the same number "
        "of steps, in which N ranks process N times the images.",
        {"speedup": ratio, "scaled_speedup": scaled, "ranks": n})]


def derived_communication(losses):
    """How far the derived communication, T(N) - T(1)/N, is from the measured one."""
    largest = {}
    for loss in losses:
        key = (loss.point.setting, loss.scaling)
        rank = (loss.point.ranks, -loss.point.epoch_seconds)
        if key not in largest or rank > largest[key][0]:
            largest[key] = (rank, loss)
    return [derived_answer(loss) for _, loss in largest.values()]


def derived_answer(loss):
    exposed = sum(loss.causes.get(name, 0.0) for name in COMMUNICATION)
    error = loss.seconds - exposed
    text = (f"On {loss.point.ranks} ranks ({loss.scaling}), T(N) − T(1)/N = {loss.seconds:.2f} s "
            f"per epoch; the ranks waited {exposed:.2f} s for communication. The derived value is "
            f"{abs(error):.2f} s too {'large' if error >= 0 else 'small'}")
    if exposed > 0:
        text += f" ({100 * abs(error) / exposed:.0f} % of the measured one)"
    others = sorted(((name, seconds) for name, seconds in loss.causes.items()
                     if name not in COMMUNICATION and abs(seconds) >= LISTED_SHARE * abs(error)),
                    key=lambda pair: -abs(pair[1]))
    if others and error:
        text += ", because it also contains " + ", ".join(
            f"{LABELS[name]} ({seconds:.2f} s)" for name, seconds in others)
    hidden = loss.point.hidden_seconds
    if hidden is not None:
        text += f". It cannot show the {hidden:.2f} s of communication behind the backward pass"
    return Answer("How wrong is the derived communication T(N) − T(1)/N?", loss.point.source,
                  text + ".", {"derived_seconds": loss.seconds, "exposed_seconds": exposed,
                               "hidden_seconds": hidden})


def large_batches(runs):
    """What a larger global batch costs in accuracy, and which remedies were measured."""
    groups = {}
    for curve in accuracy_curves(runs):
        groups.setdefault((curve.data, curve.model, curve.epochs), []).append(curve)
    return [batch_answer(curves, runs) for curves in groups.values()
            if len({curve.global_batch for curve in curves}) > 1]


def accuracy(curve):
    """Returns the median over the runs of the last test accuracy, in per cent."""
    return 100 * float(np.median(curve.last))


def spread(curve):
    """Returns the range over the runs (seeds) as text; empty for one run."""
    if len(curve.last) < 2:
        return ""
    return f" ({100 * curve.last.min():.2f} to {100 * curve.last.max():.2f})"


def batch_answer(curves, runs):
    small = max((c for c in curves if c.global_batch == min(c.global_batch for c in curves)),
                key=accuracy)
    large = [c for c in curves if c.global_batch == max(c.global_batch for c in curves)]
    same = next((c for c in large if c.recipe == small.recipe), None)
    best = max(large, key=accuracy)
    shown = same or best
    fewer = small.steps / shown.steps if shown.steps else 1
    lost = accuracy(small) - accuracy(shown)
    text = (f"After {small.epochs} epochs, the test accuracy is {accuracy(small):.2f} %"
            f"{spread(small)} at global batch {small.global_batch} and {accuracy(shown):.2f} %"
            f"{spread(shown)} at {shown.global_batch}"
            + (" with the same options" if same else f" ({shown.recipe})")
            + f", {abs(lost):.2f} points {'less' if lost >= 0 else 'more'}"
            + (f", with {fewer:.3g} times fewer updates." if fewer > 1 else "."))
    if same and best is not same:
        text += (f" With {best.recipe} it is {accuracy(best):.2f} %{spread(best)} at "
                 f"{best.global_batch}.")
    labels = {label for curve in large for label in curve.labels}
    chosen = [run for run in runs if run.label in labels]
    untried = [f"--{name}" for name, value in REMEDIES
               if not any(is_shown(run.option(name), value) for run in chosen)]
    if lost > 0 and untried:
        text += f" Not tried at {shown.global_batch}: {', '.join(untried)}, more epochs."
    if min(len(small.last), len(shown.last)) < 2:
        text += " One run per batch does not show how much of this is the seed."
    return Answer("What does the large batch cost in accuracy, and what helps?",
                  ", ".join(dict.fromkeys((*small.labels, *shown.labels, *best.labels))), text,
                  {"small_batch": small.global_batch, "small_percent": accuracy(small),
                   "large_batch": shown.global_batch, "large_percent": accuracy(shown),
                   "best_large_percent": accuracy(best)})


def other_messages(runs):
    """What ranks send besides gradients; runs that differ only in the number of ranks have one
    answer, for the most ranks."""
    groups = {}
    for run in runs:
        if run.has_steps and not run.ladder and run.rank_count > 1:
            key = (run.option("reducer"), run.option("bn"), run.number("pipeline-stages") or 1,
                   tuple(run.bucket_bytes))
            groups.setdefault(key, []).append(run)
    return [messages_answer(group) for group in groups.values()]


def messages_answer(runs):
    run = max(runs, key=lambda run: run.rank_count)
    reducer, ranks = run.option("reducer"), run.rank_count
    gradients = int(run.bucket_bytes.sum())
    step = NUMBER_BYTES * (STEP_NUMBERS + ranks)
    parts = []
    if reducer == "none":
        parts.append("No gradients are sent (independent replicas); at the end of an epoch, the "
                     "losses and results of its steps are summed.")
    else:
        if gradients:
            parts.append(f"Per step, each of the {ranks} ranks contributes {gradients / 1e6:.2f} MB "
                         "of gradients.")
        parts.append(f"The ranks also sum {step} bytes of other numbers per step (loss, correct "
                     "predictions, images, requests to stop or save, a flag per rank for a loss "
                     "that is not finite).")
        if reducer == "parameter-server":
            parts.append("Rank 0 also sends the inputs and the parameters in each step.")
        if run.option("bn") == "sync":
            parts.append("Each batch norm sums two numbers per channel over the ranks, in the "
                         "forward and in the backward pass.")
    if (run.number("pipeline-stages") or 1) > 1:
        parts.append("Pipeline stages send activations and their gradients.")
    if run.option("bn") == "broadcast" and reducer != "none":
        parts.append("Before an evaluation, rank 0 sends its statistics of batch norm.")
    record = NUMBER_BYTES * (4 + len(run.phases) + 2 * len(run.bucket_bytes))
    parts.append(f"Per epoch, each rank sends a hash of its parameters, messages that compare the "
                 f"clocks, and {record} bytes per step for this file, outside of the timed steps.")
    source = ", ".join(other.label for other in runs if other.rank_count == ranks)
    return Answer("What is sent besides gradients?", source, " ".join(parts),
                  {"ranks": ranks, "gradient_bytes_per_step": gradients,
                   "other_bytes_per_step": 0 if reducer == "none" else step})


def answers(points, runs, losses):
    return [*which_scaling(points), *which_speedup(points), *derived_communication(losses),
            *large_batches(runs), *other_messages(runs)]
