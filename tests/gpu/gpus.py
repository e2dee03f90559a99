"""Kinds of GPUs, their peak and attainable rates, and the roofline bound of a training step."""

from dataclasses import dataclass

TARGET_RATIO = 2.0  # throughput relative to the fastest PyTorch configuration


@dataclass(frozen=True)
class Gpu:
    """Rates of one kind of GPU: dense bf16 matrix products (FLOP/s) and device memory (bytes/s).

    `peak_*` are from the datasheets of NVIDIA (H100 SXM: 989.4 TFLOP/s, 3.35 TB/s; H200 SXM:
    989.4 TFLOP/s, 4.8 TB/s). `attainable_flops` is from a published table (S. Bekman, ML
    Engineering), and `attainable_bytes` is assumed to be 90 % of the peak (not verified)."""

    kind: str
    peak_flops: float | None = None
    peak_bytes: float | None = None
    attainable_flops: float | None = None
    attainable_bytes: float | None = None


H100 = Gpu("H100", 989.4e12, 3.35e12, 790e12, 3.0e12)
H200 = Gpu("H200", 989.4e12, 4.8e12, 790e12, 4.3e12)
OTHER = Gpu("other")


def gpu_of(name):
    """Returns the Gpu of a device name of the driver. The PCIe and NVL variants of the H100 and H200
    have other rates; they and all other devices are OTHER."""
    if "PCIe" in name or "NVL" in name:
        return OTHER
    return next((gpu for gpu in (H200, H100) if gpu.kind in name), OTHER)


def bound_seconds(operations, flops_per_second, bytes_per_second):
    """Returns the roofline bound of a step in seconds: the sum over the operations that `lockstep
    plan --measure` lists of the larger of arithmetic time and memory time."""
    return sum(max(operation["flops"] / flops_per_second, operation["bytes"] / bytes_per_second)
               for operation in operations)


def describe_rates(gpu):
    """Returns one line with the rates of a GPU."""
    if gpu is OTHER:
        return "other: this test has no peak rates of this GPU"
    return (f"{gpu.kind}: peak {gpu.peak_flops / 1e12:.0f} TFLOP/s dense bf16 and "
            f"{gpu.peak_bytes / 1e12:.2f} TB/s (datasheet); estimated attainable "
            f"{gpu.attainable_flops / 1e12:.0f} TFLOP/s and {gpu.attainable_bytes / 1e12:.1f} TB/s")
