# SPDX-License-Identifier: BSD-3-Clause
"""The end of a batch ladder: whether the memory limit was reached."""

from typing import NamedTuple

GROWTH = 4  # of the batch from one point of a ladder to the next


class LadderEnd(NamedTuple):
    """Why a ladder has no larger batch, as the rest of a sentence."""

    exceeds_memory: bool
    text: str


def ladder_end(run):
    statuses = [str(status) for status in run.ladder["status"]]
    batches = [int(batch) for batch in run.ladder["batch_per_rank"]]
    if "out_of_memory" in statuses:
        batch = batches[statuses.index("out_of_memory")]
        return LadderEnd(True, f"batch {batch} exceeds the memory limit")
    if run.status != "complete":
        text = f"the ladder did not finish (status {run.status}), so larger batches may fit"
        return LadderEnd(False, text)
    if not batches:
        return LadderEnd(False, "it has no batches")
    samples = run.number("train-samples")
    if samples and GROWTH * max(batches) * run.rank_count > samples:
        text = (
            f"the next batch has more images than the {samples:,} of the training set, so the "
            "memory limit was not reached"
        )
        return LadderEnd(False, text)
    return LadderEnd(False, "the memory limit was not reached")
