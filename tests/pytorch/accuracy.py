"""Train ResNet18 on CIFAR-10 in PyTorch by the plain recipe and print the accuracy after each epoch.

usage: accuracy.py DATA [--train-samples N] [--test-samples N] [--epochs E] [--batch B] [--seed S] [--threads T]

The recipe: SGD, constant learning rate 0.1, momentum 0.9, weight decay 5e-4, crop and flip, the last short
batch dropped. One line per epoch; the twin of `lockstep train` with the same options.
"""

import argparse
import time

import torch
import torch.nn.functional as F

import cifar10
from networks import ResNet18


def evaluate(network, images, labels, batch=500):
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
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("data")
    ask.add_argument("--train-samples", type=int)
    ask.add_argument("--test-samples", type=int)
    ask.add_argument("--epochs", type=int, default=5)
    ask.add_argument("--batch", type=int, default=128)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--threads", type=int, default=1)
    ask.add_argument("--evaluate-every", type=int, default=1, help="epochs; the last one is always evaluated")
    args = ask.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    images, labels = cifar10.read(args.data, "train", args.train_samples)
    test_images, test_labels = cifar10.read(args.data, "test", args.test_samples)
    network = ResNet18().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)

    for epoch in range(1, args.epochs + 1):
        network.train()
        order = torch.randperm(len(images), generator=generator)
        total, correct, seen, start = 0.0, 0, 0, time.perf_counter()
        for begin in range(0, len(images) - args.batch + 1, args.batch):
            pick = order[begin : begin + args.batch]
            pixels = cifar10.normalise(cifar10.augment(images[pick], generator))
            logits = network(pixels.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(logits, labels[pick])
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
