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


def main():
    networks = NETWORKS | {"linear": linear}
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
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    set_ranks()
    dist.init_process_group("gloo")
    batch = (
        torch.rand(args.batch, 3, 32, 32).contiguous(memory_format=torch.channels_last),
        torch.randint(0, 10, (args.batch,)),
    )

    def make():
        model = DistributedDataParallel(
            networks[args.model]().to(memory_format=torch.channels_last), broadcast_buffers=False
        )
        return model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def steps(recorder, model, optimizer):
        """Trains one epoch; returns the seconds of its steps, the processor time of these, and the
        seconds until it is recorded."""
        dist.barrier()
        start, used = time.perf_counter(), time.process_time()
        for images, labels in recorder.batches([batch] * args.steps):
            optimizer.zero_grad(set_to_none=True)
            recorder.backward(F.cross_entropy(model(images), labels))
            optimizer.step()
            end, used_until = time.perf_counter(), time.process_time()
        dist.barrier()
        return end - start, used_until - used, time.perf_counter() - end

    with tempfile.TemporaryDirectory() as folder:
        variants = {}
        for name in ("plain", "recorded"):
            model, optimizer = make()
            recorder = (
                Plain()
                if name == "plain"
                else Recorder(f"{folder}/run.h5", model, network=args.model)
            )
            variants[name] = recorder, model, optimizer
            steps(*variants[name])  # first steps
        times = {name: [] for name in variants}
        for index in range(args.rounds):
            for name in list(variants) if index % 2 else list(variants)[::-1]:
                times[name].append(steps(*variants[name]))
        variants["recorded"][0].close()
    if dist.get_rank() == 0:
        (plain, plain_used, _), (recorded, recorded_used, writing) = (
            zip(*times[name]) for name in ("plain", "recorded")
        )
        print(
            f"{dist.get_world_size()} ranks, batch {args.batch}: a step takes"
            f" {1e3 * statistics.median(plain) / args.steps:.1f} ms\nrecorded / plain: time"
            f" {ratio_text(recorded, plain, 4)}, processor time"
            f" {ratio_text(recorded_used, plain_used, 4)}\ndifference per step:"
            f" {1e6 * (statistics.median(recorded) - statistics.median(plain)) / args.steps:.0f}"
            " µs, processor time"
            f" {1e6 * (statistics.median(recorded_used) - statistics.median(plain_used)) / args.steps:.0f}"
            f" µs\nan epoch of {args.steps} steps is recorded in"
            f" {1e3 * statistics.median(writing):.1f} ms"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
