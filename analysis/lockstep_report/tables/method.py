# SPDX-License-Identifier: BSD-3-Clause
"""The method of a report as text: setting, base case, clock, timed steps and number of runs."""

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import base_of
from lockstep_report.runfile.settings import describe_setting, some_of

MOST_BASES = 8  # that the method lists
WORDS = (
    "bucket: a part of the gradients, which one all-reduce sums over the ranks; overlap: the "
    "all-reduces start during the backward pass",
    "exposed communication: the time after the backward pass in which a rank waits for all-reduces "
    "to end; hidden communication: the transfer during the backward pass",
    "bus bandwidth: bytes of an all-reduce times 2 (N - 1) / N, over its time (the busbw of "
    "NCCL-tests)",
)


def method_lines(points, runs, file_notes=()):
    lines = [
        f"Setting: {describe_setting(group)}"
        for group in grouped(points, lambda p: p.setting).values()
    ]
    lines += base_lines(points)
    if any(p.ranks > 1 for p in points):
        lines += [f"Words: {words}" for words in WORDS]
    if points and runs:
        lines.append(
            "Clock: each rank reads its monotonic clock once after each phase; the time of a step"
            " is that of the rank that takes longest for all timed steps; throughput is the sum of"
            " the images over the sum of the seconds"
        )
        errors = [p.split.clock_error for p in points if p.split]
        if errors:
            lines.append(
                "Waiting and transfer: the clocks of the ranks are compared with offsets that were"
                " measured before and after each epoch; " + clock_text(max(errors))
            )
        lines.append(
            "Warm-up: the earliest complete epoch in which no process started is "
            "timed; without one, the first 10 % of the steps (at least 1) are excluded"
        )
    for rule in dict.fromkeys(p.rule for p in points):
        sources = dict.fromkeys(name for p in points if p.rule == rule for name in p.sources)
        lines.append(f"Timed: {rule} ({some_of(list(sources))})")
    lines += dict.fromkeys(repeats_line(p) for p in points)
    lines += [
        f"{run.label}: the run did not finish (status {run.status})"
        for run in runs
        if run.status != "complete"
    ]
    return lines + [f"Files: {note}" for note in file_notes]


def clock_text(error):
    if not error:
        return "ranks of one host read the same clock"
    return f"two clocks differ by at most {1e6 * error:.3g} µs after that"


def base_lines(points):
    bases = {id(b): b for b in (base_of(p, points) for p in points) if b}
    for base in list(bases.values())[:MOST_BASES]:
        batch = f", batch {base.batch_per_rank}" if base.batch_per_rank else ""
        threads = base.setting[-1] if len(base.setting) > 1 else ""
        yield (
            f"Base case T(1): 1 rank{batch}{', ' + threads if threads else ''}, "
            f"{base.epoch_seconds:.4g} s per epoch ({some_of(list(dict.fromkeys(base.sources)))})"
        )
    if len(bases) > MOST_BASES:
        yield (
            f"Base case T(1): {len(bases) - MOST_BASES} more, each for the rows with the same "
            "setting and batch and the most options in common"
        )
    if points and not bases:
        yield "Base case: none of the runs has 1 rank, so there are no speedups"
    for p in points:
        if p.is_independent:
            yield (
                f"Baseline without communication: {p.ranks} independent replicas, batch "
                f"{p.batch_per_rank}, {p.epoch_seconds:.4g} s per epoch ({some_of(p.sources)})"
            )


def repeats_line(point):
    if point.repeats == 1:
        return "n = 1 run per point unless the tables say otherwise: no interval over runs"
    spread = (
        "no interval (fewer than 6)"
        if point.epoch_interval is None
        else (
            "rank-based interval of the median, which covers "
            f"{100 * point.epoch_interval.coverage:.1f} % (at least 95 %, as the tables say)"
        )
    )
    return f"n = {point.repeats} runs of {some_of(point.sources)}: medians, {spread}"
