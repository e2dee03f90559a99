# SPDX-License-Identifier: BSD-3-Clause
"""Compares the training step of two builds of step_bench, for example before and after a change, or
with different options.

usage: compare_builds.py BEFORE AFTER [--rounds R] [options of step_bench]
       compare_builds.py "step_bench --threads 1" "step_bench --threads 2" [--rounds R] [options of
       step_bench]

Both programs run alternately and stay loaded. Prints the median throughput of each in images/s over
the rounds that were quiet (in_turn.py), and the median, minimum and maximum of the ratio per round
of AFTER to BEFORE.
"""

import argparse
import shlex
import statistics

from compare_pytorch import BenchmarkProcess
from in_turn import in_turn, ratio_text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "before", help="first program, optionally with options; quote a path with spaces twice"
    )
    parser.add_argument("after", help="second program, likewise")
    parser.add_argument("--rounds", type=int, default=5, help="quiet rounds [%(default)s]")
    args, options = parser.parse_known_args()
    processes = [
        BenchmarkProcess([*shlex.split(program), *options, "--rounds", "0"])
        for program in (args.before, args.after)
    ]
    rounds = in_turn(
        dict(zip(("before", "after"), (process.run_round for process in processes))), args.rounds
    )
    for process in processes:
        process.stop()
    before, after = rounds.values.values()
    print(
        f"before {statistics.median(before):.1f}, after {statistics.median(after):.1f} img/s, "
        f"ratio {ratio_text(after, before, 3)}; {rounds.quiet_share}"
    )


if __name__ == "__main__":
    main()
