# SPDX-License-Identifier: BSD-3-Clause
"""Reads from the output of a run how far it is and the number that matters."""

import re
from dataclasses import dataclass
from typing import Optional

from lockstep_study.command import BATCH, without
from lockstep_study.points import option_value

EPOCH = re.compile(r"^epoch (\d+)/(\d+)[: ]", re.M)
EPOCH_TIME = re.compile(r"^An epoch takes ([0-9.]+ \w+)", re.M)
RATE = re.compile(r"^Total img/sec on \d+ .*: ([0-9.]+)", re.M)
ACCURACY = re.compile(r"^Final test accuracy ([0-9.]+ %)", re.M)
LARGEST = re.compile(r"^(The largest measured batch is \d+ images per rank)", re.M)
BANDWIDTH = re.compile(r"^# Avg bus bandwidth +: ([0-9.]+) GB/s", re.M)
WARNING = re.compile(r"^lockstep: warning: (.*)$", re.M)


@dataclass
class Output:
    """What a run has printed. `rate`: images per second of all ranks."""

    text: str

    @property
    def epochs(self):
        """Returns the complete epochs, such as 2/3, or an empty text."""
        found = EPOCH.findall(self.text)
        return "/".join(found[-1]) if found else ""

    @property
    def rate(self) -> Optional[float]:
        found = RATE.search(self.text)
        return float(found[1]) if found else None

    @property
    def warnings(self):
        return WARNING.findall(self.text)

    def result(self):
        """Returns the numbers that matter, as text."""
        parts = []
        epoch = EPOCH_TIME.search(self.text)
        if epoch:
            parts.append(f"epoch {epoch[1]}")
        accuracy = ACCURACY.search(self.text)
        if accuracy:
            parts.append(f"accuracy {accuracy[1]}")
        bandwidths = [float(value) for value in BANDWIDTH.findall(self.text)]
        if bandwidths:
            parts.append(f"bus bandwidth up to {max(bandwidths):.3g} GB/s")
        largest = LARGEST.search(self.text)
        if largest:
            parts.append(largest[1].replace("The largest measured", "largest"))
        return ", ".join(parts)


class Efficiencies:
    """Compares the rates of points with those of one rank, whose options are otherwise the same."""

    def __init__(self):
        self.rates = {}  # options with both kinds of batch -> rates of one rank

    def add(self, point, words, rate):
        """Adds the rate of a complete run and returns its efficiency: the rate divided by the ranks
        and by the mean rate of one rank; None for one rank, or if the latter is not known."""
        if rate is None:
            return None
        if point.ranks == 1:
            self.rates.setdefault(key_of(words), []).append(rate)
            return None
        of_one = self.rates.get(key_of(words))
        return rate / point.ranks / (sum(of_one) / len(of_one)) if of_one else None


def key_of(words):
    """Returns the options without the batch, and the batch that one rank would have: for weak
    scaling the batch per rank, for strong scaling the global batch."""
    return (*without(words, *BATCH), option_value(words, *BATCH))
