"""Parts that train: b (test accuracy on CIFAR-10) and c (batch ladder up to the memory limit)."""

import numpy as np

from measures import Unreadable, parse_json, parse_json_lines
from reports import NO_TIME

OUT_OF_MEMORY = 4  # docs/exit-status.md
# Part b: (epochs, minimum test accuracy of a correct run with at least this number of epochs).
MINIMUM_ACCURACIES = ((10, 0.85), (5, 0.75), (2, 0.50), (1, 0.30))
TOLERANCE = 0.02  # by which the test accuracy of Lockstep may be lower than that of PyTorch
GIB = 2**30


# --- b: test accuracy on CIFAR-10 ----------------------------------------------------------------------------

def minimum_accuracy(epochs):
    return next((accuracy for least, accuracy in MINIMUM_ACCURACIES if epochs >= least), 0.0)


def accuracy(context, report):
    epochs, minimum = context.args.epochs, minimum_accuracy(context.args.epochs)
    rows, rates, accuracies = [], None, {}
    for precision in ("bf16", "fp16"):
        name = f"b {precision}"
        if context.clock.left < 5:
            report.skip(name, NO_TIME)
            continue
        arguments = context.train_arguments(
            context.path(f"b-{precision}.h5"), precision, "--data", context.data, "--batch-per-rank", "128", "--epochs",
            epochs, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency", "device", "--evaluate-every", "0")
        outcome, run = context.run_training(report, name, arguments, 120)
        if run is None:
            continue
        rates, accuracies[precision] = run.learning_rate, run.test_accuracy
        report.check(run.test_accuracy >= minimum,
                     f"{name}: the test accuracy {run.test_accuracy:.2%} is below the minimum of {minimum:.0%}")
        rows.append([f"Lockstep {precision}", f"{run.test_accuracy:.2%}", f"{run.loss[0]:.3f}",
                     f"{run.loss[-20:].mean():.3f}", f"{outcome.seconds:.0f}"])
    reference = pytorch_accuracy(context, report, rates, rows)
    if reference is not None:
        for precision, value in accuracies.items():
            report.check(value >= reference - TOLERANCE,
                         f"b {precision}: the test accuracy {value:.2%} is lower than that of PyTorch, {reference:.2%}, "
                         f"by more than {TOLERANCE * 100:.0f} percentage points")
    report.add_text(f"All runs train {epochs} epochs on CIFAR-10 with batch 128, random crop and flip, and a onecycle "
                    "learning rate with a peak of 0.1. The test accuracy is that on all 10,000 test images.")
    report.add_table(["run", "test accuracy", "loss of step 1", "mean loss of the last 20 steps", "seconds"], rows)
    report.add_text(f"The minimum test accuracy after {epochs} epochs is {minimum:.0%}. PyTorch uses the same recipe and "
                    "the same learning rate in each step, but its own image order and augmentation. The test accuracy of "
                    f"Lockstep may be lower than that of PyTorch by {TOLERANCE * 100:.0f} percentage points, because "
                    "runs with different seeds differ by some tenths of a percentage point.")
    report.headline = ", ".join(f"{precision} {value:.2%}" for precision, value in accuracies.items())
    if reference is not None:
        report.headline += f", PyTorch bf16 {reference:.2%}"
    context.numbers["b"] = accuracies | {"pytorch": reference}


def pytorch_accuracy(context, report, rates, rows):
    """Returns the test accuracy of PyTorch with the learning rates of the Lockstep run, and appends a row to `rows`.
    Returns None if it was not measured."""
    if rates is None:
        return None
    if context.clock.left < 15:
        report.skip("b pytorch", NO_TIME)
        return None
    path = context.path("b-rates.npy")
    np.save(path, rates)
    command = context.torch("accuracy", "--data", context.args.data, "--batch", "128", "--rates", path, "--seed",
                            context.args.seed)
    outcome = context.runner.run("b pytorch", command, context.clock.left)
    if outcome.timed_out:
        report.skip("b pytorch", f"not complete after {outcome.seconds:.0f} s")
        return None
    value = parse_json_lines(outcome.stdout).get("test_accuracy")
    if not outcome.ok or value is None:
        report.fail_outcome(outcome)
        return None
    rows.append(["PyTorch bf16", f"{value:.2%}", "", "", f"{outcome.seconds:.0f}"])
    return value


# --- c: batch ladder -----------------------------------------------------------------------------------------

# Number of synthetic images. It is sufficient for every batch that fits into 141 GB; generation takes seconds.
LADDER_IMAGES = 131072
NO_LIMIT = "100000GB"  # value of --memory-limit that exceeds the memory of every GPU


def predicted_limit(points, limit):
    """Returns the largest batch whose predicted memory is at most `limit` bytes, by linear extrapolation from the last
    two points of the ladder. Returns None if the ladder has fewer points or no limit."""
    if len(points) < 2 or not limit:
        return None
    (b0, m0), (b1, m1) = ((point["batch_per_rank"], point["predicted_bytes"]) for point in points[-2:])
    slope = (m1 - m0) / (b1 - b0)
    return int(b0 + (limit - m0) / slope) if slope > 0 else None


def check_points(report, points):
    """Checks that every point that fits has a throughput, and adds a table of the points."""
    rows = []
    for point in points:
        fits = point["status"] != "out_of_memory"
        rate = point.get("images_per_second")
        rows.append([point["batch_per_rank"], point["status"], f"{rate:,.0f}" if fits and rate else "",
                     f"{point['predicted_bytes'] / GIB:.2f}", f"{point.get('peak_bytes', 0) / GIB:.2f}" if fits else ""])
        if fits:
            report.check(rate is not None and np.isfinite(rate) and rate > 0,
                         f"c: batch {point['batch_per_rank']} has no throughput")
    report.add_table(["batch", "status", "img/s", "predicted GiB", "peak GiB"], rows)


def ladder(context, report):
    output = context.path("c-ladder.h5")
    arguments = ["ladder", "--device", "cuda", "--precision", "bf16", "--ladder-start", "32", "--steps", "4", "--data",
                 f"synthetic:{LADDER_IMAGES}", "--output", output, "--overwrite", "--json"]
    outcome = context.runner.run("c ladder", context.lockstep(*arguments), context.clock.limit(120))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    result = parse_json(outcome.stdout, "lockstep ladder")
    points = result.get("ladder") or []
    if not points:
        raise Unreadable("lockstep ladder printed no point")
    limit = result.get("memory_limit_bytes", 0)
    report.add_text("The ladder trains in bf16; the batch grows by a factor of four from point to point. The memory "
                    f"limit of a rank is {limit / GIB:.1f} GiB.")
    check_points(report, points)
    fitting = [point["batch_per_rank"] for point in points if point["status"] != "out_of_memory"]
    too_large = [point["batch_per_rank"] for point in points if point["status"] == "out_of_memory"]
    report.check(fitting, "c: no batch fits")
    if not too_large:
        report.fail(f"c: the ladder ended at batch {fitting[-1]}, which fits, before the memory was exhausted")
    if fitting and too_large:
        measure_limit(context, report, fitting[-1], too_large[0], predicted_limit(points, limit))
    train_after_failure(context, report)
    context.numbers["c"] = points


def fits_in_memory(context, report, batch):
    """Returns whether two training steps with `batch` fit into the GPU memory if Lockstep sets no limit. Returns None if
    the program ends with an error other than out of memory."""
    name = f"c batch {batch}"
    arguments = context.train_arguments(
        context.path("c-try.h5"), "bf16", "--data", f"synthetic:{LADDER_IMAGES}", "--batch-per-rank", batch, "--steps",
        "2", "--evaluate-every", "never", "--memory-limit", NO_LIMIT)
    outcome = context.runner.run(name, context.lockstep(*arguments), context.clock.limit(60))
    if outcome.ok or outcome.status == OUT_OF_MEMORY:
        report.checks += 1
        return outcome.ok
    if outcome.timed_out:
        report.skip(name, f"not complete after {outcome.seconds:.0f} s")
    else:
        report.fail(f"{outcome.failure}; expected status 0 or {OUT_OF_MEMORY} (out of memory)", outcome.tail)
    return None


def measure_limit(context, report, low, high, predicted):
    """Finds the largest batch that fits by bisection between `low`, which fits, and `high`, which does not. The first
    batches are close to `predicted`, if it is not None."""
    tried, candidates = [], [] if predicted is None else [int(predicted * 0.98)]
    longest = 0.0
    while high - low > max(0.03 * low, 1):
        if context.clock.left < longest * 1.5 + 12:
            report.skip("c measured limit", f"{NO_TIME} to bisect the range from {low} to {high}")
            break
        batch = candidates.pop(0) if candidates else (low + high) // 2
        if not low < batch < high:
            continue
        before = context.clock.left
        fits = fits_in_memory(context, report, batch)
        longest = max(longest, before - context.clock.left)
        if fits is None:
            break
        tried.append(f"{batch} {'fits' if fits else 'does not fit'}")
        if len(tried) == 1 and predicted is not None:  # the limit is near the prediction
            candidates = [int(predicted * (1.05 if fits else 0.9))]
        low, high = (batch, high) if fits else (low, batch)
        if predicted is not None and not fits and batch <= predicted * 0.98:
            report.fail(f"c: batch {batch} is predicted to fit (predicted limit {predicted}), but it does not fit")
    prediction = f"{predicted:,}" if predicted is not None else "unknown"
    report.add_text(f"Predicted limit: batch {prediction}, by linear extrapolation of the memory that Lockstep predicts for "
                    f"the last two points. Measured limit, with `--memory-limit {NO_LIMIT}`: batch {low:,} fits, batch "
                    f"{high:,} does not fit{' (' + ', '.join(tried) + ')' if tried else ''}.")
    report.headline = f"largest batch: predicted {prediction}, measured {low:,} to {high:,}"


def train_after_failure(context, report):
    """Checks that a small batch trains after a program has run out of GPU memory."""
    if context.clock.left < 3:
        report.skip("c smaller batch afterwards", NO_TIME)
        return
    arguments = context.train_arguments(
        context.path("c-after.h5"), "bf16", "--data", "synthetic:512", "--batch-per-rank", "32", "--steps", "3",
        "--evaluate-every", "never")
    outcome, run = context.run_training(report, "c smaller batch afterwards", arguments, 45)
    if run is not None:
        report.add_text(f"After this, a run at batch 32 trained {len(run.loss)} steps in {outcome.seconds:.0f} s.")
