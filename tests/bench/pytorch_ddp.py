"""Times training steps with PyTorch DistributedDataParallel on random images. compare_hosts.py starts it once per rank.

usage: pytorch_ddp.py [--batch B] [--precision fp32|bf16] [--gradient-dtype fp32|bf16] [--threads T] [--steps S]

Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment, as torchrun sets them. Communication uses gloo
over the interface GLOO_SOCKET_IFNAME. The network is in channels-last format, bf16 uses autocast, and SGD is fused. As
in Lockstep, each rank has its own running statistics of batch norm. Rank 0 prints one JSON line with the throughput of
all ranks together in images/s over the S steps, without the first two.
"""

import argparse
import datetime
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18  # noqa: E402

WARM_UP_STEPS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step [%(default)s]")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="precision [%(default)s]")
    parser.add_argument("--gradient-dtype", choices=["fp32", "bf16"], default="fp32",
                        help="communication data type of the gradients [%(default)s]")
    parser.add_argument("--threads", type=int, default=1, help="threads per rank [%(default)s]")
    parser.add_argument("--steps", type=int, default=10, help="steps, including two for warm-up [%(default)s]")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    torch.manual_seed(1 + dist.get_rank())
    network = ResNet18().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    replica = DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True)
    if args.gradient_dtype == "bf16":
        replica.register_comm_hook(None, bf16_compress_hook)
    images = torch.randint(0, 256, (args.batch, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (args.batch,))
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16")

    def step():
        pixels = cifar10.normalise(images).contiguous(memory_format=torch.channels_last)
        with autocast:
            loss = F.cross_entropy(replica(pixels).float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(WARM_UP_STEPS):
        step()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(args.steps - WARM_UP_STEPS):
        step()
    dist.barrier()
    seconds = time.perf_counter() - start
    if dist.get_rank() == 0:
        rate = args.batch * dist.get_world_size() * (args.steps - WARM_UP_STEPS) / seconds
        print(json.dumps({"images_per_second": rate}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
