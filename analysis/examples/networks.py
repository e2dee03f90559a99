# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch reference implementations of Lockstep's networks.

`ResNet` has the structure of ResNet with basic blocks; the names of its modules are those of the
widely used implementation for CIFAR (`shortcut`, `linear`) or those of torchvision (`downsample`,
`fc`). `VGG` is the CIFAR VGG with batch norm, and `VGG16ImageNet` that of torchvision without it.
The names and shapes of their `state_dict` are therefore those under `/state` of a Lockstep
checkpoint (docs/pytorch.md).
"""

import sys
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(Path(__file__).parents[2] / "analysis"))
from lockstep_weights.files import read_lockstep  # noqa: E402


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride, norm, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = norm(planes)
        layers = [nn.Conv2d(in_planes, planes, 1, stride, bias=False), norm(planes)]
        self.shortcut_name = shortcut
        setattr(self, shortcut, nn.Sequential(*(layers if in_planes != planes else [])))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + getattr(self, self.shortcut_name)(x))


class ResNet(nn.Module):
    """`stem`: the first convolution and its pooling, of CIFAR or of ImageNet. `names`: of shortcut
    and classifier."""

    def __init__(
        self,
        blocks=(2, 2, 2, 2),
        classes=10,
        norm=nn.BatchNorm2d,
        stem="cifar",
        names=("shortcut", "linear"),
    ):
        super().__init__()
        self.conv1 = (
            nn.Conv2d(3, 64, 3, 1, 1, bias=False)
            if stem == "cifar"
            else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        )
        self.pool = nn.Identity() if stem == "cifar" else nn.MaxPool2d(3, 2, 1)
        self.bn1 = norm(64)
        before = 64
        for index, (width, count) in enumerate(zip([64, 128, 256, 512], blocks)):
            layers = [BasicBlock(before, width, 1 if index == 0 else 2, norm, names[0])]
            layers += [BasicBlock(width, width, 1, norm, names[0]) for _ in range(count - 1)]
            setattr(self, f"layer{index + 1}", nn.Sequential(*layers))
            before = width
        self.classifier_name = names[1]
        setattr(self, names[1], nn.Linear(512, classes))

    def forward(self, x):
        out = self.pool(F.relu(self.bn1(self.conv1(x))))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return getattr(self, self.classifier_name)(F.adaptive_avg_pool2d(out, 1).flatten(1))


ResNet18 = partial(ResNet, (2, 2, 2, 2))
ResNet34 = partial(ResNet, (3, 4, 6, 3))


def features(counts, norm):
    """Returns the layers of VGG with these numbers of convolutions before each max-pool."""
    layers, channels = [], 3
    for width, count in zip([64, 128, 256, 512, 512], counts):
        for _ in range(count):
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                *([nn.BatchNorm2d(width)] if norm else []),
                nn.ReLU(),
            ]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, counts, classes=10):
        super().__init__()
        self.features = features(counts, norm=True)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


VGG11 = partial(VGG, (1, 1, 2, 2, 2))
VGG13 = partial(VGG, (2, 2, 2, 2, 2))
VGG16 = partial(VGG, (2, 2, 3, 3, 3))
VGG19 = partial(VGG, (2, 2, 4, 4, 4))


class VGG16ImageNet(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.features = features((2, 2, 3, 3, 3), norm=False)
        self.classifier = nn.Sequential(
            nn.Linear(25088, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def load_checkpoint(network, path):
    """Loads a Lockstep checkpoint or `--init-from` file into `network`."""
    network.load_state_dict(
        {name: torch.as_tensor(array) for name, array in read_lockstep(path).items()}
    )
