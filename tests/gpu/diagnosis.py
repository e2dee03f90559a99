# SPDX-License-Identifier: BSD-3-Clause
"""Automatic reruns of a failed configuration of one rank. They are small and state in one line which
of CUDA graph, engine selection, batch-norm fusion and precision is the cause."""

import dataclasses
import re

import environment
from bisection import agreement, bisect, changed, variables_of
from small_runs import BOUNDS, SmallRun, reference_losses

SECONDS = 75  # time of all reruns of one configuration; later parts become shorter
RUN_SECONDS, MEMCHECK_SECONDS = 12, 25  # time limits of one rerun
BLOCKING = "CUDA_LAUNCH_BLOCKING=1"  # if this passes, an order between streams is missing
FP32 = "--precision fp32 --engines quick"
LABELS = (BLOCKING, "--cuda-graph off", "--bn-fusion none", FP32, "--engines quick")


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


def rerun(context, configuration, name, label, limit=RUN_SECONDS, prefix=(), **variables):
    """Runs a configuration with one change; returns (Training, precision of the rerun)."""
    if label == FP32:
        configuration = dataclasses.replace(configuration, precision="fp32", engines="quick")
    arguments = changed(configuration.arguments(context, name), label)
    log = environment.cudnn_log(context.path(f"{name} cudnn.log"))
    cache = context.cache_copy() if "timed" in arguments else {}
    training = context.train(name, arguments, limit, prefix, **log, **cache, **variables,
                             **variables_of(label))
    return training, configuration.precision


def diagnose(context, report, precision, batch, engines="timed", fusion="auto"):
    """Reruns a failed configuration and adds the conclusion to the report. A configuration is rerun
    only once per call."""
    configuration = SmallRun(precision, batch, engines, fusion)
    if configuration in context.diagnosed:
        report.add_diagnosis(f"{context.diagnosed[configuration]} (reruns of an earlier failure)")
        return

    def attempt(name, label):
        reference, _ = reference_losses(context, batch)
        training, used = rerun(context, configuration, name, label, **context.core_dump())
        if reference is None and training.run is not None:
            reference = training.run.loss  # without a reference, the losses only have to be finite
        return agreement(training, reference, BOUNDS[used])

    arguments = configuration.arguments(context, "")
    labels = [label for label in LABELS if "=" in label or changed(arguments, label) != arguments]
    bisect(context, report, str(configuration), attempt, labels, SECONDS)
    context.diagnosed[configuration] = report.diagnoses[-1]
    tool = sanitizer_command(context, "memcheck")
    if tool:  # without a core dump: both use the same interface of the driver
        training, _ = rerun(context, configuration, f"memcheck {configuration}", "", MEMCHECK_SECONDS,
                            tool)
        error = first_error(training.outcome.stdout + training.outcome.stderr)
        if error:
            report.add_diagnosis(f"memcheck: {error}")
