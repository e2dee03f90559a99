# SPDX-License-Identifier: BSD-3-Clause
"""Checks of programs, and reruns of a failed check with one change each.

The label of a change is an option with its value ("--cuda-graph off", or several), an environment
variable ("NCCL_NVLS_ENABLE=0"), or MEMCHECK."""

import re
import shutil
import time

from call import last_lines
from losses import UNREADABLE

PASSED, FAILED = "passed", "failed"
NOT_RUN, HUNG = "not run", "did not end"
SAME, MEMCHECK = "the same options", "memcheck"
BLOCKING = "CUDA_LAUNCH_BLOCKING=1"  # if this passes, an order between streams is missing
ONE_GPU = (
    BLOCKING,
    "--cuda-graph off",
    "--weight-stream off",
    "--bn-fusion none",
    "--precision fp32 --engines quick",
    "--engines quick",
    MEMCHECK,
)
BISECTION_SECONDS = 75  # at least; later steps become shorter
MOST_STARTS = 6  # of a program that asks to be started again
USAGE = (2, 3, 6, 127)  # statuses: options or device, data, files; the program is missing


def changed(words, label):
    """Returns the words of a command with the options of `label` set to its values."""
    words, change = list(words), label.split() if label.startswith("--") else []
    for option, value in zip(change[::2], change[1::2]):
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return words


def sanitizer(*options):
    """Returns the words that start memcheck, or an empty list if it is not installed."""
    program = shutil.which("compute-sanitizer")
    # cuDNN calls functions of the runtime that fail and handles the errors itself.
    return (
        [
            program,
            "--tool",
            "memcheck",
            "--report-api-errors",
            "no",
            "--error-exitcode",
            "99",
            "--target-processes",
            "all",
            *options,
        ]
        if program
        else []
    )


def failure_of(outcome, is_small):
    """Returns (result, reason) of a program that did not succeed. A program that reaches its time
    limit may be slow, so it counts as HUNG only if its work is small."""
    is_unusable = outcome.status in USAGE or (outcome.status is None and not outcome.timed_out)
    if outcome.is_cut_off or is_unusable:
        return NOT_RUN, outcome.reason
    if "watchdog timeout" in outcome.stderr or (outcome.timed_out and is_small):
        return HUNG, outcome.reason
    # Of compute-sanitizer.
    error = re.search(
        r"=========\s+((?:Invalid|Program hit|Uninitialized|Barrier|Error)\b.*)",
        outcome.stdout + outcome.stderr,
    )
    reason = error.group(1).strip()[:200] if error else outcome.reason
    return (NOT_RUN if outcome.timed_out else FAILED), reason


def conclusion(name, results):
    """Returns one line that names the changes that make a check pass. `results`: {label:
    result}."""
    passing = [label for label, one in results.items() if one == PASSED]
    failing = [label for label, one in results.items() if one in (FAILED, HUNG) and label != SAME]
    others = ", ".join(failing) or "no other change"
    if results[SAME] == PASSED:
        return f"{name}: not reproduced by a rerun"
    if results[SAME] == NOT_RUN:
        return f"{name}: no conclusion, because the rerun was not complete"
    if passing:
        return f"{name}: passes with {' or '.join(passing)}; fails with {others}"
    if FAILED not in results.values():
        return f"{name}: no rerun ended, so it hangs with every change, or the machine is slow"
    return f"{name}: no change makes it pass: {others}"


def bisect(result, name, attempt, labels):
    """Reruns a failed check with each change. Returns {label: result}. A change must make two
    reruns pass, because some failures do not occur in every run."""
    results, rows = {}, []
    for number, label in enumerate((SAME, *labels)):
        if results.get(SAME) in (PASSED, NOT_RUN) or (label == MEMCHECK and not sanitizer()):
            break
        found, reason = attempt(f"rerun {number} {name}", label)
        if found == PASSED and label not in (SAME, MEMCHECK):
            found, reason = attempt(f"rerun {number} again {name}", label)
        rows.append([label, found, reason])
        if label != MEMCHECK:
            results[label] = found
        elif found == FAILED and not reason.startswith("exit status"):
            result.diagnoses.append(f"{name}: memcheck: {reason}")
    result.add_table(f"Reruns of {name}", ["change", "result", "reason"], rows)
    result.diagnoses.append(conclusion(name, results))
    return results


def conclude(call, name, attempt, labels=()):
    """Records the result of `attempt(name, label)`, which returns a result and a reason, and
    bisects a failure. A program that hangs is wrong only if it hangs again and a change makes it
    end: otherwise the machine may be slow. Returns whether the check has passed."""
    result, (found, reason), reruns = call.result, attempt(name, SAME), {}
    if found in (PASSED, FAILED):
        result.check(found == PASSED, f"{name}: {reason}")
    if found == PASSED:
        result.notes.append(f"{name}: passed; {reason}.")
    elif found != NOT_RUN and labels:
        call.deadline = min(max(call.deadline, time.monotonic() + BISECTION_SECONDS), call.end)
        reruns = bisect(result, name, attempt, labels)
    if found == HUNG and reruns.get(SAME) != PASSED and PASSED in reruns.values():
        result.check(False, f"{name} hangs: {reason}")
    elif found in (HUNG, NOT_RUN):
        result.skip(name, reason)
    return found == PASSED


def check(call, name, words, verify, seconds, labels=(), is_small=True, restart=None, **variables):
    """Runs a program of Lockstep and checks its results. `verify(outcome)` returns whether they are
    right, and a text that describes them. `restart`: text of an error message after which the
    program is started again. Returns whether the check has passed."""

    def attempt(name, label):
        prefix = sanitizer() if label == MEMCHECK else []
        logs = {
            "CUDNN_LOGLEVEL_DBG": 1,
            "CUDNN_LOGDEST_DBG": call.path(f"{name}.cudnn-log"),
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,COLL,GRAPH,NET,REG,TUNING",
            "NCCL_DEBUG_FILE": call.path(f"{name}.nccl-log-%p"),
        }
        change = dict([label.split("=")]) if "=" in label else {}
        command = call.with_environment(
            [*prefix, *changed(words, label)], **logs, **variables, **change
        )
        for _ in range(MOST_STARTS):
            outcome = call.run(name, command, seconds)
            if restart is None or restart not in outcome.stderr:
                break
            call.result.diagnoses.append(f"{name}, started again: {outcome.reason}")
        if outcome.status != 0:
            call.result.notes.append(f"```text\n{name}:\n{last_lines(outcome.stderr)}\n```")
            return failure_of(outcome, is_small)
        try:
            is_right, text = verify(outcome)
        except UNREADABLE as error:
            is_right, text = False, f"its results cannot be read: {error}"
        return (PASSED if is_right else FAILED), text

    return conclude(call, name, attempt, labels)
