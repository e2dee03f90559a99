"""Part "first steps": versions and device, three steps in each precision, engines for bf16."""

import importlib.metadata
import json
import os
import pathlib
import platform

from candidates import report_candidates
from context import BATCH
from diagnosis import diagnose
from gpus import describe_rates, gpu_of
from small_runs import BOUNDS, CPU_BATCH, SmallRun, deviations, gpu_arguments, reference_losses

GPU_FIELDS = ("name,driver_version,memory.total,memory.used,clocks.sm,clocks.max.sm,clocks.mem,"
              "power.limit,temperature.gpu,utilization.gpu")
PACKAGES = ("torch", "triton", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "numpy", "h5py")
VERSIONS = ("mpi", "compiler", "hdf5_version", "cuda", "cudnn", "nccl", "driver", "git_commit")


def package_versions():
    """Returns the installed versions of Python packages without importing them."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} is not installed")
    return ", ".join(versions)


def versions(context, report):
    """Reads the device, its description and all versions. Sets the kind of the GPU."""
    rows = [["host", f"{platform.node()}, {os.cpu_count()} processors, {platform.platform()}"],
            ["Python", f"{platform.python_version()}, {package_versions()}"]]
    smi = context.run("nvidia-smi", [*context.programs.nvidia_smi, f"--query-gpu={GPU_FIELDS}",
                                     "--format=csv,noheader"], 15)
    context.run("nvidia-smi all", [*context.programs.nvidia_smi, "-q"], 15)
    if not smi.ok:
        report.not_run("nvidia-smi", smi.failure)
    device = smi.stdout.strip().splitlines()[0] if smi.ok and smi.stdout.strip() else "unknown"
    rows.append([f"GPU ({GPU_FIELDS})", device])
    description = context.path("device.json")
    context.run("ldd", context.program(["ldd", *context.programs.lockstep[:1]]), 15)
    info = context.run("lockstep info", context.lockstep(
        "info", "--device", "cuda", "--write-device-description", description, "--json"), 40)
    if not report.check(info.ok, info.failure):
        report.add_text("```text", info.tail, "```")
    try:
        details = json.loads(info.stdout) if info.ok else {}
    except json.JSONDecodeError:
        details = {}
        report.fail("lockstep info: the program printed no JSON object")
    names = details.get("devices", {})
    context.gpu = gpu_of(f"{names.get('cuda', '')} {device.split(',')[0]}")
    rows += [["kind", describe_rates(context.gpu)], ["Lockstep", details.get("build", "unknown")]]
    rows += [[f"device {name}", text] for name, text in names.items()]
    rows += [["version", f"{key} {value}"] for key, value in details.get("versions", {}).items()
             if key in VERSIONS]
    if details:
        exists = pathlib.Path(description).is_file()
        report.check(exists, "lockstep info wrote no device description")
    report.headlines.append(f"{context.gpu.kind}: {device.split(',')[0]}")
    report.numbers["device"] = {"kind": context.gpu.kind, "nvidia_smi": device, "info": details}
    report.add_text("The table at the top of this report lists the device and the versions.")
    context.head_rows = rows


def check_small_run(context, report, configuration, limit, engine_log=None):
    """Runs three steps on the GPU and compares the losses with the reference. Diagnoses a failure."""
    name = f"{'steps' if configuration.engines == 'quick' else 'full'} {configuration.precision} " \
           f"{configuration.batch}"
    arguments = gpu_arguments(context, name, configuration)
    if engine_log:
        arguments += ["--engine-log", engine_log]
    # A core dump slows the GPU down, so it is not used while engines are timed.
    variables = context.core_dump() if configuration.engines == "quick" else {}
    outcome, run, has_failed = context.run_training(report, name, arguments, limit, **variables)
    row = [name, "", "", f"{outcome.seconds:.1f}"]
    if run is not None:
        # After the run on the GPU, so that a slow CPU does not prevent it.
        reference, source = reference_losses(context, configuration.batch)
        if reference is None:
            report.not_run(f"reference for {name}", source)
        wrong = deviations(context, configuration, run.loss)
        has_failed = not report.check(not wrong, f"{name}: {'; '.join(wrong)}")
        row[1:3] = ", ".join(f"{loss:.5f}" for loss in run.loss), source
        report.numbers[name] = {"losses": run.loss.tolist(), "seconds": outcome.seconds}
    report.add_table(["run", "losses", "reference", "seconds"], [row])
    if has_failed:
        diagnose(context, report, configuration.precision, configuration.batch,
                 configuration.engines, configuration.fusion)


def quick_steps(context, report):
    """Three steps in each precision with quick engines: nothing is compiled at run time, and batch
    norm uses our own kernels."""
    for precision in ("fp32", "bf16", "fp16"):
        check_small_run(context, report, SmallRun(precision), 25)
    bounds = "; ".join(f"{precision} " + ", ".join(f"{bound:g} up to step {last}"
                                                   for last, bound in steps)
                       for precision, steps in BOUNDS.items())
    report.add_text(f"Small runs train three steps on synthetic images at batch {CPU_BATCH}. "
                    f"The bounds of the relative difference from the reference are: {bounds}.")


def full_precision(context, report):
    """Three steps in bf16 at the batch size of the measurements with selected engines."""
    log = context.path("engines-bf16.jsonl")
    check_small_run(context, report, SmallRun("bf16", BATCH, "timed"), 150, engine_log=log)
    report_candidates(report, "bf16", BATCH, log)
