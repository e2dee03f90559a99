#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""GPU acceptance test of Lockstep: checks results, and measures the throughput beside PyTorch.

usage: acceptance.py CALL --lockstep PROGRAM --data DIR --out DIR
       acceptance.py CALL --dry-run [--lockstep PROGRAM]
       acceptance.py page FILE...

The call day is the first on a machine with a GPU. The call again repeats its steps that were wrong
or not complete, and then measures more. A dry run executes the steps with stubs of all programs and
needs no GPU. page prints a Markdown page of the acceptance.json of calls.

Exit status: 0 if all steps are correct and complete, 1 if a step is wrong, 2 if the arguments are
invalid, 3 if no step is wrong but something was not run."""

import argparse
import datetime
import inspect
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import namedtuple

import correctness
import dry_run
import report
import speed
from call import Call

# The docstring of the function `run` states what the step proves or measures.
Step = namedtuple("Step", "name seconds run options", defaults=[{}])
# In the order of importance: if time is short, the last steps are not run.
DAY = (
    Step("versions", 18, correctness.versions),
    Step("quick steps", 25, correctness.quick_steps),
    Step("engines", 125, speed.select_engines),
    Step("losses", 45, correctness.losses),
    Step("throughput", 120, speed.beside_pytorch),
    Step("roofline bound", 12, speed.bound),
    Step("kernels", 35, speed.kernels),
    Step("accuracy", 15, correctness.accuracy),
    Step("ladder", 20, correctness.ladder),
    Step("several ranks", 30, correctness.several_ranks),
    Step("NCCL with one rank", 15, correctness.nccl_one_rank),
    Step("memcheck", 20, correctness.memcheck),
)
MORE = (
    Step("throughput fp16", 65, speed.fp16),
    Step("throughput 128", 85, speed.beside_pytorch, {"batch": 128, "seconds": 40}),
    Step("agreement tests", 120, correctness.agreement_tests),
    Step("throughput max-autotune", 120, speed.beside_pytorch, {"variants": ["compile_graph"]}),
)
SECONDS = {"day": 480, "again": 200}


def steps_of(call, first):
    """Returns the steps of a call. `first`: JSON object of the call day, or None."""
    if call == "day":
        return DAY
    done = {
        step["name"]
        for step in (first or {"steps": []})["steps"]
        if step["verdict"] == "correct" and not step["not_run"]
    } - {"versions"}
    return tuple(step for step in DAY if step.name not in done) + MORE


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser.add_argument)
    args = parser.parse_args(words)
    if args.call == "page":
        return args
    if os.path.isfile(".gpu/env.sh"):
        args.environment = args.environment or absolute(".gpu/env.sh")
    shell = ["bash", "-c", 'source "$0" >&2 && exec "$@"', args.environment]
    args.shell = shell if args.environment else []
    subprocess.run([*args.shell, "true"], timeout=90, check=True)  # may unpack the programs
    if not args.dry_run and not (args.lockstep and args.data and args.out):
        parser.error("--lockstep, --data and --out are required")
    for one in filter(None, (args.lockstep, args.data, args.first, args.cache)):
        if not one.exists():
            parser.error(f"{one} does not exist")
    args.cache = args.cache or (args.first and args.first.with_name("cache.tar.gz"))
    args.tests = args.lockstep and args.lockstep.parent.parent / "tests"  # of the build folder
    args.seconds = args.seconds or SECONDS[args.call]
    args.work = absolute(tempfile.gettempdir()) / "lockstep-acceptance"
    return args


def absolute(text):
    return pathlib.Path(text).absolute()


def add_arguments(add):
    add("call", choices=[*SECONDS, "page"], metavar="CALL", help="%(choices)s")
    add(
        "files", nargs="*", type=absolute, metavar="FILE", help="acceptance.json of calls, for page"
    )
    add("--lockstep", metavar="PROGRAM", type=absolute, help="program lockstep")
    add("--data", metavar="DIR", type=absolute, help="folder of the CIFAR-10 binary files")
    add("--out", metavar="DIR", type=absolute, help="folder for the results: four files")
    add("--seconds", type=float, help=f"time limit of the call {SECONDS}")
    add(
        "--first",
        metavar="FILE",
        type=absolute,
        help="acceptance.json of day, to omit complete steps",
    )
    add(
        "--cache",
        metavar="FILE",
        type=absolute,
        help="engines of day [cache.tar.gz beside --first]",
    )
    add_program_arguments(add)


def add_program_arguments(add):
    add(
        "--environment",
        metavar="FILE",
        type=absolute,
        help=(
            "shell script that sets the environment of "
            "Lockstep and mpirun, but not of PyTorch [.gpu/env.sh if it exists]"
        ),
    )
    add(
        "--mpirun",
        default="mpirun --oversubscribe --bind-to none",
        metavar="COMMAND",
        help="command that starts ranks [%(default)s]",
    )
    add(
        "--dry-run",
        action="store_true",
        help=(
            "execute the steps with stubs of all programs, and "
            "check that the program of --lockstep has the options that they use"
        ),
    )
    add("--stub", action="store_true", help=argparse.SUPPRESS)  # the programs are stubs
    add("--pytorch", help=argparse.SUPPRESS)  # stub of pytorch_gpu.py


def run_step(call, step, result, later):
    """Runs one step. An exception becomes a failure of this step, so that the others still run."""
    began = time.monotonic()
    try:
        if call.begin(result, step.seconds, later):
            step.run(call, **step.options)
        else:
            result.skip(step.name, "no time was left")
    except Exception as error:
        result.check(False, f"the acceptance test itself failed: {type(error).__name__}: {error}")
        result.notes.append(f"```text\n{traceback.format_exc()}```")
    finally:
        result.seconds = time.monotonic() - began
    print(
        f"{time.monotonic() - call.began:5.0f} s  {step.name}: {result.verdict}; "
        + "; ".join([*result.wrong, *result.diagnoses, *result.summary, *result.not_run])[:400],
        flush=True,
    )


def run_call(args):
    """Runs the steps of a call, and writes the results after each of them, so that a call that is
    cut off keeps what it has measured. Returns the exit status."""
    for name in ("logs", "scratch", *(["cache", "inductor"] if args.call == "day" else [])):
        shutil.rmtree(args.work / name, ignore_errors=True)
    if args.cache and args.cache.is_file():
        shutil.unpack_archive(args.cache, args.work)
    args.out.mkdir(parents=True, exist_ok=True)
    steps = steps_of(args.call, args.first and json.loads(args.first.read_text()))
    call, results = Call(args), []
    date = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"

    def save(is_complete):
        report.save(
            args.out,
            {
                "call": args.call,
                "date": date,
                "command": shlex.join(sys.argv),
                "is_synthetic": args.stub,
                "is_complete": is_complete,
                "properties": call.properties,
                "seconds": time.monotonic() - call.began,
                "steps": [one.to_json() for one in results],
            },
        )

    try:
        for number, step in enumerate(steps, 1):
            results.append(report.Result(step.name, inspect.getdoc(step.run)))
            run_step(call, step, results[-1], sum(one.seconds for one in steps[number:]))
            save(number == len(steps))
    except SystemExit:
        results[-1].skip("rest of the call", "it was cut off")
        save(False)
        raise
    finally:
        call.stop()
        for name in ("logs", "cache"):
            report.pack(args.out / f"{name}.tar.gz", args.work / name)
    if any(result.wrong for result in results):
        return 1
    return 3 if any(result.not_run for result in results) else 0


def main():
    args = parse_arguments(sys.argv[1:])
    if args.call == "page":
        print(report.page([json.loads(file.read_text()) for file in args.files]))
        return 0
    if args.dry_run:
        return dry_run.run(args.call, [*args.shell, args.lockstep] if args.lockstep else None)
    # SIGTERM raises SystemExit, so that this script ends its programs and packs its archives.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run_call(args)


if __name__ == "__main__":
    sys.exit(main())
