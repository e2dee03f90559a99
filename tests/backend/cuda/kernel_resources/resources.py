# SPDX-License-Identifier: BSD-3-Clause
"""Reads the resource usage that ptxas prints, and computes the occupancy of the kernels.

python3 resources.py FOLDER     prints a table of all kernels; FOLDER contains the files *.usage of
the build
"""

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

THREADS_PER_BLOCK = 256  # block_threads in kernels/device.hpp
WARP = 32


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per
    Compute Capability"). The allocation units are those of cuda_occupancy.h in the CUDA toolkit."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    reserved_shared_bytes: int  # per block, by the CUDA runtime
    registers: int = 65536
    register_unit: int = 256  # per warp

    def occupancy(self, registers: int, shared_bytes: int) -> float:
        """Returns resident warps / maximum for blocks of 256 threads with `registers` per thread
        and `shared_bytes` of static shared memory per block."""
        warps_per_block = THREADS_PER_BLOCK // WARP
        blocks = [self.blocks, self.warps // warps_per_block]
        if registers > 0:
            per_warp = round_up(registers * WARP, self.register_unit)
            # The registers are divided evenly among four partitions, and a warp is in one of them.
            blocks.append(self.registers // 4 // per_warp * 4 // warps_per_block)
        shared = round_up(shared_bytes + self.reserved_shared_bytes, self.shared_unit)
        if shared > 0:
            blocks.append(self.shared_bytes // shared)
        return min(blocks) * warps_per_block / self.warps


MULTIPROCESSORS = {
    75: Multiprocessor(
        warps=32, blocks=16, shared_bytes=64 << 10, shared_unit=256, reserved_shared_bytes=0
    ),
    80: Multiprocessor(
        warps=64, blocks=32, shared_bytes=164 << 10, shared_unit=128, reserved_shared_bytes=1 << 10
    ),
    90: Multiprocessor(
        warps=64, blocks=32, shared_bytes=228 << 10, shared_unit=128, reserved_shared_bytes=1 << 10
    ),
    100: Multiprocessor(
        warps=64, blocks=32, shared_bytes=228 << 10, shared_unit=128, reserved_shared_bytes=1 << 10
    ),
}


def round_up(value: int, unit: int) -> int:
    return math.ceil(value / unit) * unit


@dataclass(frozen=True)
class Usage:
    """Resources of one kernel on one architecture."""

    kernel: str  # e.g. BatchNormApply<core::BFloat16>
    architecture: int  # e.g. 90
    registers: int
    stack_bytes: int
    spill_bytes: int
    shared_bytes: int

    @property
    def occupancy(self) -> float:
        return MULTIPROCESSORS[self.architecture].occupancy(self.registers, self.shared_bytes)


COMPILING = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)\w*'")
MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def parse(text: str) -> list[Usage]:
    """Returns the resources in the output of `nvcc --resource-usage`. Throws ValueError if a kernel
    lacks a line."""
    usages = []
    starts = list(COMPILING.finditer(text))
    names = demangle([start[1] for start in starts])
    for position, start in enumerate(starts):
        end = starts[position + 1].start() if position + 1 < len(starts) else len(text)
        section = text[start.end() : end]
        memory, registers, shared = (
            MEMORY.search(section),
            REGISTERS.search(section),
            SHARED.search(section),
        )
        if memory is None or registers is None:
            raise ValueError(f"no resources of {start[1]} in the output of ptxas")
        usages.append(
            Usage(
                kernel=names[position],
                architecture=int(start[2]),
                registers=int(registers[1]),
                stack_bytes=int(memory[1]),
                spill_bytes=int(memory[2]) + int(memory[3]),
                shared_bytes=int(shared[1]) if shared else 0,
            )
        )
    return usages


def demangle(symbols: list[str]) -> list[str]:
    """Returns the functor types of `run_kernel`, without namespaces of the CUDA backend; other
    functions in full."""
    if not symbols:
        return []
    names = subprocess.run(
        ["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True
    ).stdout
    prefix = re.compile(r"\blockstep::(backend::cuda::kernels::)?")
    result = []
    for name in names.splitlines():
        functor = re.fullmatch(r"void lockstep::backend::cuda::run_kernel<(.*)>\(.*\)", name)
        result.append(prefix.sub("", functor[1] if functor else name).replace(" >", ">").strip())
    return result


def divisions(text: str) -> dict[str, int]:
    """Returns the number of 64-bit integer divisions in each kernel of a file of PTX code."""
    sections = re.split(r"\.entry (\w+)", text)[1:]
    counts = [len(re.findall(r"\b(?:div|rem)\.[su]64\b", body)) for body in sections[1::2]]
    return dict(zip(demangle(sections[::2]), counts, strict=True))


def read(folder: Path) -> list[Usage]:
    """Returns the resources of all kernels of the files FOLDER/*.usage."""
    return [usage for file in sorted(folder.glob("*.usage")) for usage in parse(file.read_text())]


def table(usages: list[Usage]) -> str:
    """Returns one line per kernel; the columns contain registers and occupancy per architecture."""
    architectures = sorted({usage.architecture for usage in usages})
    by_kernel: dict[str, dict[int, Usage]] = {}
    for usage in usages:
        by_kernel.setdefault(usage.kernel, {})[usage.architecture] = usage
    width = max(len(kernel) for kernel in by_kernel)
    lines = [
        f"{'kernel':{width}}"
        + "".join(f"{f'sm_{a}':>11}" for a in architectures)
        + "  shared  stack  spills"
    ]
    for kernel, row in sorted(by_kernel.items()):
        cells = "".join(
            f"{row[a].registers:5d} {row[a].occupancy:4.0%} " if a in row else f"{'-':>11}"
            for a in architectures
        )
        worst = [
            max(getattr(u, field) for u in row.values())
            for field in ("shared_bytes", "stack_bytes", "spill_bytes")
        ]
        lines.append(f"{kernel:{width}}{cells}{worst[0]:8d}{worst[1]:7d}{worst[2]:8d}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]))))
