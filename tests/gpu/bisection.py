# SPDX-License-Identifier: BSD-3-Clause
"""Reruns of a failed check with one change each. They state in one line which changes make it pass.

The label of a change is an option with its value ("--cuda-graph off", or several of them) or an
environment variable ("NCCL_NVLS_ENABLE=0")."""

import numpy as np

from measures import loss_deviations, relative_differences

PASSED, FAILED, NOT_RUN, HUNG = "passed", "failed", "not run", "did not end"
REPEAT = "the same options"


def changed(arguments, label):
    """Returns the arguments with the options of `label` set to its values."""
    arguments, words = list(arguments), label.split() if label.startswith("--") else []
    for option, value in zip(words[::2], words[1::2]):
        if option in arguments:
            arguments[arguments.index(option) + 1] = value
        else:
            arguments += [option, value]
    return arguments


def variables_of(label):
    """Returns the environment variable that `label` sets, as a dictionary."""
    return dict([label.split("=")]) if "=" in label else {}


def agreement(training, reference, bounds):
    """Returns (result, reason) of a training whose losses must agree with `reference`."""
    outcome = training.outcome
    if outcome.is_cut_off:
        return NOT_RUN, training.reason
    if training.run is None:
        return HUNG if outcome.timed_out else FAILED, training.reason
    losses = training.run.loss
    wrong = loss_deviations(losses, reference, bounds)
    if wrong:
        return FAILED, "; ".join(wrong)
    largest = np.max(relative_differences(losses, reference))
    return PASSED, f"the losses differ by at most {largest:.1e} of their value"


def conclusion(name, results):
    """Returns one line that names the changes that make a check pass. `results`: {label: result}."""
    first = results[REPEAT]
    passing = [label for label, result in results.items() if result == PASSED]
    failing = [label for label, result in results.items()
               if result in (FAILED, HUNG) and label != REPEAT]
    if first == PASSED:
        return f"{name}: not reproduced by a rerun"
    if first == NOT_RUN:
        return f"{name}: no conclusion, because the reruns had no time"
    if passing:
        return f"{name}: passes with {' or '.join(passing)}; fails with {', '.join(failing)}"
    if FAILED not in results.values():
        return (f"{name}: no rerun ended within its time limit, so either the program hangs with "
                "every change, or the machine is slow")
    return f"{name}: no change makes it pass: {', '.join(failing)}"


def bisect(context, report, name, attempt, labels, seconds):
    """Reruns a failed check with each change in `labels` within `seconds`, and adds the conclusion to
    the report. `attempt(name of the rerun, label)` returns (result, reason). A change must make two
    reruns pass, because some failures do not occur in every run."""
    context.clock.extend(seconds)
    results, rows = {}, []
    for number, label in enumerate((REPEAT, *labels)):
        results[label], reason = attempt(f"rerun {number} {name}", label)
        if results[label] == PASSED and label != REPEAT:
            results[label], reason = attempt(f"rerun {number} again {name}", label)
        rows.append([label, results[label], reason])
        if results[REPEAT] == PASSED:
            break
    report.add_text(f"Reruns of {name}:")
    report.add_table(["change", "result", "reason"], rows)
    report.add_diagnosis(conclusion(name, results))


def check(context, report, name, attempt, labels, seconds=200):
    """Runs a check, and bisects it if it fails and `labels` is not empty. Returns its result."""
    result, reason = attempt(name, REPEAT)
    if result == NOT_RUN:
        report.not_run(name, reason)
    elif report.check(result == PASSED, f"{name}: {reason}"):
        report.add_text(f"{name}: passed; {reason}.")
    elif labels:
        bisect(context, report, name, attempt, labels, seconds)
    return result
