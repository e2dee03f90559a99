"""Automatic reruns of a failed configuration. They are small and state in one line which of CUDA
graph, engine selection, batch-norm fusion and precision is the cause."""

import dataclasses
import re

import environment
from running import last_lines
from small_runs import SmallRun, deviations, gpu_arguments, losses_of

SECONDS = 75  # time of all reruns of one configuration; later parts become shorter
RUN_SECONDS, MEMCHECK_SECONDS = 12, 25  # time limits of one rerun
PASSED, FAILED, NOT_RUN, HUNG = "passed", "failed", "not run", "did not end"

REPEAT, BLOCKING, MEMCHECK = "same options", "CUDA_LAUNCH_BLOCKING=1", "memcheck"
NO_FUSION, FP32, EAGER, QUICK = "--bn-fusion none", "fp32", "without CUDA graph", "--engines quick"
# The options of each rerun that differ from the failed configuration. Transport `staged` is not
# captured, so one rank that uses it executes every step without a CUDA graph.
# memcheck is the slowest and decides nothing by itself, so it is last.
CHANGES = {REPEAT: {}, BLOCKING: {}, EAGER: {"transport": "staged"}, NO_FUSION: {"fusion": "none"},
           FP32: {"precision": "fp32", "engines": "quick"}, QUICK: {"engines": "quick"},
           MEMCHECK: {}}


def conclusion(configuration, results, memcheck=""):
    """Returns one line that names the cause. `results` has PASSED, FAILED, HUNG or NOT_RUN per rerun;
    `memcheck` is the first error that compute-sanitizer reports."""
    def passes(rerun):
        return results.get(rerun) == PASSED

    prefix = f"{configuration}: "
    suffix = f"; memcheck: {memcheck}" if memcheck else ""
    if passes(REPEAT):
        return (f"{prefix}not reproduced by three steps on synthetic images, so the cause depends on "
                f"the length of the run or on the data{suffix}")
    if results.get(REPEAT) == HUNG and set(results.values()) <= {HUNG, NOT_RUN}:
        return (f"{prefix}no rerun ended within its time limit, so either the program hangs in every "
                f"variant, or the machine is slow{suffix}")
    if results.get(REPEAT) not in (FAILED, HUNG):
        return f"{prefix}no conclusion, because the reruns had no time{suffix}"
    causes = []
    if passes(EAGER):
        causes.append("CUDA graph capture")
    if passes(NO_FUSION):
        causes.append("batch-norm fusion")
    if not causes and passes(QUICK) and configuration.engines != "quick":
        causes.append("a selected engine")
    if not causes and passes(FP32) and configuration.precision != "fp32":
        causes.append(f"precision {configuration.precision}")
    text = " together with ".join(causes) if causes else (
        "none of graph capture, fusion and precision alone: every rerun that changes one of them "
        "fails as well, or did not run")
    order = "; passes with CUDA_LAUNCH_BLOCKING=1, so an order between streams is missing" \
        if passes(BLOCKING) else ""
    return f"{prefix}cause: {text}{order}{suffix}"


def first_error(text):
    """Returns the first error in the output of compute-sanitizer, or an empty string."""
    found = re.search(r"=========\s+((?:Invalid|Program hit|Uninitialized|Barrier|Error)\b.*)", text)
    return found.group(1).strip()[:200] if found else ""


def sanitizer_command(context, tool, *options):
    """Returns the words that start compute-sanitizer, or an empty list if it is not installed."""
    if context.programs.sanitizer is None:
        return []
    # cuDNN calls functions of the runtime that fail and handles the errors itself.
    api = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return [*context.programs.sanitizer, "--tool", tool, *api, "--error-exitcode", "99",
            "--target-processes", "all", *options]


def rerun(context, name, configuration, label):
    """Runs one rerun; returns (result, reason of a failure, first error of memcheck)."""
    changed = dataclasses.replace(configuration, **CHANGES[label])
    log = environment.cudnn_log(context.path(f"{name}-cudnn.log"))
    own = log | (context.cache_copy() if changed.engines == "timed" else {})
    variables, prefix, limit = context.core_dump() | own, [], RUN_SECONDS
    if label == BLOCKING:
        variables |= {"CUDA_LAUNCH_BLOCKING": "1"}
    if label == MEMCHECK:
        variables, limit = own, MEMCHECK_SECONDS  # no core dump: both use the debugger API
        prefix = sanitizer_command(context, "memcheck")
        if not prefix:
            return NOT_RUN, "compute-sanitizer is not installed", ""
    if context.clock.left < 1:
        return NOT_RUN, "no time", ""
    command = context.lockstep(*gpu_arguments(context, name, changed), prefix=prefix, **variables)
    losses, reason = losses_of(context, name, command, limit)
    outcome = context.runner.outcomes[-1]
    if outcome.is_cut_off:
        return NOT_RUN, reason, ""
    error = first_error(outcome.stdout + outcome.stderr) if label == MEMCHECK else ""
    if losses is None:
        return HUNG if outcome.timed_out else FAILED, f"{reason} {last_lines(outcome.stderr, 1, 160)}", error
    wrong = deviations(context, changed, losses)
    return (FAILED if wrong else PASSED), "; ".join(wrong[:1]), error


def diagnose(context, report, precision, batch, engines="timed", fusion="auto"):
    """Reruns a failed configuration and adds the conclusion to the report. A configuration is rerun
    only once per call."""
    configuration = SmallRun(precision, batch, engines, fusion)
    if configuration in context.diagnosed:
        report.add_diagnosis(f"{context.diagnosed[configuration]} (reruns of an earlier failure)")
        return
    context.clock.extend(SECONDS)
    results, rows, memcheck, number = {}, [], "", len(context.diagnosed) + 1
    for label in CHANGES:
        if label == QUICK and engines == "quick" or label == NO_FUSION and fusion == "none" \
                or label == FP32 and precision == "fp32":
            continue  # equal to the first rerun
        name = f"rerun {number} {len(rows) + 1}"
        results[label], reason, error = rerun(context, name, configuration, label)
        memcheck = memcheck or error
        rows.append([name, label, results[label], reason])
        if label == REPEAT and results[label] == PASSED:
            break
    report.add_text(f"Reruns with {configuration}:")
    report.add_table(["rerun", "change", "result", "reason"], rows)
    context.diagnosed[configuration] = conclusion(configuration, results, memcheck)
    report.add_diagnosis(context.diagnosed[configuration])
