"""Small training runs whose losses have a reference: three steps on synthetic images.

Lockstep computes the same initial weights, image order and images on every device, so the losses of
a GPU must agree with those of the CPU backend, which the tests compare with PyTorch."""

from dataclasses import dataclass

from context import LOSS_SCALE
from measures import Unreadable, loss_deviations, read_run

STEPS = 3
CPU_BATCH = 32  # of the runs that are compared with the CPU
# (last step, bound of the relative difference up to this step). On a CPU at batch 32, bf16 differs
# from fp32 by 2e-4 in step 1 and by at most 6e-4 up to step 3.
BOUNDS = {"fp32": ((1, 1e-4), (STEPS, 1e-2)), "bf16": ((1, 5e-3), (STEPS, 2e-2)),
          "fp16": ((1, 5e-3), (STEPS, 2e-2))}


@dataclass(frozen=True)
class SmallRun:
    """What selects the code that a small run executes on the GPU."""

    precision: str
    batch: int = CPU_BATCH
    engines: str = "quick"
    fusion: str = "auto"
    transport: str = "auto"

    def __str__(self):
        return (f"{self.precision}, batch {self.batch}, --engines {self.engines}, --bn-fusion "
                f"{self.fusion}")


def arguments_on(device, context, name, batch):
    """Returns the arguments that small runs on all devices share."""
    return ["train", "--device", device, "--data", f"synthetic:{STEPS * batch}", "--batch-per-rank",
            str(batch), "--steps", str(STEPS), "--augment", "none", "--lr", "0.001",
            "--evaluate-every", "never", "--seed", str(context.args.seed), "--output",
            context.path(f"{name}.h5"), "--overwrite", "--json", "--quiet"]


def gpu_arguments(context, name, configuration):
    """Returns the arguments of a small run on the GPU."""
    scale = ["--loss-scale", LOSS_SCALE] if configuration.precision == "fp16" else []
    return [*arguments_on("cuda", context, name, configuration.batch),
            "--precision", configuration.precision, *scale, "--engines", configuration.engines,
            "--bn-fusion", configuration.fusion, "--transport", configuration.transport]


def losses_of(context, name, command, limit):
    """Runs a command and returns (losses, reason). The losses are None if it did not succeed."""
    outcome = context.run(name, command, limit)
    if not outcome.ok:
        return None, outcome.failure
    try:
        return read_run(context.path(f"{name}.h5")).loss, ""
    except Unreadable as error:
        return None, str(error)


def reference_losses(context, batch):
    """Returns (losses, description) of the reference for small runs with `batch`: of the CPU for
    CPU_BATCH, otherwise of the GPU in fp32 with quick engines, because the CPU is too slow. The
    losses are None if the run did not succeed."""
    if batch not in context.references:
        if batch == CPU_BATCH:
            name, text = "reference cpu", "the CPU in fp32"
            command = context.lockstep(*arguments_on("cpu", context, name, batch))
        else:
            name, text = f"reference fp32 {batch}", "the GPU in fp32 with quick engines"
            command = context.lockstep(
                *gpu_arguments(context, name, SmallRun("fp32", batch, fusion="none")))
        losses, reason = losses_of(context, name, command, 30)
        if losses is None and context.runner.outcomes[-1].is_cut_off:
            return None, reason  # a later step may have the time
        context.references[batch] = losses, text if losses is not None else reason
    return context.references[batch]


def deviations(context, configuration, losses):
    """Returns one message per step bound that the losses of a small run violate. Without a
    reference, the losses only have to be finite."""
    reference, _ = reference_losses(context, configuration.batch)
    if reference is None:
        reference = losses
    return loss_deviations(losses, reference, BOUNDS[configuration.precision])
