"""The two calls of the acceptance test: their parts, and the steps of each part with their seconds."""

from dataclasses import dataclass

import part_accuracy
import part_memory
import part_operations
import part_ranks
import part_speed
import part_start

SECONDS = 510  # of one call: 8.5 minutes


@dataclass(frozen=True)
class Part:
    """A part of a call. The results are written after every step. `steps`: pairs of the seconds of a
    step and a function of (context, report)."""

    number: int
    title: str
    steps: tuple


# The order follows the risk: what everything else depends on comes first. PyTorch does not start
# before part 4, and nothing else uses the GPU while engines are selected (parts 1 and 3).
FIRST_CONTACT = (
    Part(1, "first steps", ((15, part_start.versions), (20, part_start.quick_steps),
                            (25, part_start.full_precision))),
    Part(2, "operations", ((80, part_operations.agreement), (30, part_operations.sanitizers))),
    Part(3, "throughput at batch 512", ((120, part_speed.speed_512),)),
    Part(4, "comparison with PyTorch at batch 512", ((110, part_speed.pytorch_512),)),
    Part(5, "accuracy and two ranks", ((40, part_accuracy.accuracy_bf16),
                                       (40, part_ranks.two_ranks))),
    Part(6, "batch ladder", ((30, part_memory.ladder_and_after),)),
)

# The second call reuses the engines that the first one selected.
MEASURE = (
    Part(1, "versions", ((15, part_start.versions),)),
    Part(2, "throughput at batch 128 and 2048", ((40, part_speed.speed_128),
                                                 (50, part_speed.speed_2048))),
    Part(3, "comparison with PyTorch, max-autotune", ((205, part_speed.pytorch_all),)),
    Part(4, "losses and accuracy", ((50, part_accuracy.losses), (45, part_accuracy.accuracy_fp16))),
    Part(5, "large batch and two ranks", ((20, part_memory.large_batch), (25, part_ranks.overlap),
                                          (10, part_ranks.check_all_reduce))),
    Part(6, "memory limit", ((50, part_memory.memory_limit),)),
)

CALLS = {"first-contact": FIRST_CONTACT, "measure": MEASURE}


def weights(call):
    """Returns the seconds of every step of a call, {(part, index of the step): seconds}."""
    return {(part.number, index): seconds for part in CALLS[call]
            for index, (seconds, _) in enumerate(part.steps)}
