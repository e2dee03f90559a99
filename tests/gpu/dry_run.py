"""Dry run: runs the scenarios of a call with stubs of all programs, and checks what can be checked of
the installed programs without a GPU."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np

from measures import parse_json_lines
from results import MAX_PARTS, NUMBERS, REPORT
from scenarios import CORRECT, SCENARIOS

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parent / "bench"
SHORTEST_LIMIT = 5.0  # seconds that a stub may take before it counts as hanging
PARALLEL = 3
SCENARIO_SECONDS = 240
TORCH_SECONDS = 300
DATA_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def command_of(scenario, folder):
    """Returns (command, environment) of a scenario whose files are in `folder`."""
    command = [sys.executable, "-B", str(HERE / "acceptance.py"), scenario.call, "--stubs",
               "--lockstep", "stub", "--data", str(folder), "--out", str(folder / "out"), "--work",
               str(folder / "work"), "--mpirun", "stub", "--seconds", str(scenario.seconds),
               "--rounds", "1"]
    cache = folder.parent / "stub-cache"
    cache.mkdir(exist_ok=True)
    return command, os.environ | {"STUB_FAULTS": ",".join(scenario.faults), "STUB_CACHE": str(cache),
                                  "TMPDIR": str(folder)}


def verdicts_of(report):
    """Returns {part: verdict} of a report."""
    found = re.findall(r"^\| (\d) [^|]*\| ([^|]*?) \|", report, re.MULTILINE)
    return {int(part): verdict for part, verdict in found}


def sections_of(report):
    """Returns {part: text of its section and its row in the table of verdicts}."""
    parts = re.findall(r"^## (\d)\. (.*?)(?=^## \d\. |\Z)", report, re.MULTILINE | re.DOTALL)
    rows = {int(number): row for number, row in re.findall(r"^\| (\d) (.*)$", report, re.MULTILINE)}
    return {int(number): rows.get(int(number), "") + text for number, text in parts}


def mistakes_in(scenario, status, out):
    """Returns one message per difference between the results and what the scenario expects."""
    if not (out / REPORT).is_file():
        return [f"exit status {status}, and no report"]
    report = (out / REPORT).read_text()
    verdicts, sections = verdicts_of(report), sections_of(report)
    mistakes = [] if status == int(any(map("wrong".__eq__, scenario.verdicts.values()))) else \
        [f"exit status {status}"]
    if scenario.seconds >= 60:  # otherwise it depends on the speed of the machine what is cut off
        for part in range(1, MAX_PARTS + 1):
            expected = scenario.verdicts.get(part, CORRECT)
            if verdicts.get(part) != expected:
                mistakes.append(f"part {part} is {verdicts.get(part)} instead of {expected}")
    if "Not complete" in report:
        mistakes.append("the report is not complete")
    if "the acceptance test itself failed" in report:
        mistakes.append(re.search(r"\*\*WRONG\*\* (.*itself failed.*)", report).group(1))
    for part, texts in scenario.texts.items():
        mistakes += [f"part {part} lacks: {text}" for text in texts
                     if text not in sections.get(part, "")]
    files = [path.name for path in out.iterdir()]
    if len(files) > 8 or any(path.is_dir() for path in out.iterdir()):
        mistakes.append(f"the results are {len(files)} files: {', '.join(files)}")
    return mistakes


def run_scenario(scenario, folder):
    """Runs a scenario in the empty folder `folder`; returns (mistakes, seconds)."""
    command, environment = command_of(scenario, folder)
    start = time.monotonic()
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True,
                                timeout=SCENARIO_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"not complete after {SCENARIO_SECONDS} s"], time.monotonic() - start
    mistakes = mistakes_in(scenario, result.returncode, folder / "out")
    if mistakes and result.stderr.strip():
        mistakes.append(result.stderr.strip()[-500:])
    return mistakes, time.monotonic() - start


def lockstep_commands(out):
    """Returns the arguments of all lockstep commands that a call has run."""
    content, commands = json.loads((out / NUMBERS).read_text()), []
    for part in content["parts"].values():
        for command in part["commands"]:
            words = shlex.split(command["command"])
            if "lockstep" in words:
                commands.append(words[words.index("lockstep") + 1:])
    return commands


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
    """Returns one message for each option that `descriptions` (parse_help) does not have, and for
    each value that is not in the list of values of its option. Such a list precedes the default in
    brackets: "fp32, tf32, bf16 [fp32]"."""
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


def check_options(program, commands):
    """Returns one message for each option or value in `commands` that `program` does not have."""
    mistakes = []
    for command in dict.fromkeys(arguments[0] for arguments in commands):
        try:
            result = subprocess.run([program, command, "--help"], capture_output=True, text=True,
                                    timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return [f"{program} {command} --help: {error}"]
        descriptions = parse_help(result.stdout)
        for arguments in commands:
            if arguments[0] == command:
                mistakes += option_mistakes(arguments, descriptions)
    return list(dict.fromkeys(mistakes))


def write_tiny_data(folder):
    """Writes files in the format of CIFAR-10 with four random records each."""
    random = np.random.default_rng(1)
    for name in DATA_FILES:
        records = random.integers(0, 256, (4, 3073), np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / name)


def check_pytorch(folder):
    """Runs the PyTorch code on the CPU with batch size 2, without CUDA graphs and Inductor. Returns
    (mistakes, reason why it did not run)."""
    features = subprocess.run([sys.executable, str(BENCH / "pytorch_features.py")],
                              capture_output=True, text=True, timeout=TORCH_SECONDS)
    installed = parse_json_lines(features.stdout)
    if features.returncode != 0 or "missing" not in installed:
        return [f"pytorch_features.py: exit status {features.returncode}"], ""
    if installed["missing"]:
        return [], (f"{sys.executable} has PyTorch {installed['torch'] or '(none)'}, which lacks "
                    f"{', '.join(installed['missing'])}")
    write_tiny_data(folder)
    np.save(folder / "order.npy", np.arange(4).reshape(2, 2))
    np.save(folder / "rates.npy", np.full(2, 0.01))
    common = ["--device", "cpu", "--data", folder, "--batch", "2", "--train-samples", "4",
              "--test-samples", "4"]
    variants = ["eager", "graph", "host", "compile_default", "compile", "compile_graph"]
    commands = {"losses": ([*common, "--order", folder / "order.npy", "--weights",
                            folder / "weights.h5"], "losses"),
                "accuracy": ([*common, "--rates", folder / "rates.npy"], "test_accuracy"),
                "speed": ([*common, "--variants", *variants], "all_ready")}
    mistakes = []
    for name, (arguments, key) in commands.items():
        result = subprocess.run(
            [sys.executable, str(BENCH / "pytorch_gpu.py"), name, *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TORCH_SECONDS)
        values = parse_json_lines(result.stdout)
        if result.returncode != 0 or key not in values:
            mistakes.append(f"pytorch_gpu.py {name}: exit status {result.returncode}: "
                            f"{result.stderr[-300:]}")
        elif name == "speed" and values["all_ready"] != variants:
            mistakes.append(f"pytorch_gpu.py speed: {values.get('failed')}: {values.get('error')}")
    return mistakes, ""


def run(args):
    """Runs all scenarios of the call args.call and prints one line for each. Returns the exit
    status."""
    scenarios = [one for one in SCENARIOS if one.call == args.call]
    failed = 0

    def show(name, mistakes, note=""):
        print(f"{'FAILED' if mistakes else 'passed'}  {name}{note}", flush=True)
        for mistake in mistakes:
            print(f"        {mistake}", flush=True)
        return bool(mistakes)

    with tempfile.TemporaryDirectory(prefix="acceptance-dry-run-") as temporary:
        folders = [pathlib.Path(temporary) / str(i) for i in range(len(scenarios))]
        for folder in folders:
            folder.mkdir()
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            for scenario, (mistakes, seconds) in zip(scenarios, pool.map(run_scenario, scenarios,
                                                                         folders)):
                failed += show(scenario.name, mistakes, f" ({seconds:.0f} s)")
        if args.lockstep:
            mistakes = check_options(args.lockstep, lockstep_commands(folders[0] / "out"))
            failed += show(f"options of {args.lockstep}", mistakes)
        if args.check_pytorch:
            mistakes, reason = check_pytorch(pathlib.Path(temporary))
            failed += show("PyTorch code on the CPU", mistakes, f": not run: {reason}" * bool(reason))
    return 1 if failed else 0
