"""Compares Lockstep with PyTorch DistributedDataParallel (gloo) over the same links: one rank with 1 thread per host.

usage: compare_hosts.py LOCKSTEP [--hosts N] [--rate RATE] [--batch B] [--precision P] [--gradient-dtype T] [--steps S]
                        [--rounds R]

LOCKSTEP is the path of the program. Run this script as root with a Python that has PyTorch and h5py.
tests/cluster/cluster emulates the hosts on this machine; the link of a host is its interface eth0. Each round runs both
programs once on synthetic images. The throughput of a run is that of all hosts in images/s, without the first two
steps. Prints a Markdown table with medians over the rounds and the ratio of the two throughputs of the same round.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_ranks import images_per_second

INTERFACE = "eth0"
PORT = "29500"
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning"}  # no warnings on DNS and renames


def cluster_script():
    """Returns the path of the program that emulates hosts; exits with status 2 if this machine cannot emulate them."""
    script = str(pathlib.Path(__file__).resolve().parent.parent / "cluster" / "cluster")
    answer = subprocess.run([script, "check"], capture_output=True, text=True)
    if answer.returncode != 0:
        name = pathlib.Path(sys.argv[0]).stem
        print(f"{name}: {answer.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return script


@contextlib.contextmanager
def cluster(script, hosts, rate):
    try:
        subprocess.run([script, "up", str(hosts), rate], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        subprocess.run([script, "down"], check=True)


def lockstep(args, script, folder):
    output = pathlib.Path(folder) / "lockstep.h5"
    command = [script, "run", str(args.hosts), args.lockstep, "train", "--quiet", "--evaluate-every", "never"]
    command += ["--data", f"synthetic:{args.batch * args.hosts * args.steps}", "--epochs", "1", "--threads", "1"]
    command += ["--batch-per-rank", str(args.batch), "--precision", args.precision]
    command += ["--gradient-dtype", args.gradient_dtype, "--overwrite", "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return images_per_second(output)


def pytorch(args, script):
    address = subprocess.run([script, "exec", "1", "hostname", "-I"], check=True, stdout=subprocess.PIPE, text=True)
    environment = {**os.environ, "MASTER_ADDR": address.stdout.split()[0], "MASTER_PORT": PORT}
    environment |= {"GLOO_SOCKET_IFNAME": INTERFACE, "WORLD_SIZE": str(args.hosts), "OMP_NUM_THREADS": "1"}
    environment |= QUIET
    command = [sys.executable, str(pathlib.Path(__file__).resolve().parent / "pytorch_ddp.py")]
    command += ["--batch", str(args.batch), "--precision", args.precision, "--gradient-dtype", args.gradient_dtype]
    command += ["--threads", "1", "--steps", str(args.steps)]
    ranks = []
    try:
        for rank in range(args.hosts):
            on_host = [script, "exec", str(rank + 1), *command]
            rank_of = {**environment, "RANK": str(rank)}
            ranks.append(subprocess.Popen(on_host, env=rank_of, stdout=subprocess.PIPE, text=True))
        lines = [process.communicate()[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    if any(process.returncode for process in ranks):
        raise SystemExit("compare_hosts: PyTorch failed on a host")
    return json.loads(lines[0])["images_per_second"]


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("lockstep")
    ask.add_argument("--hosts", type=int, default=2)
    ask.add_argument("--rate", default="1gbit")
    ask.add_argument("--batch", type=int, default=32)
    ask.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ask.add_argument("--gradient-dtype", choices=["fp32", "bf16"], default="fp32")
    ask.add_argument("--steps", type=int, default=10)
    ask.add_argument("--rounds", type=int, default=6)
    args = ask.parse_args()
    script = cluster_script()
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as folder, cluster(script, args.hosts, args.rate):
        for _ in range(args.rounds):
            mine.append(lockstep(args, script, folder))
            theirs.append(pytorch(args, script))
    ratios = [lockstep_rate / pytorch_rate for lockstep_rate, pytorch_rate in zip(mine, theirs)]
    print("| hosts | link | batch | precision | gradients | Lockstep img/s | PyTorch DDP | ratio (min - max) |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {args.hosts} | {args.rate} | {args.batch} | {args.precision} | {args.gradient_dtype} "
        f"| {statistics.median(mine):.1f} | {statistics.median(theirs):.1f} "
        f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}) |"
    )


if __name__ == "__main__":
    main()
