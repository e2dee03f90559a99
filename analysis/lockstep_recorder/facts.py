# SPDX-License-Identifier: BSD-3-Clause
"""Facts about a PyTorch program and its machine that the run file stores."""

import functools
import os
import platform
import socket
import sys
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep_recorder import attempts

# Communication hooks of PyTorch that send the gradients in another type.
COMPRESSED = {
    f"{name}_compress_{kind}": name
    for name in ("bf16", "fp16")
    for kind in ("hook", "wrapper_hook")
}
TYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float64: "fp64",
}
WIDTHS = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}  # bytes
VARIABLES = ("NCCL_", "GLOO_", "OMP_", "CUDA_VISIBLE_DEVICES")


def device_of(model):
    return next(model.parameters()).device


def plain_model(model):
    """Returns the model without the wrapper of torch.compile. Raises `TypeError` if the Recorder
    cannot record it."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"Recorder: the model must be a torch.nn.Module, not {type(model).__name__}"
        )
    model = getattr(model, "_orig_mod", model)
    if next(model.parameters(), None) is None:
        raise TypeError(
            f"Recorder: the model {type(model).__name__} has no parameters; give the model that is"
            " trained"
        )
    if (
        is_initialized()
        and dist.get_world_size() > 1
        and not isinstance(model, DistributedDataParallel)
    ):
        raise TypeError(
            "Recorder: with several processes, the model must be a DistributedDataParallel, not "
            f"{type(model).__name__}"
        )
    return model


def is_joined(model):
    """Returns whether the model trains, or has trained, with
    `torch.distributed.algorithms.join.Join`, in which the processes must not wait for one another
    at the end of an epoch."""
    return getattr(getattr(model, "_join_config", None), "enable", False)


def is_initialized():
    return dist.is_available() and dist.is_initialized()


def program():
    """Returns the attributes of the root about the program."""
    return {
        "program": "pytorch",
        "software_version": torch.__version__,
        "git_commit": str(torch.version.git_version or "unknown").lower(),
        "git_dirty": 0,
        "command_line": " ".join(sys.argv),
    }


def config_of(model, comm_hook):
    """Returns {option: value} of what the model tells about itself, with the names of Lockstep's
    options if it has them."""
    device = device_of(model)
    config = {
        "command": "train",
        "device": device.type,
        "threads": str(torch.get_num_threads()),
        "seed": str(torch.initial_seed()),
        "gradient-dtype": gradient_type(model, comm_hook),
        "reducer": "none",
        "cudnn-benchmark": str(torch.backends.cudnn.benchmark).lower(),
        "parallelism": (
            type(model).__name__
            if isinstance(model, (nn.DataParallel, DistributedDataParallel))
            else "none"
        ),
    }
    if not isinstance(model, DistributedDataParallel):
        return config
    flags = [
        name
        for name in ("find_unused_parameters", "static_graph", "gradient_as_bucket_view")
        if getattr(model, name, False)
    ]
    config["parallelism"] += f" with {' and '.join(flags)}" if flags else ""
    config |= {
        "reducer": "overlap",
        "transport": backend_of(model),
        "bn": statistics_of(model),
        "bucket-mib": f"{model.bucket_bytes_cap / 2**20:g}",
    }
    if comm_hook is not None:
        config["comm-hook"] = next(names_of(comm_hook[1]))
    return config


def statistics_of(model):
    """Returns how the ranks share the statistics of batch norm."""
    if any(isinstance(module, nn.SyncBatchNorm) for module in model.modules()):
        return "sync"
    return "broadcast" if getattr(model, "broadcast_buffers", True) else "local"


def gradient_type(model, comm_hook):
    """Returns the type in which the gradients are sent: fp32, bf16, fp16, fp64, or "mixed"."""
    sent = (
        next((COMPRESSED[name] for name in names_of(comm_hook[1]) if name in COMPRESSED), None)
        if comm_hook
        else None
    )
    computed = {
        TYPES.get(each.dtype, str(each.dtype)) for each in model.parameters() if each.requires_grad
    }
    return sent or ("mixed" if len(computed) > 1 else next(iter(computed), "fp32"))


def names_of(hook, above=()):
    """Yields the name of a communication hook, and of the functions that it calls if it is a
    wrapper or a partial function."""
    if not callable(hook) or any(hook is each for each in above):
        return
    if not isinstance(hook, functools.partial):
        yield getattr(hook, "__name__", type(hook).__name__)
    for each in (getattr(hook, "func", None), getattr(hook, "__wrapped__", None), *captured(hook)):
        yield from names_of(each, (*above, hook))


def captured(function):
    """Yields the values of the variables that a nested function takes from the function around
    it."""
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # a variable without a value
            yield cell.cell_contents


def backend_of(model):
    """Returns the backend that reduces the gradients. A group can have one per type of device."""
    group, name = model.process_group, dist.get_backend(model.process_group)
    if not hasattr(dist, "get_backend_config"):  # before PyTorch 2.0
        return name
    backends = dict(
        each.split(":", 1) for each in dist.get_backend_config(group).split(",") if ":" in each
    )
    return backends.get(device_of(model).type, name)


def environment_of(model):
    library = f"PyTorch {torch.__version__}"
    if device_of(model).type == "cuda":
        library += f", CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    found = {
        "device_library": library,
        "cpu_model": cpu_model(),
        "warnings": "",
        "operating_system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if isinstance(model, DistributedDataParallel):
        found["transport"] = backend_of(model)
    variables = {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)}
    return found | attempts.environment() | variables


def cpu_model():
    return line_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def line_of(path, name):
    """Returns the text after the colon of the first line that begins with `name`; "" if there is
    none."""
    lines = (
        line
        for line in Path(path).read_text(encoding="utf-8").splitlines()
        if line.startswith(name)
    )
    return next(lines, "").partition(":")[2].strip()


def rank_facts(model):
    """Returns the columns of /ranks about this rank."""
    device = device_of(model)
    found = {
        "hostname": socket.gethostname(),
        "cpu_list": line_of("/proc/thread-self/status", "Cpus_allowed_list"),
        "device_name": cpu_model(),
        "device_uuid": "",
        "pci_bus_id": "",
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "device_name": properties.name,
            "memory_bytes": properties.total_memory,
            "device_uuid": str(getattr(properties, "uuid", "")),
        }
        count = len(model.device_ids) if isinstance(model, nn.DataParallel) else 1
        if count > 1:  # one process with several GPUs is no base case of a speedup
            found["device_name"] = f"{count} x {properties.name}"
    return found


def rank_columns(ranks):
    """Returns {path: values} of /ranks."""
    hosts = [of["hostname"] for of in ranks]
    columns = {f"/ranks/{name}": [of[name] for of in ranks] for name in ranks[0]}
    return columns | {
        "/rank": range(len(ranks)),
        "/ranks/rank": range(len(ranks)),
        "/ranks/host": [list(dict.fromkeys(hosts)).index(host) for host in hosts],
        "/ranks/local_rank": [hosts[:i].count(host) for i, host in enumerate(hosts)],
    }
