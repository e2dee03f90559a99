"""Advice in words. Each rule is a function that returns an `Advice` with its evidence, or None if
the evidence does not reach the threshold; docs/analysis.md lists the rules."""

from dataclasses import dataclass, replace

from lockstep_report.measure import metrics
from lockstep_report.measure.choices import kernel_changes
from lockstep_report.measure.contention import LIMIT
from lockstep_report.measure.significance import ONE_RUN
from lockstep_report.models.alpha_beta import SWEEP
from lockstep_report.models.causes import WEAK
from lockstep_report.runfile.settings import plural

# Thresholds, as shares of the step or epoch time unless stated otherwise.
EXPOSED_SHARE = 0.05
LAST_BUCKET_SHARE = 0.5  # of the exposed transfer
WAITING_SHARE = 0.03
CHANGING_SHARE = 0.05  # waiting for ranks that change
EXPLAINED_SHARE = 0.5  # of the waiting, that the excess of a slow rank explains
INPUT_SHARE = 0.02
COMPUTATION_SHARE = 0.05
LINK_SHARE = 0.8  # of the rate of the link
LATENCY_SHARE = 0.5  # of the time of the all-reduce of a bucket
ALGORITHM_GAIN = 0.1  # of the time of the all-reduce
MIB = 2**20


@dataclass(frozen=True)
class Advice:
    """`evidence`: name with unit -> number, the size of the effect first; `threshold`: the value that
    the evidence reached; `case`: what distinguishes advice of the same rule, such as a rank."""

    rule: str
    source: str
    text: str
    evidence: dict
    threshold: float
    case: str = ""
    repeats: int = 1  # repeated runs with this advice, of which `source` has the median effect
    of: int = 1  # repeated runs of the point


def percent(share):
    return f"{100 * share:.1f} %"


def duration(seconds):
    """Formats a time with three significant digits: "2.10 ms", "85.0 µs"."""
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if abs(seconds) * factor >= 1 or unit == "µs":
            value = seconds * factor
            return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:#.3g} {unit}"
    return ""


def size(count):
    return f"{count / MIB:.3g} MiB" if count >= MIB / 10 else f"{count / 1024:.3g} KiB"


def exposed_buckets(step):
    """Bucket size: the transfer that the backward pass does not hide."""
    if step.reducer != "overlap" or step.transfer is None or step.buckets < 2:
        return None
    if step.transfer < EXPOSED_SHARE * step.step:
        return None
    text = (f"Buckets of {size(step.largest_bucket)} leave {duration(step.transfer)} of transfer "
            f"exposed per step ({percent(step.transfer / step.step)}); the last bucket alone is "
            f"{duration(step.last_bucket)}. ")
    is_last = step.last_bucket >= LAST_BUCKET_SHARE * step.transfer
    if is_last:
        text += "Smaller buckets (--bucket-mib) shorten the all-reduce that starts last."
    else:
        text += ("The all-reduces take longer than the backward pass can hide: smaller buckets do "
                 "not help; fewer bytes (--gradient-dtype bf16), a faster algorithm "
                 "(--all-reduce) or a larger batch per rank do.")
    return Advice("exposed-buckets", step.source, text, {
        "exposed_transfer_seconds": step.transfer, "last_bucket_seconds": step.last_bucket,
        "step_seconds": step.step, "bucket_bytes": step.largest_bucket}, EXPOSED_SHARE,
        case="last bucket" if is_last else "all buckets")


def no_overlap(step):
    """Overlap: an all-reduce after the backward pass."""
    is_known = step.transfer is not None
    transfer = step.transfer if is_known else step.exposed  # overlap does not hide waiting for slower ranks
    if step.reducer != "allreduce" or transfer < EXPOSED_SHARE * step.step:
        return None
    most = min(step.phases["backward"], transfer)
    return Advice(
        "no-overlap", step.source,
        "The all-reduce starts after the backward pass and leaves "
        f"{duration(transfer)} per step exposed{', without waiting for slower ranks' if is_known else ''} "
        f"({percent(transfer / step.step)}). --reducer overlap can hide at most {duration(most)} of it behind the backward pass "
        f"({duration(step.phases['backward'])}); measure both, because on CPUs the communication "
        "then uses the cores of the backward pass.",
        {"exposed_seconds": transfer, "backward_seconds": step.phases["backward"],
         "most_hidden_seconds": most, "step_seconds": step.step}, EXPOSED_SHARE)


def waiting_rank(step):
    """Imbalance: the other ranks wait for one rank whose work takes longer."""
    slow = step.straggler
    if step.waiting is None or step.waiting < WAITING_SHARE * step.step:
        return None
    if not has_slow_rank(step):
        return None
    return Advice(
        "waiting-rank", step.source,
        f"The ranks wait {duration(step.waiting)} per step for the last one "
        f"({percent(step.waiting / step.step)}), which no faster network removes. Rank {slow.rank}"
        f" ({slow.host}) works {duration(slow.excess.value)} longer than the others "
        f"({duration(slow.work_seconds)}) and starts {percent(slow.last_share)} of the "
        "all-reduces last: compare its processors, device and other load with those of the others.",
        {"waiting_seconds": step.waiting, "rank": slow.rank,
         "excess_seconds": slow.excess.value, "excess_low_seconds": slow.excess.low,
         "excess_high_seconds": slow.excess.high, "last_share": slow.last_share,
         "step_seconds": step.step}, WAITING_SHARE, case=f"rank {slow.rank}")


def has_slow_rank(step):
    """Whether the waiting is for one rank, whose work takes longer in most steps."""
    slow = step.straggler
    return (slow is not None and slow.is_significant
            and slow.excess.value >= EXPLAINED_SHARE * step.waiting)


def waiting_in_turn(step):
    """Imbalance: the ranks wait for a rank that changes from step to step."""
    if step.waiting is None or step.waiting < CHANGING_SHARE * step.step or has_slow_rank(step):
        return None
    return Advice(
        "waiting-in-turn", step.source,
        f"The ranks wait {duration(step.waiting)} per step for the last one "
        f"({percent(step.waiting / step.step)}), which no faster network removes, and no slow rank "
        "explains it: the ranks are delayed at random, by other processes, interrupts, "
        "input data or changing clock rates. Leave a processor of each host to the system, and "
        "compare the hosts; with a larger batch per rank, the ranks wait less often.",
        {"waiting_seconds": step.waiting, "step_seconds": step.step}, CHANGING_SHARE)


def input_wait(step):
    """Input: the step waits for its batch."""
    wait = step.phases["data_wait"]
    if wait < INPUT_SHARE * step.step:
        return None
    return Advice(
        "input-wait", step.source,
        f"Each step waits {duration(wait)} for its batch ({percent(wait / step.step)}). More "
        "loader threads (--loader-threads) or, on a GPU, images in device memory "
        "(--data-residency device) shorten it.",
        {"data_wait_seconds": wait, "step_seconds": step.step}, INPUT_SHARE)


def link_limit(step, link_gbit=None):
    """Link: the transfer reaches the rate of the link."""
    rate = link_gbit or step.link_gbit
    used = metrics.utilisation(step.link_rate, rate)
    if step.hosts < 2 or used is None or not LINK_SHARE <= used <= 1:
        return None
    if step.transfer is None or step.transfer < EXPOSED_SHARE * step.step:
        return None
    return Advice(
        "link-limit", step.source,
        f"The transfer uses at least {percent(used)} of the link of {rate:g} Gbit/s and leaves "
        f"{duration(step.transfer)} per step exposed ({percent(step.transfer / step.step)}): no "
        "other algorithm is much faster. Fewer bytes (--gradient-dtype bf16), a larger batch per "
        "rank or a faster link are.",
        {"link_share": used, "link_gbit": rate, "exposed_transfer_seconds": step.transfer,
         "step_seconds": step.step}, LINK_SHARE)


def latency(step, fits):
    """Bucket size: alpha takes most of the time of each all-reduce."""
    if step.reducer != "overlap" or step.transfer is None:
        return None
    if step.transfer < EXPOSED_SHARE * step.step:
        return None
    for found in fits:
        if not matches(step, found) or found.alpha is None or not found.alpha.has_interval:
            continue
        whole = found.time_of(step.largest_bucket).value
        if found.alpha.low <= 0 or whole <= 0 or found.alpha.low < LATENCY_SHARE * whole:
            continue
        return Advice(
            "latency", step.source,
            f"The latency of an all-reduce, alpha = {duration(found.alpha.value)} "
            f"({duration(found.alpha.low)} to {duration(found.alpha.high)}, from "
            f"{', '.join(found.sources)}), is at least {percent(found.alpha.low / whole)} of the "
            f"time of a bucket of {size(step.largest_bucket)} ({duration(whole)}). Larger buckets "
            "(--bucket-mib) pay it less often.",
            {"alpha_seconds": found.alpha.value, "alpha_low_seconds": found.alpha.low,
             "alpha_high_seconds": found.alpha.high, "bucket_seconds": whole,
             "bucket_bytes": step.largest_bucket}, LATENCY_SHARE)
    return None


def matches(step, found):
    """Whether a fit has the algorithm, ranks and hosts of the run."""
    return (found.algorithm, found.ranks, found.hosts) == (step.algorithm, step.ranks, step.hosts)


def better_algorithm(step, fits):
    """Algorithm: a sweep on as many ranks and hosts measured a faster one."""
    if step.transfer is None or step.transfer < EXPOSED_SHARE * step.step:
        return None
    usable = [f for f in fits if f.origin == SWEEP and f.fit is not None and f.fit.dof > 0
              and (f.ranks, f.hosts) == (step.ranks, step.hosts)
              and f.sizes.min() <= step.largest_bucket <= f.sizes.max()]
    own = next((f for f in usable if f.algorithm == step.algorithm), None)
    if own is None:
        return None
    times = {f.algorithm: f.time_of(step.largest_bucket) for f in usable
             if not f.algorithm.startswith("mpi-blocking")}  # cannot be selected for training
    best = min(times, key=lambda name: times[name].value)
    current = times[own.algorithm]
    if times[best].high > (1 - ALGORITHM_GAIN) * current.low:
        return None
    return Advice(
        "better-algorithm", step.source,
        f"In the sweep {', '.join(own.sources)}, {best} reduces {size(step.largest_bucket)} in "
        f"{duration(times[best].value)} ({duration(times[best].low)} to "
        f"{duration(times[best].high)}), {step.algorithm} in {duration(current.value)} "
        f"({duration(current.low)} to {duration(current.high)}): select it with --all-reduce.",
        {"best_seconds": times[best].value, "best_high_seconds": times[best].high,
         "current_seconds": current.value, "current_low_seconds": current.low,
         "bucket_bytes": step.largest_bucket}, ALGORITHM_GAIN, case=best)


def wrong_clock(step):
    """Clock: the ends of the all-reduces contradict the recorded clock offsets."""
    found = step.straggler
    if found is None or not found.is_clock_wrong:
        return None
    return Advice(
        "clock", step.source,
        f"On rank {found.clock_rank} the all-reduces end {duration(found.clock.value)} "
        f"({duration(found.clock.low)} to {duration(found.clock.high)}) apart from rank 0, more "
        f"than the recorded clock error ({duration(found.clock_error)}) and the time of an "
        "all-reduce explain: do not use the split into waiting and transfer of this run.",
        {"deviation_seconds": found.clock.value, "rank": found.clock_rank,
         "clock_error_seconds": found.clock_error}, 0.0, case=f"rank {found.clock_rank}")


def small_batch(loss):
    """Strong scaling: the smaller batch computes fewer images per second."""
    cause = "smaller_batch" if "smaller_batch" in loss.causes else "computation"
    share = loss.share(cause)
    if loss.scaling == WEAK or share < COMPUTATION_SHARE:
        return None
    point = loss.point
    if not is_larger_than_spread(loss, cause):
        return None
    other = "" if cause == "smaller_batch" else (
        f" (a 1-rank run of batch {point.batch_per_rank} would show how much of it is slower "
        "computation at the same batch)")
    return Advice(
        "small-batch", point.source,
        f"{percent(share)} of the epoch on {point.ranks} ranks is lost because a rank computes "
        f"fewer images per second at batch {point.batch_per_rank} than at batch "
        f"{loss.base.batch_per_rank}{other}: a larger global batch keeps the ranks busy (and "
        f"changes the training).{one_run(loss)}",
        {"share": share, "seconds_per_epoch": loss.causes[cause],
         "batch_per_rank": point.batch_per_rank}, COMPUTATION_SHARE)


def is_larger_than_spread(loss, cause):
    """Whether a cause that compares runs exceeds their spread. One run does not show it: then the
    advice says so (`one_run`)."""
    return loss.difference.is_assumed or loss.causes[cause] > loss.difference.half


def one_run(loss):
    return f" Note: {ONE_RUN}." if loss.difference.is_assumed else ""


def slower_compute(loss):
    """Computation: the same batch takes longer on several ranks."""
    share = loss.share("slower_compute")
    if share < COMPUTATION_SHARE or not is_larger_than_spread(loss, "slower_compute"):
        return None
    point = loss.point
    return Advice(
        "slower-compute", point.source,
        f"{percent(share)} of the epoch on {point.ranks} ranks is lost because the computation of "
        f"a batch of {point.batch_per_rank} takes longer than on one rank. {slower_reason(loss)}"
        f"{one_run(loss)}",
        {"share": share, "seconds_per_epoch": loss.causes["slower_compute"],
         "batch_per_rank": point.batch_per_rank}, COMPUTATION_SHARE)


def slower_reason(loss):
    """Returns what can slow down all ranks: other kernels, or what the ranks of a host share."""
    point = loss.point
    changed = kernel_changes(point, loss.same_batch or loss.base)
    if changed:
        return (f"{changed} than on one rank: select the same one with --conv-algorithm, and compare "
                "again.")
    per_host = -(-point.ranks // max(1, point.host_count or len(point.hosts)))
    if per_host == 1:
        return ("Each host has one rank, so ranks share no processors: compare the clock rates and "
                "the other load of the hosts, and the 1-rank run with a repeat on each host.")
    crowded = ""
    if point.processors and point.threads:
        crowded = (f" (here up to {per_host} ranks of {plural(point.threads, 'thread')} share "
                   f"{point.processors} processors")
        if point.cores and point.cores < point.processors:
            crowded += f", which are hardware threads of {plural(point.cores, 'core')}"
        crowded += ")"
    return f"Ranks of a host share processors, memory bandwidth and clock rate{crowded}."


def merged(advice, points):
    """Returns the advice with one element for the repeated runs of a point, if it is the same: the
    same rule and case. Advice of less than half of the repeated runs is at the end."""
    point_of = {source: p for p in points for source in p.sources}
    groups = {}
    for one in advice:
        point = point_of.get(one.source)
        place = point.sources if point else one.source
        groups.setdefault((one.rule, place, one.case), []).append(one)
    found = [median_advice(group, point_of.get(group[0].source)) for group in groups.values()]
    return sorted(found, key=lambda advice: 2 * advice.repeats < advice.of)


def median_advice(group, point):
    ordered = sorted(group, key=lambda advice: next(iter(advice.evidence.values())))
    return replace(ordered[(len(group) - 1) // 2], repeats=len(group),
                   of=point.repeats if point else 1)


def lacking_processors(source, lack):
    """Processors: the ranks lacked them, which spoils the evidence of all other rules."""
    return Advice(
        "lacking-processors", source,
        f"Rank {lack.rank} lacked a processor for {percent(lack.share)} of the epoch, because "
        f"{lack.cause}. Other advice from this run would be about the lack.",
        {"lacking_share": lack.share, "rank": lack.rank}, LIMIT, case=lack.cause)


def all_advice(steps, found_losses, fits, link_gbit=None, points=(), lacks=None):
    """Applies all rules. Returns the advice in the order of runs and rules, without repetitions and
    once for the repeated runs of each of `points`. `lacks`: run -> `Lack` of the runs whose ranks
    lacked processors."""
    lacks = lacks or {}
    made = [lacking_processors(source, lack) for source, lack in lacks.items()]
    for step in (step for step in steps if step.source not in lacks):
        made += [exposed_buckets(step), no_overlap(step), waiting_rank(step), waiting_in_turn(step),
                 input_wait(step), link_limit(step, link_gbit), latency(step, fits), better_algorithm(step, fits),
                 wrong_clock(step)]
    for loss in found_losses:
        made += [small_batch(loss), slower_compute(loss)]
    seen = {}
    for advice in filter(None, made):
        seen.setdefault((advice.source, advice.text), advice)
    return merged(seen.values(), points)
