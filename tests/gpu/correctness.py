# SPDX-License-Identifier: BSD-3-Clause
"""Steps that check results: versions, losses, accuracy, memory, operations, ranks."""

import collections
import os
import platform
import re

import numpy as np
from bisection import BLOCKING, MEMCHECK, ONE_GPU, changed, check, sanitizer
from call import SEED, read_json
from losses import RANK_BOUNDS, SMALL_BOUNDS, agrees_with, run_of
from speed import BATCH, epoch_words, select_engines, usable_engines

GPU_FIELDS = "name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit"
EPOCHS, MINIMUM_ACCURACY = 10, 0.85
LOSS_STEPS, LOSS_RATE = 20, "0.001"  # a larger learning rate amplifies rounding within a few steps
GLOBAL_BATCH, STEPS = 64, 5
SCHEDULE = ("--reducer allreduce", "--cuda-graph off")
FEATURES = (
    "NCCL_WIN_ENABLE=0",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_LOCAL_REGISTER=0",
    "NCCL_GRAPH_REGISTER=0",
    "NCCL_CUMEM_ENABLE=0",
)
# Two ranks on one GPU: NCCL treats them as ranks of two hosts. Few thread blocks, because the
# kernels of both ranks must run at the same time.
SHARED = {
    "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
    "NCCL_IB_DISABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MAX_CTAS": "2",
}
SHARDS = 8  # processes of the agreement tests
IN_SHARDS = (
    'for i in $(seq 0 $((GTEST_TOTAL_SHARDS - 1))); do GTEST_SHARD_INDEX=$i "$0" "$@" & done; wait'
)


def versions(call):
    """The program finds the GPU and its libraries. The JSON file has the description of the GPU."""
    smi = call.run(
        "nvidia-smi", ["nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader"], 15
    )
    call.run("nvidia-smi all", ["nvidia-smi", "-q"], 15)
    info = call.result.numbers

    def verify(outcome):
        info["info"] = read_json(outcome.stdout)
        device = info["info"].get("devices", {}).get("cuda", "not available")
        call.result.summary.append(device)
        return not device.startswith("not available"), f"device {device}"

    check(call, "lockstep info", call.lockstep("info", "--device", "cuda", "--json"), verify, 40)
    pytorch = call.run("pytorch versions", call.pytorch("versions"), 60)
    torch = read_json(pytorch.stdout)
    missing = ", ".join(torch.pop("missing", []))
    if pytorch.status != 0 or missing:
        problem = f"it lacks {missing}" if missing else pytorch.reason
        call.result.skip("PyTorch", problem)
        # The first import may be slow.
        call.pytorch_problem = None if pytorch.timed_out else problem
    call.properties += [
        *([f"GPU ({GPU_FIELDS})", line] for line in smi.stdout.splitlines() or [smi.reason]),
        ["processors", os.cpu_count()],
        ["system", platform.platform()],
        ["Python", platform.python_version()],
        *([f"PyTorch: {one}", torch.get(one)] for one in ("torch", "cuda", "cudnn", "nccl")),
        *info.get("info", {}).get("versions", {}).items(),
    ]


def reference_losses(call, name, words, seconds):
    """Returns the losses of a run with which others are compared; empty if it failed. The run is no
    check by itself."""
    found = []
    if check(call, name, words, agrees_with([], None, found), seconds):
        call.result.checks -= 1
    return found


def quick_steps(call):
    """Three steps in fp32, bf16 and fp16 with quick engines, in a CUDA graph, agree with the CPU.
    Nothing is compiled at run time, and batch norm uses kernels of Lockstep."""
    reference = reference_losses(
        call, "reference on the CPU", changed(call.small_run("fp32"), "--device cpu"), 30
    )
    for precision, bounds in SMALL_BOUNDS.items():
        verify = agrees_with([reference] if reference else [], bounds)
        check(call, f"steps {precision}", call.small_run(precision), verify, 12, ONE_GPU)


def losses(call):
    """20 losses at batch 512 agree with PyTorch on the same GPU: in bf16 with the selected engines,
    and in fp16 with quick ones. Every step uses the same images, so their order does not matter."""
    order, weights = call.scratch / "order.npy", call.scratch / "weights.h5"
    np.save(order, np.tile(np.arange(BATCH), (LOSS_STEPS, 1)))
    outcome = call.run(
        "losses pytorch",
        call.pytorch(
            "losses",
            "--data",
            call.args.data,
            "--train-samples",
            BATCH,
            "--order",
            order,
            "--weights",
            weights,
            "--lr",
            LOSS_RATE,
            "--seed",
            SEED,
            "--precision",
            "bf16",
            "fp16",
            "--modes",
            "eager",
            "contiguous",
        ),
        100,
    )
    found = read_json(outcome.stdout).get("losses")
    if outcome.status != 0 or not found:
        call.result.skip("losses of PyTorch", outcome.reason)
        return
    for precision, engines in (("fp16", "quick"), ("bf16", "timed")):
        curves = {"float32": found["fp32"]["eager"]} | found[precision]
        if engines == "quick" or select_engines(call, precision):
            compare_losses(call, precision, engines, weights, curves)


def compare_losses(call, precision, engines, weights, curves):
    """Compares the losses of Lockstep with the curves {mode: losses} of PyTorch."""
    name, own = f"losses {precision} {engines}", []
    call.result.numbers[name] = {"Lockstep": own} | curves
    check(
        call,
        name,
        call.train(
            precision,
            "--data",
            f"cifar10:{call.args.data}",
            "--train-samples",
            BATCH,
            "--batch-per-rank",
            BATCH,
            "--steps",
            LOSS_STEPS,
            "--augment",
            "none",
            "--init-from",
            weights,
            "--lr",
            LOSS_RATE,
            engines=engines,
        ),
        agrees_with(list(curves.values()), 0.002, own),
        60,
        ONE_GPU,
        is_small=False,
    )


def accuracy(call):
    """Ten epochs on CIFAR-10 in bf16 reach the test accuracy."""

    def verify(outcome):
        found = run_of(outcome).test_accuracy
        call.result.summary[:] = [f"test accuracy {found:.2%} after {EPOCHS} epochs"]
        return (
            found >= MINIMUM_ACCURACY,
            f"test accuracy {found:.2%}, minimum {MINIMUM_ACCURACY:.0%}",
        )

    check(
        call,
        "accuracy bf16",
        epoch_words(
            call,
            "bf16",
            BATCH,
            epochs=EPOCHS,
            lr="0.4",
            engines=usable_engines(call),
            evaluate="0",
        ),
        verify,
        60,
        is_small=False,
    )


def batch_row(point):
    """Returns the cells of a point of a ladder."""
    return [
        point["batch_per_rank"],
        point["status"],
        f"{point['images_per_second'] or 0:,.0f}",
        f"{point['predicted_bytes'] / 1e9:.2f}",
        f"{(point['peak_bytes'] or 0) / 1e9:.2f}",
    ]


def ladder(call):
    """Batches grow by a factor of four until memory is full; the one that does not fit is
    refused."""

    def verify(outcome):
        points = call.result.numbers["ladder"] = read_json(outcome.stdout)["ladder"]
        fitting = [one["batch_per_rank"] for one in points if one["status"] != "out_of_memory"]
        call.result.summary.append(f"largest batch {max(fitting, default=0):,}")
        call.result.add_table(
            "Batches, with quick engines",
            ["batch", "status", "img/s", "predicted GB", "peak GB"],
            list(map(batch_row, points)),
        )
        return 0 < len(fitting) == len(points) - 1, "the last batch, and no other, must be refused"

    check(
        call,
        "ladder",
        call.lockstep(
            "ladder",
            "--device",
            "cuda",
            "--precision",
            "bf16",
            "--engines",
            "quick",
            "--ladder-start",
            "32",
            "--steps",
            "3",
            "--data",
            "synthetic:131072",
            "--json",
        ),
        verify,
        120,
        is_small=False,
    )


def memcheck(call):
    """The kernels of Lockstep access only their memory, by compute-sanitizer."""

    def verify(outcome):
        found = re.findall(r"ERROR SUMMARY:.*", outcome.stdout + outcome.stderr)
        return bool(found), f"{found[-1:]} in three steps at batch 8"

    prefix = sanitizer("--kernel-regex", "kns=lockstep")
    if prefix:
        check(
            call,
            "memcheck",
            [*prefix, *call.small_run("bf16", "--watchdog", "0", batch=8)],
            verify,
            60,
            is_small=False,
        )
    else:
        call.result.skip("memcheck", "compute-sanitizer is not on the PATH")


def failed_tests(stdout, timed_out):
    """Returns the tests of a GoogleTest program that failed or, unless it was ended, crashed."""
    run, right, wrong = (
        set(re.findall(rf"^\[\s*(?:{marks})\s*\] ([^\s,]+)", stdout, re.MULTILINE))
        for marks in ("RUN", "OK|SKIPPED", "FAILED")
    )
    return sorted(run & wrong if timed_out else run - right)


def agreement_tests(call):
    """Each operation agrees with the reference implementation with quick engines, and residual
    blocks also with engines that are selected by timing."""
    program = call.args.tests / "backend" / "cuda_agreement_test"
    if program.exists():
        run_tests(call, program, "quick", "*")
        run_tests(call, program, "timed", "*block*")
    else:
        call.result.skip("agreement tests", f"{program} does not exist")


def run_tests(call, program, engines, pattern):
    """Runs the agreement tests that match `pattern` in SHARDS processes, with one batch size."""
    variables = {
        "LOCKSTEP_REQUIRE_GPU": 1,
        "LOCKSTEP_TEST_ENGINES": engines,
        "LOCKSTEP_TEST_BATCH": 5,
        "LOCKSTEP_CACHE_DIR": call.scratch / "tests-cache",
    }
    outcome = call.run(
        f"tests {engines}",
        call.with_environment(
            ["sh", "-c", IN_SHARDS, program, f"--gtest_filter={pattern}"],
            GTEST_TOTAL_SHARDS=SHARDS,
            **variables,
        ),
        600,
    )
    passed, failed = outcome.stdout.count("OK ] "), failed_tests(outcome.stdout, outcome.timed_out)
    call.result.checks += passed
    call.result.summary.append(f"{engines} engines: {passed} tests passed, {len(failed)} failed")
    if outcome.timed_out or not passed:
        call.result.skip(f"rest of the tests with {engines} engines", outcome.reason)
    if failed:
        kinds = collections.Counter(name.rpartition("_cuda_")[2] for name in failed)
        call.result.check(
            False, f"{len(failed)} tests failed, by precision and fusion: {dict(kinds)}"
        )
        check(
            call,
            f"test {failed[0]} alone",
            [program, f"--gtest_filter={failed[0]}"],
            lambda outcome: (True, "alone"),
            25,
            (BLOCKING, MEMCHECK),
            **variables,
        )


def rank_run(call, ranks, *options):
    """Returns the words of a small run with the same global batch on any number of ranks. Engines
    are not timed: ranks could select different ones."""
    return call.train(
        "fp32",
        "--data",
        f"synthetic:{STEPS * GLOBAL_BATCH}",
        "--global-batch",
        GLOBAL_BATCH,
        "--steps",
        STEPS,
        "--bn",
        "sync",
        "--bn-fusion",
        "none",
        "--lr",
        "0.001",
        "--augment",
        "none",
        "--watchdog",
        "15",
        *options,
        engines="quick",
        ranks=ranks,
    )


def several_ranks(call):
    """Several ranks agree with one rank: two on one GPU, with gradients through host memory and
    with NCCL; and, if the machine has them, 2 and 4 GPUs with NCCL."""
    gpus = call.run("nvidia-smi list", ["nvidia-smi", "--list-gpus"], 15).stdout.count("GPU ")
    losses = reference_losses(call, "one rank", rank_run(call, 1), 40)
    if not losses:
        return
    verify = agrees_with([losses], RANK_BOUNDS)
    for transport, labels in (("staged", ()), ("nccl", SCHEDULE)):
        words = rank_run(call, 2, "--allow-gpu-sharing", "--transport", transport)
        check(call, f"two ranks {transport}", words, verify, 40, labels, **SHARED)
    for ranks in (2, 4):
        if ranks <= gpus:
            words = rank_run(call, ranks, "--transport", "nccl")
            check(call, f"{ranks} GPUs", words, verify, 40, (*FEATURES, *SCHEDULE))


def nccl_one_rank(call):
    """The calls of NCCL that training on several GPUs uses succeed with one rank: registered
    memory, window, captured all-reduce."""
    program = call.args.tests / "comm" / "nccl_one_rank_test"
    check(
        call,
        "nccl one rank",
        [program],
        lambda outcome: (True, "all tests passed"),
        12,
        FEATURES,
        LOCKSTEP_REQUIRE_GPU=1,
    )
