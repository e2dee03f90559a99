"""The two calls of the acceptance test: their parts, with the seconds and the steps of each part."""

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
    """A part of a call. The results are written after every step (a function of context, report)."""

    number: int
    title: str
    seconds: int
    steps: tuple


# The order follows the risk: what everything else depends on comes first. PyTorch does not start
# before part 4, and nothing else uses the GPU while engines are selected (parts 1 and 3).
FIRST_CONTACT = (
    Part(1, "first steps", 60,
         (part_start.versions, part_start.quick_steps, part_start.full_precision)),
    Part(2, "operations", 110, (part_operations.agreement, part_operations.sanitizers)),
    Part(3, "throughput at batch 512", 120, (part_speed.speed_512,)),
    Part(4, "comparison with PyTorch at batch 512", 110, (part_speed.pytorch_512,)),
    Part(5, "accuracy and two ranks", 80, (part_accuracy.accuracy_bf16, part_ranks.two_ranks)),
    Part(6, "batch ladder", 30, (part_memory.ladder_and_after,)),
)

# The second call reuses the engines that the first one selected.
MEASURE = (
    Part(1, "versions", 15, (part_start.versions,)),
    Part(2, "throughput at batch 128 and 2048", 110,
         (part_speed.speed_128, part_speed.speed_2048)),
    Part(3, "comparison with PyTorch, max-autotune", 190, (part_speed.pytorch_all,)),
    Part(4, "losses and accuracy", 90, (part_accuracy.losses, part_accuracy.accuracy_fp16)),
    Part(5, "large batch and two ranks", 50,
         (part_memory.large_batch, part_ranks.overlap, part_ranks.check_all_reduce)),
    Part(6, "memory limit", 55, (part_memory.memory_limit,)),
)

CALLS = {"first-contact": FIRST_CONTACT, "measure": MEASURE}
