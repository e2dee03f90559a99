# SPDX-License-Identifier: BSD-3-Clause
"""Compares the training step of Lockstep with that of PyTorch (eager and torch.compile) on this
machine.

usage: compare_pytorch.py STEP_BENCH [--model M] [--batch B ...] [--precision P ...] [--threads T]
[--steps S]
                          [--rounds R]

STEP_BENCH is the path of the program step_bench in the build directory. Run this script with a
Python that has PyTorch. The programs run alternately (A B C A B C ...) and stay loaded, so that a
drift of the machine's speed affects all of them equally. Prints a Markdown table: the median
throughput of each program over the rounds that were quiet (in_turn.py), and the median, minimum and
maximum of the ratio per round of Lockstep to the faster of PyTorch eager and torch.compile.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from in_turn import in_turn, ratio_text


class BenchmarkProcess:
    """A benchmark program that runs one round for each line on its standard input."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not any(line.strip() == "ready" for line in self.process.stdout):
            raise SystemExit(f"compare_pytorch: {command[0]} ended before it was ready")

    def run_round(self):
        """Runs one round; returns its throughput in images/s."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["images_per_second"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, batch, precision):
    """Returns the `Rounds` with images/s of each program."""
    common = ["--model", args.model, "--batch", str(batch), "--precision", precision]
    common += ["--threads", str(args.threads), "--steps", str(args.steps)]
    script = str(pathlib.Path(__file__).resolve().parent / "pytorch_step.py")
    commands = {
        "lockstep": [args.step_bench, *common, "--rounds", "0"],
        "eager": [sys.executable, script, *common],
        "compile": [sys.executable, script, *common, "--compile"],
    }
    processes = {name: BenchmarkProcess(command) for name, command in commands.items()}
    rounds = in_turn({name: process.run_round for name, process in processes.items()}, args.rounds)
    for process in processes.values():
        process.stop()
    return rounds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step_bench", help="path of the program step_bench")
    parser.add_argument(
        "--model", default="resnet18-cifar", help="network: resnet18-cifar, vgg11 [%(default)s]"
    )
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[32, 128], help="batch sizes to compare [32 128]"
    )
    parser.add_argument(
        "--precision", nargs="+", default=["fp32", "bf16"], help="precisions to compare [fp32 bf16]"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of each program [%(default)s]"
    )
    parser.add_argument("--steps", type=int, default=2, help="steps per round [%(default)s]")
    parser.add_argument(
        "--rounds", type=int, default=6, help="quiet rounds of each program [%(default)s]"
    )
    args = parser.parse_args()
    print(
        "| batch | precision | Lockstep img/s | PyTorch eager img/s | torch.compile img/s "
        "| ratio to the faster (min - max) | quiet |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for batch in args.batch:
        for precision in args.precision:
            rounds = measure(args, batch, precision)
            ours, eager, compiled = rounds.values.values()
            medians = [statistics.median(values) for values in (ours, eager, compiled)]
            print(
                f"| {batch} | {precision} | {medians[0]:.1f} | {medians[1]:.1f} | {medians[2]:.1f}"
                f" | {ratio_text(ours, map(max, eager, compiled))} | {rounds.quiet} of"
                f" {rounds.total} rounds |",
                flush=True,
            )


if __name__ == "__main__":
    main()
