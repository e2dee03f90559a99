# SPDX-License-Identifier: BSD-3-Clause
"""The tensors of a batch, whatever objects contain them: how many images they are, and a copy on a
device."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

ADVICE = (
    "state the number of images: Recorder.batches(loader, device, images=N), or images=FUNCTION of"
    " the batch"
)
# Without parts.
PLAIN = (
    str,
    bytes,
    bytearray,
    memoryview,
    range,
    int,
    float,
    complex,
    type(None),
    torch.Tensor,
    np.ndarray,
    np.generic,
    type,
    torch.nn.Module,
)


@dataclass
class Found:
    """A tensor of a batch, or an object that states its number of images."""

    size: int  # first dimension
    rank: int
    is_listed: bool  # one of several in a list, each of which may be a single image


def images_of(batch, given=None):
    """Returns the number of images of a batch: `given`, or `given(batch)` if it is a function, or
    the first dimension of the first tensor that is no scalar. Raises `TypeError` if there is none,
    and `ValueError` if it may be a single image.
    """
    if given is not None:
        return int(given(batch) if callable(given) else given)
    found = next(found_in(batch, torch.Tensor), None) or next(found_in(batch, np.ndarray), None)
    if found is not None and not found.is_listed:
        return found.size
    stated = attribute_of(batch, "batch_size")
    if isinstance(stated, int):
        return stated
    name = type(batch).__name__
    if found is None:
        raise TypeError(
            f"Recorder: the batch, of the type {name}, contains no tensor that is no scalar;"
            f" {ADVICE}"
        )
    size = common_size([*found_in(batch, torch.Tensor)])
    if size is None:
        raise ValueError(
            f"Recorder: the batch, of the type {name}, has tensors in lists, which may be images or"
            f" batches; {ADVICE}"
        )
    return size


def common_size(found):
    """Returns the number of images of a batch with tensors in lists; None if they may be single
    images. The tensors are batches (views of the same images) if all have as many images, and some
    are outside the lists or of another rank.
    """
    direct = [each.size for each in found if not each.is_listed]
    is_agreed = len({each.size for each in found}) == 1
    listed = [each for each in found if each.is_listed]
    if direct and (is_agreed or direct[0] == len(listed)):
        return direct[0]
    ranks = {each.rank for each in found}
    return found[0].size if is_agreed and (len(ranks) > 1 or max(ranks) > 3) else None


def found_in(value, kind, above=(), is_listed=False):
    """Yields the arrays of the type `kind` that are no scalars. `above`: the objects that contain
    `value`."""
    if isinstance(value, kind):
        if value.ndim and (kind is torch.Tensor or value.dtype.kind in "biufc"):
            yield Found(int(value.shape[0]), value.ndim, is_listed)
        return
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        yield Found(int(value.batch_sizes[0]), 1, is_listed)
        return
    # Of PyTorch Geometric, whose first dimension are nodes.
    graphs = attribute_of(value, "num_graphs")
    if isinstance(graphs, int):
        yield Found(graphs, 1, is_listed)
        return
    inner = parts(value) if not any(value is each for each in above) else {}
    is_listed = is_listed or may_be_samples(value, inner, is_batch=not above)
    for each in inner.values():
        yield from found_in(each, kind, (*above, value), is_listed)


def may_be_samples(value, inner, is_batch):
    """Returns whether the parts `inner` of `value` may be one image each: several tensors in a list
    within the batch, or several objects with parts in a list. The parts of the batch itself are
    images and labels, also if these are two lists.
    """
    if not isinstance(value, Sequence) or has_names(value) or len(inner) < 2:
        return False
    each = [*inner.values()]
    if all(isinstance(part, torch.Tensor) for part in each):
        return not is_batch or (len(each) > 2 and all(part.ndim == 3 for part in each))
    are_alike = (
        all(isinstance(part, Mapping) for part in each)
        and len({frozenset(part) for part in each}) == 1
    )
    return all(map(parts, each)) and (not is_batch or len(each) > 2 or are_alike)


def attribute_of(value, name):
    """Returns an attribute that the class or the object has; the classes of some mappings have all
    names as attributes."""
    is_there = not isinstance(value, PLAIN) and (
        hasattr(type(value), name) or name in getattr(value, "__dict__", ())
    )
    return getattr(value, name) if is_there else None


def has_names(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def parts(value):
    """Returns {name: part} of an object that contains others; {} of a text, a number, and an object
    without tensors."""
    if isinstance(value, PLAIN):
        return {}
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, Sequence):
        return dict(enumerate(value))
    slots = getattr(type(value), "__slots__", ())
    names = {*getattr(value, "__dict__", ()), *((slots,) if isinstance(slots, str) else slots)}
    if dataclasses.is_dataclass(value):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if hasattr(value, field.name)
        }
    attributes = {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}
    return attributes if any(isinstance(each, torch.Tensor) for each in attributes.values()) else {}


def moved(batch, device, above=()):
    """Returns a batch with all tensors on `device`, of the same types."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, PLAIN) or any(batch is each for each in above):
        return batch
    if callable(getattr(type(batch), "to", None)):
        return moved_by_itself(batch, device)
    before = parts(batch)
    after = {name: moved(value, device, (*above, batch)) for name, value in before.items()}
    return (
        batch
        if all(after[name] is value for name, value in before.items())
        else with_parts(batch, after)
    )


def moved_by_itself(batch, device):
    """Calls the method `to` of a batch, which can change it in place and return nothing."""
    try:
        result = batch.to(device, non_blocking=True)
    except TypeError:  # it has no such option
        result = batch.to(device)
    return batch if result is None else result


def with_parts(batch, values):
    """Returns an object like `batch` with the parts `values`, {name: part}."""
    if has_names(batch):
        return batch._make(values.values())
    if isinstance(batch, Mapping) and (type(batch) is dict or not hasattr(batch, "__setitem__")):
        return type(batch)(values)
    if isinstance(batch, Sequence) and not hasattr(batch, "__setitem__"):
        return type(batch)(values.values())
    result = copy.copy(batch)
    for name, value in values.items():
        if isinstance(batch, (Mapping, Sequence)):
            result[name] = value
        else:
            object.__setattr__(result, name, value)  # also of a frozen dataclass
    return result
