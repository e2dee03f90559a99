"""Parts that check numerical correctness: a (operations), e (two ranks), f (losses compared with PyTorch)."""

import json
import re

import numpy as np

from measures import Unreadable, band_of, losses_agree, parse_json, parse_json_lines, relative_differences
from running import last_lines
from sample_order import epoch_order

STEPS = 20
BATCH = 128
# Part f. The learning rate is small because training with a large one amplifies rounding errors within a few steps.
PARITY_RATE = 0.001
PRECISIONS = ("bf16", "fp16")
# Part e: (last step, relative bound).
RANK_BOUNDS = ((1, 1e-5), (10, 1e-2), (STEPS, 5e-2))
SANITIZER_SECONDS = 45


# --- a: operations compared with the reference ---------------------------------------------------------------

def read_counts(path, stdout):
    """Returns the numbers of tests (run, failed, skipped) of a GoogleTest program from its JSON file, or from its
    output if there is no valid file."""
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
        report.not_run("test programs", "none was named; see --tests")
    for index, program in enumerate(context.programs.tests):
        short = program[-1].rsplit("/", 1)[-1]
        name = f"a test {short} {index}"
        if context.clock.left < 3:
            report.cut(name, "no time was left")
            continue
        counted = context.runner.path(name, "json")
        outcome = context.runner.run(name, [*program, f"--gtest_output=json:{counted}"],
                                     context.clock.left, {"LOCKSTEP_REQUIRE_GPU": "1"})
        ran, failed, skipped = read_counts(counted, outcome.stdout)
        rows.append([short, ran, failed, skipped, f"{outcome.seconds:.1f}"])
        report.checks += ran
        if not outcome.ok:
            failures = [line for line in outcome.stdout.splitlines() if line.startswith("[  FAILED  ]")]
            report.fail(outcome.why, last_lines("\n".join(failures)) or last_lines(outcome.stdout) or outcome.tail)
        elif ran == 0:
            report.fail(f"{name}: ran no test")
    if rows:
        report.table(["program", "tests run", "failed", "skipped", "seconds"], rows)
        report.headline = f"{sum(row[1] for row in rows)} tests run, {sum(row[3] for row in rows)} skipped"


def run_sanitizer(context, report):
    if context.programs.sanitizer is None:
        report.not_run("compute-sanitizer", "it is not on the PATH")
        return
    tool = context.programs.sanitizer
    offered = context.runner.run("a sanitizer help", [*tool, "--help"], context.clock.limit(15))
    for check in ("memcheck", "racecheck"):
        name = f"a sanitizer {check}"
        if context.clock.left < 8:
            report.cut(name, "no time was left")
            continue
        options = ["--tool", check, "--error-exitcode", "99", "--target-processes", "all"]
        # Kernels of cuDNN are excluded: they are not part of this project, and checking them takes minutes.
        scope = "all kernels"
        if check == "racecheck" and "kernel-regex" in offered.stdout + offered.stderr:
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
            report.cut(name, f"no end after {outcome.seconds:.0f} s; so far: {summary[-1] if summary else 'no report'}")
        elif outcome.ok:
            report.check(True, name)
            report.say(f"{check}, two steps of batch 8, {scope}: {summary[-1] if summary else 'clean'} "
                       f"({outcome.seconds:.0f} s).")
        else:
            marked = [line for line in text.splitlines() if line.startswith("=========")]
            report.fail(outcome.why, last_lines("\n".join(marked[:30]), 30) or outcome.tail)


def operations(context, report):
    run_test_programs(context, report)
    run_sanitizer(context, report)


# --- e: two ranks on one GPU ---------------------------------------------------------------------------------

# NCCL refuses two ranks on one GPU of one host. Different host ids make them two hosts, connected by the loopback
# interface.
RANK_SHELL = ("export NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 "
              "NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2; exec \"$@\"")


def rank_arguments(context, output, *more):
    return context.train_arguments(output, "fp32", "--data", context.data, "--train-samples", STEPS * BATCH,
                                   "--global-batch", BATCH, "--steps", STEPS, "--bn", "sync", "--lr", "0.001",
                                   "--evaluate-every", "never", "--watchdog", "60", *more)


def sums_of_two_ranks(context, report, transport):
    """Runs `lockstep allreduce` with two ranks, which checks every element of the sums."""
    name = f"e sums {transport}"
    if context.clock.left < 8:
        report.cut(name, "no time was left")
        return
    arguments = ["allreduce", "--device", "cuda", "--allow-gpu-sharing", "--transport", transport, "--gradient-dtype",
                 "bf16", "--max-bytes", "4M", "--repeats", "5", "--json"]
    prefix = [*context.programs.mpirun, "-n", "2", "bash", "-c", RANK_SHELL, "rank"]
    outcome = context.runner.run(name, [*prefix, *context.lockstep(*arguments)], context.clock.limit(45))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    rows = parse_json(outcome.stdout, "lockstep allreduce").get("allreduce") or []
    report.check(rows and all(row["wrong"] == 0 for row in rows), f"{name}: wrong sums, or none")
    context.numbers[name] = rows
    if rows:
        last = rows[-1]
        report.say(f"Sums of bf16 by {last['way']}, {rows[0]['bytes']:,} to {last['bytes']:,} bytes as float32: all "
                   f"right; the largest in {last['median_seconds'] * 1e6:.0f} us.")


def two_ranks(context, report):
    limit = 60
    _, alone = context.run_training(report, "e one rank", rank_arguments(context, context.path("e-one.h5")), limit)
    if alone is None:
        return
    rows = []
    for transport in ("nccl", "staged"):
        name = f"e two ranks {transport}"
        if context.clock.left < 8:
            report.cut(name, "no time was left")
            continue
        arguments = rank_arguments(context, context.path(f"e-{transport}.h5"), "--allow-gpu-sharing", "--transport",
                                   transport)
        prefix = [*context.programs.mpirun, "-n", "2", "bash", "-c", RANK_SHELL, "rank"]
        outcome, run = context.run_training(report, name, arguments, limit, prefix)
        if run is None:
            continue
        for fault in losses_agree(run.loss, alone.loss, RANK_BOUNDS):
            report.fail(f"{name}: {fault}")
        report.checks += 1
        differences = relative_differences(run.loss, alone.loss) if len(run.loss) == len(alone.loss) else [np.nan]
        rows.append([transport, *(f"{run.loss[i]:.6f}" for i in (0, 9, -1)), f"{differences[0]:.1e}",
                     f"{np.max(differences):.1e}", f"{outcome.seconds:.0f}"])
        context.numbers[f"e {transport}"] = run.loss.tolist()
    context.numbers["e one rank"] = alone.loss.tolist()
    rows.insert(0, ["one rank", *(f"{alone.loss[i]:.6f}" for i in (0, 9, -1)), "", "", ""])
    report.say(f"Global batch {BATCH}, float32, `--bn sync`, learning rate 0.001, {STEPS} steps on real images: one "
               "rank, and two that share the GPU.")
    report.table(["", "loss of step 1", "10", "20", "difference of step 1", "largest", "seconds"], rows)
    bounds = ", ".join(f"{bound:g} to step {last}" for last, bound in RANK_BOUNDS)
    report.say(f"Bounds, relative: {bounds}. Two ranks sum the same images in another order: equal to float32's rounding "
               "in step 1; after that training amplifies rounding from step to step. A lost, doubled or stale gradient "
               "shows from step 2 on, wrong statistics in step 1. On CPUs one and "
               "two ranks differed by 7e-8 in step 1, up to "
               "1.8e-3 to step 10 and 2.1e-2 to step 20, at batch 64 and twice this rate.")
    for transport in ("nccl", "staged"):
        sums_of_two_ranks(context, report, transport)
    if len(rows) > 1:
        report.headline = f"largest difference {max(float(row[5]) for row in rows[1:]):.1e}"


# --- f: losses compared with PyTorch -------------------------------------------------------------------------

def start_torch_losses(context):
    """Starts the PyTorch counterpart of part f in the background; it writes the initial weights, then trains."""
    order = context.folder / "runs" / "f-order.npy"
    np.save(order, epoch_order(STEPS * BATCH, context.args.seed).reshape(STEPS, BATCH))
    command = context.torch("losses", "--data", context.args.data, "--train-samples", STEPS * BATCH, "--order", order,
                            "--weights", context.path("f-weights.h5"), "--lr", PARITY_RATE, "--seed",
                            context.args.seed, "--precision", *PRECISIONS)
    context.background["losses"] = context.runner.background("f pytorch losses", command)


def losses(context, report):
    if "losses" not in context.background:
        start_torch_losses(context)
    outcome = context.background["losses"].result(context.clock.left - 10)
    if not outcome.ok:
        report.fail_outcome(outcome)
        return
    theirs = parse_json_lines(outcome.stdout).get("losses")
    if not theirs or any(precision not in theirs for precision in ("fp32", *PRECISIONS)):
        raise Unreadable("pytorch_gpu.py losses printed no losses")
    exact = theirs["fp32"]["eager"]
    for precision in PRECISIONS:
        name = f"f {precision}"
        if context.clock.left < 4:
            report.cut(name, "no time was left")
            continue
        arguments = context.train_arguments(
            context.path(f"f-{precision}.h5"), precision, "--data", context.data, "--train-samples", STEPS * BATCH,
            "--batch-per-rank", BATCH, "--steps", STEPS, "--augment", "none", "--init-from",
            context.path("f-weights.h5"), "--lr", PARITY_RATE, "--evaluate-every", "never")
        _, run = context.run_training(report, name, arguments, 45)
        if run is None:
            continue
        compare_losses(report, name, run.loss, exact, theirs[precision])
        context.numbers[name] = {"lockstep": run.loss.tolist(), "fp32": exact} | theirs[precision]
    report.say("The band is that of PyTorch's curves; the margin on either side is the largest distance between two of "
               "them so far, and at least 0.2 % of the loss: another rounding of the same computation is as far away.")


def compare_losses(report, name, ours, exact, runs):
    curves = {"float32": exact} | runs
    finite = all(np.isfinite(curve).all() for curve in curves.values())
    if not report.check(finite, f"{name}: a loss of PyTorch is not finite"):
        return
    band = band_of(list(curves.values()))
    faults = band.faults(ours)
    report.check(not faults, f"{name}: {'; '.join(faults[:3])}")
    picks = [i for i in (0, 1, 4, 9, 14, 19) if i < len(ours)]
    rows = [["Lockstep", *(f"{ours[i]:.4f}" for i in picks)]]
    rows += [[f"PyTorch {way}", *(f"{curve[i]:.4f}" for i in picks)] for way, curve in curves.items()]
    rows.append(["margin", *(f"{band.margin[i]:.4f}" for i in picks if i < len(band.margin))])
    report.say(f"{name[2:]}: loss of a step, batch {BATCH}, the same weights, images and order, learning rate "
               f"{PARITY_RATE}.")
    report.table(["step", *(i + 1 for i in picks)], rows)
