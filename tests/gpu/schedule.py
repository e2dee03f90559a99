# SPDX-License-Identifier: BSD-3-Clause
"""The calls of the acceptance test: their parts, and the steps of each part with their seconds."""

from dataclasses import dataclass

import part_accuracy
import part_gpus
import part_memory
import part_operations
import part_ranks
import part_speed
import part_start

SECONDS = 510  # of one call: 8.5 minutes


@dataclass(frozen=True)
class Part:
    """A part of a call. `steps`: pairs of the seconds of a step and a function of (context, report)."""

    title: str
    steps: tuple


VERSIONS = Part("versions", ((15, part_start.versions),))
CALLS = {
    # The order follows the risk: what everything else depends on comes first. PyTorch does not start
    # before part 4, and nothing else uses the GPU while engines are selected (parts 1 and 3).
    "first-contact": (
        Part("first steps", ((15, part_start.versions), (20, part_start.quick_steps),
                             (25, part_start.full_precision))),
        Part("operations", ((48, part_operations.batch_norm_tests), (32, part_operations.other_tests),
                            (30, part_operations.sanitizers))),
        Part("throughput at batch 512", ((120, part_speed.speed_512),)),
        Part("comparison with PyTorch at batch 512", ((110, part_speed.pytorch_512),)),
        Part("accuracy and two ranks", ((40, part_accuracy.accuracy_bf16), (40, part_ranks.two_ranks))),
        Part("batch ladder", ((30, part_memory.ladder),)),
    ),
    # Reuses the engines that the first call selected.
    "measure": (
        VERSIONS,
        Part("throughput at batch 128 and 2048", ((40, part_speed.speed_128),
                                                  (50, part_speed.speed_2048))),
        Part("comparison with PyTorch, max-autotune", (
            (50, part_speed.pytorch_128), (50, part_speed.pytorch_2048), (110, part_speed.max_autotune))),
        Part("losses and accuracy", ((50, part_accuracy.losses), (45, part_accuracy.accuracy_fp16))),
        Part("large batch and two ranks", ((20, part_memory.large_batch), (20, part_ranks.all_reduces))),
        Part("memory limit", ((60, part_memory.memory_limit),)),
    ),
    "gpus": (
        VERSIONS,
        Part("all-reduces between GPUs", ((120, part_gpus.all_reduces),)),
        Part("training on several GPUs", ((125, part_gpus.steps),)),
        Part("throughput of several GPUs", ((250, part_gpus.scaling),)),
    ),
}


def weights(call):
    """Returns the seconds of every step of a call, {(index of the part, index of the step): seconds}.
    Steps share the time of the call in proportion to them (clock.py)."""
    return {(i, j): seconds for i, part in enumerate(CALLS[call])
            for j, (seconds, _) in enumerate(part.steps)}
