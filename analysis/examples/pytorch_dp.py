# SPDX-License-Identifier: BSD-3-Clause
"""Trains ResNet-18 on CIFAR-10 with DataParallel, one process for all GPUs of this machine, and
records the run.

    PYTHONPATH=analysis python3 analysis/examples/pytorch_dp.py --data cifar10:DIR --output run.h5

Without a GPU, the network is trained by the processors. `--batch-per-rank` is the batch of all GPUs
together.
"""

import torch
from pytorch_training import options, train


def main():
    args = options(__doc__)
    train(args, torch.device(args.device), torch.nn.DataParallel)


if __name__ == "__main__":
    main()
