# SPDX-License-Identifier: BSD-3-Clause
"""Writes the losses and gradients with which golden_test.cpp compares Lockstep, computed by PyTorch
in float64.

usage: golden_input /tmp/golden.h5 && make_golden.py /tmp/golden.h5 tests/pytorch/golden.txt

golden_input writes the HDF5 file with the initial weights, the images and the labels.
golden_test.cpp reads the text file. The first line of the text file is `pair INDEX`: its gradients
are those of the images 2 INDEX and 2 INDEX + 1. For each tensor, it has a line `gradient NAME NORM
VALUE...` with up to 64 values at evenly spaced positions, and for each of the 20 steps of SGD a
line `loss STEP VALUE`. For each of the five steps of AdamW and LARS, it has a line `loss:OPTIMIZER
STEP VALUE`, and for each tensor after these steps a line `parameter:OPTIMIZER NAME VALUE...` with
the values at the same positions. AdamW is that of PyTorch; LARS is computed here with NumPy (You,
Gitman, Ginsburg, arXiv:1708.03888, algorithm 1). The lines `update:OPTIMIZER 0 VALUE...` have the
parameters after 20 updates by given gradients (`given_gradients` here and in golden.hpp), which no
rounding of a network changes.

All computations use float64, so that the tolerance of the test only has to cover rounding in
Lockstep. The pair is the one whose ReLU inputs have the largest distance from zero. If rounding
changes the sign of an input, the ReLU passes a different gradient; one such change alters the
gradients of all preceding layers by up to one percent in float32.
"""

import pathlib
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18, load_checkpoint  # noqa: E402

STEPS, ADAPTIVE_STEPS = 20, 5
BATCH, SAMPLES, PAIRS = 32, 64, 160


class Margin:
    """Context manager that records the smallest absolute value of all inputs of F.relu."""

    def __enter__(self):
        self.smallest, self.relu = float("inf"), F.relu

        def recording_relu(x):
            self.smallest = min(self.smallest, x.abs().min().item())
            return self.relu(x)

        F.relu = recording_relu
        return self

    def __exit__(self, *_):
        F.relu = self.relu


def network_from(source):
    network = ResNet18()
    load_checkpoint(network, source)
    return network.double()


def margin_of(network, images):
    with torch.no_grad(), Margin() as margin:
        network(images)
    return margin.smallest


def gradient_lines(source, images, labels):
    network = network_from(source)
    margins = [margin_of(network, images[2 * i : 2 * i + 2]) for i in range(PAIRS)]
    pair = max(range(PAIRS), key=margins.__getitem__)
    print(f"pair {pair}: activations are at least {margins[pair]:.1e} from zero")
    pick = slice(2 * pair, 2 * pair + 2)
    F.cross_entropy(network(images[pick]), labels[pick]).backward()
    lines = [f"pair {pair}"]
    for name, parameter in network.named_parameters():
        flat = parameter.grad.flatten()
        lines.append(f"gradient {name} {flat.norm().item():.9g} {samples(flat)}")
    return lines


def samples(flat):
    """Returns values at evenly spaced positions as text."""
    count = min(len(flat), SAMPLES)
    return " ".join(f"{flat[i * len(flat) // count].item():.9g}" for i in range(count))


class Lars:
    """LARS without decay and adaptation of one-dimensional tensors, whose local rate is 1."""

    def __init__(self, parameters, lr, momentum, weight_decay, eta):
        self.parameters = list(parameters)
        self.velocities = [np.zeros(tuple(p.shape)) for p in self.parameters]
        self.lr, self.momentum = lr, momentum
        self.weight_decay, self.eta = weight_decay, eta

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for parameter, velocity in zip(self.parameters, self.velocities):
            w, g = parameter.detach().numpy(), parameter.grad.numpy()
            rate, decay = 1.0, 0.0
            if w.ndim > 1:
                decay = self.weight_decay
                rate = (
                    self.eta * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
                )
            velocity[...] = self.momentum * velocity + self.lr * rate * (g + decay * w)
            w -= velocity  # shares the memory of the parameter


def train(network, optimizer, images, labels, steps):
    """Returns the losses of the steps."""
    losses = []
    for step in range(steps):
        pick = slice(step * BATCH, (step + 1) * BATCH)
        loss = F.cross_entropy(network(images[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loss_lines(source, images, labels):
    network = network_from(source)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0005, momentum=0.9, weight_decay=5e-4)
    losses = train(network, optimizer, images, labels, STEPS)
    return [f"loss {step} {loss:.9g}" for step, loss in enumerate(losses)]


def given_gradients(step):
    """Returns the gradients of a matrix in step `step`, from 1 on."""
    return np.cos(np.arange(64.0) * step).reshape(8, 8)


def update_lines():
    lines = []
    for name, make in (
        (
            "sgd",
            lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
        ),
        ("adamw", lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
        ("lars", lambda p: Lars(p, lr=0.5, momentum=0.9, weight_decay=0.1, eta=0.01)),
    ):
        parameter = torch.nn.Parameter(torch.from_numpy(np.sin(np.arange(64.0)).reshape(8, 8)))
        optimizer = make([parameter])
        for step in range(1, STEPS + 1):
            parameter.grad = torch.from_numpy(given_gradients(step))
            optimizer.step()
        lines.append(f"update:{name} 0 {samples(parameter.detach().flatten())}")
    return lines


def adaptive_lines(source, images, labels):
    lines = []
    for name, make in (
        ("adamw", lambda p: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.5)),
        ("lars", lambda p: Lars(p, lr=0.5, momentum=0.9, weight_decay=0.01, eta=0.001)),
    ):
        network = network_from(source)
        losses = train(network, make(network.parameters()), images, labels, ADAPTIVE_STEPS)
        lines += [f"loss:{name} {step} {loss:.9g}" for step, loss in enumerate(losses)]
        lines += [
            f"parameter:{name} {key} {samples(value.detach().flatten())}"
            for key, value in network.named_parameters()
        ]
    return lines


def main(source, target):
    with h5py.File(source) as file:
        images = cifar10.normalise(
            torch.from_numpy(file["input"]["images"][()]).to(torch.uint8)
        ).double()
        labels = torch.from_numpy(file["input"]["labels"][()]).long()
    assert len(images) == STEPS * BATCH
    lines = gradient_lines(source, images, labels) + loss_lines(source, images, labels)
    lines += adaptive_lines(source, images, labels) + update_lines()
    with open(target, "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
