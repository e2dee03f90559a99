# SPDX-License-Identifier: BSD-3-Clause
"""Compares Lockstep with PyTorch DistributedDataParallel (gloo) over the same links; one rank with
one thread per host.

usage: compare_hosts.py LOCKSTEP [--hosts N] [--rate RATE] [--batch B] [--precision P]
[--gradient-dtype T] [--steps S]
                        [--rounds R]

LOCKSTEP is the path of the program. Run this script as root with a Python that has PyTorch and
h5py. tests/cluster/cluster emulates the hosts on this machine; the link of a host is its interface
eth0. Each round runs both programs once on synthetic images: `lockstep train` and
analysis/examples/pytorch_ddp.py. The throughput of a run is that of all hosts in images/s, without
the first two steps, from the run files of both. Prints a Markdown table: the median throughput of
each program over the rounds that were quiet (in_turn.py), and the median, minimum and maximum of
the ratio per round of Lockstep to PyTorch.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_ranks import images_per_second
from in_turn import in_turn, ratio_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTERFACE = "eth0"
PORT = "29500"
# Suppresses warnings about host names that cannot be resolved and about renamed functions of
# PyTorch.
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning"}


def cluster_script():
    """Returns the path of the program that emulates hosts. Exits with status 2 if this machine
    cannot emulate hosts."""
    script = str(pathlib.Path(__file__).resolve().parent.parent / "cluster" / "cluster")
    result = subprocess.run([script, "check"], capture_output=True, text=True)
    if result.returncode != 0:
        name = pathlib.Path(sys.argv[0]).stem
        print(f"{name}: {result.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return script


@contextlib.contextmanager
def cluster(script, hosts, rate):
    """Context manager that creates emulated hosts and removes them at the end."""
    try:
        subprocess.run([script, "up", str(hosts), rate], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        subprocess.run([script, "down"], check=True)


def lockstep_rate(args, script, folder):
    """Runs Lockstep once; returns its throughput in images/s."""
    output = pathlib.Path(folder) / "lockstep.h5"
    command = [
        script,
        "run",
        str(args.hosts),
        args.lockstep,
        "train",
        "--quiet",
        "--evaluate-every",
        "never",
    ]
    command += [
        "--data",
        f"synthetic:{args.batch * args.hosts * args.steps}",
        "--epochs",
        "1",
        "--threads",
        "1",
    ]
    command += ["--batch-per-rank", str(args.batch), "--precision", args.precision]
    command += ["--gradient-dtype", args.gradient_dtype, "--overwrite", "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return images_per_second(output)


def pytorch_rate(args, script, folder):
    """Runs PyTorch once; returns its throughput in images/s."""
    output = pathlib.Path(folder) / "pytorch.h5"
    output.unlink(missing_ok=True)
    address = subprocess.run(
        [script, "exec", "1", "hostname", "-I"], check=True, stdout=subprocess.PIPE, text=True
    )
    environment = {
        **os.environ,
        **QUIET,
        "MASTER_ADDR": address.stdout.split()[0],
        "MASTER_PORT": PORT,
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "WORLD_SIZE": str(args.hosts),
        "PYTHONPATH": str(ROOT / "analysis"),
    }
    options = {
        "--device": "cpu",
        "--threads": "1",
        "--data": f"synthetic:{args.batch * args.hosts * args.steps}",
        "--epochs": "1",
        "--output": str(output),
        "--batch-per-rank": str(args.batch),
        "--precision": args.precision,
        "--gradient-dtype": args.gradient_dtype,
    }
    program = str(ROOT / "analysis" / "examples" / "pytorch_ddp.py")
    run_on_hosts(script, [sys.executable, program, *sum(options.items(), ())], environment)
    return images_per_second(output)


def run_on_hosts(script, command, environment):
    """Runs one rank of PyTorch on each host."""
    ranks = []
    try:
        for rank in range(int(environment["WORLD_SIZE"])):
            on_host = [script, "exec", str(rank + 1), *command]
            variables = {**environment, "RANK": str(rank)}
            ranks.append(subprocess.Popen(on_host, env=variables, stdout=subprocess.DEVNULL))
        for process in ranks:
            process.wait()
    finally:
        for process in ranks:
            process.kill()
    if any(process.returncode for process in ranks):
        raise SystemExit("compare_hosts: PyTorch failed on a host")


def parsed_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lockstep", help="path of the program lockstep")
    parser.add_argument(
        "--hosts", type=int, default=2, help="number of emulated hosts [%(default)s]"
    )
    parser.add_argument("--rate", default="1gbit", help="rate of the links [%(default)s]")
    parser.add_argument(
        "--batch", type=int, default=32, help="images per rank and step [%(default)s]"
    )
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="fp32", help="precision [%(default)s]"
    )
    parser.add_argument(
        "--gradient-dtype",
        choices=["fp32", "bf16"],
        default="fp32",
        help="communication data type of the gradients [%(default)s]",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=10,
        help="steps per run, including two for warm-up [%(default)s]",
    )
    parser.add_argument("--rounds", type=int, default=6, help="quiet rounds [%(default)s]")
    return parser.parse_args()


def main():
    args = parsed_arguments()
    script = cluster_script()
    with tempfile.TemporaryDirectory() as folder, cluster(script, args.hosts, args.rate):
        rounds = in_turn(
            {
                "lockstep": lambda: lockstep_rate(args, script, folder),
                "pytorch": lambda: pytorch_rate(args, script, folder),
            },
            args.rounds,
        )
    lockstep, pytorch = rounds.values.values()
    print(
        "| hosts | link | batch | precision | gradients | Lockstep img/s | PyTorch DDP img/s |"
        " ratio (min - max) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {args.hosts} | {args.rate} | {args.batch} | {args.precision} | {args.gradient_dtype} "
        f"| {statistics.median(lockstep):.1f} | {statistics.median(pytorch):.1f} "
        f"| {ratio_text(lockstep, pytorch)} |"
    )
    print(f"\n{rounds.quiet_share}")


if __name__ == "__main__":
    main()
