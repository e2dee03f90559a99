# SPDX-License-Identifier: BSD-3-Clause
"""Which network a state belongs to, and which of its tensors the network takes."""

from dataclasses import dataclass, replace

import numpy as np
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.runfile.settings import plural, some_of

from lockstep_weights.networks import COUNTER, NETWORKS, Network, renamed
from lockstep_weights.states import is_beside


@dataclass(frozen=True)
class Match:
    """A comparison of a state with a network."""

    network: Network
    state: dict  # with the names of Lockstep
    shapes: dict  # of the network
    missing: list  # names of tensors that the state lacks
    misfits: list  # names of tensors of another shape
    surplus: list  # names of tensors that the network lacks
    beside: list  # names of tensors of averages
    is_partial: bool = (
        False  # whether the classifier may be missing, and other tensors may be there
    )

    def fits(self):
        return not (self.missing or self.misfits or self.surplus) or (
            self.is_partial and self.has_features()
        )

    def likeness(self):
        """Returns a value that is larger for more tensors of the network, then for fewer that are
        missing or superfluous."""
        wrong = len(self.missing) + len(self.misfits)
        return len(self.shapes) - wrong, -wrong - len(self.surplus)

    def has_names_in_common(self):
        return len(self.missing) < len(self.shapes)

    def problems(self):
        texts = []
        if self.missing:
            first = self.missing[0]
            texts.append(
                f"it lacks {plural(len(self.missing), 'tensor')}, such as {first}"
                f" ({text(self.shapes[first])})"
            )
        if self.misfits:
            first = self.misfits[0]
            texts.append(
                f"{first} has the shape {text(self.state[first].shape)} where"
                f" {text(self.shapes[first])} is needed"
            )
        if self.surplus:
            texts.append(
                f"it has {plural(len(self.surplus), 'tensor')} that the network lacks, such as"
                f" {self.surplus[0]}"
            )
        return ", ".join(texts)

    def converted(self, array_of):
        """Returns the match with the arrays `array_of(name, tensor)`. Tensors that the network does
        not take are converted only if the state does not fit."""
        names = {*self.shapes, *self.counters()} if self.fits() else {*self.state}
        return replace(
            self,
            state={
                name: array_of(name, tensor) for name, tensor in self.state.items() if name in names
            },
        )

    def classifier(self):
        return list(self.shapes)[-2:]

    def has_features(self):
        """Returns whether the state has all tensors of the network except those of the
        classifier."""
        return set(self.missing + self.misfits) <= set(self.classifier())

    def initialised(self):
        """Returns the tensors that are not in the state: none, or those of the classifier."""
        return self.classifier() if self.missing + self.misfits else []

    def tensors(self):
        """Returns {name: array} with all tensors of the network in float32. If the classifier is
        not in the state, it is 0."""
        absent = self.initialised()
        return {
            name: (
                np.zeros(shape, np.float32)
                if name in absent
                else np.ascontiguousarray(self.state[name], np.float32)
            )
            for name, shape in self.shapes.items()
        }

    def counters(self):
        """Returns {name: count} for each batch norm; 0 if the state has none."""
        means = [name for name in self.shapes if name.endswith(".running_mean")]
        names = [name.replace(".running_mean", COUNTER) for name in means]
        return {name: np.int64(self.state.get(name, 0)) for name in names}


def text(shape):
    return "x".join(map(str, shape)) or "a scalar"


def compare(state, network, classes=None, is_partial=False):
    state = {renamed(name, network.styles[0]): tensor for name, tensor in state.items()}
    shapes = network.shapes(state, classes)
    return Match(
        network,
        state,
        shapes,
        missing=[name for name in shapes if name not in state],
        misfits=[
            name
            for name, shape in shapes.items()
            if name in state and tuple(state[name].shape) != shape
        ],
        surplus=[
            name
            for name in state
            if name not in shapes and not name.endswith(COUNTER) and not is_beside(name)
        ],
        beside=[name for name in state if is_beside(name)],
        is_partial=is_partial,
    )


def match(state, name=None, classes=None, is_partial=False):
    """Returns the `Match` of a state with the network `name`, or with the most similar network.
    `is_partial`: it may lack the classifier and have other tensors."""
    networks = [NETWORKS[name]] if name else NETWORKS.values()
    found = [compare(state, network, classes, is_partial) for network in networks]
    return max(found, key=Match.likeness)


def require_fit(path, best, name=None):
    """Raises `ReportError` (input) if the state does not fit the network; `name`: that of
    `--network`."""
    if best.fits():
        return
    if name or best.has_features():
        what = f"not the weights of {best.network.name}"
    else:
        what = f"the weights of no network of Lockstep; the most similar is {best.network.name}"
    if best.has_features():
        advice = "--partial takes all other tensors"
    else:
        advice = (
            f"give the weights of one of {', '.join(NETWORKS)}"
            if not name
            else "give another --network"
        )
    raise ReportError(INPUT, f"{path}: {what}: {best.problems()}; {advice}")


def require_finite(path, found):
    """Raises `ReportError` (input) if a tensor has values that are NaN or infinite."""
    wrong = [name for name, tensor in found.tensors().items() if not np.isfinite(tensor).all()]
    if wrong:
        raise ReportError(
            INPUT,
            f"{path}: {some_of(wrong)} has values that are NaN or infinite, because the training"
            " diverged or float16 overflowed; give an earlier checkpoint",
        )


def require_statistics(path, found):
    """Raises `ReportError` (usage) if the state may be of a network with batch norm whose running
    statistics were not saved."""
    if not found.network.has_running_statistics() and found.network.name.startswith("resnet"):
        raise ReportError(
            USAGE,
            f"{path}: without running statistics: either {found.network.name}, which --network"
            f" {found.network.name} states, or batch norm of which only the parameters were saved"
            " (save model.state_dict())",
        )
