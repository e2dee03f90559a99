# SPDX-License-Identifier: BSD-3-Clause
"""Several GPUs with one rank each, the production path of NCCL: symmetric windows, NVLS, peer-to-peer
access and all-reduces in CUDA graphs."""

from bisection import FAILED, HUNG, check
from context import BATCH
from part_speed import select_engines
from ranks import GLOBAL_BATCH, all_reduce_check, one_rank_losses, training_check
from turns import RATE_COLUMNS, Configuration, median_and_range, run_alternately

STEPS = 20
DATA_TYPES = ("fp32", "bf16", "fp16")
RANKS = (2, 4)
NCCL_LABELS = ("NCCL_WIN_ENABLE=0", "NCCL_NVLS_ENABLE=0", "NCCL_LOCAL_REGISTER=0",
               "NCCL_GRAPH_REGISTER=0")
TRAINING_LABELS = (*NCCL_LABELS, "--reducer allreduce", "--cuda-graph off")


def rank_counts(context, report):
    """Returns the numbers of ranks in RANKS for which there are enough GPUs."""
    outcome = context.run("nvidia-smi list", [*context.programs.nvidia_smi, "--list-gpus"], 15)
    count = outcome.stdout.count("GPU ") if outcome.ok else 0
    counts = [ranks for ranks in RANKS if ranks <= count]
    if not counts:
        report.not_run("several GPUs", f"nvidia-smi lists {count} GPUs")
    return counts


def all_reduces(context, report):
    """All-reduces of all data types and sizes with NCCL."""
    for ranks in rank_counts(context, report):
        labels = NCCL_LABELS
        for data_type in DATA_TYPES:
            result = check(context, report, f"all-reduce {data_type} {ranks} GPUs", all_reduce_check(
                context, report, ranks, "--transport", "nccl", "--gradient-dtype", data_type,
                "--max-bytes", "256M"), labels)
            if result in (FAILED, HUNG):
                labels = ()  # the other data types fail for the same reason in most cases


def steps(context, report):
    """Compares training on several GPUs with one rank."""
    counts = rank_counts(context, report)
    reference = one_rank_losses(context, report, STEPS) if counts else None
    if reference is None:
        return
    report.add_text(f"{STEPS} steps on synthetic images with global batch {GLOBAL_BATCH}, fp32, "
                    "`--bn sync` and quick engines, compared with one rank.")
    for ranks in counts:
        check(context, report, f"training {ranks} GPUs", training_check(
            context, reference, ranks, "--transport", "nccl"), TRAINING_LABELS)


def scaling(context, report):
    """Throughput of one rank and of several ranks in turns, with the same batch per rank."""
    counts = rank_counts(context, report)
    if not counts:
        return
    select_engines(context, report, BATCH, "bf16")
    ones = [Configuration(BATCH, "bf16 device", ranks=ranks) for ranks in (1, *counts)]
    measured = run_alternately(context, report, ones)
    references, rows = ones[0].medians(), []
    for one in measured:
        efficiencies = [ratio / one.ranks for ratio in one.ratios(references)]
        text = median_and_range(efficiencies)
        rows.append([one.ranks, *one.rate_cells(report), text])
        if one.ranks > 1 and text:
            report.headlines.append(f"{one.ranks} GPUs: efficiency {text}")
    report.add_text(f"Throughput in bf16 with batch {BATCH} per rank. The efficiency divides the "
                    "throughput by that of one rank in the same round and by the number of ranks.")
    report.add_table(["ranks", *RATE_COLUMNS, "efficiency (min - max)"], rows)
