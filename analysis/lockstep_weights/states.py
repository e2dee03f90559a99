# SPDX-License-Identifier: BSD-3-Clause
"""The states in a file of weights: that of the network, others beside it such as averages (EMA),
and what belongs to neither."""

import re
from collections.abc import Mapping

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.runfile.settings import some_of

# Names under which programs save the state in a checkpoint, in the order of preference.
CONTAINERS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "weights",
    "params",
)
# Modules around others, at any depth.
WRAPPERS = {
    "module",
    "_orig_mod",
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
}
AVERAGE = re.compile(
    r"(^|[/._])(ema|swa|avg|average|averaged|shadow)([/._]|$)|_ema\b|\bema_", re.IGNORECASE
)
DEPTH = 3  # of containers in one another
SMALLEST = 8  # tensors of a state within a state


def is_array(value):
    return hasattr(value, "shape") and hasattr(value, "dtype") and len(value.shape) > 0


def has_tensors(value):
    return isinstance(value, Mapping) and any(
        isinstance(name, str) and is_array(tensor) for name, tensor in value.items()
    )


def states_in(content, place="", depth=0):
    """Returns {place: state} of the states in a checkpoint. A place is the names of the containers,
    for example "model/ema"."""
    if not isinstance(content, Mapping) or depth > DEPTH:
        return {}
    found = {place: plain_names(only_tensors(content))} if has_tensors(content) else {}
    for name, value in content.items():
        if isinstance(name, str):
            found |= states_in(value, f"{place}/{name}".lstrip("/"), depth + 1)
    return found


def parts_of(place, state, depth=0):
    """Returns {place: state} of the modules in a state whose names have different first parts:
    model.conv1, criterion.weight."""
    if depth == DEPTH:
        return {}
    modules = {}
    for name, tensor in state.items():
        first, mark, rest = name.partition(".")
        if mark:
            modules.setdefault(first, {})[rest] = tensor
    found = {}
    for first, inner in modules.items():
        if len(modules) + len(state) - len(inner) > 1 and len(inner) >= SMALLEST:
            here = f"{place}/{first}".lstrip("/")
            found |= {here: plain_names(inner)} | parts_of(here, inner, depth + 1)
    return found


def is_beside(name):
    """Returns whether a tensor belongs to an average beside the network: n_averaged of PyTorch,
    ema_backbone_conv1_weight of MMEngine."""
    return "." not in name and bool(AVERAGE.search(name))


def only_tensors(state):
    return {str(name): value for name, value in state.items() if hasattr(value, "shape")}


def plain_names(state):
    """Removes the modules that contain the network from the names: `module` of
    DistributedDataParallel, `_orig_mod` of torch.compile, `model` of a Lightning module. They are
    wrappers, or the first parts that all names with several parts share.
    """
    plain = {
        ".".join(part for part in name.split(".") if part not in WRAPPERS) or name: tensor
        for name, tensor in state.items()
    }
    return without_first(plain if len(plain) == len(state) else state)


def without_first(state):
    first = {name.partition(".")[0] for name in state if "." in name}
    if len(first) != 1 or first == {"features"}:  # VGG without its classifier
        return state
    return without_first(
        {name.removeprefix(f"{min(first)}."): tensor for name, tensor in state.items()}
    )


def select(path, content, match, wanted=None):
    """Returns the place of a state, its `Match`, and the places of other states that fit.
    `match(state)` returns the `Match` of a state. `wanted`: the place that the user has chosen.
    Raises `ReportError` if there is no such state, or if several fit.
    """
    states = states_in(content)
    if not states:
        raise ReportError(
            INPUT,
            f"{path}: {what_of(content)}; save one alone: torch.save(model.state_dict(), FILE)",
        )
    parts = {}
    for place, state in states.items():
        parts |= parts_of(place, state)
    if wanted is not None:
        return wanted, match(state_at(path, states | parts, wanted)), []
    found = {}
    for candidates in (states, parts):
        found |= (here := {place: match(state) for place, state in candidates.items()})
        fitting = [place for place, each in here.items() if each.fits()]
        if fitting:
            place = preferred(path, fitting)
            return place, found[place], [other for other in fitting if other != place]
    place = max(found, key=lambda each: found[each].likeness())
    if len(states) > 1 and not found[place].has_names_in_common():
        raise several(path, states)
    return place, found[place], []


def outside(content, place):
    """Returns the names of the tensors beside a part of a state."""
    states = states_in(content)
    above = max(
        (
            each
            for each in states
            if each != place and f"{place}/".startswith(f"{each}/".lstrip("/"))
        ),
        key=len,
        default=None,
    )
    if place in states or above is None:
        return []
    prefix = place.removeprefix(above).lstrip("/").replace("/", ".") + "."
    return [name for name in states[above] if not name.startswith(prefix)]


def state_at(path, states, place):
    if place not in states:
        raise ReportError(
            USAGE,
            f"{path}: --state {place}: the file has no such state; it has"
            f" {some_of([*filter(None, states)]) or 'one'}",
        )
    return states[place]


def preferred(path, places):
    """Returns the state of the network among those that fit: the first of `CONTAINERS`, and
    averages only if there is no other."""
    plain = [place for place in places if not AVERAGE.search(place)] or places
    ranks = {
        place: (
            CONTAINERS.index(first)
            if (first := place.partition("/")[0]) in CONTAINERS
            else len(CONTAINERS)
        )
        for place in plain
    }
    best = [place for place in plain if ranks[place] == min(ranks.values())]
    if len(best) > 1:
        raise several(path, best)
    return best[0]


def several(path, places):
    return ReportError(
        INPUT,
        f"{path}: has several states: {', '.join(places)}; choose one with --state, or save one"
        " alone: torch.save(model.state_dict(), FILE)",
    )


def what_of(content):
    if isinstance(content, Mapping) and content:
        return (
            "has no weights, only"
            f" {some_of([described(name, value) for name, value in content.items()])}"
        )
    return f"has no tensors with names, but {object_of(content)}"


def described(name, value):
    is_plain = isinstance(value, (str, int, float, list, tuple, type(None), Mapping)) or hasattr(
        value, "shape"
    )
    return str(name) if is_plain else f"{name} ({object_of(value)})"


def object_of(value):
    return f"an object of the type {type(value).__module__}.{type(value).__name__}"
