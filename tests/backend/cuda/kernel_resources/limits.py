# SPDX-License-Identifier: BSD-3-Clause
"""Limits on the resources of each kernel, for all architectures and data types.

No kernel may have a stack frame (local memory) or spill registers. A limit on registers is the
largest number with which the stated number of blocks of 256 threads is resident on a multiprocessor
with 65,536 registers:
    32: 8 blocks    40: 6    48: 5    64: 4    80: 3    128: 2
From sm_80 on, 8 blocks are the maximum; on sm_75, 4 are.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    registers: int
    shared_bytes: int = 0  # static, per block
    occupancy: float = 0.5  # least resident warps / maximum, on every architecture


TOTALS = 2 * 8 * 8  # two sums of one float64 per warp of a block


def slabs(kinds):
    """Limit of a kernel that sums slabs of rows. Each thread has several 16-byte reads in flight
    and sums for up to 8 channels. The grid has 512 threads per multiprocessor of an H100
    (slab_blocks in slabs.hpp), so a higher occupancy is useless. The shared memory has the sums of
    each thread, `kinds` per channel, for 8 channels or 1, and 4 bytes more.
    """
    return Limit(128, 256 * 4 * ((8 * kinds + 1) + (kinds + 1)), occupancy=0.25)


LIMITS = {
    "Add": Limit(32),
    "AddGradientsToSums": Limit(32),
    "AddSumsToGradients": Limit(32),
    "AveragePoolBackward": Limit(32),
    "AveragePoolForward": Limit(32),
    "BatchNormApply": Limit(40),
    "BatchNormGradientCoefficients": Limit(40),
    "BatchNormGradientSums": slabs(2),
    "BatchNormGradientTotals": Limit(40, TOTALS),
    "BatchNormGradientTotalsAndCoefficients": Limit(40, TOTALS),
    "BatchNormInferenceCoefficients": Limit(32),
    "BatchNormInputGradient": Limit(64),
    "BatchNormStatistics": Limit(40),
    "BatchNormStatisticsOfSums": Limit(40),
    "BatchNormSums": slabs(2),
    "BatchNormTotals": Limit(40, TOTALS),
    "BatchNormTotalsAndStatistics": Limit(40, TOTALS),
    "ChannelSlabSums": slabs(1),
    "ChannelTotals": Limit(32, TOTALS),
    "AdamWUpdate": Limit(48),
    "ClippingFactor": Limit(40, TOTALS),
    "Dropout": Limit(32),
    "FlattenBackward": Limit(32),
    "FlattenForward": Limit(32),
    "FlushGradients": Limit(32),
    "GradientSquares": Limit(64, TOTALS),
    "LarsUpdate": Limit(48),
    "LocalRates": Limit(40, TOTALS),
    "LossScaleUpdate": Limit(32),
    # Each thread has the maxima, their positions and the gradients of 8 channels; 64 registers lead
    # to spills.
    "MaxPoolBackward": Limit(80, occupancy=0.375),
    "MaxPoolForward": Limit(64),
    "NormaliseImages": Limit(64),
    "RefreshWeights": Limit(32),
    "ReluBackward": Limit(40),
    "ReluForward": Limit(32),
    "SegmentSums": Limit(48, TOTALS),
    "SgdUpdate": Limit(48),
    "SoftmaxCrossEntropy": Limit(64),
    # Each thread has eight 16-byte reads in flight (the unrolled loop of team_reduce).
    "SquaredDistance": Limit(80, TOTALS, occupancy=0.375),
    "SumResults": Limit(32, TOTALS),
}
