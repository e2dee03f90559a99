# SPDX-License-Identifier: BSD-3-Clause
"""Which runs of one configuration count as repeats: an attempt that did not finish is none, if another
run of the configuration is complete."""

from operator import attrgetter

from lockstep_report.groups import grouped


def split_repeats(items, key, status=attrgetter("status")):
    """Returns (counted, left out) of runs or points. An item that did not finish is left out if a
    complete one has the same configuration `key(item)`."""
    complete = {key(item) for item in items if status(item) == "complete"}
    counted, left_out = [], []
    for item in items:
        is_counted = status(item) == "complete" or key(item) not in complete
        (counted if is_counted else left_out).append(item)
    return counted, left_out


def grouped_repeats(items, key, status=attrgetter("status"), name=attrgetter("source")):
    """Returns {configuration: (repeats, notes about the items that are left out)}."""
    counted, left_out = split_repeats(items, key, status)
    found = {configuration: (group, []) for configuration, group in grouped(counted, key).items()}
    for item in left_out:
        found[key(item)][1].append(left_out_note(name(item), status(item)))
    return found


def is_diverged(run):
    """Whether a run ended because its loss was not finite."""
    return run.status == "failed" and "loss is not finite" in str(run.attributes.get("failure", ""))


def left_out_note(name, status):
    return (f"{name} did not finish (status {status}) and is not counted, because a complete run has "
            "the same configuration")
