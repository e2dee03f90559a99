"""PyTorch reference implementations of Lockstep's networks.

`ResNet18` has the structure and the parameter names of the widely used CIFAR ResNet18 (3x3 stem, no max-pooling,
projection shortcuts), and `VGG11` those of the CIFAR VGG with batch norm. The names and shapes of their
`state_dict` are therefore those under `/state` of a Lockstep checkpoint.
"""

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        planes = [64, 128, 256, 512]
        for index, width in enumerate(planes):
            before = planes[max(index - 1, 0)]
            blocks = [BasicBlock(before, width, 1 if index == 0 else 2), BasicBlock(width, width, 1)]
            setattr(self, f"layer{index + 1}", nn.Sequential(*blocks))
        self.linear = nn.Linear(512, classes)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return self.linear(F.adaptive_avg_pool2d(out, 1).flatten(1))


class VGG11(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        layers, channels = [], 3
        for width in [64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"]:
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


def load_checkpoint(network, path):
    """Loads the `/state` group of a Lockstep checkpoint or `--init-from` file into `network`."""
    import h5py

    with h5py.File(path) as file:
        state = {name: torch.as_tensor(file["state"][name][()]) for name in network.state_dict()}
    network.load_state_dict(state)
