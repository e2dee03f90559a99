#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cuDNN plans convolutions for a GPU that is not present from a description of that GPU (JSON with 24 fields).
#
# Expected: the ranking of its engines depends on the number of multiprocessors (waves of tiles, split of weight gradients), on
# clocks, caches and memory bandwidth, and no engine is offered that needs more shared memory than the GPU has.
# Seen: for bf16 convolutions, the ranked list of all engines is the same for an H200, for a slice of it with 16 multiprocessors,
# with a quarter of the clocks, with 1 MiB of L2 cache, with a memory bus of 64 bits, and with 48 KiB of shared memory per block; only
# `deviceVer`, the compute capability, changes the list. All plans of a forward convolution are also built for 48 KiB.
# (cuDNN 9.28.1, tested here; the same was seen with 9.19.0 for H200 and A100, and with 9.28.1 for A100, L40S and B200.)
# Consequences: a description with approximate clocks and sizes gives the same plans as the true one. But neither the first choice
# of the heuristics nor a plan that was built shows that an engine suits a part of a GPU (MIG), or a smaller GPU of the
# same generation: time the engines on the device itself.
#
# Needs: bash, a C compiler, nm, Python 3.9 to 3.13 with pip, x86-64, 1.5 GB for temporary files. No GPU and no driver.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$work/packages" \
  nvidia-cudnn-cu13==9.28.1.4 nvidia-cudnn-frontend==1.32.0 nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-runtime==13.5.37

# cuDNN 9.27 and newer do not read descriptions on machines that lack the driver library. This stub has its functions, and all of
# them answer that there is no device (100).
mkdir "$work/driver"
nm -D --undefined-only "$work"/packages/nvidia/cudnn/lib/*.so.9 | awk '$2 ~ /^cu[A-Z]/ { print $2 }' | sed 's/@.*//' | sort -u |
  awk '{ print "int " $1 "(void) { return 100; }" }' | cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/driver/libcuda.so.1" -x c -

cat >"$work/plan.py" <<'PYTHON'
import itertools
import json

import cudnn

H200 = {
    "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "totalGlobalMem": 150754820096,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
    "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxSharedMemoryPerSM": 233472,
    "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "l2CacheSize": 62914560, "memoryBusWidth": 6144,
}
CHANGES = {
    "16 multiprocessors": {"multiProcessorCount": 16},
    "a quarter of the clocks": {"smClockRateKHz": 495000, "memClockRateKHz": 800250},
    "1 MiB of L2 cache": {"l2CacheSize": 1 << 20},
    "memory bus of 64 bits": {"memoryBusWidth": 64},
    "48 KiB of shared memory per block": {"maxSharedMemoryPerBlockOptin": 49152, "maxSharedMemoryPerSM": 65536},
    "compute capability 8.9": {"deviceVer": 890},
    "compute capability 10.0": {"deviceVer": 1000},
}
BF16, FLOAT = cudnn.data_type.BFLOAT16, cudnn.data_type.FLOAT


def planned(description, kind, images, in_channels, out_channels, size, stride):
    """Returns a graph of one 3x3 convolution with all engines of the heuristics, in their order."""
    properties = cudnn.create_device_properties(json.dumps(description))
    graph = cudnn.pygraph(io_data_type=BF16, intermediate_data_type=FLOAT, compute_data_type=FLOAT, device_property=properties)
    extents = {"x": [images, in_channels, size, size], "w": [out_channels, in_channels, 3, 3],
               "y": [images, out_channels, size // stride, size // stride]}
    channels_last = {name: [c * h * w, 1, c * w, c] for name, (_, c, h, w) in extents.items()}
    window = {"padding": [1, 1], "stride": [stride, stride], "dilation": [1, 1]}

    def tensor(name):
        return graph.tensor(name=name, dim=extents[name], stride=channels_last[name], data_type=BF16)

    if kind == "forward":
        result, name = graph.conv_fprop(tensor("x"), tensor("w"), **window), "y"
    elif kind == "data gradient":
        result, name = graph.conv_dgrad(tensor("y"), tensor("w"), **window), "x"
    else:
        result, name = graph.conv_wgrad(tensor("x"), tensor("y"), **window), "w"
    result.set_dim(extents[name]).set_stride(channels_last[name]).set_output(True).set_data_type(BF16)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    return graph


def engines(description, case):
    graph = planned(description, *case)
    return [graph.get_plan_name_at_index(i) for i in range(graph.get_execution_plan_count())]


def count_built(description):
    graph = planned(description, "forward", 128, 64, 64, 32, 1)
    built = 0
    for i in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(i)
            built += 1
        except cudnn.cudnnGraphNotSupportedError:
            pass
    return built, graph.get_execution_plan_count()


shapes = [(64, 64, 32, 1), (64, 128, 32, 2), (128, 128, 16, 1), (512, 512, 4, 1)]
cases = [(kind, images, *shape)
         for kind, images, shape in itertools.product(["forward", "data gradient", "weight gradient"], [32, 128, 512], shapes)]
print(f"cuDNN {cudnn.backend_version()}, cudnn-frontend {cudnn.__version__}, {len(cases)} convolutions in bf16")
original = {case: engines(H200, case) for case in cases}
print(f"H200: {sum(map(len, original.values()))} engines, first choices {sorted({names[0].split('_')[0] for names in original.values()})}")
changed = {}
for name, fields in CHANGES.items():
    lists = {case: engines({**H200, **fields}, case) for case in cases}
    changed[name] = sum(lists[case] != original[case] for case in cases)
    print(f"H200 with {name}: {changed[name]} of {len(cases)} lists of engines differ")
small = {**H200, **CHANGES["48 KiB of shared memory per block"]}
built, found = count_built(small)
print(f"H200 with 48 KiB of shared memory per block: {built} of {found} plans of a forward convolution are built")
expected = {name: len(cases) if "compute capability" in name else 0 for name in CHANGES}
assert changed == expected, "the behaviour has changed"
assert built == found > 0, "the behaviour has changed"
PYTHON
cd "$work"
LD_LIBRARY_PATH=$work/packages/nvidia/cudnn/lib:$work/packages/nvidia/cu13/lib:$work/driver PYTHONPATH=$work/packages \
  python3 plan.py 2>messages || { cat messages && exit 1; }
