# SPDX-License-Identifier: BSD-3-Clause
"""Throughput: engine selection on a quiet GPU, the roofline bound, and the comparison with PyTorch."""

from context import BATCH
from diagnosis import diagnose
from measures import parse_json
from pytorch import PytorchProcess, is_usable
from turns import WARM_UP_EPOCHS, Configuration, report_turns, run_alternately

WARM_UP_SHARE = 0.6  # of the time of a step, for the warm-up of PyTorch
BOUND_KEYS = ("flops_per_second", "bytes_per_second", "seconds", "floor_seconds")
EXPLANATION = (
    "The throughput in images per second is the median over the epochs of all rounds. For Lockstep, "
    "it is computed from `/steps/phase_seconds`, with all phases including `data_wait`, without the "
    f"first {WARM_UP_EPOCHS} epochs of each run; for PyTorch, from the wall-clock time of whole "
    f"epochs after {WARM_UP_EPOCHS} warm-up epochs. A ratio divides the median of a configuration by "
    "that of the fastest PyTorch configuration in the same round; the target is 2. PyTorch always "
    "uses bf16. `none` is `--bn-fusion none`. tests/bench/pytorch_gpu.py describes the PyTorch "
    "variants.")


def select_engines(context, report, batch, precision):
    """Selects the engines by timing, while no other program uses the GPU."""
    name = f"engines {batch} {precision}"
    # The runs on the CIFAR-10 images have the same graphs as this plan.
    outcome = context.run(name, context.lockstep(
        "plan", "--device", "cuda", "--precision", precision, "--batch-per-rank", batch, "--engines",
        "timed", "--engine-log", context.path(f"engines-{precision}-{batch}.jsonl"), "--json"), 200)
    if not outcome.ok:
        report.add_outcome(outcome)
        if outcome.can_be_rerun:
            diagnose(context, report, precision, batch)
        return
    kernels = parse_json(outcome.stdout, "lockstep plan").get("kernels") or []
    report.check(kernels, f"{name}: lockstep plan lists no kernels")
    report.numbers[name] = {"seconds": outcome.seconds, "kernels": kernels}
    report.add_text(f"Lockstep selected the engines for {precision} at batch {batch} in "
                    f"{outcome.seconds:.0f} s.")


def measure_bound(context, report, batch, precision):
    """Returns the roofline bound of the throughput in images/s, or None if it was not measured."""
    name = f"roofline bound {batch} {precision}"
    if not context.has_time(report, name, 8):
        return None
    outcome = context.run(name, context.lockstep(
        "plan", "--device", "cuda", "--measure", "--batch-per-rank", batch, "--precision", precision,
        "--engines", "timed", "--json"), 60)
    if not outcome.ok:
        report.add_outcome(outcome)
        return None
    bound = parse_json(outcome.stdout, "lockstep plan").get("floor") or {}
    is_valid = all(isinstance(bound.get(key), int | float) and bound[key] > 0 for key in BOUND_KEYS)
    if not report.check(is_valid, f"{name}: lockstep plan printed no roofline bound"):
        return None
    report.numbers[name] = bound
    report.add_text(f"Batch {batch}, {precision}: the roofline bound of a step is "
                    f"{bound['floor_seconds'] * 1e3:.2f} ms at the measured rates of "
                    f"{bound['flops_per_second'] / 1e12:.0f} TFLOP/s and "
                    f"{bound['bytes_per_second'] / 1e12:.2f} TB/s. The operations, timed "
                    f"individually, take {bound['seconds'] * 1e3:.2f} ms.")
    return batch / bound["floor_seconds"]


def lockstep_speed(context, report, batch, variants):
    """Selects engines on a quiet GPU, measures Lockstep alone, and measures the roofline bound."""
    for precision in ("bf16", "fp16"):
        select_engines(context, report, batch, precision)
    measured = run_alternately(context, report, [Configuration(batch, one) for one in variants], 1)
    precisions = dict.fromkeys(one.variant.split()[0] for one in measured)
    report_turns(report, batch, measured, {precision: measure_bound(context, report, batch, precision)
                                           for precision in precisions})


def speed_512(context, report):
    lockstep_speed(context, report, BATCH, ("bf16 device", "fp16 device", "bf16 device none",
                                            "fp16 device none", "bf16 host"))


def speed_128(context, report):
    lockstep_speed(context, report, 128, ("bf16 device", "fp16 device"))


def speed_2048(context, report):
    lockstep_speed(context, report, 2048, ("bf16 device", "fp16 device"))


def compare(context, report, batch, variants):
    """Warms up the PyTorch variants, and measures them and Lockstep in alternating turns. A PyTorch
    that cannot run leaves Lockstep alone."""
    ones = [Configuration(batch, variant) for variant in ("bf16 device", "fp16 device")]
    if is_usable(context, report):
        process = PytorchProcess(context, batch, variants)
        process.wait_for_warm_up(context.limited(context.clock.left * WARM_UP_SHARE))
        for variant, error in process.errors.items():
            report.not_run(f"{batch} PyTorch {variant}", error)
        ones += [Configuration(batch, variant, process) for variant in process.ready]
    report_turns(report, batch, run_alternately(context, report, ones))


def pytorch_512(context, report):
    """Batch 512: PyTorch with a captured CUDA graph, and compiled in the default mode."""
    report.add_text(EXPLANATION)
    compare(context, report, BATCH, ("graph", "compile_default"))


def pytorch_128(context, report):
    report.add_text(EXPLANATION)
    compare(context, report, 128, ("graph", "compile_default"))


def pytorch_2048(context, report):
    compare(context, report, 2048, ("graph", "compile_default"))


def max_autotune(context, report):
    """Batch 512: PyTorch with max-autotune, which compiles for minutes."""
    compare(context, report, BATCH, ("graph", "compile_graph", "compile"))
