# SPDX-License-Identifier: BSD-3-Clause
"""The table and the JSON object with the results of a campaign."""

import collections
import os
import platform

from bounds import percentile, upper_bound

PHASES = ("start", "training", "saving", "end")


def by_kind(outcomes):
    grouped = {}
    for outcome in sorted(outcomes, key=lambda o: (o.draw.kind, o.draw.index)):
        grouped.setdefault(outcome.draw.kind, []).append(outcome)
    return grouped


def progress_line(outcomes, seconds):
    counts = ", ".join(f"{kind} {len(of_kind)}" for kind, of_kind in by_kind(outcomes).items())
    failed = sum(outcome.has_failed for outcome in outcomes)
    return f"{seconds:7.0f} s: {counts}; {failed} failed"


def summary(outcomes):
    """Returns the counts of the outcomes of one kind."""
    times = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    checked = collections.Counter(name for outcome in outcomes for name in outcome.checked)
    failed = collections.Counter(name for outcome in outcomes for name in outcome.failures)
    runs, failures = len(outcomes), sum(outcome.has_failed for outcome in outcomes)
    return {
        "runs": runs,
        "failures": failures,
        "bound": upper_bound(failures, runs),
        "seconds": (
            {f"p{p}": round(percentile(times, p), 3) for p in (50, 99, 100)} if times else {}
        ),
        "phases": {phase: sum(o.phase == phase for o in outcomes) for phase in PHASES},
        "ranks": dict(sorted(collections.Counter(o.draw.ranks for o in outcomes).items())),
        "hosts": dict(sorted(collections.Counter(o.draw.hosts for o in outcomes).items())),
        "actions": dict(sorted(collections.Counter(o.draw.action for o in outcomes).items())),
        "checks": {
            name: {"runs": n, "failures": failed[name], "bound": upper_bound(failed[name], n)}
            for name, n in sorted(checked.items())
        },
    }


def table(outcomes, seconds, finalised):
    """Returns the results as text."""
    lines = [f"{len(outcomes)} runs in {seconds:.0f} s; bounds with a confidence of 95 %"]
    if finalised:
        lines.append(
            f"{finalised} further runs are not counted: a rank was stopped after all others had"
            " ended"
        )
    for kind, of_kind in by_kind(outcomes).items():
        found = summary(of_kind)
        lines += [
            "",
            (
                f"{kind}: {found['runs']} runs, {found['failures']} failed, rate below"
                f" {found['bound']:.2%}"
            ),
        ]
        if found["seconds"]:
            p50, p99, most = found["seconds"].values()
            lines.append(
                f"  from the fault to the end of the job: p50 {p50:.2f} s, p99 {p99:.2f} s, max"
                f" {most:.2f} s"
            )
        for name in ("phases", "ranks", "hosts", "actions"):
            lines.append(
                f"  {name}: " + ", ".join(f"{key}: {value}" for key, value in found[name].items())
            )
        lines.append(f"  {'check':<28}{'runs':>7}{'failed':>8}{'rate below':>12}")
        lines += [
            f"  {name:<28}{c['runs']:>7}{c['failures']:>8}{c['bound']:>12.2%}"
            for name, c in found["checks"].items()
        ]
    return "\n".join(lines)


def as_json(options, outcomes, seconds, finalised):
    """Returns all results as an object for JSON."""
    return {
        "seed": options.seed,
        "first": options.first,
        "jobs": options.jobs,
        "hosts": options.hosts,
        "ranks": options.ranks,
        "watchdog": options.watchdog,
        "patience": options.patience,
        "wall_seconds": seconds,
        "stopped_after_the_others_had_ended": finalised,
        "machine": {"processors": os.cpu_count(), "system": platform.platform()},
        "kinds": {kind: summary(of_kind) for kind, of_kind in by_kind(outcomes).items()},
        "runs": [
            {
                "kind": o.draw.kind,
                "index": o.draw.index,
                "draw": o.draw.text(),
                "phase": o.phase,
                "status": o.status,
                "seconds": o.seconds,
                "failures": o.failures,
            }
            for o in outcomes
        ],
    }
