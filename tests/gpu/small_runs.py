# SPDX-License-Identifier: BSD-3-Clause
"""Small training runs whose losses have a reference: three steps on synthetic images.

Lockstep computes the same initial weights, image order and images on every device, so the losses of
a GPU must agree with those of the CPU backend, which the tests compare with PyTorch."""

from dataclasses import dataclass

from bisection import changed
from context import LOSS_SCALE

STEPS = 3
CPU_BATCH = 32  # of the runs that are compared with the CPU
# (last step, bound of the relative difference up to this step). On a CPU at batch 32, bf16 differs
# from fp32 by 2e-4 in step 1 and by at most 6e-4 up to step 3.
BOUNDS = {"fp32": ((1, 1e-4), (STEPS, 1e-2)), "bf16": ((1, 5e-3), (STEPS, 2e-2)),
          "fp16": ((1, 5e-3), (STEPS, 2e-2))}


@dataclass(frozen=True)
class SmallRun:
    """The options that select the code that a small run executes on the GPU."""

    precision: str
    batch: int = CPU_BATCH
    engines: str = "quick"
    fusion: str = "auto"

    def __str__(self):
        return f"{self.precision} batch {self.batch} engines {self.engines} fusion {self.fusion}"

    def arguments(self, context, name):
        """Returns the arguments of `lockstep train`."""
        scale = ["--loss-scale", LOSS_SCALE] if self.precision == "fp16" else []
        return context.train_arguments(
            name, self.precision, "--data", f"synthetic:{STEPS * self.batch}", "--batch-per-rank",
            self.batch, "--steps", STEPS, "--augment", "none", "--lr", "0.001", *scale,
            engines=self.engines, fusion=self.fusion)


def reference_losses(context, batch):
    """Returns (losses, description) of the reference for small runs with `batch`: of the CPU for
    CPU_BATCH, otherwise of the GPU in fp32 with quick engines and without CUDA graph and fusion,
    because the CPU is too slow. The losses are None if the run did not succeed."""
    if batch not in context.references:
        name = f"reference fp32 {batch}"
        label, text = ("--device cpu", "the CPU in fp32") if batch == CPU_BATCH else \
            ("--cuda-graph off", "the GPU in fp32 without CUDA graph and fusion")
        arguments = changed(SmallRun("fp32", batch, fusion="none").arguments(context, name), label)
        training = context.train(name, arguments, 30)
        if training.outcome.is_cut_off:
            return None, training.reason  # a later step may have the time
        context.references[batch] = (training.run.loss, text) if training.run else \
            (None, training.reason)
    return context.references[batch]
