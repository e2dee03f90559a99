"""Evaluates a Lockstep checkpoint with ResNet18 in PyTorch, for comparison with `lockstep evaluate`.

usage: evaluate_checkpoint.py CHECKPOINT.h5 DATA [--test-samples N]
"""

import argparse

import torch

import cifar10
from accuracy import evaluate
from networks import ResNet18, load_checkpoint


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("checkpoint")
    ask.add_argument("data")
    ask.add_argument("--test-samples", type=int)
    args = ask.parse_args()
    torch.set_num_threads(1)
    network = ResNet18().to(memory_format=torch.channels_last)
    load_checkpoint(network, args.checkpoint)
    loss, accuracy = evaluate(network, *cifar10.read(args.data, "test", args.test_samples))
    print(f"test loss {loss:.6f}, accuracy {100 * accuracy:.2f} %")


if __name__ == "__main__":
    main()
