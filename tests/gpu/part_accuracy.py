# SPDX-License-Identifier: BSD-3-Clause
"""Test accuracy on CIFAR-10, and the losses of 20 steps compared with PyTorch."""

import numpy as np

from context import BATCH, LOADER_THREADS, LOSS_SCALE, SEED
from diagnosis import diagnose
from measures import band_deviations, parse_json_lines
from pytorch import is_usable

EPOCHS = 10
MINIMUM_ACCURACY = 0.85  # of a correct run with EPOCHS epochs
TOLERANCE = 0.02  # by which the test accuracy of Lockstep may be lower than that of PyTorch
PEAK_RATE = "0.4"  # learning rate at batch BATCH
STEPS, LOSS_BATCH = 20, 128
# Learning rate of the 20 steps: a large one amplifies rounding errors within a few steps.
LOSS_RATE = "0.001"
PRECISIONS = ("bf16", "fp16")


def train_for_accuracy(context, report, precision):
    """Trains EPOCHS epochs at batch BATCH and checks the test accuracy. Returns the Run or None."""
    name = f"accuracy {precision}"
    arguments = context.train_arguments(
        name, precision, "--data", context.data, "--batch-per-rank", BATCH, "--epochs", EPOCHS,
        "--lr", PEAK_RATE, "--lr-schedule", "onecycle", "--data-residency", "device",
        "--loader-threads", LOADER_THREADS, evaluate="0")
    training = context.checked_training(report, name, arguments, 120)
    run, has_failed = training.run, training.can_be_rerun
    if run is not None:
        report.headlines.append(f"test accuracy {precision} {run.test_accuracy:.2%}")
        report.numbers[name] = run.test_accuracy
        has_failed = not report.check(
            run.test_accuracy >= MINIMUM_ACCURACY,
            f"{name}: the test accuracy {run.test_accuracy:.2%} is below {MINIMUM_ACCURACY:.0%}")
        report.add_text(f"Lockstep trained {EPOCHS} epochs on CIFAR-10 in {precision} with batch "
                        f"{BATCH}, random crop and flip, and a onecycle learning rate with a peak of "
                        f"{PEAK_RATE}: test accuracy {run.test_accuracy:.2%}, mean loss of the last "
                        f"20 steps {run.loss[-20:].mean():.3f}, {training.outcome.seconds:.0f} s.")
    if has_failed:
        diagnose(context, report, precision, BATCH)
    return run


def accuracy_bf16(context, report):
    train_for_accuracy(context, report, "bf16")


def accuracy_fp16(context, report):
    """Test accuracy in fp16, compared with PyTorch in bf16 with the same learning rates."""
    run = train_for_accuracy(context, report, "fp16")
    if run is None or not is_usable(context, report):
        return
    path = context.scratch("rates.npy")
    np.save(path, run.learning_rate)
    outcome = context.run("accuracy pytorch", [
        *context.programs.torch, "accuracy", "--data", str(context.args.data), "--batch", str(BATCH),
        "--rates", path, "--seed", SEED], 120)
    value = parse_json_lines(outcome.stdout).get("test_accuracy")
    if not outcome.ok or value is None:
        report.not_run("accuracy PyTorch", f"{outcome.reason} {outcome.tail[-300:]}")
        return
    report.numbers["accuracy PyTorch"] = value
    report.headlines.append(f"PyTorch {value:.2%}")
    report.check(run.test_accuracy >= value - TOLERANCE,
                 f"accuracy fp16: the test accuracy {run.test_accuracy:.2%} is lower than that of "
                 f"PyTorch, {value:.2%}, by more than {TOLERANCE * 100:.0f} percentage points")
    report.add_text(f"PyTorch in bf16 with the same recipe and learning rates, but its own image "
                    f"order and augmentation: {value:.2%}. Runs with different seeds differ by some "
                    "tenths of a percentage point.")


def losses(context, report):
    """Compares the losses of 20 steps with PyTorch from the same initial weights. Every step uses the
    same LOSS_BATCH images, so the image order does not matter."""
    if not is_usable(context, report):
        return
    order, weights = context.scratch("order.npy"), context.scratch("weights.h5")
    np.save(order, np.tile(np.arange(LOSS_BATCH), (STEPS, 1)))
    outcome = context.run("losses pytorch", [
        *context.programs.torch, "losses", "--data", str(context.args.data), "--train-samples",
        str(LOSS_BATCH), "--order", order, "--weights", weights, "--lr", LOSS_RATE, "--seed", SEED,
        "--precision", *PRECISIONS, "--modes", "eager", "contiguous"], 100)
    reference = parse_json_lines(outcome.stdout).get("losses") or {}
    if not outcome.ok or any(one not in reference for one in ("fp32", *PRECISIONS)):
        report.not_run("losses PyTorch", f"{outcome.reason} {outcome.tail[-300:]}")
        return
    for precision in PRECISIONS:
        name = f"losses {precision}"
        scale = ["--loss-scale", LOSS_SCALE] if precision == "fp16" else []
        arguments = context.train_arguments(
            name, precision, "--data", context.data, "--train-samples", LOSS_BATCH,
            "--batch-per-rank", LOSS_BATCH, "--steps", STEPS, "--augment", "none", "--init-from",
            weights, "--lr", LOSS_RATE, *scale)
        training = context.checked_training(report, name, arguments, 60)
        has_failed = training.can_be_rerun
        if training.run is not None:
            curves = {"float32": reference["fp32"]["eager"]} | reference[precision]
            has_failed = not check_losses(report, name, training.run.loss, curves)
        if has_failed:
            diagnose(context, report, precision, LOSS_BATCH)
    report.add_text("The loss of Lockstep must be within the range of PyTorch's losses, extended on "
                    "both sides by the margin: the largest difference between two PyTorch curves up "
                    "to this step, plus 0.2 % of the loss. The curves of PyTorch differ only by "
                    "rounding. In fp16, both programs use the constant loss scale 1024.")


def check_losses(report, name, losses, curves):
    """Checks the losses of Lockstep against the band of PyTorch's curves, {mode: losses}, and adds a
    table of both. Returns whether they agree."""
    wrong = band_deviations(losses, list(curves.values()))
    report.check(not wrong, f"{name}: {'; '.join(wrong[:3])}")
    steps = [i for i in (0, 1, 4, 9, 14, 19) if i < len(losses)]
    rows = [[mode, *(f"{curve[i]:.4f}" for i in steps)]
            for mode, curve in {"Lockstep": losses.tolist(), **curves}.items()]
    report.add_text(f"{name}: the same initial weights and images, batch {LOSS_BATCH}, learning rate "
                    f"{LOSS_RATE}.")
    report.add_table(["step", *(i + 1 for i in steps)], rows)
    report.numbers[name] = {"lockstep": losses.tolist()} | curves
    return not wrong
