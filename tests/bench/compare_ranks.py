"""Measures the cost of gradient all-reduce: N communicating ranks compared with N independent ranks on this machine.

usage: compare_ranks.py LOCKSTEP [--ranks N] [--batch B] [--precision P] [--gradient-dtype T] [--steps S] [--rounds R]

LOCKSTEP is the path of the program. Each round runs `--reducer none` (independent replicas), `overlap` and `allreduce`
once with mpirun on synthetic images. The throughput of a run in images/s excludes its first two steps; the time of a
step is the maximum over ranks. Prints a Markdown table with medians over the rounds and the ratio to the independent
ranks of the same round.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

import h5py

WARM_UP = 2
ROOT_MAY_RUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def images_per_second(path):
    with h5py.File(path) as file:
        seconds = file["steps/phase_seconds"][WARM_UP:].sum(axis=2).max(axis=1)
        return file["steps/images"][WARM_UP:].sum() / seconds.sum()


def run(args, reducer, folder):
    output = pathlib.Path(folder) / f"{reducer}.h5"
    images = args.batch * args.ranks * args.steps
    command = ["mpirun", "--bind-to", "none", "-n", str(args.ranks), args.lockstep, "train", "--quiet"]
    command += ["--data", f"synthetic:{images}", "--test-samples", str(args.ranks), "--epochs", "1"]
    command += ["--batch-per-rank", str(args.batch), "--precision", args.precision, "--threads", "1"]
    command += ["--gradient-dtype", args.gradient_dtype, "--reducer", reducer, "--overwrite", "--output", str(output)]
    subprocess.run(command, check=True, env={**os.environ, **ROOT_MAY_RUN}, stdout=subprocess.DEVNULL)
    return images_per_second(output)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("lockstep")
    ask.add_argument("--ranks", type=int, default=2)
    ask.add_argument("--batch", type=int, default=32)
    ask.add_argument("--precision", default="fp32")
    ask.add_argument("--gradient-dtype", default="fp32")
    ask.add_argument("--steps", type=int, default=10)
    ask.add_argument("--rounds", type=int, default=6)
    args = ask.parse_args()
    rates = {"none": [], "overlap": [], "allreduce": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for reducer, values in rates.items():
                values.append(run(args, reducer, folder))
    print("| reducer | img/s of all ranks | ratio to independent ranks (min - max) |")
    print("|---|---|---|")
    for reducer, values in rates.items():
        ratios = [mine / free for mine, free in zip(values, rates["none"])]
        print(
            f"| {reducer} | {statistics.median(values):.1f} "
            f"| {statistics.median(ratios):.3f} ({min(ratios):.3f} - {max(ratios):.3f}) |"
        )


if __name__ == "__main__":
    main()
