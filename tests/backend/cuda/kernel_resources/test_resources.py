# SPDX-License-Identifier: BSD-3-Clause
"""Tests that every kernel of the program stays within its limits on every architecture
(limits.py)."""

import os
from pathlib import Path

import pytest
import resources
from limits import LIMITS, Limit
from resources import MULTIPROCESSORS, Usage

ARCHITECTURES = {int(name) for name in os.environ["LOCKSTEP_KERNEL_ARCHITECTURES"].split()}
FOLDER = Path(os.environ["LOCKSTEP_KERNEL_RESOURCES"])
USAGES = resources.read(FOLDER)


def base(kernel: str) -> str:
    return kernel.split("<")[0]


def violations(usages: list[Usage], limits: dict[str, Limit]) -> list[str]:
    """Returns one line for each value that exceeds its limit, and for each kernel without
    limits."""
    lines = []
    for usage in usages:
        limit = limits.get(base(usage.kernel))
        where = f"{usage.kernel}, sm_{usage.architecture}: "
        if limit is None:
            lines.append(f"{where}the kernel has no entry in limits.py")
            continue
        for what, value, largest in (
            ("registers", usage.registers, limit.registers),
            ("bytes of stack", usage.stack_bytes, 0),
            ("bytes of spills", usage.spill_bytes, 0),
            ("bytes of shared memory", usage.shared_bytes, limit.shared_bytes),
        ):
            if value > largest:
                lines.append(f"{where}{value} {what}, limit {largest}")
        if usage.occupancy < limit.occupancy:
            lines.append(f"{where}occupancy {usage.occupancy:.1%}, limit {limit.occupancy:.1%}")
    return lines


def test_all_kernels_are_within_their_limits():
    assert not violations(USAGES, LIMITS), "\n".join(["", *violations(USAGES, LIMITS)])


def test_every_architecture_has_every_kernel():
    kernels = {usage.kernel for usage in USAGES}
    pairs = {(usage.kernel, usage.architecture) for usage in USAGES}
    assert len(kernels) > 60
    assert pairs == {(kernel, architecture) for kernel in kernels for architecture in ARCHITECTURES}


def test_every_limit_belongs_to_a_kernel():
    assert set(LIMITS) == {base(usage.kernel) for usage in USAGES}


def test_no_kernel_divides_64_bit_integers():
    counts = {}
    for file in FOLDER.glob("*.ptx"):
        counts |= resources.divisions(file.read_text())
    assert set(counts) == {usage.kernel for usage in USAGES}
    assert not [
        f"{kernel}: {count} divisions; use divide()"
        for kernel, count in counts.items()
        if count > 0
    ]


def test_counts_divisions_in_ptx():
    text = """.visible .entry _Z3addPf(
        .param .u64 a) {
        div.u32 %r1, %r2, %r3;
        rem.s64 %rd1, %rd2, %rd3;
        div.rn.f64 %fd1, %fd2, %fd3; }
.weak .entry _Z4nonev() { div.u32 %r1, %r2, %r3; }"""
    assert resources.divisions(text) == {"add(float*)": 1, "none()": 0}


GOOD = Usage("Add<float>", 90, registers=32, stack_bytes=0, spill_bytes=0, shared_bytes=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kernel": "Subtract<float>"},
            "Subtract<float>, sm_90: the kernel has no entry in limits.py",
        ),
        ({"registers": 33}, "Add<float>, sm_90: 33 registers, limit 32"),
        ({"stack_bytes": 8}, "Add<float>, sm_90: 8 bytes of stack, limit 0"),
        ({"spill_bytes": 4}, "Add<float>, sm_90: 4 bytes of spills, limit 0"),
        ({"shared_bytes": 4}, "Add<float>, sm_90: 4 bytes of shared memory, limit 0"),
    ],
)
def test_reports_kernel_architecture_value_and_limit(change, message):
    limits = {"Add": Limit(32)}
    assert violations([GOOD], limits) == []
    assert violations([Usage(**{**vars(GOOD), **change})], limits) == [message]


def test_reports_low_occupancy():
    usage = Usage(**{**vars(GOOD), "registers": 40})
    assert violations([usage], {"Add": Limit(40, occupancy=1)}) == [
        "Add<float>, sm_90: occupancy 75.0%, limit 100.0%"
    ]


@pytest.mark.parametrize(
    ("architecture", "registers", "shared_bytes", "blocks"),
    # The values are those of cudaOccMaxActiveBlocksPerMultiprocessor in cuda_occupancy.h, in blocks
    # of 256 threads.
    [
        (75, 32, 0, 4), (75, 64, 0, 4), (75, 65, 0, 3), (75, 255, 0, 1), (75, 32, 40000, 1),
        (80, 32, 0, 8), (80, 33, 0, 6), (80, 41, 0, 5), (80, 49, 0, 4), (80, 65, 0, 3),
        (80, 81, 0, 2), (80, 129, 0, 1), (80, 32, 40000, 4), (90, 32, 40000, 5), (90, 128, 64, 2),
        (100, 64, 16384, 4), (100, 32, 40000, 5),
    ],
)  # fmt: skip
def test_occupancy_equals_that_of_the_cuda_toolkit(architecture, registers, shared_bytes, blocks):
    multiprocessor = MULTIPROCESSORS[architecture]
    assert multiprocessor.occupancy(registers, shared_bytes) == blocks * 8 / multiprocessor.warps


def test_reads_the_output_of_ptxas():
    symbol = (
        "_ZN8lockstep7backend4cuda10run_kernelINS1_7kernels9SgdUpdateINS_4core8BFloat16EEEEEvT_"
    )
    text = f"""ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{symbol}' for 'sm_90'
ptxas info    : Function properties for {symbol}
    24 bytes stack frame, 36 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 61 registers, used 1 barriers, 24 bytes cumulative stack size, 128 bytes smem
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_100a'
ptxas info    : Function properties for _Z3addPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""
    assert resources.parse(text) == [
        Usage("SgdUpdate<core::BFloat16>", 90, 61, 24, 132, 128),
        Usage("add(float*)", 100, 12, 0, 0, 0),
    ]
    with pytest.raises(ValueError, match="_Z3addPf"):
        resources.parse(text[: text.rindex("ptxas info")])
