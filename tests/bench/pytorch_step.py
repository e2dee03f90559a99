# SPDX-License-Identifier: BSD-3-Clause
"""Times training steps of one replica in PyTorch on random images; PyTorch counterpart of
step_bench.

usage: pytorch_step.py [--model M] [--batch B] [--precision fp32|bf16] [--threads T] [--steps S]
[--compile]
                       [--device cpu|cuda]

The network is in channels-last format, bf16 uses autocast, and SGD is fused. Prints "ready" after
the warm-up; then, for each line on standard input, runs S steps and prints one JSON line with their
images/s and the last loss. The S steps are one interval, as in step_bench;
lockstep_recorder.Recorder, which compare_hosts.py uses, would add its timestamps of every phase and
a write to a run file in each round.
"""

import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import VGG11, ResNet18  # noqa: E402

NETWORKS = {"resnet18-cifar": ResNet18, "vgg11": VGG11}


def parsed_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", choices=NETWORKS, default="resnet18-cifar", help="network [%(default)s]"
    )
    parser.add_argument("--batch", type=int, default=128, help="images per step [%(default)s]")
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="fp32", help="precision [%(default)s]"
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads [%(default)s]")
    parser.add_argument(
        "--steps", type=int, default=3, help="steps per line on standard input [%(default)s]"
    )
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--device", default="cpu", help="device: cpu, cuda [%(default)s]")
    return parser.parse_args()


def main():
    args = parsed_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    network = NETWORKS[args.model]().to(args.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True
    )
    forward = torch.compile(network) if args.compile else network
    images = torch.randint(0, 256, (args.batch, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (args.batch,)).to(args.device)
    autocast = torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16")

    def step():
        pixels = (
            cifar10.normalise(images).to(args.device).contiguous(memory_format=torch.channels_last)
        )
        with autocast:
            loss = F.cross_entropy(forward(pixels).float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    def synchronise():
        if args.device != "cpu":
            torch.cuda.synchronize()

    for _ in range(2):
        step()
    synchronise()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(args.steps):
            loss = step()
        synchronise()
        seconds = time.perf_counter() - start
        rate = args.batch * args.steps / seconds
        print(json.dumps({"images_per_second": rate, "loss": loss.item()}), flush=True)


if __name__ == "__main__":
    main()
