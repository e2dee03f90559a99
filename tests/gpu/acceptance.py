#!/usr/bin/env python3
"""GPU acceptance test of Lockstep, in two calls of at most 8.5 minutes.

usage: acceptance.py first-contact --lockstep PROGRAM --data DIR --out DIR [--tests PROGRAM ...]
       acceptance.py measure       --lockstep PROGRAM --data DIR --out DIR [--cache FOLDER_OR_ARCHIVE]
       acceptance.py CALL --dry-run [--lockstep PROGRAM]

first-contact checks that training on this GPU is correct and measures it at batch 512. measure is a
second call that reuses the selected engines: other batch sizes, max-autotune, losses compared with
PyTorch, the memory limit. schedule.py lists the parts. README.md describes the results.

Writes acceptance.md (the report), acceptance.json and part-N.tar.gz to --out after every step, so
that a call that is cut off keeps what it has measured. Needs one GPU and a Python with h5py, NumPy
and, for the comparisons, PyTorch.

Exit status: 0 if no part is wrong, 1 if a part is wrong, 2 if the arguments are invalid."""

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback

import dry_run
import stub
from clock import Clock
from context import Context, Programs
from environment import OPEN_MPI, program_variables
from measures import Unreadable
from reports import Page, Report, verdict_table
from results import REPORT, Results, restore_cache
from running import Runner, last_lines
from schedule import CALLS, SECONDS, weights

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
GPU_ENVIRONMENT = pathlib.Path(".gpu/env.sh")


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("call", choices=CALLS, help="first-contact or measure")
    add("--lockstep", metavar="PROGRAM", help="path of the program lockstep")
    add("--data", metavar="DIR", help="folder of the CIFAR-10 binary files")
    add("--out", type=pathlib.Path, metavar="DIR", help="folder for the results: at most 8 files")
    add("--tests", nargs="*", default=[], metavar="PROGRAM",
        help="GoogleTest programs of first-contact (cuda_agreement_test)")
    add("--cache", type=pathlib.Path, metavar="PATH",
        help="engines of an earlier call: a part-N.tar.gz or the folder of its results "
             "[first-contact: none; measure: those that --work has]")
    add("--work", type=pathlib.Path, metavar="DIR", help="folder for temporary files "
        "[lockstep-acceptance in the temporary directory]")
    add("--environment", metavar="FILE",
        help="shell script that sets the environment of lockstep, mpirun and --tests, but not of "
             "PyTorch [.gpu/env.sh if it exists]")
    add("--library-path", nargs="*", default=[], metavar="DIR",
        help="folders for LD_LIBRARY_PATH of lockstep, mpirun and --tests, but not of PyTorch")
    add("--mpirun", default="mpirun --oversubscribe --bind-to none", metavar="COMMAND",
        help="command that starts ranks [%(default)s]")
    add("--seconds", type=float, default=SECONDS, help="time limit of the call [%(default)s]")
    add("--rounds", type=int, default=3, help="turns of each configuration [%(default)s]")
    add("--seed", type=int, default=1, help="seed of Lockstep and PyTorch [%(default)s]")
    add("--loader-threads", type=int, default=8, metavar="N",
        help="data-loading threads of Lockstep [%(default)s]")
    add("--dry-run", action="store_true",
        help="run all branches of the call with stubs of all programs, and check that --lockstep has "
             "the options that the test uses; needs no GPU")
    add("--check-pytorch", action="store_true",
        help="with --dry-run: also run the PyTorch code on the CPU; takes minutes")
    add("--stubs", action="store_true", help=argparse.SUPPRESS)  # used by the dry run
    return parser


def parse_arguments(words):
    parser = make_parser()
    args = parser.parse_args(words)
    if args.dry_run:
        return args
    missing = [name for name in ("lockstep", "data", "out") if not getattr(args, name)]
    if missing:
        parser.error("required: " + ", ".join(f"--{name}" for name in missing))
    if args.seconds <= 0 or args.rounds < 1:
        parser.error("--seconds and --rounds must be positive")
    args.out = args.out.resolve()
    args.data = pathlib.Path(args.data).resolve()
    args.work = (args.work or pathlib.Path(tempfile.gettempdir()) / "lockstep-acceptance").resolve()
    if args.environment is None and GPU_ENVIRONMENT.is_file():
        args.environment = str(GPU_ENVIRONMENT)
    return args


def installed_programs(args):
    """Returns the commands of the programs that are tested and of the tools on the PATH."""
    sanitizer = shutil.which("compute-sanitizer")
    return Programs(lockstep=[str(pathlib.Path(args.lockstep).resolve())],
                    torch=[sys.executable, str(BENCH / "pytorch_gpu.py")],
                    torch_features=[sys.executable, str(BENCH / "pytorch_features.py")],
                    mpirun=shlex.split(args.mpirun), nvidia_smi=["nvidia-smi"],
                    sanitizer=[sanitizer] if sanitizer else None,
                    tests=[[str(pathlib.Path(program).resolve())] for program in args.tests])


def check_inputs(args, report):
    """Checks that the programs and images exist. Without lockstep, there is nothing to measure."""
    if not os.access(args.lockstep, os.X_OK):
        sys.exit(f"--lockstep {args.lockstep}: the program does not exist or is not executable")
    for program in args.tests:
        report.check(os.access(program, os.X_OK), f"--tests {program}: the program does not exist")
    report.check((args.data / "data_batch_1.bin").is_file(),
                 f"--data {args.data}: data_batch_1.bin does not exist")


def make_context(args, report):
    """Returns the Context of a call: empty working folders and the cache of engines. Problems with
    the environment or the cache are recorded in `report`; the call continues without them."""
    variables, notes = dict(OPEN_MPI), []
    try:
        variables = program_variables(args.environment, args.library_path)
    except (OSError, ValueError) as error:
        notes.append(str(error))
    cache = args.work / "cache"
    # The first call selects all engines itself; the second call uses those of the first.
    removed = [] if args.call == "measure" else [cache, args.work / "inductor"]
    for path in [*args.work.glob("part-*"), args.work / "scratch", *removed]:
        shutil.rmtree(path, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    if args.cache:
        try:
            count = restore_cache(args.cache, cache)
            report.add_text(f"{count} files of engines were restored from {args.cache}.")
        except OSError as error:
            notes.append(f"--cache: {error}")
    if args.call == "measure" and not any(cache.iterdir()):
        report.not_run("engines of the first call", "--cache is not given and --work has none, so "
                                                    "all engines are selected again")
    for note in notes:
        report.fail(note)
    if not args.stubs:
        check_inputs(args, report)  # after the environment, whose script may unpack the programs
    own = {"PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_CACHE_DIR": str(args.work / "inductor")}
    runner = Runner(args.work / "head", dict(os.environ) | own)
    clock = Clock(args.seconds, weights(args.call))
    programs = stub.programs() if args.stubs else installed_programs(args)
    return Context(args, runner, clock, programs, Results(args.out, cache), args.work, variables,
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


def save(context, page, reports, report, is_complete=False):
    """Writes all results. A full disk must not end the call."""
    try:
        context.results.content |= {"call": context.args.call, "has_stubs": context.args.stubs,
                                    "is_complete": is_complete}
        if report is not None:
            context.results.save(report.number, context.folder,
                                 report.to_json(context.runner.outcomes))
        else:
            context.results.write_numbers()
        page.head = context.head_rows
        page.write(reports, context.clock.seconds, is_complete)
    except OSError as error:
        print(f"results cannot be written: {error}", flush=True)


def run_call(context, page, reports):
    """Runs the parts of a call and writes the results after every step."""
    is_complete, report, start = False, reports[0], time.monotonic()
    try:
        for report, part in zip(reports, CALLS[context.args.call]):
            context.begin_part(part.number)
            start = time.monotonic()
            for index, (_, step) in enumerate(part.steps):
                context.clock.begin((part.number, index))
                run_step(context, report, step)
                context.runner.stop_all()
                report.seconds = time.monotonic() - start
                save(context, page, reports, report)
            print(f"{context.clock.seconds:5.0f} s  {part.number} {part.title}: {report.verdict}; "
                  f"{report.remarks}", flush=True)
        is_complete = True
    finally:
        context.runner.stop_all()
        report.seconds = time.monotonic() - start
        save(context, page, reports, report, is_complete)


def main(words=None):
    args = parse_arguments(words)
    if args.dry_run:
        return dry_run.run(args)
    # SIGTERM raises SystemExit, so that this script ends its programs and writes the report.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.out.mkdir(parents=True, exist_ok=True)
    reports = [Report(part.number, part.title) for part in CALLS[args.call]]
    page = Page(args.out / REPORT, args.call, [sys.executable, *sys.argv], args.stubs)
    run_call(make_context(args, reports[0]), page, reports)
    print("\n".join(verdict_table(reports)))
    wrong = [str(report.number) for report in reports if report.failures]
    print(f"{page.path}: " + (f"wrong: part {', '.join(wrong)}" if wrong else "no part is wrong"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
