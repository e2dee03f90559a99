"""Parts b (test accuracy on real images) and c (batch ladder up to the memory limit)."""

import numpy as np

from measures import Unreadable, parse_json, parse_json_lines

OUT_OF_MEMORY = 4  # docs/exit-status.md
# Part b: (epochs, lower bound of the test accuracy of a correct run with at least this number of epochs).
SANITY = ((10, 0.85), (5, 0.75), (2, 0.50), (1, 0.30))
BEHIND_PYTORCH = 0.02
GIB = 2**30


# --- b: real images ------------------------------------------------------------------------------------------

def sanity_bound(epochs):
    return next((bound for least, bound in SANITY if epochs >= least), 0.0)


def accuracy(context, report):
    epochs, bound = context.args.epochs, sanity_bound(context.args.epochs)
    rows, rates, found = [], None, {}
    for precision in ("bf16", "fp16"):
        name = f"b {precision}"
        if context.clock.left < 5:
            report.cut(name, "no time was left")
            continue
        arguments = context.train_arguments(
            context.path(f"b-{precision}.h5"), precision, "--data", context.data, "--batch-per-rank", "128", "--epochs",
            epochs, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency", "device", "--evaluate-every", "0")
        outcome, run = context.run_training(report, name, arguments, 120)
        if run is None:
            continue
        rates, found[precision] = run.learning_rate, run.test_accuracy
        report.check(run.test_accuracy >= bound,
                     f"{name}: test accuracy {run.test_accuracy:.2%} is below the sanity bound of {bound:.0%}")
        rows.append([f"Lockstep {precision}", f"{run.test_accuracy:.2%}", f"{run.loss[0]:.3f}",
                     f"{run.loss[-20:].mean():.3f}", f"{outcome.seconds:.0f}"])
    theirs = reference_accuracy(context, report, rates, rows)
    if theirs is not None:
        for precision, ours in found.items():
            report.check(ours >= theirs - BEHIND_PYTORCH,
                         f"b {precision}: {ours:.2%} is more than {BEHIND_PYTORCH:.0%} behind PyTorch's {theirs:.2%}")
    report.say(f"CIFAR-10, {epochs} epochs of batch 128, crop and flip, onecycle with its peak at 0.1, all 10,000 test "
               "images.")
    report.table(["", "test accuracy", "loss of step 1", "mean of the last 20 steps", "seconds"], rows)
    report.say(f"Sanity bound for so many epochs: {bound:.0%}. PyTorch trains by the same recipe and rates with its own "
               f"order and augmentation; Lockstep may be {BEHIND_PYTORCH * 100:.0f} points behind it (one run each: "
               "seeds differ by some tenths of a point).")
    report.headline = ", ".join(f"{precision} {value:.2%}" for precision, value in found.items())
    if theirs is not None:
        report.headline += f", PyTorch bf16 {theirs:.2%}"
    context.numbers["b"] = found | {"pytorch": theirs}


def reference_accuracy(context, report, rates, rows):
    """Returns the test accuracy of PyTorch with the learning rates of the Lockstep run; None if not measured."""
    if rates is None:
        return None
    if context.clock.left < 15:
        report.cut("b pytorch", "no time was left")
        return None
    path = context.path("b-rates.npy")
    np.save(path, rates)
    command = context.torch("accuracy", "--data", context.args.data, "--batch", "128", "--rates", path, "--seed",
                            context.args.seed)
    outcome = context.runner.run("b pytorch", command, context.clock.left)
    if outcome.timed_out:
        report.cut("b pytorch", f"no end after {outcome.seconds:.0f} s")
        return None
    value = parse_json_lines(outcome.stdout).get("test_accuracy")
    if not outcome.ok or value is None:
        report.fail_outcome(outcome)
        return None
    rows.append(["PyTorch bf16", f"{value:.2%}", "", "", f"{outcome.seconds:.0f}"])
    return value


# --- c: the batch ladder -------------------------------------------------------------------------------------

# Enough synthetic images for any batch that fits into 141 GB; they are generated within seconds.
LADDER_IMAGES = 131072
NO_LIMIT = "100000GB"


def predicted_limit(points, limit):
    """Returns the largest batch that is predicted to fit, by linear extrapolation from the last two rungs, or None."""
    if len(points) < 2 or not limit:
        return None
    (b0, m0), (b1, m1) = ((point["batch_per_rank"], point["predicted_bytes"]) for point in points[-2:])
    slope = (m1 - m0) / (b1 - b0)
    return int(b0 + (limit - m0) / slope) if slope > 0 else None


def check_points(report, points):
    rows = []
    for point in points:
        fits = point["status"] == "ok"
        rate = point.get("images_per_second")
        rows.append([point["batch_per_rank"], point["status"], f"{rate:,.0f}" if fits and rate else "",
                     f"{point['predicted_bytes'] / GIB:.2f}", f"{point.get('peak_bytes', 0) / GIB:.2f}" if fits else ""])
        if fits:
            report.check(rate is not None and np.isfinite(rate) and rate > 0,
                         f"c: rung {point['batch_per_rank']} has no speed")
    report.table(["batch", "", "img/s", "predicted GiB", "used at most GiB"], rows)


def ladder(context, report):
    output = context.path("c-ladder.h5")
    arguments = ["ladder", "--device", "cuda", "--precision", "bf16", "--ladder-start", "32", "--steps", "4", "--data",
                 f"synthetic:{LADDER_IMAGES}", "--output", output, "--overwrite", "--json"]
    outcome = context.runner.run("c ladder", context.lockstep(*arguments), context.clock.limit(120))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    answer = parse_json(outcome.stdout, "lockstep ladder")
    points = answer.get("ladder") or []
    if not points:
        raise Unreadable("lockstep ladder printed no rung")
    limit = answer.get("memory_limit_bytes", 0)
    report.say(f"bf16, four times as many images from rung to rung; a rank may take {limit / GIB:.1f} GiB.")
    check_points(report, points)
    fitting = [point["batch_per_rank"] for point in points if point["status"] == "ok"]
    refused = [point["batch_per_rank"] for point in points if point["status"] != "ok"]
    report.check(fitting, "c: no rung fits")
    if not refused:
        report.fail(f"c: memory was not filled: batch {fitting[-1]} fits and there is no larger rung")
    if fitting and refused:
        find_true_limit(context, report, fitting[-1], refused[0], predicted_limit(points, limit))
    after_the_limit(context, report)
    context.numbers["c"] = answer.get("ladder")


def try_batch(context, report, batch):
    """Returns whether two steps with `batch` fit into the device memory, with no limit set by Lockstep. Returns None
    after any other error."""
    name = f"c batch {batch}"
    arguments = context.train_arguments(
        context.path("c-try.h5"), "bf16", "--data", f"synthetic:{LADDER_IMAGES}", "--batch-per-rank", batch, "--steps",
        "2", "--evaluate-every", "never", "--memory-limit", NO_LIMIT)
    outcome = context.runner.run(name, context.lockstep(*arguments), context.clock.limit(60))
    if outcome.ok or outcome.status == OUT_OF_MEMORY:
        report.check(True, name)
        return outcome.ok
    if outcome.timed_out:
        report.cut(name, f"no end after {outcome.seconds:.0f} s")
    else:
        report.fail(f"{name}: neither trains nor ends with status {OUT_OF_MEMORY} (out of memory); {outcome.why}",
                    outcome.tail)
    return None


def find_true_limit(context, report, low, high, predicted):
    """Finds the largest batch by bisection between `low`, which fits, and `high`, which does not; starts near
    `predicted`."""
    tries, guesses = [], [] if predicted is None else [int(predicted * 0.98)]
    longest = 0.0
    while high - low > max(0.03 * low, 1):
        if context.clock.left < longest * 1.5 + 12:
            report.cut("c true limit", f"no time was left to narrow {low} to {high}")
            break
        batch = guesses.pop(0) if guesses else (low + high) // 2
        if not low < batch < high:
            continue
        before = context.clock.left
        fits = try_batch(context, report, batch)
        longest = max(longest, before - context.clock.left)
        if fits is None:
            break
        tries.append(f"{batch} {'fits' if fits else 'does not'}")
        if len(tries) == 1 and predicted is not None:  # the limit is near the prediction
            guesses = [int(predicted * (1.05 if fits else 0.9))]
        low, high = (batch, high) if fits else (low, batch)
        if predicted is not None and not fits and batch <= predicted * 0.98:
            report.fail(f"c: batch {batch} is predicted to fit (limit {predicted}) and does not")
    says = f"{predicted:,}" if predicted is not None else "unknown"
    report.say(f"Predicted limit: batch {says} (the line through the last two rungs' predictions). True limit, by trying "
               f"with `--memory-limit {NO_LIMIT}` so that only the device refuses: {low:,} fits, {high:,} does not"
               f"{' (' + ', '.join(tries) + ')' if tries else ''}.")
    report.headline = f"limit predicted {says}, true {low:,} to {high:,}"


def after_the_limit(context, report):
    if context.clock.left < 3:
        report.cut("c smaller batch afterwards", "no time was left")
        return
    arguments = context.train_arguments(
        context.path("c-after.h5"), "bf16", "--data", "synthetic:512", "--batch-per-rank", "32", "--steps", "3",
        "--evaluate-every", "never")
    outcome, run = context.run_training(report, "c smaller batch afterwards", arguments, 45)
    if run is not None:
        report.say(f"A batch of 32 afterwards: {len(run.loss)} steps, {outcome.seconds:.0f} s.")
