# SPDX-License-Identifier: BSD-3-Clause
"""Dry run: runs scenarios of a call with stubs of all programs, and checks that the installed program
has the options that the test uses. A scenario injects faults into several parts, because the parts
are independent."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from results import NUMBERS, REPORT

HERE = pathlib.Path(__file__).resolve().parent
SHORTEST_LIMIT = 5.0  # seconds that a stub may take before it counts as hanging
SCENARIO_SECONDS = 240


@dataclass(frozen=True)
class Scenario:
    """`faults`: see stub.py. `wrong`: the parts with this verdict; the others must be correct, except
    `not_run`. `texts`: what the section of a part, or its row in the table of verdicts, contains."""

    name: str
    call: str
    faults: tuple = ()
    wrong: tuple = ()
    not_run: tuple = ()
    texts: dict = field(default_factory=dict)


SCENARIOS = (
    Scenario("success", "first-contact", texts={
        1: ("SYNTHETIC GPU", "steps bf16 512, compared with the GPU in fp32 without"),
        2: ("racecheck of our own kernels in three steps", "batch norm: 16 tests passed"),
        3: ("bf16 device none", "75%"),
        4: ("PyTorch graph", "PyTorch compile_default", "ratio to PyTorch"),
        5: ("test accuracy bf16 92.00%", "two ranks staged: passed", "two ranks nccl: passed"),
        6: ("out_of_memory", "largest batch of the ladder: 32,768")}),
    Scenario("wrong results", "first-contact", faults=(
        "crash:synthetic:1536&!--cuda-graph off", "wrong:synthetic:96&--precision fp16",
        "wrong:--tool memcheck&--batch-per-rank 8", "wrong:gtest", "slow:--data-residency",
        "fail:one-rank", "missing:torch-features", "garbage:ladder"), wrong=(1, 2, 5, 6), texts={
            1: ("bf16 batch 512 engines timed fusion auto: passes with --cuda-graph off; fails with",
                "fp16 batch 32 engines quick fusion auto: passes with --precision fp32"),
            2: ("memcheck: Invalid __global__ read", "bf16 fusion sums: 8 of 8 failed",
                "no failure in fp32 fusion auto", "alone, CUDA_LAUNCH_BLOCKING=1"),
            3: ("9,000",), 4: ("lacks torch.compile", "Lockstep bf16 device"),
            5: ("the run with one rank has no losses",), 6: ("printed no JSON object",)}),
    Scenario("failures and hangs", "first-contact", faults=(
        "nan:synthetic:1536&bf16&--bn-fusion auto", "end-hang:gtest&!*-", "end-crash:gtest&*-",
        "crash:--tool racecheck", "fail:info", "wrong:accuracy-bf16", "fail:plan&bf16", "fail:ladder",
        "end-hang:train&--transport nccl&!--reducer allreduce", "hang:speed",
        "short-phases:--data-residency device&fp16-device"), wrong=(1, 2, 3, 4, 5, 6), texts={
            1: ("lockstep info: exit status 70", "passes with --bn-fusion none"),
            2: ("8 of 8 processes were ended", "exit status -11 during Devices/SYNTHETIC",
                "racecheck of our own kernels: exit status -11"),
            3: ("engines 512 bf16: exit status 70", "from the wall clock"),
            4: ("not ready in time", "Lockstep bf16 device"),
            5: ("is below 85%", "(reruns of an earlier failure)", "so the program hung at its end",
                "two ranks nccl: passes with --reducer allreduce"),
            6: ("ladder 32: exit status 70", "not reproduced by a rerun")}),

    Scenario("success", "measure", texts={
        2: ("Throughput at batch 2048",), 3: ("PyTorch compile_graph", "ratio to PyTorch"),
        4: ("losses fp16", "92.50%"), 5: ("32,768", "all-reduce bf16 nccl: passed"),
        6: ("predicted largest batch 39,666", "97% of the predicted limit: it fits",
            "110% of the predicted limit: it does not fit")}),
    Scenario("wrong results", "measure", faults=(
        "late:speed&2048", "end-hang:torch speed&512", "wrong:losses-bf16.h5",
        "fail:accuracy&--rates", "wrong:large-batch-32768", "wrong:allreduce",
        "out-of-memory:--batch-per-rank 38476", "fail:--batch-per-rank 40855"), wrong=(4, 5, 6), texts={
            3: ("2048 PyTorch compile_default: not ready in time", "no reply within"),
            4: ("losses bf16: step 1", "injected failure"),
            5: ("batch 32768: the loss", "1 wrong elements"),
            6: ("is predicted to fit", "the expected status is 0 or 4")}),
    Scenario("failures", "measure", faults=(
        "fail:speed&--batch 128", "end-crash:torch speed&2048", "fail:torch losses",
        "fail:accuracy-fp16", "out-of-memory:--batch-per-rank 32768", "fail:ladder"), wrong=(4, 6), texts={
            3: ("the program ended: lockstep", "the program ended during a measurement"),
            4: ("losses PyTorch: exit status 70", "accuracy fp16: exit status 70"),
            5: ("does not fit into the memory of this GPU",), 6: ("the ladder predicts no limit",)}),

    Scenario("success", "gpus", texts={
        1: ("4 GPUs",), 2: ("all-reduce fp16 4 GPUs: passed",), 3: ("training 4 GPUs: passed",),
        4: ("2 GPUs: efficiency 1.00", "4 GPUs: efficiency 1.00")}),
    Scenario("wrong results", "gpus", faults=(
        "wrong:allreduce&bf16&-n 4&!NCCL_NVLS_ENABLE=0", "garbage:allreduce&fp16&-n 2",
        "fail:allreduce&fp32&-n 2&!NCCL_LOCAL_REGISTER=0", "slow:--data-residency&-n 4",
        "crash:--bn sync&-n 2&!--cuda-graph off", "wrong:--bn sync&-n 4&!NCCL_WIN_ENABLE=0"),
        wrong=(2, 3), texts={
            2: ("DIAGNOSIS** all-reduce bf16 4 GPUs: passes with NCCL_NVLS_ENABLE=0; fails with",
                "DIAGNOSIS** all-reduce fp32 2 GPUs: passes with NCCL_LOCAL_REGISTER=0; fails with",
                "all-reduce fp16 2 GPUs: lockstep allreduce printed no JSON object"),
            3: ("DIAGNOSIS** training 2 GPUs: passes with --cuda-graph off; fails with",
                "DIAGNOSIS** training 4 GPUs: passes with NCCL_WIN_ENABLE=0; fails with"),
            4: ("4 GPUs: efficiency 0.10",)}),
    Scenario("one GPU", "gpus", faults=("one-gpu:nvidia-smi",), not_run=(2, 3, 4),
             texts={2: ("nvidia-smi lists 1 GPUs",)}),
)


def command_of(scenario, folder):
    """Returns (command, environment) of a scenario whose files are in `folder`."""
    command = [sys.executable, "-B", str(HERE / "acceptance.py"), scenario.call, "--stubs",
               "--lockstep", "stub", "--data", str(folder), "--out", str(folder / "out"), "--work",
               str(folder / "work")]
    return command, os.environ | {"STUB_FAULTS": ",".join(scenario.faults), "TMPDIR": str(folder)}


def mistakes_in(scenario, status, out):
    """Returns one message per difference between the results and what the scenario expects."""
    if not (out / REPORT).is_file():
        return [f"exit status {status}, and no report"]
    report, mistakes = (out / REPORT).read_text(), []
    if status != bool(scenario.wrong):
        mistakes.append(f"exit status {status}")
    for part, found in json.loads((out / NUMBERS).read_text())["parts"].items():
        expected = ("wrong" if int(part) in scenario.wrong else
                    "not run" if int(part) in scenario.not_run else "correct")
        if found["verdict"] != expected:
            mistakes.append(f"part {part} is {found['verdict']} instead of {expected}: "
                            f"{found['failures']}")
    for part, texts in scenario.texts.items():
        section = re.search(rf"^## {part}\. .*?(?=^## |\Z)", report, re.MULTILINE | re.DOTALL)[0]
        section += re.search(rf"^\| {part} .*$", report, re.MULTILINE)[0]
        mistakes += [f"part {part} lacks: {text}" for text in texts if text not in section]
    mistakes += re.findall(r"Not complete|.*acceptance test itself failed.*", report)
    return mistakes


def run_scenario(scenario, folder):
    """Runs a scenario in the empty folder `folder`; returns what is wrong."""
    command, environment = command_of(scenario, folder)
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True,
                                timeout=SCENARIO_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"not complete after {SCENARIO_SECONDS} s"]
    mistakes = mistakes_in(scenario, result.returncode, folder / "out")
    return mistakes + [result.stderr.strip()[-500:]] * bool(mistakes and result.stderr.strip())


def option_mistakes(arguments, text):
    """Returns one message for each option that the --help-all text lacks, and for each value that is not
    in the list of values of its option. Such a list precedes the default in brackets: "fp32, tf32,
    bf16 [fp32]"."""
    mistakes = []
    for option, value in zip(arguments, [*arguments[1:], ""]):
        if not option.startswith("--"):
            continue
        found = re.search(rf"^ +{option}\b.*(?:\n {{6,}}.*)*", text, re.MULTILINE)
        values = found and re.search(r"((?:[\w-]+,\s+)+[\w-]+)\s+\[", found[0])
        if not found:
            mistakes.append(f"{option} is not an option of {arguments[0]}")
        elif values and value not in re.split(r",\s+", values[1]):
            mistakes.append(f"{option} {value}: the values are {values[1]}")
    return mistakes


def check_options(program, folders):
    """Returns one message for each option or value of the commands in the results of calls that
    `program` does not have."""
    numbers = [json.loads((folder / "out" / NUMBERS).read_text()) for folder in folders]
    commands = [shlex.split(command["command"]) for one in numbers for part in one["parts"].values()
                for command in part["commands"]]
    texts, mistakes = {}, []
    for words in commands:
        if "lockstep" in words:
            arguments = words[words.index("lockstep") + 1:]
            if arguments[0] not in texts:
                texts[arguments[0]] = subprocess.run(
                    [program, arguments[0], "--help-all"], capture_output=True, text=True).stdout
            mistakes += option_mistakes(arguments, texts[arguments[0]])
    return list(dict.fromkeys(mistakes))


def run(call, program):
    """Runs all scenarios of a call, checks the options of `program` unless it is None, and prints one
    line for each. Returns the exit status."""
    scenarios, failed = [one for one in SCENARIOS if one.call == call], False

    def show(name, mistakes):
        print("\n        ".join([f"{'FAILED' if mistakes else 'passed'}  {name}", *mistakes]), flush=True)
        return bool(mistakes)

    with tempfile.TemporaryDirectory(prefix="acceptance-dry-run-") as temporary:
        folders = [pathlib.Path(temporary) / str(i) for i in range(len(scenarios))]
        for folder in folders:
            folder.mkdir()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for scenario, mistakes in zip(scenarios, pool.map(run_scenario, scenarios, folders)):
                failed |= show(scenario.name, mistakes)
        if program:
            failed |= show(f"options of {program}", check_options(program, folders))
    return int(failed)
