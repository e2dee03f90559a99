"""Two ranks on one GPU compared with one rank, and the speed of overlapping all-reduces."""

import numpy as np

from context import BATCH
from measures import loss_deviations, parse_json, read_run, relative_differences, without_warm_up
from running import last_lines

STEPS = 5
GLOBAL_BATCH = 64
# (last step, bound of the relative difference of the losses up to this step). On CPUs, one and two
# ranks differed by 7e-8 in step 1 and by at most 1.8e-3 up to step 10.
BOUNDS = ((1, 1e-5), (STEPS, 5e-3))
SECONDS = 30  # time limit of one run
OVERLAP_STEPS = 20

# NCCL does not accept two ranks of one host on the same GPU. With different host ids, NCCL treats
# the ranks as ranks of two hosts; they communicate through the loopback interface.
RANK_SHELL = ("export NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK NCCL_SOCKET_IFNAME=lo "
              "NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2; exec \"$@\"")


def two_rank_prefix(context):
    """Returns the words that start two ranks on one GPU."""
    return [*context.programs.mpirun, "-n", "2", "bash", "-c", RANK_SHELL, "rank"]


def nccl_log(context, name):
    """Returns the variables that make NCCL write its log to one file per rank (%p: process id)."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL,GRAPH,NET,TUNING",
            "NCCL_DEBUG_FILE": context.path(f"{name}-nccl-%p.log")}


def rank_arguments(context, name, *arguments):
    """Returns the arguments of the training that one rank and two ranks run. Quick engines: no
    implementation is timed while two processes share the GPU."""
    return context.train_arguments(
        name, "fp32", "--data", f"synthetic:{STEPS * GLOBAL_BATCH}", "--global-batch", GLOBAL_BATCH,
        "--steps", STEPS, "--bn", "sync", "--lr", "0.001", "--augment", "none", "--evaluate-every",
        "never", "--watchdog", "20", *arguments, engines="quick", fusion="none")


def state_of_hang(context, name):
    """Returns whether the training of a run that did not end was complete, from its run file."""
    try:
        status = read_run(context.path(f"{name}.h5")).status
    except Exception:  # the run file is missing or incomplete
        return "training was not complete"
    if status == "complete":
        return "training was complete, so the end of the program hangs (destruction of communicators)"
    return f"the status in the run file is {status}"


def run_two_ranks(context, report, reference, transport, *options, label=""):
    """Trains with two ranks; returns (row of the table, result in one word)."""
    name = f"two ranks {transport}{label}"
    arguments = rank_arguments(context, name, "--allow-gpu-sharing", "--transport", transport,
                               *options)
    outcome, run, _ = context.run_training(
        report, name, arguments, SECONDS, two_rank_prefix(context), **nccl_log(context, name),
        **context.core_dump())
    if run is None:
        if outcome.is_cut_off:
            return [name, "not run"], "not run"
        if outcome.timed_out:
            report.add_diagnosis(f"{name}: {state_of_hang(context, name)}")
            return [name, "did not end"], "hang"
        return [name, f"exit status {outcome.status}"], "failed"
    wrong = loss_deviations(run.loss, reference.loss, BOUNDS)
    report.check(not wrong, f"{name}: {'; '.join(wrong)}")
    report.numbers[name] = {"losses": run.loss.tolist(), "seconds": outcome.seconds}
    difference = np.max(relative_differences(run.loss, reference.loss)) \
        if len(run.loss) == len(reference.loss) else np.nan
    return ([name, "complete", f"{run.loss[0]:.6f}", f"{run.loss[-1]:.6f}", f"{difference:.1e}",
             f"{outcome.seconds:.0f}"], "wrong" if wrong else "correct")


def conclusion(results):
    """Returns one line on the cause if a run with two ranks failed, otherwise an empty string."""
    staged, nccl = results.get("staged"), results.get("nccl")
    if nccl in (None, "not run", "correct"):
        return "" if staged in (None, "not run", "correct") else \
            f"two ranks: staged is {staged}, so the cause is not NCCL"
    if staged != "correct":
        return f"two ranks: nccl is {nccl} and staged is {staged}: a cause that both share"
    text = f"two ranks: nccl is {nccl} and staged is correct, so the cause is NCCL or its capture"
    if results.get("no overlap") == "correct":
        return f"{text}: with --reducer allreduce it is correct, so the overlap is the cause"
    return text + (f"; --reducer allreduce is {results['no overlap']}"
                   if "no overlap" in results else "")


def two_ranks(context, report):
    """Compares two ranks that share the GPU with one rank: first staged, then NCCL."""
    _, reference, _ = context.run_training(report, "one rank", rank_arguments(context, "one rank"),
                                           SECONDS, **context.core_dump())
    if reference is None:
        report.not_run("two ranks", "the run with one rank has no losses")
        return
    losses = reference.loss
    rows = [["one rank", "complete", f"{losses[0]:.6f}", f"{losses[-1]:.6f}", "", ""]]
    results = {}
    for transport in ("staged", "nccl"):
        if context.has_time(report, f"two ranks {transport}", 4):
            row, results[transport] = run_two_ranks(context, report, reference, transport)
            rows.append(row + [""] * (6 - len(row)))
    if results.get("nccl") in ("failed", "hang", "wrong"):
        context.clock.extend(SECONDS)
        row, results["no overlap"] = run_two_ranks(context, report, reference, "nccl", "--reducer",
                                                   "allreduce", label=" no overlap")
        rows.append(row + [""] * (6 - len(row)))
    report.add_text(f"One rank and two ranks that share the GPU train {STEPS} steps on synthetic "
                    f"images with global batch {GLOBAL_BATCH}, fp32, `--bn sync` and quick engines.")
    report.add_table(["run", "state", "loss of step 1", f"loss of step {STEPS}",
                      "largest relative difference", "seconds"], rows)
    if conclusion(results):
        report.add_diagnosis(conclusion(results))


def check_all_reduce(context, report):
    """Runs `lockstep allreduce` with two ranks, which verifies every element of the sums."""
    for transport in ("nccl", "staged"):
        name = f"all-reduce {transport}"
        if not context.has_time(report, name, 4):
            continue
        outcome = context.run(name, context.lockstep(
            "allreduce", "--device", "cuda", "--allow-gpu-sharing", "--transport", transport,
            "--gradient-dtype", "bf16", "--max-bytes", "4M", "--repeats", "5", "--json",
            prefix=two_rank_prefix(context), **nccl_log(context, name)), SECONDS)
        if not outcome.ok:
            report.add_outcome(outcome)
            continue
        rows = parse_json(outcome.stdout, "lockstep allreduce").get("allreduce") or []
        wrong = sum(row["wrong"] for row in rows)
        report.check(rows and not wrong, f"{name}: {wrong} wrong elements in {len(rows)} sizes")
        report.numbers[name] = rows
        if rows:
            report.add_text(f"All-reduce of bf16 gradients with transport {transport}: {wrong} wrong "
                            f"elements; the median time of {rows[-1]['bytes']:,} bytes is "
                            f"{rows[-1]['median_seconds'] * 1e6:.0f} us.")


def overlap(context, report):
    """Measures NCCL all-reduces that overlap batch norm: two ranks with --reducer overlap, allreduce
    and none. Batch norm of cuDNN uses cooperative launches, which can wait for multiprocessors that
    an all-reduce occupies."""
    rows = []
    for reducer in ("none", "allreduce", "overlap"):
        name = f"overlap {reducer}"
        if not context.has_time(report, name, 6):
            continue
        arguments = context.train_arguments(
            name, "bf16", "--data", context.data, "--batch-per-rank", BATCH, "--steps",
            OVERLAP_STEPS, "--lr", "0.01", "--data-residency", "device", "--evaluate-every", "never",
            "--allow-gpu-sharing", "--transport", "nccl", "--reducer", reducer, "--watchdog", "25")
        outcome, run, _ = context.run_training(report, name, arguments, 40, two_rank_prefix(context),
                                               **nccl_log(context, name), **context.cache_copy())
        if run is None:
            if outcome.timed_out:
                report.add_diagnosis(f"{name}: {state_of_hang(context, name)}; "
                                     f"{last_lines(outcome.stderr, 1)}")
            continue
        report.numbers[name] = run.step_seconds.tolist()
        steps = without_warm_up(run.step_seconds)
        rows.append([reducer, f"{np.median(steps) * 1e3:.1f}", f"{np.max(steps) * 1e3:.1f}"])
    report.add_text(f"Two ranks share the GPU, bf16, batch {BATCH} per rank, transport nccl over the "
                    "loopback interface. A median or a maximum of `overlap` far above that of "
                    "`allreduce` indicates that all-reduces delay batch norm.")
    report.add_table(["--reducer", "median ms per step", "maximum ms per step"], rows)
