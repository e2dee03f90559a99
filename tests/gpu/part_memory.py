# SPDX-License-Identifier: BSD-3-Clause
"""Batch sizes up to the memory limit, and a batch whose feature maps exceed 2^31 elements."""

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
    Returns the JSON object that the program prints, or None if it fails."""
    name = f"ladder {start}"
    outcome = context.run(name, context.lockstep(
        "ladder", "--device", "cuda", "--precision", "bf16", "--engines", "quick", "--ladder-start",
        start, "--steps", "3", "--data", f"synthetic:{IMAGES}", "--output",
        context.path(f"{name}.h5"), "--overwrite", "--json"), 120)
    if not outcome.ok:
        report.add_outcome(outcome)
        if outcome.can_be_rerun:
            diagnose(context, report, "bf16", 32, "quick")
        return None
    result = parse_json(outcome.stdout, "lockstep ladder")
    rows, fitting = [], []
    for point in result["ladder"]:
        is_refused, batch = point["status"] == "out_of_memory", point["batch_per_rank"]
        rate = point.get("images_per_second") or 0
        rows.append([batch, point["status"], f"{rate:,.0f}", f"{point['predicted_bytes'] / GIB:.2f}",
                     "" if is_refused else f"{point.get('peak_bytes', 0) / GIB:.2f}"])
        if not is_refused:
            report.check(rate > 0, f"{name}: batch {batch} has no throughput")
            fitting.append(batch)
    report.add_table(["batch", "status", "img/s with quick engines", "predicted GiB", "peak GiB"],
                     rows)
    report.numbers[name] = result
    if report.check(0 < len(fitting) == len(rows) - 1,
                    f"{name}: the last batch, and no other, must be refused"):
        report.headlines.append(f"largest batch of the ladder: {fitting[-1]:,}")
    return result


def predicted_limit(points, limit):
    """Returns the largest batch whose predicted memory is at most `limit` bytes, by linear
    extrapolation from the last two points of the ladder; None if this is not possible."""
    if len(points) < 2 or not limit:
        return None
    (b0, m0), (b1, m1) = ((one["batch_per_rank"], one["predicted_bytes"]) for one in points[-2:])
    slope = (m1 - m0) / (b1 - b0)
    return int(b0 + (limit - m0) / slope) if slope > 0 else None


def memory_limit(context, report):
    """Trains with batches close to the predicted limit, while Lockstep sets no limit. A batch below
    it must fit; a batch above it may fit, or must be refused with the status of full memory."""
    result = ladder(context, report, start=2048)
    predicted = result and predicted_limit(result["ladder"], result.get("memory_limit_bytes"))
    if not predicted:
        report.not_run("measured limit", "the ladder predicts no limit")
        return
    report.headlines.append(f"predicted largest batch {predicted:,}")
    for share in (0.97, 1.03, 1.1):
        batch = int(predicted * share)
        name = f"batch {batch}"
        arguments = context.train_arguments(
            name, "bf16", "--data", f"synthetic:{batch}", "--batch-per-rank", batch, "--steps", "2",
            "--memory-limit", NO_LIMIT, engines="quick")
        outcome = context.run(name, context.lockstep(*arguments), RUN_SECONDS)
        if outcome.ok or outcome.status == OUT_OF_MEMORY:
            report.check(outcome.ok or share > 1, f"{name} is predicted to fit (predicted limit "
                                                  f"{predicted}), but it does not fit")
            report.add_text(f"Batch {batch:,}, {share:.0%} of the predicted limit: it "
                            f"{'fits' if outcome.ok else 'does not fit'}.")
        else:
            report.add_outcome(outcome)
            report.add_text(f"Near the memory limit the expected status is 0 or {OUT_OF_MEMORY}.")


def large_batch(context, report):
    """Compares the loss of step 1 at LARGE_BATCH with the mean of the losses of the same images in
    batches of half the size at learning rate 0. The losses differ only by the batch statistics of
    batch norm, which hardly depend on the size of such batches. Repeats the images in a second
    epoch, whose loss shows the effect of the gradient."""
    losses = {}
    for batch, epochs, rate in ((LARGE_BATCH // 2, 1, "0"), (LARGE_BATCH, 2, "0.01")):
        name = f"large batch {batch}"
        arguments = context.train_arguments(
            name, "bf16", "--data", f"synthetic:{LARGE_BATCH}", "--train-samples", LARGE_BATCH,
            "--batch-per-rank", batch, "--epochs", epochs, "--lr", rate, "--augment", "none",
            "--data-residency", "device", engines="quick")
        training = context.train(name, arguments, RUN_SECONDS)
        if training.outcome.status == OUT_OF_MEMORY:
            report.not_run(name, "it does not fit into the memory of this GPU")
            return
        if training.run is None:
            report.add_outcome(training.outcome)
            if training.can_be_rerun:
                diagnose(context, report, "bf16", 32, "quick")
            return
        losses[batch] = training.run.loss
    half, whole = losses[LARGE_BATCH // 2], losses[LARGE_BATCH]
    difference = float(relative_differences([whole[0]], [half.mean()])[0])
    report.check(difference <= LARGE_BOUND,
                 f"batch {LARGE_BATCH}: the loss {whole[0]:.5f} differs from {half.mean():.5f} by "
                 f"{difference:.1e}, which exceeds {LARGE_BOUND:g}")
    report.check(whole[1] < whole[0], f"batch {LARGE_BATCH}: the loss of step 2, {whole[1]:.5f}, is "
                                      f"not smaller than that of step 1, {whole[0]:.5f}")
    report.add_text(f"Batch {LARGE_BATCH:,}, {LARGE_BATCH * 65536:,} elements in a feature map: loss "
                    f"{whole[0]:.5f}, then {whole[1]:.5f}; mean loss of the same images in two "
                    f"batches at learning rate 0: {half.mean():.5f}.")
