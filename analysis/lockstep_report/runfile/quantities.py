# SPDX-License-Identifier: BSD-3-Clause
"""The quantities that the run file stores per epoch and rank, as the schema lists them. The table of measurements
has all of them."""

from dataclasses import dataclass

from lockstep_report.runfile import schema

# Units of the run file: (unit in tables, divisor, digits, ending of names with this unit).
UNITS = {"byte": ("MiB", 2**20, 0, "bytes"), "J": ("J", 1, 1, "joules"), "s": ("s", 1, 3, "seconds")}


@dataclass(frozen=True)
class Quantity:
    """A quantity per epoch and rank. Values in tables are those of the file / `divisor`."""

    name: str
    label: str  # for example "peak resident memory"
    unit: str  # unit in tables; empty for dimensionless quantities
    divisor: float
    digits: int
    description: str

    @property
    def header(self):
        text = self.label[:1].upper() + self.label[1:]
        return f"{text} ({self.unit})" if self.unit else text


def quantity_of(spec):
    unit, divisor, digits, ending = UNITS.get(spec.units, ("", 1, 3, ""))
    label = spec.name.removesuffix(f"_{ending}").replace("_", " ").replace("cpu", "CPU")
    return Quantity(spec.name, label, unit, divisor, digits, spec.description.replace("`", ""))


QUANTITIES = tuple(quantity_of(spec) for spec in schema.datasets("/epochs") if spec.dimensions == ("epoch", "rank"))
