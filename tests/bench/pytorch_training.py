# SPDX-License-Identifier: BSD-3-Clause
"""Images and training steps of ResNet18 in PyTorch, for pytorch_gpu.py."""

import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18  # noqa: E402

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LOSS_SCALE = 1024.0  # for fp16; constant, so that no step is skipped


class Images:
    """Labelled images on `device` as uint8, padded for cropping; provides whole epochs or single
    batches."""

    def __init__(self, folder, split, samples, device, dtype):
        images, self.labels = cifar10.read(folder, split, samples)
        self.images = images.permute(0, 2, 3, 1).contiguous()  # on the host, (N, 32, 32, 3)
        self.device, self.dtype, self.count = device, dtype, len(images)
        self.padded = F.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1).contiguous().to(device)
        self.device_labels = self.labels.to(device)
        self.mean = cifar10.MEAN.view(3).mul(255).to(device)
        self.scale = cifar10.STD.view(3).mul(255).reciprocal().to(device)

    def normalise(self, pixels):
        """Normalises (N, 32, 32, 3) uint8; returns (N, 3, 32, 32) in channels-last format and
        `self.dtype`."""
        return ((pixels.float() - self.mean) * self.scale).to(self.dtype).permute(0, 3, 1, 2)

    def crop_and_flip(self, padded, pick, count):
        """Crops and flips the `count` padded images with the indices `pick` at random; returns
        (count, 32, 32, 3)."""
        top, left = (torch.randint(0, 9, (count, 1), device=self.device) for _ in range(2))
        flip = torch.rand(count, 1, device=self.device) < 0.5
        side = torch.arange(32, device=self.device).view(1, 32)
        columns = torch.where(flip, 31 - side, side) + left
        return padded[pick.view(-1, 1, 1), (side + top).unsqueeze(2), columns.unsqueeze(1)]

    def epoch(self):
        """Returns all images (N, 3, 32, 32), augmented and in a new random order, and their
        labels."""
        order = torch.randperm(self.count, device=self.device)
        return (
            self.normalise(self.crop_and_flip(self.padded, order, self.count)),
            self.device_labels[order],
        )

    def augment(self, images):
        """Augments and normalises a batch (N, 32, 32, 3) of uint8 on the device; returns (N, 3, 32,
        32)."""
        padded = F.pad(images, (0, 0, 4, 4, 4, 4))
        count = len(images)
        pick = torch.arange(count, device=self.device)
        return self.normalise(self.crop_and_flip(padded, pick, count))

    def without_augmentation(self, pick):
        """Returns the images with the indices `pick`, normalised, and their labels."""
        return self.normalise(self.padded[pick.to(self.device), 4:36, 4:36]), self.labels[pick].to(
            self.device
        )


class Trainer:
    """A network and its training step. `compile_options` are passed to torch.compile; None selects
    eager execution."""

    def __init__(
        self, device, precision, rate, compile_options=None, channels_last=True, state=None
    ):
        self.device, self.scale = device, LOSS_SCALE if precision == "fp16" else 1.0
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.network = ResNet18().to(device, memory_format=self.layout)
        if state is not None:
            self.network.load_state_dict(state)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4, fused=True
        )
        self.autocast = {
            "device_type": device,
            "dtype": DTYPES[precision],
            "enabled": precision != "fp32",
        }
        self.has_inductor_graphs = (
            compile_options is not None and compile_options.get("mode") == "max-autotune"
        )
        self.loss = self.eager_loss
        if compile_options is not None:
            self.loss = torch.compile(self.eager_loss, fullgraph=True, **compile_options)

    def eager_loss(self, pixels, labels):
        with torch.autocast(**self.autocast):
            logits = self.network(pixels)
        return F.cross_entropy(logits.float(), labels)

    def step(self, pixels, labels):
        """Runs forward pass, backward pass and update on one batch; returns the loss."""
        if self.has_inductor_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss(pixels.contiguous(memory_format=self.layout), labels)
        if self.scale == 1.0:
            loss.backward()
        else:
            (loss * self.scale).backward()
            gradients = [parameter.grad for parameter in self.network.parameters()]
            torch._foreach_mul_(gradients, 1 / self.scale)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class GraphedStep:
    """Executes `step(pixels, labels)` as one captured CUDA graph; on a CPU, calls `step`."""

    def __init__(self, step, pixels, labels):
        self.step, self.graph = step, None
        self.pixels, self.labels = pixels.clone(), labels.clone()
        if not pixels.is_cuda:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):  # select kernels and allocate momentum before the capture
                step(self.pixels, self.labels)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = step(self.pixels, self.labels)

    def replay(self):
        if self.graph is None:
            return self.step(self.pixels, self.labels)
        self.graph.replay()
        return self.loss

    def __call__(self, pixels, labels):
        self.pixels.copy_(pixels)
        self.labels.copy_(labels)
        return self.replay()
