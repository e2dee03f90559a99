# SPDX-License-Identifier: BSD-3-Clause
"""The schema of the run file: groups, attributes and datasets, read from run_file_schema.json. The
program writes run files from the same file, and tests/architecture/schema_page.py generates the
tables of docs/run-file.md from it.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Entry:
    """A line of the schema: a group, an attribute of the group `path`, or a dataset, each of whose
    `dimensions` names a dimension scale in the root."""

    path: str
    required: (
        bool  # every file has it; groups of training runs: if the file has no other measurement
    )
    description: str
    name: str = ""
    type: str = (
        ""  # of datasets: int64, uint64, float64, string, or string64 (fixed length of 64 bytes)
    )
    dimensions: tuple = ()
    units: str = ""
    values: tuple = ()  # permitted values; empty if there is no restriction

    @property
    def group(self):
        return self.path.rpartition("/")[0]

    @property
    def is_text(self):
        return self.type.startswith("string")

    @property
    def is_scale(self):
        return not self.group


def entry(line):
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in line.items()
    }
    return Entry(**{"name": line["path"].rpartition("/")[2]} | values)


SCHEMA = json.loads(Path(__file__).with_name("run_file_schema.json").read_text(encoding="utf-8"))
FORMAT = SCHEMA["format"]
VERSION = SCHEMA["version"]
GROUPS, ATTRIBUTES, DATASETS = (
    tuple(map(entry, SCHEMA[kind])) for kind in ("groups", "attributes", "datasets")
)
BY_PATH = {spec.path: spec for spec in DATASETS}


@cache
def datasets(group):
    """Returns the datasets of a group such as "/steps"; those of "" are the dimension scales."""
    return tuple(spec for spec in DATASETS if spec.group == group)


def dataset(path):
    """Returns the dataset `path`. Raises `KeyError` if the schema does not have it."""
    return BY_PATH[path]


def attributes(path):
    return [spec for spec in ATTRIBUTES if spec.path == path]


PHASES = dataset("/phase").values


class TableUnit(NamedTuple):
    """How tables show a unit of the run file."""

    text: str = ""
    divisor: float = 1
    digits: int = 3
    ending: str = ""  # of names with this unit


UNITS = {  # unit of the run file -> TableUnit
    "byte": TableUnit("MiB", 2**20, 0, "bytes"),
    "J": TableUnit("J", 1, 1, "joules"),
    "s": TableUnit("s", 1, 3, "seconds"),
}


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
    unit = UNITS.get(spec.units, TableUnit())
    label = spec.name.removesuffix(f"_{unit.ending}").replace("_", " ").replace("cpu", "CPU")
    description = spec.description.replace("`", "")
    return Quantity(spec.name, label, unit.text, unit.divisor, unit.digits, description)


QUANTITIES = tuple(
    quantity_of(spec) for spec in datasets("/epochs") if spec.dimensions == ("epoch", "rank")
)
