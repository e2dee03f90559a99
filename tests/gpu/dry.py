"""Dry run: simulated programs for all parts, and checks of the real programs that need no GPU."""

import os
import pathlib
import re
import shlex
import shutil
import sys

import numpy as np

from context import Programs
from measures import parse_json_lines
from reports import Report

STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in.py"
BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
TORCH_SCRIPT, TORCH_FEATURES = BENCH / "pytorch_gpu.py", BENCH / "pytorch_features.py"
DATA_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
RECORD_BYTES, RECORDS = 3073, 10000
HELP_SECONDS, TORCH_SECONDS = 30, 240


def stand_ins(args):
    def role(name):
        return [sys.executable, str(STAND_IN), name]

    return Programs(lockstep=role("lockstep"), torch=role("torch"), mpirun=role("mpirun"), nvidia_smi=role("nvidia-smi"),
                    sanitizer=role("sanitizer"), tests=[role("gtest") for _ in args.tests] or [role("gtest")])


def help_blocks(text):
    """Returns {option: its lines in a --help text, joined}."""
    blocks, current = {}, None
    for line in text.splitlines():
        found = re.match(r"\s+(--[a-z0-9-]+)", line)
        if found:
            current = found.group(1)
            blocks[current] = line
        elif current and line.startswith("     "):
            blocks[current] += " " + line.strip()
        else:
            current = None
    return blocks


def option_faults(arguments, blocks):
    """Returns one message per option that the help text does not have, and per value that its list does not have."""
    faults = []
    for position, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        if word not in blocks:
            faults.append(f"{word} is not an option of {arguments[0]}")
        elif re.match(rf"\s+{word} WHICH\b", blocks[word]) and position + 1 < len(arguments):
            given = arguments[position + 1]
            if given not in re.split(r"[\s,:()\[\]]+", blocks[word]):
                faults.append(f"{word} {given}: not among its values")
    return faults


def check_options(context, report):
    program = context.args.lockstep
    if not (shutil.which(program) or os.access(program, os.X_OK)):
        report.check(False, f"{program} does not exist or cannot be run")
        return
    blocks, seen = {}, set()
    for arguments in context.asked:
        command = arguments[0]
        if command not in blocks:
            outcome = context.runner.run(f"real {command} help", [program, command, "--help"], HELP_SECONDS)
            if not report.check(outcome.ok, f"lockstep {command} --help: {outcome.why}"):
                blocks[command] = {}
                continue
            blocks[command] = help_blocks(outcome.stdout)
        if not blocks[command]:
            continue
        for fault in option_faults(arguments, blocks[command]):
            if fault not in seen:
                seen.add(fault)
                report.fail(f"lockstep {command}: {fault}")
        report.checks += 1
    report.say(f"{len(context.asked)} command lines of lockstep looked up in its `--help`.")


def check_programs(context, report):
    for program in context.args.tests:
        report.check(os.access(program, os.X_OK), f"--tests {program}: does not exist or cannot be run")
    launcher = shlex.split(context.args.mpirun)[0]
    report.check(shutil.which(launcher), f"--mpirun: {launcher} is not on the PATH")
    for tool in ("nvidia-smi", "compute-sanitizer"):
        if not shutil.which(tool):
            report.not_run(tool, "not on this machine's PATH; the run asks for it again")
    for name in DATA_FILES:
        path = pathlib.Path(context.args.data) / name
        size = path.stat().st_size if path.is_file() else None
        report.check(size == RECORDS * RECORD_BYTES,
                     f"{path}: {'does not exist' if size is None else f'has {size} bytes'}, not {RECORDS * RECORD_BYTES}")


def write_tiny_data(folder):
    """Writes files in CIFAR-10's layout with four random records each."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    for name in DATA_FILES:
        records = random.integers(0, 256, (4, RECORD_BYTES), np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / name)


def check_torch(context, report):
    """Runs the PyTorch code on the CPU with two images per step, without CUDA graphs and Inductor."""
    if context.args.skip_torch:
        report.not_run("PyTorch's code", "--skip-torch was given")
        return
    outcome = context.runner.run("torch features", [sys.executable, str(TORCH_FEATURES)], TORCH_SECONDS)
    installed = parse_json_lines(outcome.stdout)
    if not report.check(outcome.ok and "missing" in installed, f"{outcome.why}; it printed no features"):
        return
    if installed["missing"]:
        report.checks = 0  # no PyTorch code was checked
        report.not_run("PyTorch's code", f"{sys.executable} has PyTorch {installed['torch'] or '(none)'}, which lacks "
                                         f"{', '.join(installed['missing'])}")
        return
    folder = context.folder / "tiny"
    write_tiny_data(folder)
    order, rates, weights = folder / "order.npy", folder / "rates.npy", folder / "weights.h5"
    np.save(order, np.arange(4).reshape(2, 2))
    np.save(rates, np.full(2, 0.01))
    common = ["--device", "cpu", "--data", folder, "--batch", "2", "--train-samples", "4", "--test-samples", "4"]
    real = [sys.executable, str(TORCH_SCRIPT)]
    calls = {
        "losses": (["losses", *common, "--order", order, "--weights", weights], "losses"),
        "accuracy": (["accuracy", *common, "--rates", rates], "test_accuracy"),
        "speed": (["speed", *common, "--variants", "eager", "graph", "host", "compile", "compile_graph"], "all_ready"),
    }
    for name, (words, key) in calls.items():
        outcome = context.runner.run(f"torch cpu {name}", [*real, *map(str, words)], TORCH_SECONDS)
        answer = parse_json_lines(outcome.stdout)
        if not report.check(outcome.ok and key in answer, f"{outcome.why}; no {key} in what it printed"):
            report.say("```text", outcome.tail, "```")
        elif name == "speed":
            report.check(len(answer["all_ready"]) == 5, f"torch cpu speed: {answer.get('failed')}: {answer.get('why')}")
    report.say("PyTorch's code ran on the CPU, two images a step; CUDA graphs and Inductor's kernels were not.")


def check_reality(context):
    """Returns the reports of the dry-run checks that use the real programs and files."""
    reports = []
    for letter, title, functions in (("P", "programs, options and images", (check_programs, check_options)),
                                     ("T", "PyTorch's code on the CPU", (check_torch,))):
        report = Report(letter, title)
        for function in functions:
            function(context, report)
        report.is_done = True
        reports.append(report)
    return reports
