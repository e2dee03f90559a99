"""GPU acceptance run: checks correctness, accuracy, memory use and throughput of Lockstep on this GPU.

usage: acceptance.py --lockstep PROGRAM --data DIR --out DIR [--tests PROGRAM ...] [--minutes 9.5] [--parts abcdef]

Writes DIR/acceptance.md (the report), DIR/acceptance.json (raw numbers), DIR/runs (run files) and DIR/logs (command
line and output of every program). Exit status: 0 if no part failed, 1 if a part failed, 2 if the arguments are invalid.
Needs one GPU and a Python with PyTorch, h5py and NumPy. A part skips measurements that would exceed its share of
--minutes; the report lists them as CUT. The parts run in this order:

  a  operations compared with the reference (the GoogleTest programs after --tests); compute-sanitizer if installed
  b  test accuracy on CIFAR-10 in bf16 and fp16, compared with PyTorch
  f  losses of 20 steps, compared with PyTorch from the same initial weights
  e  two ranks that share the GPU compared with one rank, with NCCL and with transfers through host memory
  d  throughput in images per second, compared with PyTorch and with the roofline bound
  c  batch ladder: batch sizes up to the memory limit

--dry-run needs no GPU and measures nothing. It checks that the programs and images exist and that `lockstep --help`
lists every option and value that the run would use. It runs all parts with a simulated program in place of every
program, and it runs the PyTorch code on the CPU if PyTorch has the required features (not with --skip-torch).
"""

import argparse
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback

import dry
import part_speed
import parts_correct
import parts_training
from context import Clock, Context, Programs
from measures import Unreadable, parse_json_lines
from reports import Page, Report
from running import Runner, last_lines

# The parts in execution order: (letter, title, function, share of the time). Parts that measure no time come before d,
# so that PyTorch can compile while they run; c is last because it uses all of the GPU memory.
PARTS = (
    ("a", "operations against the reference", parts_correct.operations, 20),
    ("b", "accuracy on real images", parts_training.accuracy, 10),
    ("f", "losses beside PyTorch", parts_correct.losses, 8),
    ("e", "two ranks on one GPU", parts_correct.two_ranks, 8),
    ("d", "speed beside PyTorch", part_speed.speed, 43),
    ("c", "the batch ladder", parts_training.ladder, 11),
)
TORCH_SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "bench" / "pytorch_gpu.py"
GPU_FIELDS = "name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit,temperature.gpu,utilization.gpu"


def parse_arguments():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--lockstep", required=True, help="the program")
    ask.add_argument("--data", required=True, help="folder with CIFAR-10's binary files")
    ask.add_argument("--out", required=True, type=pathlib.Path, help="folder for the page and the run files")
    ask.add_argument("--tests", nargs="*", default=[], help="GoogleTest programs of part a")
    ask.add_argument("--parts", default="abcdef", help="letters of the parts to run")
    ask.add_argument("--minutes", type=float, default=9.5, help="for everything")
    ask.add_argument("--batches", type=int, nargs="+", default=[512, 128, 2048], help="of part d, the first ones surest")
    ask.add_argument("--rounds", type=int, default=3, help="turns of every configuration of part d")
    ask.add_argument("--epochs", type=int, default=10, help="of part b")
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--loader-threads", type=int, default=8, help="of Lockstep in part d")
    ask.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none", help="how ranks are started")
    ask.add_argument("--compile-alone", action="store_true",
                     help="let PyTorch compile on a quiet GPU; takes minutes of part d")
    ask.add_argument("--dry-run", action="store_true", help="measure nothing")
    ask.add_argument("--skip-torch", action="store_true", help="in a dry run: do not run PyTorch's code on the CPU")
    args = ask.parse_args()
    unknown = set(args.parts) - {letter for letter, *_ in PARTS}
    if unknown or not args.parts:
        ask.error(f"--parts {args.parts}: the parts are abcdef")
    if args.minutes <= 0 or args.rounds < 1 or args.epochs < 1 or min(args.batches) < 1:
        ask.error("--minutes, --rounds, --epochs and --batches are positive")
    args.out = args.out.resolve()
    args.lockstep = str(pathlib.Path(args.lockstep).resolve()) if os.sep in args.lockstep else args.lockstep
    return args


def real_programs(args):
    sanitizer = shutil.which("compute-sanitizer")
    return Programs(lockstep=[args.lockstep], torch=[sys.executable, str(TORCH_SCRIPT)], mpirun=shlex.split(args.mpirun),
                    nvidia_smi=["nvidia-smi"], sanitizer=[sanitizer] if sanitizer else None,
                    tests=[[str(pathlib.Path(program).resolve())] for program in args.tests])


def describe_machine(context, report):
    """Returns device, driver and versions as rows of the table at the top; a failed query is a failure of `report`."""
    rows = [["host", f"{platform.node()}, {os.cpu_count()} processors, {platform.platform()}"]]
    smi = context.runner.run("head nvidia-smi", [*context.programs.nvidia_smi, f"--query-gpu={GPU_FIELDS}",
                                                 "--format=csv,noheader"], context.clock.limit(20))
    info = context.runner.run("head lockstep info", context.lockstep(
        "info", "--device", "cuda", "--write-device-description", context.path("device.txt"), "--json"),
        context.clock.limit(40))
    torch = context.runner.run("head torch versions", context.torch("versions"), context.clock.limit(60))
    for outcome in (smi, info, torch):
        report.checks += 1
        if not outcome.ok:
            report.fail_outcome(outcome)
    rows.append([f"GPU ({GPU_FIELDS})", "; ".join(smi.stdout.strip().splitlines()) if smi.ok else "not known"])
    versions = parse_json_lines(torch.stdout)
    lacks = versions.pop("missing", [])
    report.check(not lacks, f"head torch versions: PyTorch {versions.get('torch')} lacks {', '.join(lacks)}")
    rows.append(["PyTorch", ", ".join(f"{key} {value}" for key, value in versions.items()) or "not known"])
    try:
        answer = json.loads(info.stdout) if info.ok else {}
    except json.JSONDecodeError:
        answer = {}
        report.fail("head lockstep info: printed no JSON object")
    rows.append(["Lockstep", answer.get("build", "not known")])
    rows.append(["its devices", ", ".join(f"{k}: {v}" for k, v in answer.get("devices", {}).items()) or "not known"])
    rows += [["version", f"{key} {value}"] for key, value in answer.get("versions", {}).items()
             if key in ("mpi", "compiler", "hdf5_version", "cuda", "cudnn", "nccl", "driver", "git_commit")]
    return rows


def run_part(context, report, function):
    began = time.monotonic()
    context.clock.begin(report.letter)
    try:
        if context.clock.left < 2:
            report.cut(f"part {report.letter}", "no time was left")
        else:
            function(context, report)
    except Unreadable as error:
        report.fail(str(error))
    except Exception as error:  # an error in one part must not hide the results of the others
        report.fail(f"{report.letter}: this script failed: {type(error).__name__}: {error}",
                    last_lines(traceback.format_exc()))
    report.is_done, report.seconds = True, time.monotonic() - began


def start_background(context):
    """Starts PyTorch, whose startup is slow, in the background while the parts that measure no time run."""
    if "f" in context.args.parts:
        parts_correct.start_torch_losses(context)
    if "d" in context.args.parts and not context.args.compile_alone:
        part_speed.start_contenders(context)


def run_all(context, page):
    chosen = [part for part in PARTS if part[0] in context.args.parts]
    head = Report("0", "device and versions")
    reports = [head, *(Report(letter, title) for letter, title, *_ in chosen)]
    others = [Report(letter, title) for letter, title, *_ in PARTS if letter not in context.args.parts]
    for report in others:
        report.not_run(f"part {report.letter}", "not among --parts")
        report.is_done = True
    is_complete = False
    try:
        page.head = describe_machine(context, head)
        head.is_done, head.seconds = True, context.clock.seconds
        head.say("See the table at the top; what failed stands here.")
        start_background(context)
        page.write(reports, context.clock.seconds, False)
        for report, (_, _, function, _) in zip(reports[1:], chosen):
            print(f"{context.clock.seconds:5.0f} s  part {report.letter}: {report.title}", flush=True)
            run_part(context, report, function)
            print(f"{context.clock.seconds:5.0f} s  part {report.letter}: {report.verdict} {report.remarks}", flush=True)
            page.write(reports, context.clock.seconds, False)
        reports += others
        if context.args.dry_run:
            reports += dry.check_reality(context)
        is_complete = True
    finally:
        part_speed.stop_contenders(context)
        context.runner.stop_all()
        (page.path.parent / "acceptance.json").write_text(json.dumps(
            {"dry_run": context.args.dry_run, "numbers": context.numbers, "commands": [
                {"name": one.name, "command": one.command, "status": one.status, "seconds": one.seconds,
                 "timed_out": one.timed_out} for one in context.runner.outcomes]}, indent=1, default=str))
        page.write(reports, context.clock.seconds, is_complete)
    return reports


def main():
    args = parse_arguments()
    # Convert SIGTERM to an exception, so that the programs are ended and the report is written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONDONTWRITEBYTECODE": "1",
        # Three processes compile at the same time.
        "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "5")}
    shares = {"0": 5} | {letter: share for letter, _, _, share in PARTS if letter in args.parts}
    clock = Clock(args.minutes, shares)
    clock.begin("0")
    programs = dry.stand_ins(args) if args.dry_run else real_programs(args)
    page = Page(args.out / "acceptance.md", [sys.executable, *sys.argv], args.dry_run)
    with tempfile.TemporaryDirectory(prefix="lockstep-dry-run-") as synthetic:
        folder = pathlib.Path(synthetic) if args.dry_run else args.out
        (folder / "runs").mkdir(exist_ok=True)
        reports = run_all(Context(args, Runner(folder, environment), clock, programs, folder), page)
    failed = [report.letter for report in reports if report.failures]
    cut = [report.letter for report in reports if report.cuts]
    print(f"{page.path}: " + (f"FAILED: {', '.join(failed)}" if failed else "nothing failed")
          + (f"; cut: {', '.join(cut)}" if cut else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
