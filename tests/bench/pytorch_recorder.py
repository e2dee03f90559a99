# SPDX-License-Identifier: BSD-3-Clause
"""Measures the overhead of lockstep_recorder.Recorder: steps of DistributedDataParallel with and
without it, in turn.

usage: mpirun -n RANKS pytorch_recorder.py [--model M] [--batch B] [--threads T] [--steps S]
[--rounds R]

Runs both variants in the same processes on random images, with the environment variable
PYTHONPATH=analysis. A round times S steps of each variant after a barrier. The recorded variant
then gathers and writes them, which is printed separately because it happens between epochs. Prints
the median, minimum and maximum of the ratio per round of the recorded to the plain steps, of their
time and of the processor time of rank 0, which other programs on the machine disturb less, and the
difference of the medians per step. The network `linear` computes almost nothing, so its difference
is the overhead of a step with one bucket.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from in_turn import ratio_text
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
from lockstep_recorder import Recorder  # noqa: E402
from pytorch_ddp import set_ranks  # noqa: E402
from pytorch_training import NETWORKS  # noqa: E402


def linear():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))


class Plain:
    """The interface of the recorder without a recorder."""

    def batches(self, loader):
        return loader

    def backward(self, loss):
        loss.backward()


class Variant(NamedTuple):
    """A network that is trained with or without a recorder."""

    recorder: object
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def train(self, batches):
        """Trains one epoch; returns its `Times`."""
        dist.barrier()
        start, used = time.perf_counter(), time.process_time()
        for images, labels in self.recorder.batches(batches):
            self.optimizer.zero_grad(set_to_none=True)
            self.recorder.backward(F.cross_entropy(self.model(images), labels))
            self.optimizer.step()
            end, used_until = time.perf_counter(), time.process_time()
        dist.barrier()
        return Times(end - start, used_until - used, time.perf_counter() - end)


class Times(NamedTuple):
    steps: float  # seconds of the steps of an epoch
    processor: float  # processor time of these
    writing: float  # seconds until the epoch is recorded


def make(network):
    """Returns a parallel model and its optimiser."""
    model = DistributedDataParallel(
        network().to(memory_format=torch.channels_last), broadcast_buffers=False
    )
    return model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


def parsed_arguments(networks):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", choices=networks, default="resnet18-cifar", help="network [%(default)s]"
    )
    parser.add_argument(
        "--batch", type=int, default=32, help="images per rank and step [%(default)s]"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads per rank [%(default)s]")
    parser.add_argument(
        "--steps", type=int, default=4, help="steps per round and variant [%(default)s]"
    )
    parser.add_argument("--rounds", type=int, default=20, help="rounds [%(default)s]")
    return parser.parse_args()


def measured(args, network, folder):
    """Trains both variants in turn; returns {variant: `Times` of the rounds}."""
    images = torch.rand(args.batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    batches = [(images, torch.randint(0, 10, (args.batch,)))] * args.steps
    plain = Variant(Plain(), *make(network))
    plain.train(batches)  # first steps
    model, optimizer = make(network)
    recorder = Recorder(f"{folder}/run.h5", model, network=args.model)
    recorded = Variant(recorder, model, optimizer)
    recorded.train(batches)
    variants = [("recorded", recorded), ("plain", plain)]
    rounds = {"plain": [], "recorded": []}
    for _ in range(args.rounds):
        for name, variant in variants:
            rounds[name].append(variant.train(batches))
        variants.reverse()  # for the next round
    recorder.close()
    return {name: Times(*zip(*times)) for name, times in rounds.items()}


def report(args, plain, recorded):
    """Prints the medians and ratios of the times of all rounds."""

    def difference(ours, theirs):
        """Returns the text of the difference per step in microseconds."""
        seconds = (statistics.median(ours) - statistics.median(theirs)) / args.steps
        return f"{1e6 * seconds:.0f} µs"

    step = 1e3 * statistics.median(plain.steps) / args.steps
    writing = 1e3 * statistics.median(recorded.writing)
    print(f"{dist.get_world_size()} ranks, batch {args.batch}: a step takes {step:.1f} ms")
    print(
        f"recorded / plain: time {ratio_text(recorded.steps, plain.steps, 4)},"
        f" processor time {ratio_text(recorded.processor, plain.processor, 4)}"
    )
    print(
        f"difference per step: {difference(recorded.steps, plain.steps)},"
        f" processor time {difference(recorded.processor, plain.processor)}"
    )
    print(f"an epoch of {args.steps} steps is recorded in {writing:.1f} ms")


def main():
    networks = NETWORKS | {"linear": linear}
    args = parsed_arguments(networks)
    torch.set_num_threads(args.threads)
    set_ranks()
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        times = measured(args, networks[args.model], folder)
    if dist.get_rank() == 0:
        report(args, **times)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
