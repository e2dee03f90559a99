# SPDX-License-Identifier: BSD-3-Clause
"""Writes run files in the format of docs/run-file.md, with numbers that can be checked by hand."""

import h5py
import numpy as np
from lockstep_report.runfile import schema

PHASES = ("data_wait", "upload", "forward", "backward", "exposed_communication", "update")
TEXT = h5py.string_dtype("utf-8")


def dataset(file, path, values):
    """Writes the dataset `path` of the schema with its attributes and dimension scales."""
    spec = schema.dataset(path)
    values = np.asarray(values)
    if values.dtype.kind in "UO":
        made = file.create_dataset(path, data=values.astype(object), dtype=TEXT)
    else:
        made = file.create_dataset(path, data=values)
    made.attrs["units"] = spec.units
    made.attrs["long_name"] = spec.description
    if spec.is_scale:
        made.make_scale(spec.name)
        return
    for axis, scale in enumerate(spec.dimensions):
        made.dims[axis].attach_scale(file[scale])


def header(file, status="complete", failure="", config=(), attributes=(), environment=()):
    """Writes the attributes of the root. The run id is the path of the file unless `attributes` has
    one."""
    file.attrs.update(
        {
            "format": "lockstep-run",
            "format_version": schema.VERSION,
            "software_version": "0.1.0",
            "git_commit": "abc",
            "git_dirty": 0,
            "date_utc": "2026-01-01T00:00:00Z",
            "command_line": "lockstep train",
            "run_id": file.filename,
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": 0,
            "images_per_epoch": 0,
            "status": status,
            "failure": failure,
            **dict(attributes),
        }
    )
    file.create_group("config").attrs.update(dict(config))
    file.create_group("environment").attrs.update({"mpi": "test", **dict(environment)})


def write_run(
    path,
    phase_seconds,
    images_per_step,
    *,
    epochs=1,
    batch=32,
    reducer="overlap",
    bucket_bytes=(),
    bucket_start=None,
    bucket_end=None,
    bucket_calls=None,
    status="complete",
    failure="",
    config=(),
    attributes=(),
    environment=(),
    epoch_of_step=None,
    ranks_of=(),
):
    """Writes a run file and returns its path. `phase_seconds` has the shape (step, rank, phase).
    The epoch of each step is in `epoch_of_step`; without it, each of the `epochs` epochs has the
    same number of steps. `bucket_calls`: seconds in calls, by default those from start to end, or
    "absent". `attributes` are added to the root, `ranks_of` to the columns of /ranks.
    """
    phase_seconds = np.asarray(phase_seconds, dtype=float)
    steps, ranks, _ = phase_seconds.shape
    if epoch_of_step is None:
        epoch_of_step = np.repeat(np.arange(1, epochs + 1), steps // epochs)
    epoch_of_step = np.asarray(epoch_of_step)
    numbers = np.unique(epoch_of_step) if steps else np.arange(1, epochs + 1)
    options = {
        "model": "resnet18-cifar",
        "device": "cpu",
        "precision": "fp32",
        "reducer": reducer,
        "batch-per-rank": str(batch),
        "threads": "1",
        "train-samples": str(images_per_step * steps // len(numbers)),
        **dict(config),
    }
    with h5py.File(path, "w", libver="latest") as file:
        samples = int(options["train-samples"]) or images_per_step * steps // len(numbers)
        size = size_of(samples, images_per_step, options.get("last-batch") == "pad")
        header(file, status, failure, options, size | dict(attributes), environment)
        dataset(file, "/step", np.arange(1, steps + 1))
        dataset(file, "/rank", np.arange(ranks))
        dataset(file, "/phase", list(PHASES))
        dataset(file, "/epoch", numbers)
        dataset(file, "/bucket", np.arange(len(bucket_bytes)))
        write_ranks(file, ranks, ranks_of)
        dataset(file, "/steps/epoch", epoch_of_step)
        for name in ("learning_rate", "loss"):
            dataset(file, f"/steps/{name}", np.full(steps, 0.1))
        dataset(file, "/steps/images", np.full(steps, images_per_step))
        dataset(file, "/steps/phase_seconds", phase_seconds)
        write_epochs(file, seconds_of(phase_seconds, epoch_of_step, numbers))
        dataset(file, "/buckets/bytes", np.asarray(bucket_bytes, dtype=np.uint64))
        shape = (steps, ranks, len(bucket_bytes))
        write_buckets(file, shape, bucket_start, bucket_end, bucket_calls)
    return path


def size_of(samples, images_per_step, is_padded):
    """Returns the attributes of the root for the size of an epoch."""
    steps = -(-samples // images_per_step) if is_padded else samples // images_per_step
    steps = max(1, steps)
    return {"steps_per_epoch": steps, "images_per_epoch": steps * images_per_step}


def seconds_of(phase_seconds, epoch_of_step, numbers):
    """Returns the seconds of each epoch: those of the slowest rank, at least 1."""
    times = np.nan_to_num(phase_seconds.sum(axis=2))
    epoch_of_step, times = epoch_of_step[: len(times)], times[: len(epoch_of_step)]
    slowest = [times[epoch_of_step == n].sum(axis=0).max(initial=0.0) for n in numbers]
    return [max(1.0, seconds) for seconds in slowest]


def write_epochs(file, seconds):
    """Writes /epochs."""
    epochs = len(seconds)
    for name in ("train_loss", "train_accuracy", "test_loss"):
        dataset(file, f"/epochs/{name}", np.full(epochs, 0.5))
    dataset(file, "/epochs/test_accuracy", np.linspace(0.5, 0.6, epochs))
    dataset(file, "/epochs/seconds", seconds)
    dataset(file, "/epochs/evaluation_seconds", np.full(epochs, 0.5))
    dataset(file, "/epochs/parameter_hash", np.full(epochs, "0123456789abcdef"))


def write_buckets(file, shape, start, end, calls):
    """Writes the times of the buckets, (step, rank, bucket); `calls` as in `write_run`."""
    start, end = (
        np.broadcast_to(0.0 if values is None else values, shape) for values in (start, end)
    )
    columns = {"start": start, "end": end}
    if calls is None:
        columns["call"] = end - start
    elif not isinstance(calls, str):
        columns["call"] = np.broadcast_to(calls, shape)
    for name, values in columns.items():
        dataset(file, f"/buckets/{name}_seconds", values)


def write_clocks(path, starts, offset=0.0, error=0.0):
    """Adds the starts of the steps, (step, rank), to a run file, and the offsets and errors of the
    clocks, (rank, 2), of each epoch."""
    with h5py.File(path, "r+") as file:
        shape = (len(file["epoch"]), starts.shape[1], 2)
        dataset(file, "/clock_reading", ["begin", "end"])
        dataset(file, "/steps/start_seconds", starts)
        for name, values in (("offset", offset), ("error", error)):
            values = np.broadcast_to(np.asarray(values, dtype=float), shape)
            dataset(file, f"/epochs/clock_{name}_seconds", values)
    return path


def write_ranks(file, ranks, columns=()):
    """Writes /ranks. All ranks are on one host with equal devices unless `columns` differs."""
    columns = {"hostname": "node1", "device_name": "device", **dict(columns)}
    for name in ("rank", "local_rank", "memory_bytes"):
        dataset(file, f"/ranks/{name}", np.arange(ranks))
    names = ("hostname", "cpu_list", "device_name", "device_uuid", "pci_bus_id")
    for name in (*names, *({"core_list"} & set(columns))):
        values = np.broadcast_to(columns.get(name, name), ranks)
        dataset(file, f"/ranks/{name}", np.array([str(v) for v in values]))
    hosts = sorted(set(file["ranks/hostname"].asstr()))
    dataset(file, "/ranks/host", [hosts.index(h) for h in file["ranks/hostname"].asstr()])


def write_ladder(path, ranks=1, status="complete", config=(), ranks_of=()):
    """Writes a ladder of batch 32, 128 and 512 (out of memory) and returns its path."""
    with h5py.File(path, "w", libver="latest") as file:
        options = {"model": "resnet18-cifar", "device": "cpu", "threads": "1", **dict(config)}
        header(file, status, config=options)
        dataset(file, "/rank", np.arange(ranks))
        write_ranks(file, ranks, ranks_of)
        dataset(file, "/point", [0, 1, 2])
        columns = {
            "batch_per_rank": [32, 128, 512],
            "status": np.array(["complete", "complete", "out_of_memory"]),
            "epoch_seconds": [40.0, 20.0, np.nan],
            "images_per_second": [1250.0, 2500.0, np.nan],
            "predicted_bytes": np.array([100, 400, 1600]) * 2**20,
            "peak_bytes": np.array([110, 410, 0]) * 2**20,
            "training_seconds": [39.0, 19.0, np.nan],
            "steps": [1562, 3, 0],
            "is_extrapolated": [0, 1, 0],
        }
        for name, values in columns.items():
            dataset(file, f"/ladder/{name}", values)
    return path


def write_sweep(path, hosts="node1"):
    """Writes an all-reduce sweep of 2 ranks: 6 repeats of 1 MB, in 1 ms except for the last one,
    which takes 9 ms, and of 4 bytes in 2 us."""
    with h5py.File(path, "w", libver="latest") as file:
        header(file, config={"device": "cpu"})
        dataset(file, "/rank", [0, 1])
        write_ranks(file, 2, {"hostname": hosts})
        dataset(file, "/message", [0, 1])
        dataset(file, "/repeat", np.arange(6))
        dataset(file, "/allreduce/algorithm", np.array(["mpi", "direct"]))
        dataset(file, "/allreduce/bytes", [1_000_000, 4])
        dataset(file, "/allreduce/seconds", [[1e-3] * 5 + [9e-3], [2e-6] * 6])
        dataset(file, "/allreduce/wrong", [0, 0])
    return path


def write_layers(path, power=np.nan):
    """Writes single layers: ReLU, which takes 2 ms forward and 5 ms backward for 12 MB and 18 MB,
    and a layer that does not fit. Rates: 10 GB/s and 100 GFLOP/s."""
    with h5py.File(path, "w", libver="latest") as file:
        header(file, config={"device": "cpu"})
        dataset(file, "/rank", [0])
        write_ranks(file, 1)
        dataset(file, "/layer", [0, 1])
        dataset(file, "/repeat", np.arange(3))
        none = [np.nan] * 3
        columns = {
            "description": np.array(["relu@1x3x1000x1000", "relu@9x9x9x9"]),
            "status": np.array(["complete", "out_of_memory"]),
            "batch": [1, 9],
            "forward_flops": [3e6, 0.0],
            "backward_flops": [3e6, 0.0],
            "forward_bytes": [12e6, 0.0],
            "backward_bytes": [18e6, 0.0],
            "forward_seconds": [[2e-3, 2e-3, 9e-3], none],
            "backward_seconds": [[5e-3] * 3, none],
            "estimated_bytes": np.array([48_000_000, 10**12], dtype=np.uint64),
            "peak_bytes": np.array([50_000_000, 0], dtype=np.uint64),
            "product_flops_per_second": [1e11, 1e11],
            "copy_bytes_per_second": [1e10, 1e10],
            "power_watts": [power, np.nan],
            "energy_joules": [0.007 * power, np.nan],
        }
        for name, values in columns.items():
            dataset(file, f"/layers/{name}", values)
    return path


def write_stack(path, devices=1):
    """Writes a stack of 20 layers per device that fits, and one with a layer more that does not."""
    with h5py.File(path, "w", libver="latest") as file:
        header(file, config={"device": "cpu"})
        dataset(file, "/rank", np.arange(devices))
        write_ranks(file, devices)
        dataset(file, "/stack_row", [0, 1])
        dataset(file, "/repeat", np.arange(3))
        columns = {
            "layer": np.array(["linear:8-8@2"] * 2),
            "status": np.array(["complete", "out_of_memory"]),
            "stages": [devices] * 2,
            "depth": [20 * devices, 20 * devices + 1],
            "estimated_depth": [19 * devices] * 2,
            "limit_bytes": np.array([10**9] * 2, dtype=np.uint64),
            "estimated_bytes": np.array([99 * 10**7, 10**9], dtype=np.uint64),
            "peak_bytes": np.array([98 * 10**7, 0], dtype=np.uint64),
            "forward_seconds": [[0.3, 0.1, 0.2], [np.nan] * 3],
        }
        for name, values in columns.items():
            dataset(file, f"/stack/{name}", values)
    return path


def phases(steps, *ranks):
    """Returns an array (step, rank, phase) in which all steps are equal. `ranks` has one tuple of
    six phase durations in seconds for each rank."""
    return np.tile(np.array(ranks, dtype=float), (steps, 1, 1))
