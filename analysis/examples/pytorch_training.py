"""What the examples pytorch_ddp.py and pytorch_dp.py have in common: options, data, and the recorded training loop.

The training is that of `lockstep train` with the options of the same names: SGD with momentum 0.9 and weight decay 5e-4 on
CIFAR-10 with random crop and flip, without incomplete batches.
"""

import argparse
import contextlib
import functools
import time

import torch
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

import cifar10
from lockstep_report.pytorch import Recorder
from networks import ResNet18, VGG11

NETWORKS = {"resnet18-cifar": ResNet18, "vgg11": VGG11}


def options(description):
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="synthetic:50000", help="synthetic:N (N random images) or cifar10:DIR (binary files) [%(default)s]")
    parser.add_argument("--output", required=True, metavar="FILE", help="run file")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the images [%(default)s]")
    parser.add_argument("--batch-per-rank", type=int, default=128, help="images per process and step [%(default)s]")
    parser.add_argument("--train-samples", type=int, metavar="N", help="use the first N images [all]")
    parser.add_argument("--model", choices=NETWORKS, default="resnet18-cifar", help="network [%(default)s]")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU if there is one [%(default)s]")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: with autocast [%(default)s]")
    parser.add_argument("--gradient-dtype", choices=["fp32", "bf16"], default="fp32",
                        help="communication data type of the gradients [%(default)s]")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights, order and augmentation [%(default)s]")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads per process [those that PyTorch selects]")
    parser.add_argument("--workers", type=int, default=1, help="data-loading processes per process [%(default)s]")
    args = parser.parse_args()
    args.device = "cuda" if args.device != "cpu" and (args.device == "cuda" or torch.cuda.is_available()) else "cpu"
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Images(torch.utils.data.Dataset):
    """Images of CIFAR-10, or random ones, which are augmented and normalised as a batch."""

    def __init__(self, data, count):
        kind, _, value = data.partition(":")
        if kind == "cifar10":
            self.images, self.labels = cifar10.read(value, "train", count)
        elif kind == "synthetic":
            size = min(int(value), count or int(value))
            self.images = torch.randint(0, 256, (size, 3, 32, 32), dtype=torch.uint8)
            self.labels = torch.randint(0, 10, (size,))
        else:
            raise SystemExit(f"--data {data}: must be synthetic:N or cifar10:DIR")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, pick):
        """Returns the batch of the images with the indices `pick`."""
        images = cifar10.normalise(cifar10.augment(self.images[pick], None))
        return images.contiguous(memory_format=torch.channels_last), self.labels[pick]


def train(args, device, parallelise, make_sampler=RandomSampler, rank=0):
    """Trains the network `parallelise(network)` on the images that `make_sampler(images)` selects, records the run, and
    prints a line per epoch on rank 0."""
    images = Images(args.data, args.train_samples)
    model = parallelise(NETWORKS[args.model]().to(device, memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    sampler = make_sampler(images)
    torch.manual_seed(args.seed + rank)  # of the augmentation, which differs between the ranks
    loader = DataLoader(images, batch_size=None, sampler=BatchSampler(sampler, args.batch_per_rank, drop_last=True),
                        num_workers=args.workers, pin_memory=device.type == "cuda", persistent_workers=args.workers > 0)
    precision = contextlib.nullcontext
    if args.precision == "bf16":
        precision = functools.partial(torch.autocast, device.type, torch.bfloat16)
    hook = (None, bf16_compress_hook) if args.gradient_dtype == "bf16" else None
    with Recorder(args.output, model, network=args.model, data=args.data, precision=args.precision, comm_hook=hook, lr=args.lr,
                  loader_workers=args.workers) as recorder:
        for epoch in range(args.epochs):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)  # otherwise, every epoch has the same order
            start, total = time.perf_counter(), torch.zeros((), device=device)
            for pixels, labels in recorder.batches(loader, device if device.type == "cuda" else None):
                with precision():
                    loss = F.cross_entropy(model(pixels).float(), labels)
                optimizer.zero_grad()
                recorder.backward(loss)
                optimizer.step()
                total += loss.detach()
            mean = total.item() / len(loader)  # waits for the GPU
            if rank == 0:
                print(f"epoch {epoch + 1}: loss {mean:.4f}, {time.perf_counter() - start:.2f} s", flush=True)
