# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks that share one GPU, compared with one rank. NCCL then uses neither peer-to-peer access
nor its symmetric kernels; part_gpus.py checks several GPUs."""

import os

from bisection import check
from ranks import GLOBAL_BATCH, all_reduce_check, one_rank_losses, training_check

STEPS = 5
# NCCL treats ranks that share a GPU as ranks of two hosts. Few thread blocks: the kernels of both
# ranks must run at the same time.
SHARED = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
          "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}
LABELS = {"staged": (), "nccl": ("--reducer allreduce", "--cuda-graph off")}


def two_ranks(context, report):
    """Compares two ranks with one rank: gradients through host memory, then NCCL."""
    reference = one_rank_losses(context, report, STEPS)
    if reference is None:
        return
    report.add_text(f"One rank and two ranks that share the GPU train {STEPS} steps on synthetic "
                    f"images with global batch {GLOBAL_BATCH}, fp32, `--bn sync` and quick engines.")
    for transport, labels in LABELS.items():
        check(context, report, f"two ranks {transport}", training_check(
            context, reference, 2, "--allow-gpu-sharing", "--transport", transport, **SHARED), labels)


def all_reduces(context, report):
    for transport in LABELS:
        check(context, report, f"all-reduce bf16 {transport}", all_reduce_check(
            context, report, 2, "--allow-gpu-sharing", "--transport", transport, "--gradient-dtype",
            "bf16", "--max-bytes", "4M", **SHARED), ())
