# SPDX-License-Identifier: BSD-3-Clause
"""Batches of any type: `lockstep_recorder.batches` counts their images and moves their tensors to a
device."""

import collections
import types
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.requires("PYTORCH")
N = 8
Pair = collections.namedtuple("Pair", "images labels")


@dataclass
class Data:
    images: object
    labels: object
    names: list = field(default_factory=lambda: ["a"] * N)


@dataclass(frozen=True)
class Frozen:
    names: tuple
    images: object


class Plain:
    def __init__(self, images):
        self.name, self.images = "a", images


class Slots:
    __slots__ = ("images", "missing")

    def __init__(self, images):
        self.images = images


class AllNames(dict):
    """A mapping whose keys are attributes, and which raises `KeyError` for other names, as some
    configurations do."""

    def __getattr__(self, name):
        return self[name]


class InPlace:
    """Moves its tensors in place, without the option non_blocking, and returns nothing."""

    def __init__(self, images):
        self.images = images

    def to(self, device):
        self.images = self.images.to(device)


class Graphs:
    num_graphs = N

    def __init__(self, nodes):
        self.nodes = nodes

    def to(self, device, non_blocking=False):
        return Graphs(self.nodes.to(device))


class Sized:
    batch_size = N


def forms():
    """Returns {name: (batch, number of images)}."""
    import torch

    x, y, one = torch.ones(N, 3, 4, 4), torch.zeros(N, dtype=torch.long), torch.tensor(3)
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)])
    names, box = ["a.png"] * N, torch.ones(5, 4)
    different = [torch.ones(3, 4 + i, 4) for i in range(N)]
    cyclic = [x]
    cyclic.append(cyclic)
    same = [
        x,
        (x, y),
        [x, y],
        *containers(x, y),
        *nested(x, y),
        (names, x, y),
        (3, x, y),
        (Path("a"), b"b", 1.5, None, x),
        {"path": names, "images": x},
        {"step": one, "images": x},
        (x, box),
        (different, y),
        Graphs(box),
        (Graphs(box), y),
        Sized(),
        (np.array(names), np.ones((N, 2))),
        cyclic,
        (iter([1]), x),
    ]
    return [(each, N) for each in same] + [(packed, 2), ((packed, y[:2]), 2)]


def containers(x, y):
    """Returns images and labels in objects of different types."""
    return [
        Pair(x, y),
        {"images": x, "labels": y},
        collections.OrderedDict(images=x),
        collections.UserDict(images=x),
        collections.defaultdict(list, images=x),
        types.MappingProxyType({"images": x}),
        AllNames(images=x),
        Data(x, y),
        Frozen(("a",), x),
        Plain(x),
        Slots(x),
        InPlace(x),
        collections.deque([x, y]),
        collections.UserList([x, y]),
    ]


def nested(x, y):
    """Returns images and labels in containers that contain others."""
    return [
        ((x, x), y),
        ((x, y), (x, y)),
        ([x, x], y),
        [x, [x, x]],
        [{"data": x, "label": y}],
        ({"image": x}, {"label": y}),
    ]


def unclear():
    """Returns batches whose number of images is not clear, with a part of the error."""
    import torch

    picture, label, box = torch.ones(3, 4, 4), torch.tensor(1), torch.ones(5, 4)
    lists, none = "may be images or batches", "contains no tensor that is no scalar"
    return [
        (([picture] * N, [box] * N), lists),
        ([picture] * N, lists),
        ([(picture, 1)] * N, lists),
        ([(picture, label)] * N, lists),
        ([{"image": picture, "label": label}] * N, lists),
        ({"images": [picture] * N}, lists),
        (["a", 3], none),
        ({}, none),
        (label, none),
        (None, none),
        ("text", none),
        (object(), none),
        (np.array(["a"]), none),
    ]


def test_the_images_of_a_batch_of_any_type_are_counted():
    from lockstep_recorder.batches import images_of

    for batch, expected in forms():
        assert images_of(batch) == expected, type(batch)
    for batch, words in unclear():
        with pytest.raises((TypeError, ValueError), match=words) as error:
            images_of(batch)
        assert str(error.value).startswith("Recorder: ") and "images=N" in str(error.value)
        assert images_of(batch, 5) == images_of(batch, lambda batch: 5) == 5


def test_all_tensors_are_moved_and_the_types_are_kept():
    """The device meta, which stores no values, takes the place of a GPU."""
    import torch
    from lockstep_recorder.batches import found_in, moved

    for batch, _ in forms():
        if isinstance(batch, list) and batch[-1] is batch:
            continue  # a list that contains itself is moved once
        result = moved(batch, "meta")
        assert type(result) is type(batch)
        assert [*found_in(result, torch.Tensor)] == [*found_in(batch, torch.Tensor)]
        assert {each.device.type for each in tensors(result)} <= {"meta"}, type(batch)
        assert isinstance(batch, InPlace) or {each.device.type for each in tensors(batch)} <= {
            "cpu"
        }
    assert moved(names := ["a"], "meta") is names


def tensors(batch):
    """Returns the tensors of a batch, found in another manner than by the module: by the memory
    that they refer to."""
    import gc

    import torch

    found, seen, queue = [], set(), [batch]
    while queue:
        each = queue.pop()
        if id(each) in seen or isinstance(each, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, torch.nn.utils.rnn.PackedSequence):
            queue.append(each.data)  # its sizes remain in host memory
        else:
            queue += gc.get_referents(each)
    return found
