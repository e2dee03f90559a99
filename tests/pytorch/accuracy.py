"""Trains a network on CIFAR-10 in PyTorch on the CPU and prints loss and accuracy after each epoch.

The recipe is that of `lockstep train` with the options of the same names: SGD with momentum 0.9 and weight decay 5e-4,
linear warm-up followed by a constant or cosine learning rate, and random crop and flip. An incomplete last batch is
dropped.
"""

import argparse
import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18, VGG11  # noqa: E402

NETWORKS = {"resnet18-cifar": ResNet18, "vgg11": VGG11}


def learning_rate(args, step, steps_per_epoch):
    """Returns the learning rate of `step` (from 0), as `LearningRateSchedule::at` computes it."""
    warmup = round(args.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return args.lr * (step + 1) / warmup
    if args.lr_schedule == "constant":
        return args.lr
    t = (step - warmup) / max(args.epochs * steps_per_epoch - warmup, 1)
    return args.lr * (1 + math.cos(math.pi * t)) / 2


def evaluate(network, images, labels, batch=500):
    """Returns the mean loss and the accuracy on the images."""
    network.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(images), batch):
            pixels = cifar10.normalise(images[begin : begin + batch])
            logits = network(pixels.contiguous(memory_format=torch.channels_last))
            target = labels[begin : begin + batch]
            loss += F.cross_entropy(logits, target, reduction="sum").item()
            correct += (logits.argmax(1) == target).sum().item()
    return loss / len(images), correct / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of the CIFAR-10 binary files")
    parser.add_argument("--train-samples", type=int, help="use the first N training images [all]", metavar="N")
    parser.add_argument("--test-samples", type=int, help="use the first N test images [all]", metavar="N")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training images [%(default)s]")
    parser.add_argument("--batch", type=int, default=128, help="images per step [%(default)s]")
    parser.add_argument("--model", choices=NETWORKS, default="resnet18-cifar", help="network [%(default)s]")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate [%(default)s]")
    parser.add_argument("--lr-schedule", choices=["constant", "cosine"], default="constant",
                        help="learning-rate schedule [%(default)s]")
    parser.add_argument("--warmup-epochs", type=float, default=0, help="epochs of linear warm-up [%(default)s]")
    parser.add_argument("--seed", type=int, default=1,
                        help="seed of weights, image order and augmentation [%(default)s]")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads [%(default)s]")
    parser.add_argument("--evaluate-every", type=int, default=1, metavar="E",
                        help="epochs between evaluations; the last epoch is always evaluated [%(default)s]")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    images, labels = cifar10.read(args.data, "train", args.train_samples)
    test_images, test_labels = cifar10.read(args.data, "test", args.test_samples)
    network = NETWORKS[args.model]().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)

    steps_per_epoch = len(images) // args.batch
    step = 0
    for epoch in range(1, args.epochs + 1):
        network.train()
        order = torch.randperm(len(images), generator=generator)
        total, correct, seen, start = 0.0, 0, 0, time.perf_counter()
        for begin in range(0, len(images) - args.batch + 1, args.batch):
            pick = order[begin : begin + args.batch]
            pixels = cifar10.normalise(cifar10.augment(images[pick], generator))
            logits = network(pixels.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(logits, labels[pick])
            optimizer.param_groups[0]["lr"] = learning_rate(args, step, steps_per_epoch)
            step += 1
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(pick)
            correct += (logits.argmax(1) == labels[pick]).sum().item()
            seen += len(pick)
        seconds = time.perf_counter() - start
        test_loss = test_accuracy = float("nan")
        if epoch % args.evaluate_every == 0 or epoch == args.epochs:
            test_loss, test_accuracy = evaluate(network, test_images, test_labels)
        print(
            f"seed {args.seed} epoch {epoch} train_loss {total / seen:.4f} train_accuracy {correct / seen:.4f} "
            f"test_loss {test_loss:.4f} test_accuracy {test_accuracy:.4f} images_per_second {seen / seconds:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
