"""Writes the losses and gradients with which golden_test.cpp compares Lockstep, computed by PyTorch in float64.

usage: golden_input /tmp/golden.h5 && make_golden.py /tmp/golden.h5 tests/pytorch/golden.txt

golden_input writes the HDF5 file with the initial weights, the images and the labels. golden_test.cpp reads the text
file. The first line of the text file is `pair INDEX`: its gradients are those of the images 2 INDEX and 2 INDEX + 1. For
each tensor, it has a line `gradient NAME NORM VALUE...` with up to 64 values at evenly spaced positions, and for each of
the 20 steps a line `loss STEP VALUE`.

All computations use float64, so that the tolerance of the test only has to cover rounding in Lockstep. The pair is the
one whose ReLU inputs have the largest distance from zero. If rounding changes the sign of an input, the ReLU passes a
different gradient; one such change alters the gradients of all preceding layers by up to one percent in float32.
"""

import pathlib
import sys

import h5py
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18, load_checkpoint  # noqa: E402

STEPS, BATCH, SAMPLES, PAIRS = 20, 32, 64, 160


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
        count = min(len(flat), SAMPLES)
        values = " ".join(f"{flat[i * len(flat) // count].item():.9g}" for i in range(count))
        lines.append(f"gradient {name} {flat.norm().item():.9g} {values}")
    return lines


def loss_lines(source, images, labels):
    network = network_from(source)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0005, momentum=0.9, weight_decay=5e-4)
    lines = []
    for step in range(STEPS):
        pick = slice(step * BATCH, (step + 1) * BATCH)
        loss = F.cross_entropy(network(images[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines.append(f"loss {step} {loss.item():.9g}")
    return lines


def main(source, target):
    with h5py.File(source) as file:
        images = cifar10.normalise(torch.from_numpy(file["input"]["images"][()]).to(torch.uint8)).double()
        labels = torch.from_numpy(file["input"]["labels"][()]).long()
    assert len(images) == STEPS * BATCH
    lines = gradient_lines(source, images, labels) + loss_lines(source, images, labels)
    with open(target, "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
