"""Parts that check numerical correctness: a (operations), e (two ranks) and f (losses compared with PyTorch)."""

import json
import re

import numpy as np

from measures import (
    Unreadable, loss_band, loss_deviations, parse_json, parse_json_lines, relative_differences)
from running import BackgroundCommand, last_lines
from reports import NO_TIME
from sample_order import epoch_order

STEPS = 20
BATCH = 128
# Learning rate of part f. It is small, because a large one amplifies rounding errors within a few steps.
PARITY_LEARNING_RATE = 0.001
PRECISIONS = ("bf16", "fp16")
# Part e: (last step, bound of the relative difference of the losses up to this step).
RANK_BOUNDS = ((1, 1e-5), (10, 1e-2), (STEPS, 5e-2))
SANITIZER_SECONDS = 45  # time limit of one run with compute-sanitizer


# --- a: operations compared with the reference implementation ------------------------------------------------

def read_counts(path, stdout):
    """Returns the numbers of tests (run, failed, skipped) of a GoogleTest program from its JSON file `path`, or from
    its output if the file is missing or invalid."""
    try:
        report = json.loads(path.read_text())
        tests = [test for suite in report.get("testsuites", []) for test in suite.get("testsuite", [])]
        skipped = sum(test.get("result") == "SKIPPED" for test in tests)
        ran = sum(test.get("status") == "RUN" for test in tests) - skipped
        return ran, sum("failures" in test for test in tests), skipped
    except (OSError, ValueError, AttributeError, TypeError):
        counts = {}
        for word in ("PASSED", "FAILED", "SKIPPED"):
            found = re.search(rf"\[\s*{word}\s*\] (\d+) tests?", stdout)
            counts[word] = int(found.group(1)) if found else 0
        return counts["PASSED"] + counts["FAILED"], counts["FAILED"], counts["SKIPPED"]


def run_test_programs(context, report):
    rows = []
    if not context.programs.tests:
        report.not_run("test programs", "--tests names no program")
    for index, program in enumerate(context.programs.tests):
        short = program[-1].rsplit("/", 1)[-1]
        name = f"a test {short} {index}"
        if context.clock.left < 3:
            report.skip(name, NO_TIME)
            continue
        results = context.runner.path(name, "json")
        outcome = context.runner.run(name, [*program, f"--gtest_output=json:{results}"],
                                     context.clock.left, {"LOCKSTEP_REQUIRE_GPU": "1"})
        ran, failed, skipped = read_counts(results, outcome.stdout)
        rows.append([short, ran, failed, skipped, f"{outcome.seconds:.1f}"])
        report.checks += ran
        if not outcome.ok:
            failures = [line for line in outcome.stdout.splitlines() if line.startswith("[  FAILED  ]")]
            report.fail(outcome.failure, last_lines("\n".join(failures)) or last_lines(outcome.stdout) or outcome.tail)
        elif ran == 0:
            report.fail(f"{name}: the program ran no test")
    if rows:
        report.add_table(["program", "tests run", "failed", "skipped", "seconds"], rows)
        report.headline = f"{sum(row[1] for row in rows)} tests run, {sum(row[3] for row in rows)} skipped"


def run_sanitizer(context, report):
    if context.programs.sanitizer is None:
        report.not_run("compute-sanitizer", "PATH does not contain it")
        return
    tool = context.programs.sanitizer
    help_text = context.runner.run("a sanitizer help", [*tool, "--help"], context.clock.limit(15))
    for check in ("memcheck", "racecheck"):
        name = f"a sanitizer {check}"
        if context.clock.left < 8:
            report.skip(name, NO_TIME)
            continue
        options = ["--tool", check, "--error-exitcode", "99", "--target-processes", "all"]
        # racecheck excludes the kernels of cuDNN: they are not part of this project, and checking them takes minutes.
        scope = "all kernels"
        if check == "racecheck" and "kernel-regex" in help_text.stdout + help_text.stderr:
            options += ["--kernel-regex", "kns=lockstep"]
            scope = "our own kernels"
        output = context.path(f"a-{check}.h5")
        arguments = context.train_arguments(output, "bf16", "--data", "synthetic:32", "--batch-per-rank", "8", "--steps",
                                            "2", "--evaluate-every", "never", "--watchdog", "0")
        outcome = context.runner.run(name, [*tool, *options, *context.lockstep(*arguments)],
                                     context.clock.limit(SANITIZER_SECONDS))
        text = outcome.stdout + outcome.stderr
        summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY:.*", text)
        if outcome.timed_out:
            report.skip(name, f"not complete after {outcome.seconds:.0f} s; last summary: "
                              f"{summary[-1] if summary else 'none'}")
        elif outcome.ok:
            report.check(True, name)
            report.add_text(f"{check} checked {scope} in two training steps at batch size 8 in {outcome.seconds:.0f} s: "
                            f"{summary[-1] if summary else 'no errors'}.")
        else:
            messages = [line for line in text.splitlines() if line.startswith("=========")]
            report.fail(outcome.failure, last_lines("\n".join(messages[:30]), 30) or outcome.tail)


def operations(context, report):
    run_test_programs(context, report)
    run_sanitizer(context, report)


# --- e: two ranks on one GPU ---------------------------------------------------------------------------------

# NCCL does not accept two ranks of one host on the same GPU. With different host ids, NCCL treats the ranks as ranks of
# two hosts; they communicate through the loopback interface.
RANK_SHELL = ("export NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 "
              "NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2; exec \"$@\"")


def rank_arguments(context, output, *arguments):
    """Returns the arguments of the training that one rank and two ranks run."""
    return context.train_arguments(output, "fp32", "--data", context.data, "--train-samples", STEPS * BATCH,
                                   "--global-batch", BATCH, "--steps", STEPS, "--bn", "sync", "--lr", "0.001",
                                   "--evaluate-every", "never", "--watchdog", "60", *arguments)


def check_all_reduce(context, report, transport):
    """Runs `lockstep allreduce` with two ranks, which verifies every element of the sums."""
    name = f"e all-reduce {transport}"
    if context.clock.left < 8:
        report.skip(name, NO_TIME)
        return
    arguments = ["allreduce", "--device", "cuda", "--allow-gpu-sharing", "--transport", transport, "--gradient-dtype",
                 "bf16", "--max-bytes", "4M", "--repeats", "5", "--json"]
    prefix = [*context.programs.mpirun, "-n", "2", "bash", "-c", RANK_SHELL, "rank"]
    outcome = context.runner.run(name, [*prefix, *context.lockstep(*arguments)], context.clock.limit(45))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    rows = parse_json(outcome.stdout, "lockstep allreduce").get("allreduce") or []
    report.check(rows and all(row["wrong"] == 0 for row in rows), f"{name}: a sum is wrong, or the program printed none")
    context.numbers[name] = rows
    if rows:
        last = rows[-1]
        report.add_text(f"All-reduce of bf16 gradients with transport {transport} (algorithm {last['algorithm']}), "
                        f"{rows[0]['bytes']:,} to {last['bytes']:,} bytes as float32: "
                        f"{sum(row['wrong'] for row in rows)} wrong elements. The median time of the largest size is "
                        f"{last['median_seconds'] * 1e6:.0f} us.")


def two_ranks(context, report):
    limit = 60
    _, reference = context.run_training(report, "e one rank", rank_arguments(context, context.path("e-one.h5")), limit)
    if reference is None:
        return
    rows = []
    for transport in ("nccl", "staged"):
        name = f"e two ranks {transport}"
        if context.clock.left < 8:
            report.skip(name, NO_TIME)
            continue
        arguments = rank_arguments(context, context.path(f"e-{transport}.h5"), "--allow-gpu-sharing", "--transport",
                                   transport)
        prefix = [*context.programs.mpirun, "-n", "2", "bash", "-c", RANK_SHELL, "rank"]
        outcome, run = context.run_training(report, name, arguments, limit, prefix)
        if run is None:
            continue
        deviations = loss_deviations(run.loss, reference.loss, RANK_BOUNDS)
        report.check(not deviations, f"{name}: {'; '.join(deviations)}")
        same_length = len(run.loss) == len(reference.loss)
        differences = relative_differences(run.loss, reference.loss) if same_length else [np.nan]
        rows.append([transport, *(f"{run.loss[i]:.6f}" for i in (0, 9, -1)), f"{differences[0]:.1e}",
                     f"{np.max(differences):.1e}", f"{outcome.seconds:.0f}"])
        context.numbers[f"e {transport}"] = run.loss.tolist()
    context.numbers["e one rank"] = reference.loss.tolist()
    rows.insert(0, ["one rank", *(f"{reference.loss[i]:.6f}" for i in (0, 9, -1)), "", "", ""])
    report.add_text(f"One rank and two ranks that share the GPU train {STEPS} steps on the same CIFAR-10 images with "
                    f"global batch {BATCH}, float32, `--bn sync` and learning rate 0.001.")
    report.add_table(["run", "loss of step 1", "loss of step 10", f"loss of step {STEPS}",
                      "relative difference in step 1", "largest relative difference", "seconds"], rows)
    bounds = ", ".join(f"{bound:g} up to step {last}" for last, bound in RANK_BOUNDS)
    report.add_text(
        f"The bounds of the relative difference are {bounds}. Two ranks sum over the images in another order than one "
        "rank. In step 1, the losses therefore differ only by float32 rounding; training amplifies this difference from "
        "step to step. Wrong batch-norm statistics change the loss of step 1. A gradient that is lost, added twice or "
        "taken from an earlier step changes the losses from step 2. On CPUs, with batch 64 and twice this learning rate, "
        "the losses of one and of two ranks differed by 7e-8 in step 1, by at most 1.8e-3 up to step 10 and by at most "
        "2.1e-2 up to step 20.")
    for transport in ("nccl", "staged"):
        check_all_reduce(context, report, transport)
    if len(rows) > 1:
        report.headline = f"largest difference {max(float(row[5]) for row in rows[1:]):.1e}"


# --- f: losses compared with PyTorch -------------------------------------------------------------------------

def start_torch_losses(context):
    """Starts the PyTorch counterpart of part f in the background. It writes the initial weights, then trains."""
    order = context.folder / "runs" / "f-order.npy"
    np.save(order, epoch_order(STEPS * BATCH, context.args.seed).reshape(STEPS, BATCH))
    command = context.torch("losses", "--data", context.args.data, "--train-samples", STEPS * BATCH, "--order", order,
                            "--weights", context.path("f-weights.h5"), "--lr", PARITY_LEARNING_RATE, "--seed",
                            context.args.seed, "--precision", *PRECISIONS)
    context.background["losses"] = BackgroundCommand(context.runner, "f pytorch losses", command)


def losses(context, report):
    if "losses" not in context.background:
        start_torch_losses(context)
    outcome = context.background["losses"].result(context.clock.left - 10)
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    reference = parse_json_lines(outcome.stdout).get("losses")
    if not reference or any(precision not in reference for precision in ("fp32", *PRECISIONS)):
        raise Unreadable("pytorch_gpu.py losses printed no losses")
    float32 = reference["fp32"]["eager"]
    for precision in PRECISIONS:
        name = f"f {precision}"
        if context.clock.left < 4:
            report.skip(name, NO_TIME)
            continue
        arguments = context.train_arguments(
            context.path(f"f-{precision}.h5"), precision, "--data", context.data, "--train-samples", STEPS * BATCH,
            "--batch-per-rank", BATCH, "--steps", STEPS, "--augment", "none", "--init-from",
            context.path("f-weights.h5"), "--lr", PARITY_LEARNING_RATE, "--evaluate-every", "never")
        _, run = context.run_training(report, name, arguments, 45)
        if run is None:
            continue
        check_losses(report, name, run.loss, {"float32": float32} | reference[precision])
        context.numbers[name] = {"lockstep": run.loss.tolist(), "fp32": float32} | reference[precision]
    report.add_text("Lockstep passes if its loss is within the range of PyTorch's losses, extended on both sides by the "
                    "margin. The margin is the largest difference between two PyTorch curves up to this step, plus 0.2 % "
                    "of the loss, because the curves of PyTorch differ only by rounding.")


def check_losses(report, name, losses, curves):
    """Checks the losses of Lockstep against the band of PyTorch's curves, {mode: losses}, and adds a table of both."""
    finite = all(np.isfinite(curve).all() for curve in curves.values())
    if not report.check(finite, f"{name}: a loss of PyTorch is not finite"):
        return
    band = loss_band(list(curves.values()))
    deviations = band.deviations(losses)
    report.check(not deviations, f"{name}: {'; '.join(deviations[:3])}")
    steps = [i for i in (0, 1, 4, 9, 14, 19) if i < len(losses)]
    rows = [["Lockstep", *(f"{losses[i]:.4f}" for i in steps)]]
    rows += [[f"PyTorch {mode}", *(f"{curve[i]:.4f}" for i in steps)] for mode, curve in curves.items()]
    rows.append(["margin", *(f"{band.margin[i]:.4f}" for i in steps if i < len(band.margin))])
    report.add_text(f"The table has the losses of Lockstep in {name[2:]} and of PyTorch, with the same initial weights, "
                    f"images and image order, batch {BATCH} and learning rate {PARITY_LEARNING_RATE}.")
    report.add_table(["step", *(i + 1 for i in steps)], rows)
