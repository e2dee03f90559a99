# SPDX-License-Identifier: BSD-3-Clause
"""What the examples pytorch_ddp.py and pytorch_dp.py have in common: options, data, and the
recorded training loop.

The training is that of `lockstep train` with the options of the same names: SGD with momentum 0.9
and weight decay 5e-4 on CIFAR-10 with random crop and flip, without incomplete batches. Each rank
has its own statistics of batch norm (`--bn local`).
"""

import argparse
import contextlib
import functools
import math
import time

import cifar10
import torch
import torch.nn.functional as F
from lockstep_recorder import Recorder
from networks import VGG11, ResNet18
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

NETWORKS = {"resnet18-cifar": ResNet18, "vgg11": VGG11}


def options(description):
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        default="synthetic:50000",
        help="synthetic:N (N random images) or cifar10:DIR (binary files) [%(default)s]",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="run file")
    parser.add_argument(
        "--epochs", type=int, default=2, help="passes over the images [%(default)s]"
    )
    parser.add_argument(
        "--batch-per-rank", type=int, default=128, help="images per process and step [%(default)s]"
    )
    parser.add_argument(
        "--train-samples", type=int, metavar="N", help="use the first N images [all]"
    )
    parser.add_argument(
        "--model", choices=NETWORKS, default="resnet18-cifar", help="network [%(default)s]"
    )
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
        help="auto: a GPU if there is one [%(default)s]",
    )
    parser.add_argument(
        "--precision",
        choices=["fp32", "bf16"],
        default="fp32",
        help="bf16: with autocast [%(default)s]",
    )
    parser.add_argument(
        "--gradient-dtype",
        choices=["fp32", "bf16"],
        default="fp32",
        help="communication data type of the gradients [%(default)s]",
    )
    parser.add_argument("--lr", type=float, default=0.1, help="peak learning rate [%(default)s]")
    parser.add_argument(
        "--lr-schedule",
        choices=["constant", "cosine", "onecycle"],
        default="constant",
        help="learning-rate schedule [%(default)s]",
    )
    parser.add_argument(
        "--warmup-epochs",
        type=float,
        default=0,
        metavar="W",
        help="epochs of linear warm-up [%(default)s]",
    )
    parser.add_argument("--nesterov", action="store_true", help="Nesterov momentum")
    parser.add_argument(
        "--label-smoothing",
        type=float,
        default=0,
        metavar="S",
        help="weight of the uniform distribution in the target [0]",
    )
    parser.add_argument(
        "--evaluate-every",
        default="never",
        metavar="E",
        help="epochs between evaluations on the test images; 0: one, at the end [%(default)s]",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of weights, order and augmentation [%(default)s]"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="CPU threads per process [those that PyTorch selects]",
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="data-loading processes per process [%(default)s]"
    )
    args = parser.parse_args()
    args.device = (
        "cuda"
        if args.device != "cpu" and (args.device == "cuda" or torch.cuda.is_available())
        else "cpu"
    )
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


def learning_rate(args, step, steps_per_epoch):
    """Returns the learning rate of `step` (from 0), as `optim::LearningRateSchedule::at` computes
    it."""
    warmup, steps = round(args.warmup_epochs * steps_per_epoch), args.epochs * steps_per_epoch
    if step < warmup:
        return args.lr * (step + 1) / warmup
    if args.lr_schedule == "constant":
        return args.lr
    t = (step - warmup) / max(steps - warmup, 1)
    rise, last = (0 if warmup else 0.3, 1e-4) if args.lr_schedule == "onecycle" else (0, 0)
    if t < rise:
        return args.lr * (1 + 24 * t / rise) / 25
    return args.lr * (last + (1 - last) * (1 + math.cos(math.pi * (t - rise) / (1 - rise))) / 2)


@torch.no_grad()
def evaluate(model, images, labels, device="cpu", batch=500):
    """Returns the accuracy (0 to 1) and the mean loss of `model` on the images (N, 3, 32, 32)
    uint8."""
    model.eval()
    correct, loss = 0, 0.0
    for begin in range(0, len(images), batch):
        pixels = cifar10.normalise(images[begin : begin + batch]).contiguous(
            memory_format=torch.channels_last
        )
        logits, target = model(pixels.to(device)).float(), labels[begin : begin + batch].to(device)
        correct += (logits.argmax(1) == target).sum().item()
        loss += F.cross_entropy(logits, target, reduction="sum").item()
    model.train()
    return correct / len(images), loss / len(images)


class Images(torch.utils.data.Dataset):
    """Images of CIFAR-10, or random ones, which are augmented and normalised as a batch."""

    def __init__(self, data, split, count=None):
        kind, _, value = data.partition(":")
        if kind == "cifar10":
            self.images, self.labels = cifar10.read(value, split, count)
        elif kind == "synthetic":
            size = int(value or 50000)
            size = min(size, count or size)
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
    """Trains the network `parallelise(network)` on the images that `make_sampler(images)` selects,
    records the run, and prints a line per epoch on rank 0."""
    images = Images(args.data, "train", args.train_samples)
    model = parallelise(NETWORKS[args.model]().to(device, memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=args.nesterov
    )
    sampler = make_sampler(images)
    torch.manual_seed(args.seed + rank)  # of the augmentation, which differs between the ranks
    loader = DataLoader(
        images,
        batch_size=None,
        sampler=BatchSampler(sampler, args.batch_per_rank, drop_last=True),
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=args.workers > 0,
    )
    precision = contextlib.nullcontext
    if args.precision == "bf16":
        precision = functools.partial(torch.autocast, device.type, torch.bfloat16)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    tests, evaluated = None, set()
    if args.evaluate_every != "never":
        tests = Images(args.data, "test")
        evaluated = {*range(0, args.epochs, int(args.evaluate_every) or args.epochs), args.epochs}
    recipe = {
        name: getattr(args, name)
        for name in ("lr", "lr_schedule", "warmup_epochs", "nesterov", "label_smoothing")
    }
    hook = (None, bf16_compress_hook) if args.gradient_dtype == "bf16" else None
    with Recorder(
        args.output,
        model,
        network=args.model,
        data=args.data,
        precision=args.precision,
        comm_hook=hook,
        loader_workers=args.workers,
        **recipe,
    ) as recorder:
        for epoch in range(args.epochs):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)  # otherwise, every epoch has the same order
            start, total = time.perf_counter(), torch.zeros((), device=device)
            batches = recorder.batches(loader, device if device.type == "cuda" else None)
            for step, (pixels, labels) in enumerate(batches, epoch * len(loader)):
                with precision():
                    loss = criterion(model(pixels).float(), labels)
                optimizer.param_groups[0]["lr"] = learning_rate(args, step, len(loader))
                optimizer.zero_grad()
                recorder.backward(loss)
                optimizer.step()
                total += loss.detach()
            mean = total.item() / len(loader)  # waits for the GPU
            line = f"epoch {epoch + 1}: loss {mean:.4f}, {time.perf_counter() - start:.2f} s"
            if epoch + 1 in evaluated:
                with precision():
                    accuracy, test_loss = evaluate(
                        getattr(model, "module", model), tests.images, tests.labels, device
                    )
                recorder.evaluated(accuracy, test_loss)
                line += f"; test loss {test_loss:.4f}, accuracy {accuracy:.2%}"
            if rank == 0:
                print(line, flush=True)
