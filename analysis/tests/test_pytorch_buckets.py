# SPDX-License-Identifier: BSD-3-Clause
"""Buckets, phases and sizes of epochs that `lockstep_recorder.Recorder` finds in steps and epochs
that differ from one another."""

import math

import numpy as np
import pytest
from lockstep_recorder.shape import Shape
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from pytorch_programs import HEAD, NAMES, run

GRADIENTS = 4 * (64 * 64 + 64 + 64 * 10 + 10)  # bytes of Sequential below

LOOPS = """
import contextlib
from torch.utils.checkpoint import checkpoint
dist._DEFAULT_FIRST_BUCKET_BYTES = 2000  # of DDP, whose first bucket has a limit of its own
def sequential():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 10))
def small_buckets(model, **options):
    return DDP(model, bucket_cap_mb=0.002, **options) if world > 1 else model
def loop(recorder, model, count, accumulate=1, no_sync=False, stop=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for i, (images, labels) in enumerate(recorder.batches(Data(count), "cpu")):
        is_last = (i + 1) % accumulate == 0
        with model.no_sync() if no_sync and not is_last else contextlib.nullcontext():
            recorder.backward(model(images).square().mean())
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        if i == stop:
            break
"""


def recordings(tmp_path, body, ranks=2, head=HEAD):
    """Runs `body`, which records files of any names in the folder of `path`; returns {name: run}.
    All must be valid."""
    for status, output in run(tmp_path, LOOPS + body, ranks, head):
        assert status == 0, output
    files = sorted(tmp_path.glob("*.h5"))
    assert files and [main(["validate", str(file)]) for file in files] == [0] * len(files)
    return {file.stem: read_run(file) for file in files}


@pytest.mark.requires("PYTORCH")
def test_the_buckets_are_those_of_most_steps(tmp_path):
    """The first steps reduce one bucket, the last step of an accumulation may reduce less or
    nothing, and the first epoch may have such steps only."""
    found = recordings(
        tmp_path,
        """
def record(name, epochs, accumulate=1, no_sync=False, **options):
    model = small_buckets(sequential(), **options)
    file = path.replace("a.h5", name)
    with Recorder(file, model, network="net", accumulate=accumulate) as recorder:
        for count, stop in epochs:
            loop(recorder, model, count, accumulate, no_sync, stop)
            recorder.evaluated(0.25 if count < 5 else 0.75)
record("plain.h5", [(4, None)] * 2)
record("skipped.h5", [(10, None)] * 2, 4, True)
record("halved.h5", [(9, None)] * 2, 2)
record("warmup.h5", [(8, 0), (8, None), (8, None)])
record("nothing.h5", [(8, 0), (8, None), (8, None)], 2, True)
record("static.h5", [(8, 1), (8, None), (8, None)], static_graph=True)
record("longer.h5", [(2, None), (3, None), (5, None), (4, 1), (5, None), (3, None)])
""",
    )
    plain = found["plain"].bucket_bytes.tolist()
    assert len(plain) > 1 and sum(plain) == GRADIENTS
    for name, run_ in found.items():
        expected = [*plain, *plain] if name == "halved" else plain
        assert run_.bucket_bytes.tolist() == expected, name
        seconds = run_.bucket_end - run_.bucket_start
        assert np.all(seconds >= 0) and np.all(seconds[-2:-1] > 0), name
        assert np.isfinite(run_.loss).all() and run_.status == "complete", name
    longer, warmup = found["longer"], found["warmup"]
    assert (longer.integer("steps_per_epoch"), longer.integer("images_per_epoch")) == (5, 80)
    assert longer.epoch.tolist() == [1] * 2 + [2] * 3 + [3] * 5 + [4] * 2 + [5] * 5 + [6] * 3
    assert (warmup.integer("steps_per_epoch"), warmup.integer("images_per_epoch")) == (8, 128)
    assert warmup.step.tolist() == [*range(17)]
    assert longer.epochs["test_accuracy"].tolist() == [0.25, 0.25, 0.75, 0.25, 0.75, 0.25]
    assert (
        found["nothing"].number("batch-per-rank") == 16
    )  # the first epoch ended in the midst of a step


@pytest.mark.requires("PYTORCH")
def test_the_backward_pass_contains_all_nested_passes(tmp_path):
    """Reentrant checkpoints run a backward pass of their own for each layer; each takes 30 ms."""
    found = recordings(
        tmp_path,
        """
class Late(Slow):
    @staticmethod
    def backward(context, gradient):
        time.sleep(0.03)
        return gradient
class Layers(torch.nn.Module):
    def __init__(self, is_outer):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.is_outer = is_outer
    def forward(self, x):
        x = x.clone().requires_grad_()
        for i, layer in enumerate(self.layers):
            inner = lambda y, layer=layer: Late.apply(layer(y))
            x = inner(x) if i == self.is_outer else checkpoint(inner, x, use_reentrant=True)
        return x
for is_outer in (-1, 0, 3):
    model = small_buckets(Layers(is_outer), static_graph=True)
    with Recorder(path.replace("a.h5", f"{is_outer}.h5"), model, network="net") as recorder:
        loop(recorder, model, 4)
""",
    )
    for name, run_ in found.items():
        times = dict(zip(NAMES, np.median(run_.phase_seconds[2:], axis=(0, 1))))
        assert (
            times["backward"] > 0.12 and times["exposed_communication"] < times["backward"] / 2
        ), (name, times)


COMPRESSED = """
import functools
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
def mine(state, bucket):
    return hooks.allreduce_hook(state, bucket)
@functools.wraps(hooks.fp16_compress_hook)
def wrapped(state, bucket):
    return hooks.fp16_compress_hook(state, bucket)
def optional():
    if rank > 5:
        other = 1
    return lambda state, bucket: other if rank > 5 else hooks.allreduce_hook(state, bucket)
half = lambda: sequential().bfloat16()
cases = {"plain-fp32": (sequential, None, {}),
         "mine-fp32": (sequential, mine, {}),
         "empty-fp32": (sequential, optional(), {}),
         "wrapper-bf16": (sequential, hooks.bf16_compress_wrapper(mine), {}),
         "wrapper-fp16": (sequential, hooks.fp16_compress_wrapper(hooks.allreduce_hook), {}),
         "partial-bf16": (sequential, functools.partial(hooks.bf16_compress_hook), {}),
         "wraps-fp16": (sequential, wrapped, {}),
         "stated-bf16": (sequential, mine, {"gradient_dtype": "bf16"}),
         "network-bf16": (half, None, {}),
         "network_hook-bf16": (half, mine, {}),
         "double-fp64": (lambda: sequential().double(), None, {})}
dtypes = {"network-bf16": torch.bfloat16, "network_hook-bf16": torch.bfloat16,
          "double-fp64": torch.float64}
for name, (network, hook, options) in cases.items():
    if name.endswith(left_out):
        continue
    model = DDP(network())
    comm_hook = (None, hook) if hook else None
    file = path.replace("a.h5", f"{name}.h5")
    with Recorder(file, model, network="net", comm_hook=comm_hook, **options) as recorder:
        for images, labels in recorder.batches(Data(2)):
            recorder.backward(model(images.to(dtypes.get(name, torch.float32))).square().mean())
"""


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(
            "bf16", marks=pytest.mark.requires("PYTORCH")
        ),  # which Gloo of PyTorch 1.13 does not reduce
        pytest.param("none", marks=pytest.mark.requires("PYTORCH_2")),
    ],
)
def test_compressed_gradients_are_recognised(tmp_path, left_out):
    found = recordings(
        tmp_path,
        f"left_out = {left_out!r}\n{COMPRESSED}",
    )
    assert len(found) == {"bf16": 6, "none": 11}[left_out]
    for name, run_ in found.items():
        expected = name.rpartition("-")[2]
        assert run_.option("gradient-dtype") == expected, name
        assert run_.bucket_bytes.sum() == GRADIENTS * {"fp64": 2, "fp32": 1}.get(expected, 0.5), (
            name
        )


@pytest.mark.requires("PYTORCH")
def test_the_last_step_before_a_break_is_recorded(tmp_path):
    """Also if something refers to the iterator, which then does not see the break; the time until
    the next call is of no step."""
    found = recordings(
        tmp_path,
        """
model = sequential()
with Recorder(path, model, network="net") as recorder:
    for stop in (2, 1):
        kept = iter(recorder.batches(Data(4)))
        for i, (images, labels) in enumerate(kept):
            recorder.backward(model(images).square().mean())
            if i == stop:
                break
        time.sleep(1)
        recorder.evaluated(0.5)
""",
        1,
    )["a"]
    assert found.epoch.tolist() == [1] * 3 + [2] * 2 and found.integer("images_per_epoch") == 32
    assert np.all(found.epochs["seconds"] < 1) and np.all(
        found.phase_seconds[[2, 4]].sum(axis=2) < 0.5
    )


@pytest.mark.requires("PYTORCH_2")
@pytest.mark.parametrize("backend", ["", '"cpu:gloo,cuda:gloo"'])
def test_the_backend_is_that_of_the_device(tmp_path, backend):
    found = recordings(
        tmp_path,
        "with Recorder(path, model := parallel(), network='net') as recorder:\n    train(recorder,"
        " model, 1)",
        head=HEAD.replace('"gloo"', backend),
    )["a"]
    assert (found.option("transport"), found.environment["transport"]) == ("gloo", "gloo")


@pytest.mark.requires("PYTORCH_2")
def test_compiled_gradients_without_buckets_are_an_error(tmp_path):
    for status, output in run(
        tmp_path,
        "import torch._dynamo\ntorch._dynamo.config.optimize_ddp = 'python_reducer'\n"
        "Recorder(path, torch.compile(parallel()), network='net')",
    ):
        assert (
            status == 1
            and 'there are no buckets to time; use "ddp_optimizer"' in output.splitlines()[-1]
        ), output


def shape_of(*epochs):
    """Returns the shape after epochs, each a list of ((bytes, ...), images) and the number of steps
    of the complete epoch."""
    shape = Shape()
    for steps, size in epochs:
        images = np.array([count for _, count in steps])
        shape = shape.with_epoch(
            images, images.max() // 2, [sizes for sizes, _ in steps], size, len(steps) == size
        )
    return shape


FIRST, USUAL = (30,), (10, 20)  # bytes of the buckets of a step
HALF, NONE = (10, 5), ()


@pytest.mark.parametrize(
    "epochs, buckets",
    [
        ([([(FIRST, 8), (USUAL, 8), (USUAL, 8)], 3)], USUAL),
        ([([(FIRST, 8)], 3)], FIRST),
        ([([(FIRST, 8), (USUAL, 8)], 3)], USUAL),
        ([([(NONE, 8)] * 3 + [(USUAL, 8)], 4)], USUAL),
        ([([(NONE, 8)] * 3, 3)], ()),
        ([([(USUAL, 16), (HALF, 8)], 2)] * 3, USUAL),
        ([([(HALF, 8)] * 3 + [(USUAL, 8)], 4)] * 3, HALF),
        ([([(FIRST, 8)], 3), ([(USUAL, 8)] * 3, 3)], USUAL),
        ([([(USUAL, 8)] * 2, 2), ([(FIRST, 8)], 2)], USUAL),
    ],
)
def test_the_division_of_most_images_is_stated(epochs, buckets):
    assert shape_of(*epochs).buckets == buckets


@pytest.mark.parametrize(
    "epochs, expected",
    [
        ([(2, 4), (4, 4)], (4, 32)),
        ([(4, 4), (2, 4)], (4, 32)),
        ([(2, 0), (5, 0)], (5, 40)),
        ([(6, 4)], (6, 48)),
        ([(3, 3), (2, 5)], (5, 40)),
    ],
)
def test_the_longest_epoch_is_stated(epochs, expected):
    shape = shape_of(*[([(USUAL, 8)] * count, size) for count, size in epochs])
    assert (shape.steps, shape.images) == expected and math.isclose(shape.global_batch, 8)
