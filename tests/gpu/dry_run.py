"""Dry run: stubs of the programs for all parts, and checks of the installed programs that need no GPU."""

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

STUB = pathlib.Path(__file__).resolve().parent / "stub.py"
BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
TORCH_SCRIPT, TORCH_FEATURES = BENCH / "pytorch_gpu.py", BENCH / "pytorch_features.py"
DATA_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
RECORD_BYTES, RECORDS = 3073, 10000
HELP_SECONDS, TORCH_SECONDS = 30, 240  # time limits of one command


def stub_programs(args):
    """Returns the commands that start the stub of each program."""
    def stub(name):
        return [sys.executable, str(STUB), name]

    return Programs(lockstep=stub("lockstep"), torch=stub("torch"), mpirun=stub("mpirun"),
                    nvidia_smi=stub("nvidia-smi"), sanitizer=stub("sanitizer"),
                    tests=[stub("gtest") for _ in args.tests] or [stub("gtest")])


def parse_help(text):
    """Returns {option: its description in the --help text, on one line}."""
    descriptions, option = {}, None
    for line in text.splitlines():
        match = re.match(r"\s+(--[a-z0-9-]+)", line)
        if match:
            option = match.group(1)
            descriptions[option] = line.strip()
        elif option and line.startswith("     "):
            descriptions[option] += " " + line.strip()
        else:
            option = None
    return descriptions


def option_mistakes(arguments, descriptions):
    """Returns one message for each option that `descriptions` (parse_help) does not have, and for each value that is not
    in the list of values of its option. Such a list precedes the default in brackets: "fp32, tf32, bf16 [fp32]"."""
    mistakes = []
    for option, value in zip(arguments, [*arguments[1:], ""]):
        if not option.startswith("--"):
            continue
        if option not in descriptions:
            mistakes.append(f"{option} is not an option of {arguments[0]}")
            continue
        values = re.search(r"((?:[\w-]+, )+[\w-]+) \[", descriptions[option])
        if values and value not in values.group(1).split(", "):
            mistakes.append(f"{option} {value}: the values are {values.group(1)}")
    return mistakes


def check_options(context, report):
    """Checks that the --help texts of the program have every option and value that the acceptance test uses."""
    program = context.args.lockstep
    if not (shutil.which(program) or os.access(program, os.X_OK)):
        report.check(False, f"{program} does not exist or is not executable")
        return
    for command in dict.fromkeys(arguments[0] for arguments in context.lockstep_arguments):
        outcome = context.runner.run(f"installed {command} help", [program, command, "--help"], HELP_SECONDS)
        if not report.check(outcome.ok, f"lockstep {command} --help: {outcome.failure}"):
            continue
        descriptions, mistakes = parse_help(outcome.stdout), []
        for arguments in context.lockstep_arguments:
            if arguments[0] == command:
                mistakes += option_mistakes(arguments, descriptions)
                report.checks += 1
        for mistake in dict.fromkeys(mistakes):
            report.fail(f"lockstep {command}: {mistake}")
    report.add_text(f"`--help` lists the options of {len(context.lockstep_arguments)} lockstep commands, except for the "
                    "failures above.")


def check_programs(context, report):
    """Checks that the programs on the command line, the tools on the PATH and the CIFAR-10 files exist."""
    for program in context.args.tests:
        report.check(os.access(program, os.X_OK), f"--tests {program}: the program does not exist or is not executable")
    launcher = shlex.split(context.args.mpirun)[0]
    report.check(shutil.which(launcher), f"--mpirun: PATH does not contain {launcher}")
    for tool in ("nvidia-smi", "compute-sanitizer"):
        if not shutil.which(tool):
            report.not_run(tool, "the PATH of this machine does not contain it")
    for name in DATA_FILES:
        path = pathlib.Path(context.args.data) / name
        size = path.stat().st_size if path.is_file() else None
        expected = RECORDS * RECORD_BYTES
        report.check(size is not None, f"{path} does not exist")
        report.check(size in (None, expected), f"{path} has {size} bytes instead of {expected}")


def write_tiny_data(folder):
    """Writes files in the format of CIFAR-10 with four random records each."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    for name in DATA_FILES:
        records = random.integers(0, 256, (4, RECORD_BYTES), np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / name)


def check_torch(context, report):
    """Runs the PyTorch code of the acceptance test on the CPU with batch size 2, without CUDA graphs and Inductor."""
    if context.args.skip_torch:
        report.not_run("PyTorch code", "--skip-torch omits it")
        return
    outcome = context.runner.run("torch features", [sys.executable, str(TORCH_FEATURES)], TORCH_SECONDS)
    installed = parse_json_lines(outcome.stdout)
    if not report.check(outcome.ok and "missing" in installed, f"{outcome.failure}; features are not in its output"):
        return
    if installed["missing"]:
        report.checks = 0  # no PyTorch code was checked
        report.not_run("PyTorch code", f"{sys.executable} has PyTorch {installed['torch'] or '(none)'} and lacks "
                                       f"{', '.join(installed['missing'])}")
        return
    folder = context.folder / "tiny"
    write_tiny_data(folder)
    order, rates, weights = folder / "order.npy", folder / "rates.npy", folder / "weights.h5"
    np.save(order, np.arange(4).reshape(2, 2))
    np.save(rates, np.full(2, 0.01))
    common = ["--device", "cpu", "--data", folder, "--batch", "2", "--train-samples", "4", "--test-samples", "4"]
    script = [sys.executable, str(TORCH_SCRIPT)]
    commands = {
        "losses": (["losses", *common, "--order", order, "--weights", weights], "losses"),
        "accuracy": (["accuracy", *common, "--rates", rates], "test_accuracy"),
        "speed": (["speed", *common, "--variants", "eager", "graph", "host", "compile", "compile_graph"], "all_ready"),
    }
    for name, (arguments, key) in commands.items():
        outcome = context.runner.run(f"torch cpu {name}", [*script, *map(str, arguments)], TORCH_SECONDS)
        result = parse_json_lines(outcome.stdout)
        report.checks += 1
        if not outcome.ok or key not in result:
            report.fail(f"{outcome.failure}; {key} is not in its output", outcome.tail)
        elif name == "speed":
            report.check(len(result["all_ready"]) == 5,
                         f"torch cpu speed: {result.get('failed')}: {result.get('error')}")
    report.add_text("The PyTorch code ran on the CPU with batch size 2, without CUDA graphs and Inductor.")


def check_installation(context):
    """Returns the reports of the checks of the installed programs, the images and the PyTorch code."""
    reports = []
    for letter, title, functions in (("P", "programs, options and images", (check_programs, check_options)),
                                     ("T", "PyTorch code on the CPU", (check_torch,))):
        report = Report(letter, title)
        for function in functions:
            function(context, report)
        report.is_done = True
        reports.append(report)
    return reports
