"""GPU acceptance test: checks correctness, accuracy, memory use and throughput of Lockstep on this GPU.

usage: acceptance.py --lockstep PROGRAM --data DIR --out DIR [--tests PROGRAM ...] [--minutes 9.5] [--parts abcdef]

Writes DIR/acceptance.md (the report), DIR/acceptance.json (raw numbers), DIR/runs (run files) and DIR/logs (command
line and output of every program). Exit status: 0 if no part failed, 1 if a part failed, 2 if the arguments are invalid.
Needs one GPU and a Python with PyTorch, h5py and NumPy. A part skips measurements that would exceed its share of
--minutes; the report lists them as SKIPPED. The parts run in this order:

  a  operations compared with the reference implementation (the GoogleTest programs of --tests); compute-sanitizer
  b  test accuracy on CIFAR-10 in bf16 and fp16, compared with PyTorch
  f  losses of 20 steps, compared with PyTorch from the same initial weights
  e  two ranks that share the GPU compared with one rank, with the transports nccl and staged
  d  throughput in images per second, compared with PyTorch and with the roofline bound
  c  batch ladder: batch sizes up to the memory limit

--dry-run needs no GPU and measures nothing. It checks that the programs and images exist and that `lockstep --help`
lists every option and value that the test would use. It runs all parts with a stub of every program, and it runs the
PyTorch code on the CPU if PyTorch has the required features (not with --skip-torch).
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

import dry_run
import part_throughput
import parts_correct
import parts_training
from context import Clock, Context, Programs
from measures import Unreadable, parse_json_lines
from reports import NO_TIME, Page, Report
from running import Runner, last_lines

# The parts in execution order: (letter, title, function, share of the time). PyTorch compiles while the parts before d
# run, because they measure no time. Part c is last, because it uses all of the GPU memory.
PARTS = (
    ("a", "operations compared with the reference implementation", parts_correct.operations, 20),
    ("b", "test accuracy on CIFAR-10", parts_training.accuracy, 10),
    ("f", "losses compared with PyTorch", parts_correct.losses, 8),
    ("e", "two ranks on one GPU", parts_correct.two_ranks, 8),
    ("d", "throughput compared with PyTorch", part_throughput.throughput, 43),
    ("c", "batch ladder", parts_training.ladder, 11),
)
TORCH_SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "bench" / "pytorch_gpu.py"
GPU_FIELDS = "name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit,temperature.gpu,utilization.gpu"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", required=True, metavar="PROGRAM", help="path of the program lockstep")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the CIFAR-10 binary files")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR",
                        help="folder for the report, the run files and the logs")
    parser.add_argument("--tests", nargs="*", default=[], metavar="PROGRAM", help="GoogleTest programs that part a runs")
    parser.add_argument("--parts", default="abcdef", metavar="LETTERS", help="parts to run [%(default)s]")
    parser.add_argument("--minutes", type=float, default=9.5, help="time limit of the whole test [%(default)s]")
    parser.add_argument("--batches", type=int, nargs="+", default=[512, 128, 2048], metavar="B",
                        help="batch sizes of part d; if time is short, the last ones are skipped [512 128 2048]")
    parser.add_argument("--rounds", type=int, default=3,
                        help="measurements of each configuration in part d [%(default)s]")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of each run in part b [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="seed of Lockstep and PyTorch [%(default)s]")
    parser.add_argument("--loader-threads", type=int, default=8, metavar="N",
                        help="data-loading threads of Lockstep in part d [%(default)s]")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --bind-to none", metavar="COMMAND",
                        help="command that starts ranks [%(default)s]")
    parser.add_argument("--compile-alone", action="store_true",
                        help="compile the PyTorch variants one after another in part d, while no other program uses the "
                             "GPU; takes minutes")
    parser.add_argument("--dry-run", action="store_true", help="run the parts with stubs of all programs; needs no GPU")
    parser.add_argument("--skip-torch", action="store_true", help="omit the PyTorch code on the CPU from the dry run")
    args = parser.parse_args()
    unknown = set(args.parts) - {letter for letter, *_ in PARTS}
    if unknown or not args.parts:
        parser.error(f"--parts {args.parts}: the value must consist of the letters abcdef")
    if args.minutes <= 0 or args.rounds < 1 or args.epochs < 1 or min(args.batches) < 1:
        parser.error("--minutes, --rounds, --epochs and --batches must be positive")
    args.out = args.out.resolve()
    args.lockstep = str(pathlib.Path(args.lockstep).resolve()) if os.sep in args.lockstep else args.lockstep
    return args


def installed_programs(args):
    """Returns the commands of the programs that are tested and of the tools on the PATH."""
    sanitizer = shutil.which("compute-sanitizer")
    return Programs(lockstep=[args.lockstep], torch=[sys.executable, str(TORCH_SCRIPT)], mpirun=shlex.split(args.mpirun),
                    nvidia_smi=["nvidia-smi"], sanitizer=[sanitizer] if sanitizer else None,
                    tests=[[str(pathlib.Path(program).resolve())] for program in args.tests])


def describe_machine(context, report):
    """Returns the device, the driver and the versions as rows of a table. Records a failure in `report` if a program
    that prints them fails."""
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
    rows.append([f"GPU ({GPU_FIELDS})", "; ".join(smi.stdout.strip().splitlines()) if smi.ok else "unknown"])
    versions = parse_json_lines(torch.stdout)
    missing = versions.pop("missing", [])
    report.check(not missing, f"head torch versions: PyTorch {versions.get('torch')} lacks {', '.join(missing)}")
    rows.append(["PyTorch", ", ".join(f"{key} {value}" for key, value in versions.items()) or "unknown"])
    try:
        description = json.loads(info.stdout) if info.ok else {}
    except json.JSONDecodeError:
        description = {}
        report.fail("head lockstep info: the program printed no JSON object")
    rows.append(["Lockstep", description.get("build", "unknown")])
    devices = ", ".join(f"{name}: {text}" for name, text in description.get("devices", {}).items())
    rows.append(["devices of Lockstep", devices or "unknown"])
    rows += [["version", f"{key} {value}"] for key, value in description.get("versions", {}).items()
             if key in ("mpi", "compiler", "hdf5_version", "cuda", "cudnn", "nccl", "driver", "git_commit")]
    return rows


def run_part(context, report, function):
    """Runs one part. Any exception becomes a failure of this part, so that the other parts still run."""
    start = time.monotonic()
    context.clock.begin(report.letter)
    try:
        if context.clock.left < 2:
            report.skip(f"part {report.letter}", NO_TIME)
        else:
            function(context, report)
    except Unreadable as error:
        report.fail(str(error))
    except Exception as error:
        report.fail(f"{report.letter}: the acceptance test failed: {type(error).__name__}: {error}",
                    last_lines(traceback.format_exc()))
    report.is_done, report.seconds = True, time.monotonic() - start


def start_background(context):
    """Starts the PyTorch programs of parts d and f in the background, because they start and compile slowly."""
    if "f" in context.args.parts:
        parts_correct.start_torch_losses(context)
    if "d" in context.args.parts and not context.args.compile_alone:
        part_throughput.start_processes(context)


def run_parts(context, page):
    """Runs the selected parts and writes the report after each of them. Returns the reports of all parts."""
    selected = [part for part in PARTS if part[0] in context.args.parts]
    head = Report("0", "device and versions")
    reports = [head, *(Report(letter, title) for letter, title, *_ in selected)]
    unselected = [Report(letter, title) for letter, title, *_ in PARTS if letter not in context.args.parts]
    for report in unselected:
        report.not_run(f"part {report.letter}", "--parts does not select it")
        report.is_done = True
    is_complete = False
    try:
        page.head = describe_machine(context, head)
        head.is_done, head.seconds = True, context.clock.seconds
        head.add_text("The table at the top of this report lists the device and the versions.")
        start_background(context)
        page.write(reports, context.clock.seconds, False)
        for report, (_, _, function, _) in zip(reports[1:], selected):
            print(f"{context.clock.seconds:5.0f} s  part {report.letter}: {report.title}", flush=True)
            run_part(context, report, function)
            print(f"{context.clock.seconds:5.0f} s  part {report.letter}: {report.verdict} {report.remarks}", flush=True)
            page.write(reports, context.clock.seconds, False)
        reports += unselected
        if context.args.dry_run:
            reports += dry_run.check_installation(context)
        is_complete = True
    finally:
        part_throughput.stop_processes(context)
        context.runner.stop_all()
        write_numbers(context, page.path.parent / "acceptance.json")
        page.write(reports, context.clock.seconds, is_complete)
    return reports


def write_numbers(context, path):
    """Writes the raw results and the outcomes of all commands as JSON."""
    commands = [{"name": outcome.name, "command": outcome.command, "status": outcome.status,
                 "seconds": outcome.seconds, "timed_out": outcome.timed_out} for outcome in context.runner.outcomes]
    content = {"dry_run": context.args.dry_run, "numbers": context.numbers, "commands": commands}
    path.write_text(json.dumps(content, indent=1, default=str))


def main():
    args = parse_arguments()
    # SIGTERM raises SystemExit, so that this script ends its programs and writes the report.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONDONTWRITEBYTECODE": "1",
        # Up to three PyTorch processes compile at the same time and share the cores.
        "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "5")}
    shares = {"0": 5} | {letter: share for letter, _, _, share in PARTS if letter in args.parts}
    clock = Clock(args.minutes, shares)
    clock.begin("0")
    programs = dry_run.stub_programs(args) if args.dry_run else installed_programs(args)
    page = Page(args.out / "acceptance.md", [sys.executable, *sys.argv], args.dry_run)
    with tempfile.TemporaryDirectory(prefix="lockstep-dry-run-") as temporary:
        folder = pathlib.Path(temporary) if args.dry_run else args.out
        (folder / "runs").mkdir(exist_ok=True)
        reports = run_parts(Context(args, Runner(folder, environment), clock, programs, folder), page)
    failed = [report.letter for report in reports if report.failures]
    skipped = [report.letter for report in reports if report.skipped]
    print(f"{page.path}: " + (f"FAILED: {', '.join(failed)}" if failed else "no part failed")
          + (f"; skipped measurements in: {', '.join(skipped)}" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
