"""Batch sizes up to the memory limit, and a batch whose feature maps exceed 2^31 elements."""

import numpy as np

from context import OUT_OF_MEMORY
from diagnosis import diagnose
from measures import parse_json, relative_differences

IMAGES = 131072  # synthetic images; sufficient for every batch that fits into 141 GB
NO_LIMIT = "100000GB"  # value of --memory-limit that exceeds the memory of every GPU
GIB = 2**30
LARGE_BATCH = 32768  # its first feature maps have 64 * 32 * 32 * LARGE_BATCH = 2^31 elements
LARGE_BOUND = 2e-3  # relative difference of the loss; on a CPU at batch 256 it is 4e-4
RUN_SECONDS = 60


def ladder(context, report, start=32):
    """Trains with batches that grow by a factor of four until memory is full, with quick engines.
    Returns the points, or an empty list."""
    name = f"ladder {start}"
    arguments = ["ladder", "--device", "cuda", "--precision", "bf16", "--engines", "quick",
                 "--ladder-start", start, "--steps", "3", "--data", f"synthetic:{IMAGES}",
                 "--output", context.path("ladder.h5"), "--overwrite", "--json"]
    outcome = context.run(name, context.lockstep(*arguments), 120)
    if not outcome.ok and report.add_outcome(outcome):
        diagnose(context, report, "bf16", 32, "quick")
    if not outcome.ok and not outcome.stdout.startswith("{"):
        return []
    # A ladder that is ended by a signal prints the points that it has completed.
    result = parse_json(outcome.stdout, "lockstep ladder")
    points, rows = result.get("ladder") or [], []
    for point in points:
        rate, has_memory = point.get("images_per_second"), point["status"] != "out_of_memory"
        rows.append([point["batch_per_rank"], point["status"], f"{rate:,.0f}" if rate else "",
                     f"{point['predicted_bytes'] / GIB:.2f}",
                     f"{point.get('peak_bytes', 0) / GIB:.2f}" if has_memory else ""])
        if has_memory:
            report.check(rate and np.isfinite(rate) and rate > 0,
                         f"{name}: batch {point['batch_per_rank']} has no throughput")
    report.add_table(["batch", "status", "img/s with quick engines", "predicted GiB", "peak GiB"],
                     rows)
    report.numbers[name] = result
    if outcome.ok:
        report.check(points and points[-1]["status"] == "out_of_memory",
                     f"{name}: the last batch is not refused, so the memory was not exhausted")
    return points


def ladder_and_after(context, report):
    """The ladder to the first refusal, and a small batch afterwards."""
    points = ladder(context, report)
    fitting = [point["batch_per_rank"] for point in points if point["status"] != "out_of_memory"]
    if fitting:
        report.headlines.append(f"largest batch of the ladder: {fitting[-1]:,}")
    if not context.has_time(report, "smaller batch afterwards", 3):
        return
    arguments = context.train_arguments(
        "after", "bf16", "--data", "synthetic:512", "--batch-per-rank", "32", "--steps", "3",
        "--evaluate-every", "never", engines="quick")
    _, run, _ = context.run_training(report, "smaller batch afterwards", arguments, 30)
    if run is not None:
        report.add_text("After the ladder, a run at batch 32 trained three steps.")


def predicted_limit(points, limit):
    """Returns the largest batch whose predicted memory is at most `limit` bytes, by linear
    extrapolation from the last two points of the ladder; None if this is not possible."""
    if len(points) < 2 or not limit:
        return None
    (b0, m0), (b1, m1) = ((one["batch_per_rank"], one["predicted_bytes"]) for one in points[-2:])
    slope = (m1 - m0) / (b1 - b0)
    return int(b0 + (limit - m0) / slope) if slope > 0 else None


def fits_in_memory(context, report, batch):
    """Returns whether two training steps with `batch` fit into the GPU memory if Lockstep sets no
    limit; None if the program fails otherwise, or has no time."""
    name = f"batch {batch}"
    arguments = context.train_arguments(
        "try", "bf16", "--data", f"synthetic:{batch}", "--batch-per-rank", batch, "--steps", "2",
        "--evaluate-every", "never", "--memory-limit", NO_LIMIT, engines="quick")
    outcome = context.run(name, context.lockstep(*arguments), RUN_SECONDS)
    if outcome.ok or outcome.status == OUT_OF_MEMORY:
        report.checks += 1
        return outcome.ok
    if report.add_outcome(outcome):
        report.add_text(f"Near the memory limit the expected status is 0 or {OUT_OF_MEMORY}.")
        diagnose(context, report, "bf16", 32, "quick")
    return None


def memory_limit(context, report):
    """Finds the largest batch that fits, by bisection between the last two points of a ladder."""
    points = ladder(context, report, start=2048)
    fitting = [one["batch_per_rank"] for one in points if one["status"] != "out_of_memory"]
    refused = [one["batch_per_rank"] for one in points if one["status"] == "out_of_memory"]
    if not fitting or not refused:
        report.not_run("measured limit", "the ladder has no batch that fits and one that does not")
        return
    limit = report.numbers["ladder 2048"].get("memory_limit_bytes", 0)
    predicted = predicted_limit(points, limit)
    low, high, longest = fitting[-1], refused[0], 0.0
    candidates = [] if predicted is None else [int(predicted * 0.97), int(predicted * 1.03)]
    while high - low > max(0.03 * low, 1):
        if not context.has_time(report, f"limit between {low} and {high}", longest * 1.5 + 5):
            break
        batch = candidates.pop(0) if candidates else (low + high) // 2
        if not low < batch < high:
            continue
        before = context.clock.left
        fits = fits_in_memory(context, report, batch)
        longest = max(longest, before - context.clock.left)
        if fits is None:
            break
        if predicted and batch <= predicted * 0.97:
            report.check(fits, f"batch {batch} is predicted to fit (predicted limit {predicted}), "
                               "but it does not fit")
        low, high = (batch, high) if fits else (low, batch)
    text = f"{predicted:,}" if predicted else "unknown"
    report.numbers["limit"] = {"predicted": predicted, "fits": low, "does_not_fit": high}
    report.add_text(f"Predicted limit: batch {text}, by extrapolation of the predicted memory to "
                    f"{limit / GIB:.1f} GiB. Measured limit, with `--memory-limit {NO_LIMIT}`: batch "
                    f"{low:,} fits, batch {high:,} does not fit.")
    report.headlines.append(f"largest batch: predicted {text}, measured {low:,} to {high:,}")


def large_batch(context, report):
    """Compares the loss of step 1 at LARGE_BATCH with the mean of the losses of the same images in
    batches of half the size at learning rate 0. The losses differ only by the batch statistics of
    batch norm, which hardly depend on the size of such batches. Repeats the images in a second
    epoch, whose loss shows the effect of the gradient."""
    losses = {}
    for batch, epochs, rate in ((LARGE_BATCH // 2, 1, "0"), (LARGE_BATCH, 2, "0.01")):
        name = f"large batch {batch}"
        if not context.has_time(report, name, 8):
            return
        arguments = context.train_arguments(
            name, "bf16", "--data", f"synthetic:{LARGE_BATCH}", "--train-samples", LARGE_BATCH,
            "--batch-per-rank", batch, "--epochs", epochs, "--lr", rate, "--augment", "none",
            "--evaluate-every", "never", "--data-residency", "device", engines="quick")
        outcome, run, has_failed = context.run_training(report, name, arguments, RUN_SECONDS,
                                                        accepted=(OUT_OF_MEMORY,))
        if run is None:
            if outcome.status == OUT_OF_MEMORY:
                report.not_run(name, "it does not fit into the memory of this GPU")
            elif has_failed:
                diagnose(context, report, "bf16", 32, "quick")
            return
        losses[batch] = run.loss
    half, whole = losses[LARGE_BATCH // 2], losses[LARGE_BATCH]
    difference = float(relative_differences([whole[0]], [half.mean()])[0])
    report.check(difference <= LARGE_BOUND,
                 f"batch {LARGE_BATCH}: the loss {whole[0]:.5f} differs from {half.mean():.5f} by "
                 f"{difference:.1e}, which exceeds {LARGE_BOUND:g}")
    report.check(whole[1] < whole[0], f"batch {LARGE_BATCH}: the loss of step 2, {whole[1]:.5f}, is "
                                      f"not smaller than that of step 1, {whole[0]:.5f}")
    report.numbers["large batch"] = {"whole": whole.tolist(), "half": half.tolist()}
    report.add_text(f"Batch {LARGE_BATCH:,}, {LARGE_BATCH * 65536:,} elements in a feature map: loss "
                    f"{whole[0]:.5f}, then {whole[1]:.5f}; mean loss of the same images in two "
                    f"batches at learning rate 0: {half.mean():.5f}.")
