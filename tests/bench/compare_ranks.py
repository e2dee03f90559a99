# SPDX-License-Identifier: BSD-3-Clause
"""Measures the cost of the gradient all-reduce: compares N communicating ranks with N independent
ranks on this machine.

usage: compare_ranks.py LOCKSTEP [--ranks N] [--batch B] [--precision P] [--gradient-dtype T]
[--steps S] [--rounds R]

LOCKSTEP is the path of the program. Each round runs `--reducer none` (independent replicas),
`overlap` and `allreduce` once with mpirun on synthetic images. The throughput of a run in images/s
excludes its first two steps; the time of a step is the maximum over ranks. Prints a Markdown table:
the median throughput of each reducer over the rounds that were quiet (in_turn.py), and the median,
minimum and maximum of the ratio per round to the independent ranks.
"""

import argparse
import functools
import os
import pathlib
import statistics
import subprocess
import tempfile

import h5py
from in_turn import in_turn, ratio_text

REDUCERS = ("none", "overlap", "allreduce")
WARM_UP_STEPS = 2
ALLOW_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def images_per_second(path):
    """Returns the throughput of all ranks of a run file in images/s."""
    with h5py.File(path) as file:
        seconds = file["steps/phase_seconds"][WARM_UP_STEPS:].sum(axis=2).max(axis=1)
        return file["steps/images"][WARM_UP_STEPS:].sum() / seconds.sum()


def run(args, reducer, folder):
    """Trains once with `reducer`; returns the throughput of all ranks in images/s."""
    output = pathlib.Path(folder) / f"{reducer}.h5"
    images = args.batch * args.ranks * args.steps
    command = [
        "mpirun",
        "--bind-to",
        "none",
        "-n",
        str(args.ranks),
        args.lockstep,
        "train",
        "--quiet",
    ]
    command += ["--data", f"synthetic:{images}", "--test-samples", str(args.ranks), "--epochs", "1"]
    command += [
        "--batch-per-rank",
        str(args.batch),
        "--precision",
        args.precision,
        "--threads",
        "1",
    ]
    command += [
        "--gradient-dtype",
        args.gradient_dtype,
        "--reducer",
        reducer,
        "--overwrite",
        "--output",
        str(output),
    ]
    subprocess.run(command, check=True, env={**os.environ, **ALLOW_ROOT}, stdout=subprocess.DEVNULL)
    return images_per_second(output)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lockstep", help="path of the program lockstep")
    parser.add_argument("--ranks", type=int, default=2, help="number of ranks [%(default)s]")
    parser.add_argument(
        "--batch", type=int, default=32, help="images per rank and step [%(default)s]"
    )
    parser.add_argument("--precision", default="fp32", help="precision [%(default)s]")
    parser.add_argument(
        "--gradient-dtype",
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
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = in_turn(
            {reducer: functools.partial(run, args, reducer, folder) for reducer in REDUCERS},
            args.rounds,
        )
    print("| reducer | img/s of all ranks | ratio to independent ranks (min - max) |")
    print("|---|---|---|")
    for reducer, values in rounds.values.items():
        print(
            f"| {reducer} | {statistics.median(values):.1f} |"
            f" {ratio_text(values, rounds.values['none'], 3)} |"
        )
    print(f"\n{rounds.quiet_share}")


if __name__ == "__main__":
    main()
