"""Compares the training step of Lockstep with that of PyTorch (eager and torch.compile) on this machine.

usage: compare_pytorch.py STEP_BENCH [--model M] [--batch B ...] [--precision P ...] [--threads T] [--steps S] [--rounds R]

STEP_BENCH is the path of the program step_bench in the build directory. Run this script with a Python that has PyTorch.
All programs stay loaded and take turns (A B C A B C ...), so that drifts of the machine's speed affect all of them
equally. Prints a Markdown table: the median throughput of each program over the rounds, and the median ratio, per
round, of Lockstep to the better of PyTorch eager and torch.compile.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys


class Contender:
    """A benchmark process that runs one round for each line on its standard input."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read_until_ready()

    def read_until_ready(self):
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise SystemExit("compare_pytorch: a program ended before it was ready")

    def round(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["images_per_second"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, batch, precision):
    common = ["--model", args.model, "--batch", str(batch), "--precision", precision]
    common += ["--threads", str(args.threads), "--steps", str(args.steps)]
    script = str(pathlib.Path(__file__).resolve().parent / "pytorch_step.py")
    commands = {
        "lockstep": [args.step_bench, *common, "--rounds", "0"],
        "eager": [sys.executable, script, *common],
        "compile": [sys.executable, script, *common, "--compile"],
    }
    contenders = {name: Contender(command) for name, command in commands.items()}
    rates = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, contender in contenders.items():
            rates[name].append(contender.round())
    for contender in contenders.values():
        contender.stop()
    return rates


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("step_bench")
    ask.add_argument("--model", default="resnet18-cifar", help="resnet18-cifar or vgg11")
    ask.add_argument("--batch", type=int, nargs="+", default=[32, 128])
    ask.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    ask.add_argument("--threads", type=int, default=1)
    ask.add_argument("--steps", type=int, default=2)
    ask.add_argument("--rounds", type=int, default=6)
    args = ask.parse_args()
    print("| batch | precision | Lockstep img/s | PyTorch eager | torch.compile | ratio to the better (min - max) |")
    print("|---|---|---|---|---|---|", flush=True)
    for batch in args.batch:
        for precision in args.precision:
            rates = measure(args, batch, precision)
            ratios = [mine / max(eager, compiled) for mine, eager, compiled in zip(*rates.values())]
            medians = [statistics.median(values) for values in rates.values()]
            print(
                f"| {batch} | {precision} | {medians[0]:.1f} | {medians[1]:.1f} | {medians[2]:.1f} "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
