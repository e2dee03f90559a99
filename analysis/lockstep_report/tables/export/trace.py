# SPDX-License-Identifier: BSD-3-Clause
"""Export to the trace event format of Chrome, which Perfetto and chrome://tracing display. Each
rank is a process with one thread for the phases and one for each all-reduce that is in progress at
the same time. Times are in microseconds.
"""

import numpy as np

from lockstep_report.errors import USAGE, ReportError
from lockstep_report.measure.waiting import common_starts
from lockstep_report.tables.table import json_text

MOST_EVENTS = 2_000_000
DEFAULT_STEPS = 10  # timed steps, if none are chosen
PHASES, FIRST_LANE = 0, 1  # threads


def write(folder, runs, selection):
    for name, run in selection.named(runs):
        steps = selection.steps_of(run, DEFAULT_STEPS)
        ranks = selection.ranks_of(run)
        count = len(steps) * len(ranks) * (1 + len(run.phases) + len(run.bucket_bytes))
        if count > MOST_EVENTS:
            raise ReportError(
                USAGE,
                f"{run.path}: {count:,} events are more than viewers display "
                f"({MOST_EVENTS:,}); choose --steps and --ranks",
            )
        folder.write(f"{name}.trace.json", trace_text(run, steps, ranks), folder.kinds[0])


def trace_text(run, steps, ranks):
    clock, error, start = starts(run, steps)
    origin = start[:, ranks].min() if len(steps) else 0.0
    others = {"run": run.label, "run_id": run.run_id, "clock": clock, "clock_error_us": error}
    events = [json_text(event, None) for event in trace_events(run, steps, ranks, start - origin)]
    return (
        '{"displayTimeUnit": "ms", "otherData": '
        + json_text(others, None)
        + ', "traceEvents": [\n'
        + ",\n".join(events)
        + "\n]}\n"
    )


def starts(run, steps):
    """Returns (clock, bound on its error in microseconds, (step, rank) starts of the steps)."""
    raw = run.step_start[steps]
    aligned, bound = np.full(raw.shape, np.nan), 0.0
    for epoch in np.unique(run.epoch[steps]):
        own = run.epoch[steps] == epoch
        origin, error = common_starts(run, epoch, steps[own])
        if origin is not None:
            aligned[own] = origin
            bound = max(bound, error)
    if np.all(np.isfinite(aligned)) and len(set(run.part_of_step[steps].tolist())) == 1:
        return "clock of rank 0; offsets of the other ranks are removed", 1e6 * bound, aligned
    if np.all(np.isfinite(raw)) and run.host_count == 1 and run.option("device") != "cuda":
        return "clock of the host, which all ranks read", 0.0, raw
    # Times of the slowest rank, so that the steps of no rank overlap.
    seconds = run.phase_seconds[steps].sum(axis=2).max(axis=1)
    begin = np.concatenate([[0.0], np.cumsum(seconds)[:-1]]) if len(seconds) else seconds
    text = (
        "no common clock: the steps of all ranks are shown with a common start, one after another"
    )
    return text, None, np.repeat(begin[:, None], run.rank_count, axis=1)


def trace_events(run, steps, ranks, start):
    """Yields the events. `start`: (step, rank) starts of the steps in seconds."""
    seconds = run.phase_seconds[steps]
    begin, end = run.bucket_start[steps], run.bucket_end[steps]
    for rank in ranks:
        yield metadata(
            "process_name", rank, PHASES, name=f"rank {rank} ({run.ranks['hostname'][rank]})"
        )
        yield metadata("process_sort_index", rank, PHASES, sort_index=int(rank))
        yield metadata("thread_name", rank, PHASES, name="phases")
        first_of, last_of = (values[:, rank] + start[:, rank, None] for values in (begin, end))
        known = np.isfinite(first_of + last_of)
        lane, free = lanes_of(
            *(np.where(known, times, start[:, rank, None]) for times in (first_of, last_of))
        )
        for number in range(free):
            yield metadata(
                "thread_name", rank, FIRST_LANE + number, name=f"all-reduce {number + 1}"
            )
        for row, index in enumerate(steps):
            label = {"step": int(run.step[index]) + 1, "epoch": int(run.epoch[index])}
            first = start[row, rank]
            for name, length in zip(run.phases, seconds[row, rank]):
                if 0 < length < np.inf:
                    yield event(name, "phase", rank, PHASES, first, length, label)
                first += length if np.isfinite(length) else 0.0
            for bucket, size in enumerate(run.bucket_bytes):
                if known[row, bucket]:
                    length = end[row, rank, bucket] - begin[row, rank, bucket]
                    yield event(
                        f"bucket {bucket}",
                        "all-reduce",
                        rank,
                        FIRST_LANE + int(lane[row, bucket]),
                        first_of[row, bucket],
                        length,
                        {**label, "bytes": int(size)},
                    )


def metadata(kind, rank, thread, **arguments):
    return {"name": kind, "ph": "M", "pid": int(rank), "tid": thread, "args": arguments}


def event(name, category, rank, thread, begin, length, arguments):
    """Returns a complete event. The times are multiples of 1/8 µs, so that the end of an event and
    the begin of the next one are equal numbers also if a viewer converts them to nanoseconds."""
    first, last = round(8e6 * float(begin)) / 8, round(8e6 * float(begin + length)) / 8
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": int(rank),
        "tid": thread,
        "ts": first,
        "dur": max(0.0, last - first),
        "args": arguments,
    }


def lanes_of(begin, end):
    """Returns (thread of each interval (step, bucket), number of threads), so that intervals of a
    thread do not overlap."""
    lane = np.zeros(begin.shape, dtype=int)
    free = []  # time from which each thread is free
    for place in np.argsort(begin, axis=None, kind="stable"):
        row, bucket = np.unravel_index(place, begin.shape)
        chosen = next((i for i, time in enumerate(free) if time <= begin[row, bucket]), len(free))
        if chosen == len(free):
            free.append(None)
        free[chosen] = end[row, bucket]
        lane[row, bucket] = chosen
    return lane, len(free)
