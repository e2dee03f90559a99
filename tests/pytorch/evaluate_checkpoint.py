# SPDX-License-Identifier: BSD-3-Clause
"""Computes the test accuracy of a Lockstep checkpoint with ResNet18 in PyTorch, for comparison with
`lockstep evaluate`.

usage: evaluate_checkpoint.py CHECKPOINT.h5 DATA [--test-samples N]
"""

import argparse
import pathlib
import sys

import torch

sys.path[:0] = [
    str(pathlib.Path(__file__).parents[2] / "analysis" / folder) for folder in ("examples", "")
]
import cifar10  # noqa: E402
from networks import ResNet18, load_checkpoint  # noqa: E402
from pytorch_training import evaluate  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", help="checkpoint or --init-from file of Lockstep")
    parser.add_argument("data", help="folder of the CIFAR-10 binary files")
    parser.add_argument(
        "--test-samples", type=int, metavar="N", help="use the first N test images [all]"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    network = ResNet18().to(memory_format=torch.channels_last)
    load_checkpoint(network, args.checkpoint)
    accuracy, loss = evaluate(network, *cifar10.read(args.data, "test", args.test_samples))
    print(f"test loss {loss:.6f}, accuracy {100 * accuracy:.2f} %")


if __name__ == "__main__":
    main()
