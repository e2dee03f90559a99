# SPDX-License-Identifier: BSD-3-Clause
"""Part "first steps": versions and device, three steps in each precision, engines for bf16."""

import os
import platform

from bisection import FAILED, agreement
from context import BATCH
from diagnosis import diagnose
from measures import parse_json
from small_runs import BOUNDS, CPU_BATCH, SmallRun, reference_losses

GPU_FIELDS = "name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit"


def versions(context, report):
    """Reads the devices and all versions."""
    host = f"{platform.node()}, {os.cpu_count()} processors, {platform.platform()}"
    context.properties = [["host", host], ["Python", platform.python_version()]]
    smi = context.run("nvidia-smi", [*context.programs.nvidia_smi, f"--query-gpu={GPU_FIELDS}",
                                     "--format=csv,noheader"], 15)
    if not smi.ok:
        report.not_run("nvidia-smi", smi.reason)
    gpus = smi.stdout.strip().splitlines() if smi.ok else []
    context.properties += [[f"GPU ({GPU_FIELDS})", gpu] for gpu in gpus]
    context.run("nvidia-smi all", [*context.programs.nvidia_smi, "-q"], 15)
    info = context.run("lockstep info", context.lockstep("info", "--device", "cuda", "--json"), 40)
    if not info.ok:
        report.add_outcome(info)
        return
    details = parse_json(info.stdout, "lockstep info")
    context.properties += [[name, text] for name, text in details.get("versions", {}).items()]
    devices = details.get("devices", {})
    context.properties += [[f"device {name}", text] for name, text in devices.items()]
    device = devices.get("cuda", "not available")
    report.check(not device.startswith("not available"), f"lockstep info: {device}")
    report.headlines.append(f"{len(gpus)} GPUs: {device}")
    report.add_text("The table at the top of this report lists the devices and the versions.")


def check_small_run(context, report, configuration, limit, *options, **variables):
    """Runs three steps on the GPU and compares the losses with the reference. Diagnoses a failure."""
    name = f"steps {configuration.precision} {configuration.batch}"
    training = context.checked_training(
        report, name, [*configuration.arguments(context, name), *options], limit, **variables)
    has_failed = training.can_be_rerun
    if training.run is not None:
        # After the run on the GPU, so that a slow CPU does not prevent it.
        reference, source = reference_losses(context, configuration.batch)
        if reference is None:
            report.not_run(f"reference for {name}", source)
        else:
            result, reason = agreement(training, reference, BOUNDS[configuration.precision])
            has_failed = not report.check(result != FAILED, f"{name}, compared with {source}: {reason}")
            if not has_failed:
                report.add_text(f"{name}, compared with {source}: {reason}.")
        report.numbers[name] = training.run.loss.tolist()
    if has_failed:
        diagnose(context, report, configuration.precision, configuration.batch,
                 configuration.engines, configuration.fusion)


def quick_steps(context, report):
    """Three steps in each precision with quick engines: nothing is compiled at run time, and batch
    norm uses our own kernels."""
    for precision in ("fp32", "bf16", "fp16"):
        check_small_run(context, report, SmallRun(precision), 25, **context.core_dump())
    report.add_text(f"Small runs train three steps on synthetic images at batch {CPU_BATCH}.")


def full_precision(context, report):
    """Three steps in bf16 at the batch size of the measurements with selected engines."""
    # A core dump slows the GPU down, so it is not used while engines are timed.
    check_small_run(context, report, SmallRun("bf16", BATCH, "timed"), 150,
                    "--engine-log", context.path("engines-bf16.jsonl"))
