# SPDX-License-Identifier: BSD-3-Clause
"""Steps that measure: selection of engines, throughput beside PyTorch, roofline bound, kernels."""

import collections
import csv
import os
import pathlib
import shlex
import shutil
import statistics
from functools import partial

from bisection import check, conclude, failure_of
from call import LEFT_OUT, Outcome, read_json
from losses import UNREADABLE, read_run

BATCH = 512
WARM_UP_EPOCHS, EPOCHS = 2, 5  # of a run of Lockstep; clocks rise during the warm-up
ROUNDS = 3
METRICS = {
    "us": "gpu__time_duration.sum",
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
}


def select_engines(call, precision="bf16", batch=BATCH, seconds=110):
    """Engines are selected by timing, while no other program uses the GPU."""
    # Returns whether the selection is complete. If not, the next step that needs it continues it.
    key, name = (precision, batch), f"engines {precision} {batch}"
    log, seconds = call.path(f"{name}.jsonl"), int(max(min(seconds, call.left - 15), 10))

    def verify(outcome):
        kernels = read_json(outcome.stdout)["kernels"]
        candidates = pathlib.Path(log).read_text().splitlines()
        call.result.add_table(
            f"Selected {name}",
            ["operation", "phase", "kernel"],
            [[one["operation"], one["phase"], one["kernel"]] for one in kernels],
        )
        call.result.summary.append(f"{name}: {len(candidates)} candidates, {outcome.seconds:.0f} s")
        return bool(kernels), f"{len(kernels)} kernels"

    if key not in call.selected:
        words = call.lockstep(
            *("plan", "--json"),
            *("--device", "cuda"),
            *("--precision", precision),
            *("--batch-per-rank", batch),
            *("--engines", "timed"),
            *("--threads", os.cpu_count()),
            *("--engine-seconds", seconds),
            *("--engine-log", log),
        )
        is_right = check(
            call, name, words, verify, 2 * seconds + 30, is_small=False, restart=LEFT_OUT
        )
        outcome = call.result.outcomes[-1]
        cut_off = read_json(outcome.stdout).get("kernel_selections_cut_off", 0)
        if cut_off:
            call.result.skip(name, f"{cut_off} selections were cut off after {seconds} s")
        elif is_right or not outcome.timed_out:
            call.selected[key] = "" if is_right else outcome.reason
        return is_right and not cut_off
    if call.selected[key]:
        call.result.skip(name, call.selected[key])
    return not call.selected[key]


def usable_engines(call, *selection):
    """Returns the value of --engines: quick if the selection of engines failed or is not complete,
    so that there is a measurement nevertheless."""
    return "timed" if select_engines(call, *selection) else "quick"


def epoch_words(call, precision, batch, *options, epochs=EPOCHS, lr="0.1", **keywords):
    """Returns the words of a run of whole epochs on CIFAR-10, whose images are on the GPU.
    `keywords`: of `Call.train`."""
    return call.train(
        precision,
        "--data",
        f"cifar10:{call.args.data}",
        "--batch-per-rank",
        batch,
        "--epochs",
        epochs,
        "--lr",
        lr,
        "--lr-schedule",
        "onecycle",
        "--data-residency",
        "device",
        "--loader-threads",
        "8",
        *options,
        **keywords,
    )


def run_beside_pytorch(call, batch, turns, variants):
    """Runs Lockstep in turn with variants of PyTorch, which stay warm in one process that starts
    the runs of Lockstep. Returns {variant: {round: images/s of each epoch}}."""
    commands = [
        shlex.join(
            str(word).replace("{run}", f"{batch} {name} {{round}}".replace(" ", "-"))
            for word in call.with_environment(words)
        )
        for name, words in turns.items()
    ]
    outcome = call.run(
        f"pytorch {batch}",
        call.pytorch(
            "speed",
            *("--data", call.args.data),
            *("--batch", batch),
            *("--variants", *variants),
            *("--warm-up-seconds", int(0.55 * call.left)),
            *("--seconds", int(call.left - 5)),
            *("--rounds", ROUNDS),
            *("--turns", *commands),
        ),
        call.left + 1,
    )
    rates, is_complete = {}, False
    for one in map(read_json, outcome.stdout.splitlines()):
        is_complete |= "is_complete" in one
        if "failed" in one:
            call.result.skip(f"PyTorch {one['failed']}", one["error"][-300:])
        elif "variant" in one:
            rates.setdefault(f"PyTorch {one['variant']}", {})[one["round"]] = one[
                "images_per_second"
            ]
        elif one.get("status"):
            failed = Outcome(list(turns)[one["turn"]], [], one["status"], stderr=one["error"])
            found = failure_of(failed, is_small=False)
            conclude(call, failed.name, partial(constant, found))
    if not is_complete:
        reason = outcome.reason if outcome.status != 0 else "the time of the step ended"
        call.result.skip(f"rest of {outcome.name}", reason)
    return rates


def constant(value, *_):
    return value


def take_turns(call, batch, turns, variants=(), reference=None):
    """Measures runs of Lockstep, {name: words}, in turn, beside variants of PyTorch if it can be
    used. Adds a table with the ratios to each variant and to the run named `reference`."""
    rates = {}
    if variants and call.pytorch_problem:
        call.result.skip("PyTorch", call.pytorch_problem)
    elif variants:
        rates = run_beside_pytorch(call, batch, turns, variants)
    references = [*rates, f"Lockstep {reference}"]
    for number in range(1, ROUNDS + 1):
        for name, words in turns.items():
            run = f"{batch} {name} {number}"
            path = pathlib.Path(call.path(f"{run}.h5"))
            if not path.exists():  # PyTorch has not started it
                check(call, run, words, lambda outcome: (True, "measured"), 60, is_small=False)
            try:
                rates.setdefault(f"Lockstep {name}", {})[number] = read_run(path).rates[
                    WARM_UP_EPOCHS:
                ]
                call.result.checks += 1
            except UNREADABLE as error:
                call.result.skip(run, str(error))
    report_turns(call, batch, rates, references)


def report_turns(call, batch, rates, references):
    """Adds the table of the rates {configuration: {round: images/s of each epoch}}."""
    rows = []
    for name, rounds in rates.items():
        epochs = sum(rounds.values(), [])
        median = call.rates[batch, name] = statistics.median(epochs)
        ratios = [ratio(rounds, rates.get(other, {})) for other in references]
        rows.append([name, f"{median:,.0f}", f"{min(epochs):,.0f} - {max(epochs):,.0f}", *ratios])
        if name.startswith("Lockstep"):
            call.result.summary.append(
                f"{name}, batch {batch}: {median:,.0f} img/s"
                + "".join(f", {text} x {other}" for other, text in zip(references, ratios) if text)
            )
    call.result.numbers[f"images per second {batch}"] = rates
    call.result.add_table(
        f"Batch {batch}",
        ["configuration", "img/s", "min - max", *(f"ratio to {name}" for name in references)],
        rows,
    )


def ratio(ours, theirs):
    """Returns the text "median (min - max)" of the ratios of the rounds that both have."""
    found = [
        statistics.median(epochs) / statistics.median(theirs[number])
        for number, epochs in ours.items()
        if number in theirs
    ]
    return f"{statistics.median(found):.2f} ({min(found):.2f} - {max(found):.2f})" if found else ""


def beside_pytorch(call, batch=BATCH, seconds=110, variants=("graph", "compile_default")):
    """Throughput in turn with PyTorch, whose whole step is in one CUDA graph."""
    engines = usable_engines(call, "bf16", batch, seconds)
    name = "bf16" if engines == "timed" else "bf16, quick engines"
    take_turns(
        call,
        batch,
        {
            f"{name}, weight stream {value}": epoch_words(
                call, "bf16", batch, "--weight-stream", value, engines=engines
            )
            for value in ("off", "on")
        },
        variants,
        f"{name}, weight stream off",
    )


def fp16(call):
    """Throughput in fp16 and bf16."""
    if select_engines(call, "fp16", BATCH, 45) and select_engines(call):
        take_turns(
            call,
            BATCH,
            {name: epoch_words(call, name, BATCH) for name in ("fp16", "bf16")},
            reference="bf16",
        )


def bound(call):
    """Share of the roofline bound of the operations."""

    def verify(outcome):
        found = call.result.numbers["bound"] = read_json(outcome.stdout)["floor"]
        seconds = found["floor_seconds"]
        text = (
            f"bound {BATCH / seconds:,.0f} img/s ({seconds * 1e3:.2f} ms) at "
            f"{found['flops_per_second'] / 1e12:.0f} TFLOP/s and "
            f"{found['bytes_per_second'] / 1e12:.2f} TB/s"
        )
        call.result.summary.append(text)
        call.result.add_table(
            f"Share of the roofline bound at batch {BATCH}",
            ["configuration", "img/s", "share"],
            [
                [name, f"{rate:,.0f}", f"{rate * seconds / BATCH:.0%}"]
                for (batch, name), rate in call.rates.items()
                if batch == BATCH
            ],
        )
        return True, text

    check(
        call,
        "bound",
        call.lockstep(
            *("plan", "--measure", "--json"),
            *("--device", "cuda"),
            *("--batch-per-rank", BATCH),
            *("--precision", "bf16"),
            *("--engines", usable_engines(call)),
        ),
        verify,
        60,
        is_small=False,
    )


def kernels(call):
    """Time, memory traffic and tensor pipes of the kernels of about one step, by Nsight Compute."""
    program = shutil.which("ncu")
    if program is None:
        call.result.skip("ncu", "it is not on the PATH")
        return
    engines = usable_engines(call)
    # A GPU without the counter of the tensor pipes still has the others.
    if not profile(call, program, engines, METRICS):
        profile(call, program, engines, ["us", "read", "written"])


def kernel_row(kernel, launches):
    """Returns the cells of a kernel. `launches`: values in the order of METRICS."""
    time, *moved = map(sum, list(zip(*launches))[:3])
    tensor = sum(one[0] * one[3] for one in launches) / time
    return [
        kernel,
        len(launches),
        f"{time / 1e3:.1f}",
        f"{sum(moved) / 1e9:.3f}",
        f"{sum(moved) / time / 1e3:.2f}",
        f"{tensor:.0f}",
    ]


def profile(call, program, engines, keys):
    """Runs three eager steps under ncu and adds a table of the kernels. Returns whether it has
    any."""
    name = f"ncu {' '.join(keys)}"
    log = pathlib.Path(call.path(f"{name}.csv"))
    # About 150 kernels in a step, and one more step before the first.
    prefix = [
        *(program, "--csv"),
        *("--clock-control", "none"),
        *("--page", "raw"),
        *("--print-units", "base"),
        *("--log-file", log),
        *("--launch-skip", 450),
        *("--launch-count", 160),
        *("--metrics", ",".join(METRICS[key] for key in keys)),
        *("--target-processes", "all"),
    ]
    options = ("--cuda-graph", "off", "--watchdog", "0")
    words = call.small_run("bf16", *options, batch=BATCH, engines=engines)
    outcome = call.run(name, call.with_environment([*prefix, *words]), 60)
    lines = log.read_text().splitlines() if log.exists() else []
    launches = list(csv.DictReader(line for line in lines if not line.startswith("==")))[1:]
    groups = collections.defaultdict(list)
    for launch in launches:  # the first row had the units: nanoseconds and bytes
        groups[launch["Kernel Name"][:80]].append(
            [float(launch.get(METRICS[key], "nan").replace(",", "")) for key in METRICS]
        )
    rows = [kernel_row(kernel, values) for kernel, values in groups.items()]
    rows.sort(key=lambda row: -float(row[2]))
    call.result.checks += bool(rows)
    call.result.add_table(
        f"{len(launches)} launches with {engines} engines, each with empty caches",
        ["kernel", "launches", "us", "DRAM GB", "TB/s", "tensor pipe, %"],
        rows,
    )
    if not rows:
        call.result.skip(name, f"{outcome.reason}; its table has no kernels")
    return bool(rows)
