"""Measures weak scaling over emulated hosts with links of given rates, and writes tables and figures.

usage: weak_scaling.py LOCKSTEP --output FOLDER [--hosts N ...] [--rates RATE ...] [--batch B] [--precision P]
                       [--steps S]

LOCKSTEP is the path of the program. Run this script as root with a Python that has h5py and matplotlib.
tests/cluster/cluster emulates the hosts on this machine. For each rate, number of hosts, reducer and gradient data
type, Lockstep trains on synthetic images with one rank and 1 thread per host (a single host runs without emulation) and
writes FOLDER/RATE-HOSTS-REDUCER-GRADIENTS.h5. For each rate and gradient data type, lockstep-report writes
FOLDER/RATE-GRADIENTS/report.md with tables and figures. Prints a Markdown table: the throughput of all hosts in
images/s without the first two steps, and the efficiency relative to 1 host with the same reducer.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

from compare_hosts import cluster, cluster_script
from compare_ranks import images_per_second

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis"
REDUCERS = ["none", "allreduce", "overlap"]
GRADIENTS = ["fp32", "bf16"]


def gigabits(rate):
    """Converts a rate such as "200mbit" to Gbit/s (0.2)."""
    match = re.fullmatch(r"([0-9.]+)([mg])bit", rate)
    if not match:
        raise argparse.ArgumentTypeError(f"{rate}: must be a rate such as 1gbit or 200mbit")
    return float(match[1]) / (1000 if match[2] == "m" else 1)


def valid_rate(rate):
    """Returns the argument if `gigabits` can convert it."""
    gigabits(rate)
    return rate


def run_file(args, rate, hosts, reducer, gradients):
    return args.output / f"{rate}-{hosts}-{reducer}-{gradients}.h5"


def train(args, launcher, rate, hosts, reducer, gradients):
    # All runs have the same number of images, because lockstep-report compares only runs on the same data.
    images = args.batch * max(args.hosts) * args.steps
    command = [*launcher, args.lockstep, "train", "--quiet", "--data", f"synthetic:{images}", "--threads", "1"]
    command += ["--steps", str(args.steps), "--evaluate-every", "never"]
    command += ["--batch-per-rank", str(args.batch), "--precision", args.precision]
    command += ["--reducer", reducer, "--gradient-dtype", gradients]
    command += ["--link-gbit", f"{gigabits(rate):g}", "--overwrite"]
    command += ["--output", str(run_file(args, rate, hosts, reducer, gradients))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def train_all(args, launcher, rate, hosts):
    for gradients in GRADIENTS:
        for reducer in REDUCERS:
            train(args, launcher, rate, hosts, reducer, gradients)


def write_report(args, rate, gradients):
    """Writes the tables and figures of one rate and gradient data type."""
    runs = [str(run_file(args, rate, hosts, reducer, gradients)) for hosts in args.hosts for reducer in REDUCERS]
    folder = args.output / f"{rate}-{gradients}"
    command = [sys.executable, "-m", "lockstep_report", "report", *runs, "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ANALYSIS)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{folder / 'report.md'}: tables and figures, {rate} links, {gradients} gradients")


def print_table(args):
    print("\n| link | gradients | reducer | hosts | img/s of all hosts | efficiency |")
    print("|---|---|---|---|---|---|")
    for rate in args.rates:
        for gradients in GRADIENTS:
            for reducer in REDUCERS:
                rates = {n: images_per_second(run_file(args, rate, n, reducer, gradients)) for n in args.hosts}
                for hosts, value in rates.items():
                    efficiency = f"{value / hosts / rates[1]:.3f}" if 1 in rates else "-"
                    print(f"| {rate} | {gradients} | {reducer} | {hosts} | {value:.1f} | {efficiency} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep", help="path of the program lockstep")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER",
                        help="folder of the run files and the reports")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 4], help="numbers of hosts [1 2 4]")
    parser.add_argument("--rates", type=valid_rate, nargs="+", default=["1gbit", "10gbit"],
                        help="rates of the links [1gbit 10gbit]")
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step [%(default)s]")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="precision [%(default)s]")
    parser.add_argument("--steps", type=int, default=10, help="steps per run, including two for warm-up [%(default)s]")
    args = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("the reports at the end need the Python package matplotlib")
    script = cluster_script()
    args.output.mkdir(parents=True, exist_ok=True)
    for rate in args.rates:
        for hosts in args.hosts:
            if hosts == 1:
                train_all(args, [], rate, hosts)
            else:
                with cluster(script, hosts, rate):
                    train_all(args, [script, "run", str(hosts)], rate, hosts)
    for rate in args.rates:
        for gradients in GRADIENTS:
            write_report(args, rate, gradients)
    print_table(args)


if __name__ == "__main__":
    main()
