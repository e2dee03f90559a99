# SPDX-License-Identifier: BSD-3-Clause
"""Answers about communication: its share of the epoch, the bandwidth of the all-reduces, how wrong
the derived communication is, and what is sent besides gradients."""

from lockstep_report.groups import grouped
from lockstep_report.measure.accuracy import last_accuracy
from lockstep_report.measure.digits import number_text
from lockstep_report.measure.sweeps import machine_key, peaks_of
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.models.answers.places import Names, restriction_text
from lockstep_report.models.causes import LABELS
from lockstep_report.runfile.experiment import LOCKSTEP, program_of

NUMBER_BYTES = 8  # of a number that is not a gradient
STEP_NUMBERS = 5  # loss, correct predictions, images, request to stop, request to save
COMMUNICATION = ("waiting", "transfer", "communication")
LISTED_SHARE = 0.1  # of the error of the derived communication, from which a cause is listed
HIDDEN_SHARE = 0.05  # of the exposed communication, from which hidden communication is named
LEAST_EXPOSED_SHARE = 0.005  # of the epoch; a percentage of less communication says nothing
LEAST_ERROR = 0.005  # seconds; a smaller error of the derived communication is none
SECONDS_DIGITS, RATE_DIGITS, SHARE_DIGITS = 2, 3, 1


def communication_answer(points, names, preferred=()):
    """The exposed and the hidden communication of the points `preferred`, or of the fastest one on
    the most ranks; None without phases."""
    candidates = preferred or fastest_on_most_ranks(points)
    shown = [p for p in candidates if p.phase_seconds and not communicates_in_passes(p)]
    if not shown:
        return None
    text = " ".join(communication_text(p, names) for p in shown)
    values = {}
    for p in shown:
        place = f"batch_{p.batch_per_rank}_ranks_{p.ranks}"
        values[f"{place}_exposed_seconds"] = p.phase_seconds["exposed_communication"]
        values[f"{place}_hidden_seconds"] = p.hidden_seconds
    source = ", ".join(p.source for p in shown)
    return Answer(AnswerKind.COMMUNICATION, text, source, values)


def fastest_on_most_ranks(points):
    """Returns the fastest point on the most ranks that had processors, as a list; empty without
    one."""
    usable = [p for p in points if p.ranks > 1 and not p.is_independent and not p.lacks_processors]
    return sorted(usable, key=lambda p: (-p.ranks, p.epoch_seconds))[:1]


def communication_text(point, names):
    exposed, hidden = point.phase_seconds["exposed_communication"], point.hidden_seconds
    further = ""
    if hidden:
        # GPUs communicate beside the computation.
        where = "is behind" if point.threads is None else "is in calls that lengthen"
        further = f"; {number_text(hidden, SECONDS_DIGITS)} s more {where} the backward pass"
    share = number_text(100 * exposed / point.epoch_seconds, SHARE_DIGITS)
    return (
        f"With {names.place(point)}, exposed communication takes {share} % of the epoch "
        f"({number_text(exposed, SECONDS_DIGITS)} s){further}{restriction_text(point)}."
    )


def bandwidth_answer(points, runs, link_gbit, names, preferred=()):
    """The bus bandwidth on the most ranks that had processors; if possible of a point whose
    transfer was measured without computation, and of one of the points `preferred`."""
    usable = [
        p
        for p in points
        if p.ranks > 1 and p.is_all_reduced and p.bandwidth and not p.lacks_processors
    ]
    if not usable:
        return None
    most = max(p.ranks for p in usable)
    candidates = [p for p in usable if p.ranks == most]
    exact = [p for p in candidates if p.bandwidth.value is not None]
    candidates = exact or candidates
    point = next((p for p in preferred if p in candidates), candidates[0])
    measured = point.bandwidth.times(1e-9)
    peak = peaks_of(runs).get(machine_key(point.ranks, point.setting, point.hosts))
    text = (
        f"With {names.place(point)}, the all-reduces reach "
        f"{rate_phrase(measured)} of bus bandwidth{share_phrases(point, measured, peak, link_gbit)}"
        f"{restriction_text(point)}.{remedy_phrase(point)}{missing_peak_phrase(point, peak)}"
    )
    values = {
        "bus_bandwidth_gb_s": measured.value,
        "bus_bandwidth_gb_s_low": measured.low,
        "bus_bandwidth_gb_s_high": measured.high,
        "peak_gb_s": peak,
    }
    return Answer(AnswerKind.BANDWIDTH, text, point.source, values)


def rate_phrase(bounds):
    if bounds.value is not None:
        return f"{number_text(bounds.value, RATE_DIGITS)} GB/s"
    if bounds.low is None:
        return f"at most {number_text(bounds.high, RATE_DIGITS)} GB/s"
    return f"at least {number_text(bounds.low, RATE_DIGITS)} GB/s"


def share_phrases(point, measured, peak, link_gbit):
    """Returns the shares of the peak of a sweep and of the link, as far as they are known."""
    rate = measured.low if measured.value is None else measured.value
    if rate is None:
        return ""
    texts = []
    if peak:
        share = number_text(100 * rate / peak, SHARE_DIGITS)
        peak_text = number_text(peak, RATE_DIGITS)
        texts.append(f"{share} % of the largest rate in the sweep ({peak_text} GB/s)")
    used = point.link_use(1e9 * rate, point.link_rate(link_gbit))
    if used is not None:
        texts.append(f"{number_text(100 * used, SHARE_DIGITS)} % of the link")
    return ", " + " and ".join(texts) if texts else ""


def remedy_phrase(point):
    """Returns why the bandwidth is only a bound, and what measures it; "" if it is known."""
    if point.bandwidth.value is not None or point.program != LOCKSTEP:
        return ""
    if point.split is None:
        return " This is a bound, because the run file lacks the clocks of the ranks."
    if point.reducer != "overlap":
        return ""
    return (
        " This is a bound, because the all-reduces overlap with computation: a run with --reducer "
        "allreduce measures the bandwidth."
    )


def missing_peak_phrase(point, peak):
    """Returns which run would show the largest rate of these ranks; "" if it is known."""
    if peak or point.program != LOCKSTEP:
        return ""
    return f" A sweep on {point.ranks} ranks (lockstep allreduce) would show what they can reach."


def communicates_in_passes(point):
    """Whether ranks also communicate in a pass or the upload, which the exposed communication does
    not contain."""
    is_synchronised = dict(point.variant).get("bn") == "sync"
    return is_synchronised or point.reducer == "parameter-server" or point.is_pipeline


def derived_communication(losses):
    """How far the derived communication, T(N) - T(1)/N, is from the exposed communication."""
    usable = [
        loss
        for loss in losses
        if not communicates_in_passes(loss.point) and "lacking" not in loss.causes
    ]
    groups = grouped(usable, lambda loss: (loss.point.setting, loss.scaling))
    found = [max(group, key=order_of_loss) for group in groups.values()]
    names = Names([loss.point for loss in found])
    return [derived_answer(loss, names.start(loss.point)) for loss in found]


def order_of_loss(loss):
    return (loss.has_equal_images, loss.point.ranks, -loss.point.epoch_seconds)


def derived_answer(loss, start):
    exposed = sum(loss.causes.get(name, 0.0) for name in COMMUNICATION)
    error = loss.seconds - exposed
    values = {
        "derived_seconds": loss.seconds,
        "exposed_seconds": exposed,
        "hidden_seconds": loss.point.hidden_seconds,
    }
    if abs(error) < LEAST_ERROR:
        text = (
            f"{start}On {loss.point.ranks} ranks ({loss.scaling}), T(N) − T(1)/N and the exposed "
            f"communication agree: {number_text(exposed, 2)} s per epoch."
        )
        return Answer(AnswerKind.DERIVED, text, loss.point.source, values)
    size = "large" if error > 0 else "small"
    text = (
        f"{start}On {loss.point.ranks} ranks ({loss.scaling}), T(N) − T(1)/N = {loss.seconds:.2f} s"
        f" per epoch, but the exposed communication is {exposed:.2f} s. The derived time is"
        f" {abs(error):.2f} s too {size}"
    )
    if exposed >= LEAST_EXPOSED_SHARE * loss.point.epoch_seconds:
        text += f" ({100 * abs(error) / exposed:.0f} % of the exposed communication)"
    others = other_causes(loss, error)
    if others:
        text += ", because it also contains " + ", ".join(
            f"{LABELS[name]} ({number_text(seconds, 2)} s)" for name, seconds in others
        )
    hidden = loss.point.hidden_seconds
    is_beside = loss.point.threads is None  # GPUs communicate beside the computation
    if hidden is not None and is_beside and hidden > HIDDEN_SHARE * exposed:
        text += f". It cannot show the {hidden:.2f} s of communication behind the backward pass"
    return Answer(AnswerKind.DERIVED, text + ".", loss.point.source, values)


def other_causes(loss, error):
    """Returns [(cause, seconds)] of the causes besides communication that are not small against
    the error, the largest first."""
    found = [
        (name, seconds)
        for name, seconds in loss.causes.items()
        if name not in COMMUNICATION and abs(seconds) >= LISTED_SHARE * abs(error)
    ]
    return sorted(found, key=lambda pair: -abs(pair[1]))


def other_messages(runs):
    """What the ranks of Lockstep send besides gradients: one answer for runs that differ only in
    the number of ranks."""
    trained = (
        run
        for run in runs
        if run.has_steps and not run.ladder and run.rank_count > 1 and program_of(run) == LOCKSTEP
    )
    groups = grouped(
        trained,
        lambda run: (
            run.option("reducer"),
            run.option("bn"),
            run.stage_count,
            tuple(run.bucket_bytes),
        ),
    )
    return [messages_answer(group) for group in groups.values()]


def messages_answer(runs):
    run = max(runs, key=lambda run: run.rank_count)
    ranks = run.rank_count
    gradients = int(run.bucket_bytes.sum())
    step_bytes = NUMBER_BYTES * (STEP_NUMBERS + ranks)
    if run.option("reducer") == "none":
        step_bytes = 0
    texts = [
        *gradient_texts(run, gradients),
        *step_texts(run, step_bytes),
        *epoch_texts(run),
    ]
    source = ", ".join(other.label for other in runs if other.rank_count == ranks)
    values = {
        "ranks": ranks,
        "gradient_bytes_per_step": gradients,
        "other_bytes_per_step": step_bytes,
    }
    return Answer(AnswerKind.MESSAGES, " ".join(texts), source, values)


def gradient_texts(run, gradients):
    if run.option("reducer") == "none":
        yield (
            "No gradients are sent: the replicas are independent, and only the results "
            "of the steps are summed at the end of an epoch."
        )
    if gradients and run.stage_count == 1:
        yield (
            f"Per step, each of the {run.rank_count} ranks contributes "
            f"{gradients / 1e6:.2f} MB of gradients."
        )
    if run.stage_count > 1:
        yield (
            "Pipeline stages send activations and their gradients; the replicas of a stage "
            "reduce their gradients."
        )


def step_texts(run, step_bytes):
    if step_bytes:
        yield (
            f"The ranks also sum {step_bytes} bytes of other numbers per step (loss, correct "
            "predictions, images, requests to stop or save, a flag per rank for a loss that is not "
            "finite)."
        )
    if run.option("reducer") == "parameter-server":
        yield "Rank 0 also sends the inputs and the parameters in each step."
    if run.option("bn") == "sync" and run.option("reducer") != "none":
        yield (
            "If the network has batch norm, the ranks sum its statistics in the forward pass, and "
            "two sums per channel in the backward pass."
        )


def epoch_texts(run):
    is_independent = run.option("reducer") == "none"
    record = NUMBER_BYTES * (4 + len(run.phases) + 2 * len(run.bucket_bytes))
    if last_accuracy(run) is not None:
        statistics = ""
        if run.option("bn") == "broadcast" and not is_independent:
            statistics = ", after rank 0 has sent its statistics of batch norm, if there are any"
        yield f"An evaluation sums three numbers over the ranks{statistics}."
    if not is_independent:
        yield "Per epoch, the ranks compare hashes of their parameters, and their clocks."
    yield (
        f"Per epoch, each rank sends {record} bytes per step for this file, outside of the timed "
        "steps."
    )
