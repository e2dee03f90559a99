# SPDX-License-Identifier: BSD-3-Clause
"""Dry run: executes the steps of a call with stubs of all programs, once with success and once with
failures, and checks that the installed program has the options that the steps use.

usage of the stub: dry_run.py PROGRAM ARGUMENTS...

All numbers of the stub are synthetic. STUB_FAULTS="FAULT:WORDS,..." injects a fault into each
program whose command line, with its variables of CUDA and NCCL, contains WORDS: parts joined by &,
each of which must occur, or must not occur if it starts with !. Faults: fail (exit status 70),
wrong, hang, faulty-engine (fails twice, and asks to be started again).
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from call import HANGS, LEFT_OUT

# {call: (faults, {step: text that its result must contain})}
FAILURES = {
    "day": (
        (
            "fail:synthetic:96&bf16&!--cuda-graph off",
            "wrong:losses-fp16",
            "hang:plan&--measure",
            "wrong:ladder",
            "wrong:sanitizer",
            "hang:-sharing&--transport nccl&!--reducer",
        ),
        {
            "quick steps": "steps bf16: passes with --cuda-graph off; fails with",
            "losses": "losses fp16 quick: no change makes it pass",
            "throughput": "1.80 (1.80 - 1.80)",
            "roofline bound": "did not end within",
            "ladder": "must be refused",
            "several ranks": "two ranks nccl hangs",
            "memcheck": "Invalid __global__ read",
        },
    ),
    "again": (
        ("wrong:tests", "fail:plan&fp16", "wrong:plan&--batch-per-rank 128"),
        {
            "throughput fp16": "exit status 70",
            "throughput 128": "3 selections were cut off after",
            "agreement tests": "by precision and fusion: {'bf16': 8}",
        },
    ),
}
RATE = 90000.0  # images/s
CURVES = {"eager": [2.4 * math.exp(-0.02 * step) for step in range(20)]}
# Each program prints what the acceptance test reads from any of them.
OUTPUT = {
    "devices": {"cuda": "synthetic GPU"},
    "versions": {"mpi": "synthetic"},
    "torch": "synthetic",
    "nccl": [2, 28, 9],
    "kernels": [{"operation": "conv1", "phase": "forward", "kernel": "synthetic"}],
    "floor": {
        "flops_per_second": 7.9e14,
        "bytes_per_second": 4.0e12,
        "floor_seconds": 0.75 * 512 / RATE,
    },
    "ladder": [
        {
            "batch_per_rank": 32 * 4**i,
            "status": "complete" if i < 6 else "out_of_memory",
            "predicted_bytes": 1e8 * 4**i,
            "peak_bytes": 1e8 * 4**i,
            "images_per_second": RATE,
        }
        for i in range(7)
    ],
    "losses": {"fp32": CURVES, "bf16": CURVES, "fp16": CURVES},
}


def faults_of(line):
    """Returns the faults that STUB_FAULTS injects into the command `line`."""
    pairs = [pair.split(":", 1) for pair in os.environ.get("STUB_FAULTS", "").split(",") if pair]
    return {
        fault
        for fault, words in pairs
        if all(
            (word[1:] not in line) if word.startswith("!") else word in line
            for word in words.split("&")
        )
    }


def write_run(option, is_wrong):
    """Writes a run file (docs/run-file.md) with the datasets that the acceptance test reads."""
    import h5py
    import numpy as np

    epochs = int(option.get("--epochs", 1))
    steps = int(option.get("--steps", 4 * epochs))
    epoch = np.arange(steps) * epochs // steps
    with h5py.File(option["--output"], "w") as file:
        file.attrs["status"], file["epoch"], file["steps/epoch"] = "complete", range(epochs), epoch
        file["steps/loss"] = np.resize(CURVES["eager"], steps) * (1.1 if is_wrong else 1.0)
        file["steps/images"], file["epochs/seconds"] = (
            [512] * steps,
            np.bincount(epoch) * 512 / RATE,
        )
        file["epochs/test_accuracy"] = np.full(epochs, 0.30 if is_wrong else 0.92)


def take_turns(words):
    """Does what `pytorch_gpu.py speed` does."""
    for number in (1, 2, 3):
        for variant in re.search(r"--variants (.*?) --", " ".join(words))[1].split():
            print(json.dumps({"variant": variant, "round": number, "images_per_second": [5e4]}))
        for command in words[words.index("--turns") + 1 :]:
            subprocess.run(["sh", "-c", command.replace("{round}", str(number))], stdout=sys.stderr)
    print(json.dumps({"is_complete": True}))


def write_kernels(option):
    """Writes the table of ncu: names, units and one kernel."""
    metrics = option["--metrics"].split(",")
    rows = [
        ["Kernel Name", *metrics],
        ["", *["ns"] * len(metrics)],
        ["one", *["1,000"] * len(metrics)],
    ]
    pathlib.Path(option["--log-file"]).write_text(
        "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    )


def run_program(name, words, is_wrong):
    """Writes the files and the output of a program. Returns its exit status."""
    option = dict(zip(words, words[1:]))
    if name == "mpirun":  # one process writes the results of all ranks
        return subprocess.run(words[words.index("-n") + 2 :]).returncode
    if "--turns" in words:
        take_turns(words)
    elif name == "tests":
        test = f"Agreement.Forward{os.environ.get('GTEST_SHARD_INDEX', 0)}/bn_1_cuda_bf16"
        print(f"[ RUN      ] {test}\n[{'  FAILED  ' if is_wrong else '       OK '}] {test} (0 ms)")
        return int(is_wrong)
    elif name == "compute-sanitizer":
        print("========= Invalid __global__ read" if is_wrong else "ERROR SUMMARY: 0 errors")
        return 99 if is_wrong else 0
    elif name == "ncu":
        write_kernels(option)
    elif name == "nvidia-smi":
        print("GPU 0: synthetic\n" * 4)
    else:
        for file in (
            option.get("--engine-log"),
            f"{os.environ.get('LOCKSTEP_CACHE_DIR')}/engines.json",
        ):
            if file and words[0] == "plan":
                pathlib.Path(file).parent.mkdir(exist_ok=True)
                pathlib.Path(file).write_text("{}")
        if words[0] == "train":
            write_run(option, is_wrong)
        print(
            json.dumps(
                OUTPUT | ({"ladder": [], "kernel_selections_cut_off": 3} if is_wrong else {}),
                indent=1,
            )
        )
    return 0


STUBS = (
    "bin/lockstep",
    "bin/pytorch",
    "bin/mpirun",
    "bin/ncu",
    "bin/compute-sanitizer",
    "bin/nvidia-smi",
    "tests/backend/cuda_agreement_test",
    "tests/comm/nccl_one_rank_test",
)


def run_stubs(call, folder, faults=()):
    """Runs a call with stubs. Its results are in `folder`/out. Returns {step: JSON object}."""
    for name in STUBS:
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        stub = "tests" if name.startswith("tests") else program.name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "{__file__}" {stub} "$@"\n')
        program.chmod(0o755)
    (folder / "env.sh").touch()
    options = [f"--{name}={folder}/bin/{name}" for name in ("lockstep", "pytorch")]
    variables = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "STUB_FAULTS": ",".join(faults),
    }
    process = subprocess.run(
        [
            sys.executable,
            "-B",
            pathlib.Path(__file__).with_name("acceptance.py"),
            call,
            "--stub",
            *options,
            f"--data={folder}",
            f"--out={folder}/out",
            f"--environment={folder}/env.sh",
        ],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(process.stdout, flush=True)
    steps = json.loads((folder / "out" / "acceptance.json").read_text())["steps"]
    return {step["name"]: step for step in steps}


def unknown_options(program, commands):
    """Returns one message per option, or value, of the commands that `program` (words) lacks."""
    text = subprocess.run([*program, "help", "options-json"], stdout=subprocess.PIPE).stdout
    known, mistakes = {f"--{one['name']}": one for one in json.loads(text)}, set()
    for name, *words in commands:
        for option, value in zip(words, [*words[1:], ""]):
            one = known.get(option, {"commands": [], "values": []})
            values = [each["name"] for each in one["values"]] or [value]
            if option[:2] == "--" and (name not in one["commands"] or value not in values):
                mistakes.add(f"lockstep {name} has no {option} {value}")
    return sorted(mistakes)


def run(call, program):
    """Performs the dry run of a call and prints its mistakes. Returns the exit status."""
    faults, texts = FAILURES[call]
    with tempfile.TemporaryDirectory(prefix="acceptance-dry-run-") as temporary:
        success = pathlib.Path(temporary, "success")
        good = run_stubs(call, success)
        bad = {
            name: json.dumps(step)
            for name, step in run_stubs(call, pathlib.Path(temporary, "failures"), faults).items()
        }
        commands = map(json.loads, (success / "commands").read_text().splitlines())
        mistakes = unknown_options(program, commands) if program else []
    mistakes += [
        f"{name} is {step['verdict']}; {step['wrong']}; {step['not_run']}"
        for name, step in good.items()
        if step["verdict"] != "correct" or step["not_run"]
    ]
    mistakes += [f"{name} lacks: {text}" for name, text in texts.items() if text not in bad[name]]
    mistakes += [text for text in bad.values() if "the acceptance test itself failed" in text]
    print(
        "\n".join(mistakes) or f"The dry run of {call} has passed. All numbers above are synthetic."
    )
    return int(bool(mistakes))


def fails_again(times=2):
    """Returns whether this is one of the first calls of this function in a dry run."""
    with open(os.path.join(os.environ["TMPDIR"], "failures"), "a+") as file:
        file.write("failed\n")
        file.seek(0)
        return len(file.readlines()) <= times


def main():
    name, *words = sys.argv[1:]
    variables = [
        f"{key}={value}" for key, value in os.environ.items() if key[:5] in ("CUDA_", "NCCL_")
    ]
    faults = faults_of(" ".join([*sys.argv[1:], *variables])) if name != "mpirun" else set()
    if name == "lockstep":  # for the check of the options
        with open(os.path.join(os.environ["TMPDIR"], "commands"), "a") as log:
            log.write(json.dumps(words) + "\n")
    if "hang" in faults:
        print(HANGS, flush=True)
        time.sleep(600)
    if "faulty-engine" in faults and fails_again():
        print(f"lockstep: cuDNN's engine eng7 for x: failed; {LEFT_OUT}", file=sys.stderr)
        return 70
    if "fail" in faults:
        print("lockstep: rank 0: injected failure", file=sys.stderr)
        return 70
    return run_program(name, words, "wrong" in faults)


if __name__ == "__main__":
    sys.exit(main())
