#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""GPU acceptance test of Lockstep, in calls of at most 8.5 minutes.

usage: acceptance.py first-contact --lockstep PROGRAM --data DIR --out DIR [--tests PROGRAM]
       acceptance.py measure       --lockstep PROGRAM --data DIR --out DIR [--cache ARCHIVE]
       acceptance.py gpus          --lockstep PROGRAM --data DIR --out DIR [--cache ARCHIVE]
       acceptance.py CALL --dry-run [--lockstep PROGRAM]

first-contact checks that training on one GPU is correct and measures it at batch 512. measure reuses
the selected engines: other batch sizes, max-autotune, losses compared with PyTorch, the memory
limit. gpus checks and measures training on 2 and 4 GPUs. schedule.py lists the parts. README.md
describes the results.

Needs a Python with h5py, NumPy and, for the comparisons, PyTorch.

Exit status: 0 if no part is wrong, 1 if a part is wrong, 2 if the arguments are invalid."""

import argparse
import datetime
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

import dry_run
import stub
from clock import Clock
from context import Context, Programs
from measures import Unreadable
from reports import Report, page, verdict_table
from results import CACHE, LOGS, NUMBERS, REPORT, pack, replace_file
from running import Runner, last_lines
from schedule import CALLS, SECONDS, weights

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
GPU_ENVIRONMENT = pathlib.Path(".gpu/env.sh")
WITH_ENVIRONMENT = ["bash", "-c", 'source "$0" >&2 && exec "$@"']


def parse_arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("call", choices=CALLS, help="%(choices)s")
    add("--lockstep", metavar="PROGRAM", help="path of the program lockstep")
    add("--data", metavar="DIR", type=pathlib.Path, help="folder of the CIFAR-10 binary files")
    add("--out", type=pathlib.Path, metavar="DIR", help="folder for the results: four files")
    add("--tests", metavar="PROGRAM",
        help="GoogleTest program of first-contact (cuda_agreement_test)")
    add("--cache", type=pathlib.Path, metavar="ARCHIVE",
        help=f"engines of an earlier call: its {CACHE} [first-contact: none; otherwise those that "
             "--work has]")
    add("--work", type=pathlib.Path, metavar="DIR", help="folder for temporary files "
        "[lockstep-acceptance in the temporary directory]")
    add("--environment", type=pathlib.Path, metavar="FILE",
        help="shell script that sets the environment of lockstep, mpirun and --tests, but not of "
             "PyTorch [.gpu/env.sh if it exists]")
    add("--mpirun", default="mpirun --oversubscribe --bind-to none", metavar="COMMAND",
        help="command that starts ranks [%(default)s]")
    add("--seconds", type=float, default=SECONDS, help="time limit of the call [%(default)s]")
    add("--dry-run", action="store_true",
        help="run all branches of the call with stubs of all programs, and check that --lockstep has "
             "the options that the test uses; needs no GPU")
    add("--stubs", action="store_true", help=argparse.SUPPRESS)  # used by the dry run
    args = parser.parse_args(words)
    if args.dry_run:
        return args
    missing = [name for name in ("lockstep", "data", "out") if not getattr(args, name)]
    if missing:
        parser.error("required: " + ", ".join(f"--{name}" for name in missing))
    args.out, args.data = args.out.resolve(), args.data.resolve()
    args.work = (args.work or pathlib.Path(tempfile.gettempdir()) / "lockstep-acceptance").resolve()
    if args.environment is None and GPU_ENVIRONMENT.is_file():
        args.environment = GPU_ENVIRONMENT
    if args.environment and not args.stubs:  # the script may unpack the programs
        if subprocess.run([*WITH_ENVIRONMENT, args.environment, "true"], timeout=90).returncode != 0:
            parser.error(f"--environment {args.environment}: the script failed")
    for path in [] if args.stubs else [args.lockstep, args.tests, args.data / "data_batch_1.bin",
                                       args.cache]:
        if path and not os.access(path, os.R_OK):
            parser.error(f"{path} does not exist")
    return args


def installed_programs(args):
    """Returns the commands of the programs that are tested and of the tools on the PATH."""
    sanitizer = shutil.which("compute-sanitizer")
    return Programs(lockstep=[os.path.abspath(args.lockstep)],
                    torch=[sys.executable, str(BENCH / "pytorch_gpu.py")],
                    torch_features=[sys.executable, str(BENCH / "pytorch_features.py")],
                    mpirun=shlex.split(args.mpirun), nvidia_smi=["nvidia-smi"],
                    sanitizer=[sanitizer] if sanitizer else None,
                    tests=[os.path.abspath(args.tests)] if args.tests else None,
                    shell=[*WITH_ENVIRONMENT, str(args.environment.resolve())] if args.environment else [])


def make_context(args):
    """Returns the Context of a call: empty working folders and the cache of engines."""
    # The first call selects all engines itself; the other calls use those of the first.
    removed = ["cache", "inductor"] if args.call == "first-contact" else []
    for path in [*args.work.glob("part-*"), *(args.work / name for name in ("scratch", *removed))]:
        shutil.rmtree(path, ignore_errors=True)
    (args.work / "cache").mkdir(parents=True, exist_ok=True)
    if args.cache:
        shutil.unpack_archive(args.cache, args.work)
    own = {"PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_CACHE_DIR": str(args.work / "inductor")}
    return Context(args, Runner(args.work / "scratch", dict(os.environ) | own),
                   Clock(args.seconds, weights(args.call)),
                   stub.programs() if args.stubs else installed_programs(args), args.work,
                   shortest_limit=dry_run.SHORTEST_LIMIT if args.stubs else 0.0)


def run_step(context, report, step):
    """Runs one step. Any exception becomes a failure of this step, so that the others still run."""
    print(f"{context.clock.seconds:5.0f} s  {report.number} {report.title}: {step.__name__}",
          flush=True)
    try:
        if context.clock.left < 1:
            report.not_run(step.__name__, "no time")
        else:
            step(context, report)
    except Unreadable as error:
        report.fail(str(error))
    except Exception as error:
        report.fail(f"{step.__name__}: the acceptance test itself failed: {type(error).__name__}: "
                    f"{error}", last_lines(traceback.format_exc()))


class Results:
    """Writes the results of a call to --out."""

    def __init__(self, context, reports):
        self.context, self.reports, self.parts = context, reports, {}
        now = datetime.datetime.now(datetime.timezone.utc)
        self.properties = [["date", now.strftime("%Y-%m-%d %H:%M UTC")],
                           ["command", f"`{shlex.join([sys.executable, *sys.argv])}`"]]

    def save(self, report, is_complete=False):
        """Writes the report and the JSON file. A full disk must not end the call."""
        args, context = self.context.args, self.context
        self.parts[report.number] = report.to_json(context.runner.outcomes)
        content = {"call": args.call, "has_stubs": args.stubs, "is_complete": is_complete,
                   "seconds": context.clock.seconds, "parts": self.parts}
        try:
            replace_file(args.out / NUMBERS, json.dumps(content, indent=1, default=str))
            replace_file(args.out / REPORT, page(args.call, self.properties + context.properties,
                                                 self.reports, is_complete, args.stubs))
        except OSError as error:
            print(f"results cannot be written: {error}", flush=True)

    def save_archives(self):
        """Writes the archives of the logs and of the engines."""
        for name, folders in ((LOGS, sorted(self.context.work.glob("part-*"))),
                              (CACHE, [self.context.cache])):
            try:
                left_out = pack(self.context.args.out / name, folders)
                if left_out:
                    print(f"{name} lacks, because of its size limit: {', '.join(left_out)}", flush=True)
            except OSError as error:
                print(f"{name} cannot be written: {error}", flush=True)


def run_call(context, reports):
    """Runs the parts of a call. Writes the report after every step and the archives after every part,
    so that a call that is cut off keeps what it has measured."""
    results, report, is_complete = Results(context, reports), reports[0], False
    try:
        for index, (report, part) in enumerate(zip(reports, CALLS[context.args.call])):
            context.begin_part(report.number)
            start = time.monotonic()
            for number, (_, step) in enumerate(part.steps):
                context.clock.begin((index, number))
                run_step(context, report, step)
                context.runner.stop_all()
                report.seconds = time.monotonic() - start
                results.save(report)
            results.save_archives()
            print(f"{context.clock.seconds:5.0f} s  {report.number} {report.title}: {report.verdict}; "
                  f"{report.remarks}", flush=True)
        is_complete = True
    finally:
        context.runner.stop_all()
        results.save(report, is_complete)
        if not is_complete:
            results.save_archives()


def main(words=None):
    args = parse_arguments(words)
    if args.dry_run:
        return dry_run.run(args.call, args.lockstep)
    # SIGTERM raises SystemExit, so that this script ends its programs and writes the report.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.out.mkdir(parents=True, exist_ok=True)
    reports = [Report(number, part.title) for number, part in enumerate(CALLS[args.call], 1)]
    run_call(make_context(args), reports)
    print("\n".join(verdict_table(reports)))
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    sys.exit(main())
