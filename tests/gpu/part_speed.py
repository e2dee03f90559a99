"""Throughput: engine selection on a quiet GPU, the roofline bound, and the comparison with PyTorch."""

from candidates import report_candidates
from context import BATCH
from diagnosis import diagnose
from gpus import OTHER, TARGET_RATIO, bound_seconds
from measures import WARM_UP_EPOCHS, parse_json
from pytorch import NOT_READY, PytorchProcess, is_usable
from turns import Configuration, report_turns, run_alternately

PRECISIONS = ("bf16", "fp16")
BOUND_KEYS = ("flops_per_second", "bytes_per_second", "seconds", "floor_seconds")
EXPLANATION = (
    "The throughput in images per second is the median over the epochs of all rounds. For Lockstep, "
    "it is computed from `/steps/phase_seconds`, with all phases including `data_wait`, without the "
    f"first {WARM_UP_EPOCHS} epochs of each run; for PyTorch, from the wall-clock time of whole "
    f"epochs after {WARM_UP_EPOCHS} warm-up epochs. A ratio divides the median of a configuration by "
    "that of the fastest PyTorch configuration in the same round. PyTorch always uses bf16. `none` "
    "is `--bn-fusion none`. tests/bench/pytorch_gpu.py describes the PyTorch variants. The target of "
    f"the ratio is {TARGET_RATIO:g}; a smaller ratio is not a failure of the test.")


def check_quiet(context, report, name):
    """Records whether another process uses the GPU; engines must be timed on a quiet GPU."""
    context.runner.stop_all()
    outcome = context.run(f"{name} processes", [*context.programs.nvidia_smi,
                          "--query-compute-apps=pid,process_name,used_memory",
                          "--format=csv,noheader"], 10)
    others = outcome.stdout.strip() if outcome.ok else "unknown"
    report.numbers[f"{name} other processes"] = others
    if others:
        report.add_text(f"Other processes on the GPU before the selection of engines: {others}.")


def select_engines(context, report, batch):
    """Selects the engines for each precision by timing; returns the precisions that succeeded."""
    check_quiet(context, report, f"engines {batch}")
    done = []
    for precision in PRECISIONS:
        name, log = f"engines {batch} {precision}", context.path(f"engines-{precision}-{batch}.jsonl")
        # The runs on the CIFAR-10 images have the same graphs as this plan.
        outcome = context.run(name, context.lockstep(
            "plan", "--device", "cuda", "--precision", precision, "--batch-per-rank", batch,
            "--engines", "timed", "--engine-log", log, "--json"), 200)
        report_candidates(report, precision, batch, log)
        if not outcome.ok:
            if report.add_outcome(outcome):
                diagnose(context, report, precision, batch)
            continue
        kernels = parse_json(outcome.stdout, "lockstep plan").get("kernels") or []
        report.check(kernels, f"{name}: lockstep plan lists no kernels")
        report.numbers[name] = {"seconds": outcome.seconds, "kernels": kernels}
        report.add_text(f"Lockstep selected the engines for {precision} at batch {batch} in "
                        f"{outcome.seconds:.0f} s.")
        done.append(precision)
    return done


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
    operations = bound.get("operations") or []
    text = (f"Batch {batch}, {precision}: the roofline bound of a step is "
            f"{bound['floor_seconds'] * 1e3:.2f} ms at the measured rates of "
            f"{bound['flops_per_second'] / 1e12:.0f} TFLOP/s and "
            f"{bound['bytes_per_second'] / 1e12:.2f} TB/s. The {len(operations)} operations, timed "
            f"individually, take {bound['seconds'] * 1e3:.2f} ms.")
    if context.gpu is not OTHER and operations:
        gpu = context.gpu
        attainable = bound_seconds(operations, gpu.attainable_flops, gpu.attainable_bytes)
        peak = bound_seconds(operations, gpu.peak_flops, gpu.peak_bytes)
        text += (f" With the attainable rates of the {gpu.kind} it is {attainable * 1e3:.2f} ms, with "
                 f"its peak rates {peak * 1e3:.2f} ms.")
    report.add_text(text)
    return batch / bound["floor_seconds"]


def lockstep_speed(context, report, batch, configurations):
    """Selects engines on a quiet GPU, measures Lockstep alone, and measures the roofline bound."""
    select_engines(context, report, batch)
    ones = [Configuration(batch, variant) for variant in configurations]
    run_alternately(context, report, ones, 1)
    measured = dict.fromkeys(one.variant.split()[0] for one in ones if one.rounds)
    bounds = {precision: measure_bound(context, report, batch, precision) for precision in measured}
    report_turns(report, batch, ones, 1, bounds)


def speed_512(context, report):
    lockstep_speed(context, report, BATCH, ("bf16 device", "fp16 device", "bf16 device none",
                                            "fp16 device none", "bf16 host"))


def speed_128(context, report):
    lockstep_speed(context, report, 128, ("bf16 device", "fp16 device"))


def speed_2048(context, report):
    lockstep_speed(context, report, 2048, ("bf16 device", "fp16 device"))


def compare(context, report, groups, lockstep):
    """Warms up the PyTorch variants of `groups`, (batch, variants, share of the remaining time of the
    step for the warm-up), one process after another. Then measures them and the Lockstep variants
    `lockstep` of each batch in alternating turns. A PyTorch that cannot run leaves Lockstep alone."""
    report.add_text(EXPLANATION)
    processes = []
    if is_usable(context, report):
        for batch, variants, share in groups:
            process = PytorchProcess(context, batch, variants)
            processes.append(process)
            process.wait_for_warm_up(context.limited(context.clock.left * share))
            for variant, error in process.errors.items():
                report.not_run(f"{batch} PyTorch {variant}", error or NOT_READY)
    try:
        batches = list(dict.fromkeys(batch for batch, *_ in groups))
        for i, batch in enumerate(batches):
            ones = [Configuration(batch, variant) for variant in lockstep]
            ones += [Configuration(batch, variant, process) for process in processes
                     if process.batch == batch for variant in process.ready]
            # The time that is left is divided among the remaining batch sizes.
            context.begin_share(len(batches) - i)
            run_alternately(context, report, ones, context.args.rounds)
            context.end_share()
            report_turns(report, batch, ones, context.args.rounds)
    finally:
        for process in processes:
            process.stop()


def pytorch_512(context, report):
    """Batch 512: PyTorch with a captured CUDA graph, and compiled in the default mode."""
    compare(context, report, ((BATCH, ("graph", "compile_default"), 0.6),),
            ("bf16 device", "fp16 device"))


def pytorch_all(context, report):
    """Batch 128 and 2048, and max-autotune, which compiles for minutes, at batch 512."""
    compare(context, report, ((128, ("graph", "compile_default"), 0.3),
                              (2048, ("graph", "compile_default"), 0.35),
                              (BATCH, ("graph", "compile_graph", "compile"), 0.65)),
            ("bf16 device", "fp16 device"))
