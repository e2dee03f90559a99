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
    add_run_options(parser.add_argument)
    add_recipe_options(parser.add_argument)
    add_process_options(parser.add_argument)
    args = parser.parse_args()
    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


def add_run_options(add):
    add(
        "--data",
        default="synthetic:50000",
        help="synthetic:N (N random images) or cifar10:DIR (binary files) [%(default)s]",
    )
    add("--output", required=True, metavar="FILE", help="run file")
    add("--epochs", type=int, default=2, help="passes over the images [%(default)s]")
    add("--batch-per-rank", type=int, default=128, help="images per process and step [%(default)s]")
    add("--train-samples", type=int, metavar="N", help="use the first N images [all]")
    add("--model", choices=NETWORKS, default="resnet18-cifar", help="network [%(default)s]")
    add(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
        help="auto: a GPU if there is one [%(default)s]",
    )
    add(
        "--precision",
        choices=["fp32", "bf16"],
        default="fp32",
        help="bf16: with autocast [%(default)s]",
    )
    add(
        "--gradient-dtype",
        choices=["fp32", "bf16"],
        default="fp32",
        help="communication data type of the gradients [%(default)s]",
    )


def add_recipe_options(add):
    add("--lr", type=float, default=0.1, help="peak learning rate [%(default)s]")
    add(
        "--lr-schedule",
        choices=["constant", "cosine", "onecycle"],
        default="constant",
        help="learning-rate schedule [%(default)s]",
    )
    add(
        "--warmup-epochs",
        type=float,
        default=0,
        metavar="W",
        help="epochs of linear warm-up [%(default)s]",
    )
    add("--nesterov", action="store_true", help="Nesterov momentum")
    add(
        "--label-smoothing",
        type=float,
        default=0,
        metavar="S",
        help="weight of the uniform distribution in the target [0]",
    )
    add(
        "--evaluate-every",
        default="never",
        metavar="E",
        help="epochs between evaluations on the test images; 0: one, at the end [%(default)s]",
    )


def add_process_options(add):
    add("--seed", type=int, default=1, help="seed of weights, order and augmentation [%(default)s]")
    add(
        "--threads",
        type=int,
        default=0,
        help="CPU threads per process [those that PyTorch selects]",
    )
    add("--workers", type=int, default=1, help="data-loading processes per process [%(default)s]")


def learning_rate(args, step, steps_per_epoch):
    """Returns the learning rate of `step` (from 0), as `optim::LearningRateSchedule::at` computes
    it."""
    warmup, steps = round(args.warmup_epochs * steps_per_epoch), args.epochs * steps_per_epoch
    if step < warmup:
        return args.lr * (step + 1) / warmup
    if args.lr_schedule == "constant":
        return args.lr
    t = (step - warmup) / max(steps - warmup, 1)
    rise, last = 0, 0
    if args.lr_schedule == "onecycle":
        rise, last = 0 if warmup else 0.3, 1e-4
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


def loader_of(args, device, images, sampler):
    """Returns a loader of complete batches."""
    return DataLoader(
        images,
        batch_size=None,
        sampler=BatchSampler(sampler, args.batch_per_rank, drop_last=True),
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=args.workers > 0,
    )


def recorder_of(args, model):
    recipe = {
        name: getattr(args, name)
        for name in ("lr", "lr_schedule", "warmup_epochs", "nesterov", "label_smoothing")
    }
    return Recorder(
        args.output,
        model,
        network=args.model,
        data=args.data,
        precision=args.precision,
        comm_hook=(None, bf16_compress_hook) if args.gradient_dtype == "bf16" else None,
        loader_workers=args.workers,
        **recipe,
    )


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
    loader = loader_of(args, device, images, sampler)
    precision = contextlib.nullcontext
    if args.precision == "bf16":
        precision = functools.partial(torch.autocast, device.type, torch.bfloat16)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    evaluation = evaluation_of(args, model, device, precision)
    with recorder_of(args, model) as recorder:
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
            line += evaluation(recorder, epoch + 1)
            if rank == 0:
                print(line, flush=True)


def evaluation_of(args, model, device, precision):
    """Returns a function that evaluates the model after the epochs of `--evaluate-every`, records
    the result and returns its text."""
    if args.evaluate_every == "never":
        return lambda recorder, epoch: ""
    tests = Images(args.data, "test")
    epochs = {*range(0, args.epochs, int(args.evaluate_every) or args.epochs), args.epochs}

    def evaluated(recorder, epoch):
        if epoch not in epochs:
            return ""
        with precision():
            accuracy, loss = evaluate(
                getattr(model, "module", model), tests.images, tests.labels, device
            )
        recorder.evaluated(accuracy, loss)
        return f"; test loss {loss:.4f}, accuracy {accuracy:.2%}"

    return evaluated
