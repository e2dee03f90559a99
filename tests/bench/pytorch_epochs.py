# SPDX-License-Identifier: BSD-3-Clause
"""Epochs of the variants of pytorch_gpu.py: with images on the device or in host memory, in eager
execution, with torch.compile or as CUDA graphs."""

import torch
from pytorch_training import GraphedStep, Trainer

SLOTS = 3  # buffers in pinned memory: one is filled, one is copied, one is in use by the step
COMPILE_MODES = {
    "compile": "max-autotune",
    "compile_graph": "max-autotune-no-cudagraphs",
    "compile_default": "default",
}


def device_epoch(images, step, batch):
    """Trains one epoch with images that are stored on the device; returns the last loss."""
    pixels, labels = images.epoch()
    for begin in range(0, images.count - batch + 1, batch):
        loss = step(pixels[begin : begin + batch], labels[begin : begin + batch])
    return loss


class HostEpochs:
    """Trains epochs with images in host memory. Each batch is gathered in pinned memory, copied to
    the GPU on a separate stream while the preceding step runs, and augmented on the GPU."""

    def __init__(self, images, trainer, batch):
        self.images, self.batch, self.cuda = images, batch, images.device == "cuda"
        shape = (batch, 32, 32, 3)
        self.pinned = [
            torch.empty(shape, dtype=torch.uint8, pin_memory=self.cuda) for _ in range(SLOTS)
        ]
        self.pinned_labels = [
            torch.empty(batch, dtype=torch.int64, pin_memory=self.cuda) for _ in range(SLOTS)
        ]
        self.staged = [
            torch.empty(shape, dtype=torch.uint8, device=images.device) for _ in range(SLOTS)
        ]
        self.staged_labels = [
            torch.empty(batch, dtype=torch.int64, device=images.device) for _ in range(SLOTS)
        ]
        if self.cuda:
            self.stream = torch.cuda.Stream()
            self.copied = [torch.cuda.Event() for _ in range(SLOTS)]
            self.used = [torch.cuda.Event() for _ in range(SLOTS)]
        example, labels = (
            images.images[:batch].to(images.device),
            images.labels[:batch].to(images.device),
        )
        self.step = GraphedStep(
            lambda raw, targets: trainer.step(images.augment(raw), targets), example, labels
        )

    def upload(self, slot):
        """Copies the batch in the pinned buffer `slot` to the device."""
        if not self.cuda:
            self.staged[slot].copy_(self.pinned[slot])
            self.staged_labels[slot].copy_(self.pinned_labels[slot])
            return
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[slot])
            self.staged[slot].copy_(self.pinned[slot], non_blocking=True)
            self.staged_labels[slot].copy_(self.pinned_labels[slot], non_blocking=True)
            self.copied[slot].record()
        torch.cuda.current_stream().wait_event(self.copied[slot])

    def __call__(self):
        """Trains one epoch; returns the last loss."""
        order = torch.randperm(self.images.count)
        for index, begin in enumerate(range(0, self.images.count - self.batch + 1, self.batch)):
            slot, pick = index % SLOTS, order[begin : begin + self.batch]
            if self.cuda:
                self.copied[
                    slot
                ].synchronize()  # wait until the previous copy from this slot has finished
            torch.index_select(self.images.images, 0, pick, out=self.pinned[slot])
            torch.index_select(self.images.labels, 0, pick, out=self.pinned_labels[slot])
            self.upload(slot)
            loss = self.step(self.staged[slot], self.staged_labels[slot])
            if self.cuda:
                self.used[slot].record()
        return loss


def variant_epoch(name, images, args):
    """Returns a function that trains one epoch with variant `name` and returns the last loss."""
    options = None
    if name.startswith("compile"):
        options = {"mode": COMPILE_MODES[name]} if args.device == "cuda" else {"backend": "eager"}
    trainer = Trainer(args.device, "bf16", 0.1 * args.batch / 1024, options)
    if name == "host":
        return HostEpochs(images, trainer, args.batch)
    step = trainer.step
    if name in ("graph", "compile_graph", "compile_default"):
        pixels, labels = images.epoch()
        step = GraphedStep(step, pixels[: args.batch], labels[: args.batch])
    return lambda: device_epoch(images, step, args.batch)
