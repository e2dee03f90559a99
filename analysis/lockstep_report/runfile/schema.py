"""The schema of the run file: groups, attributes and datasets, read from run_file_schema.json.

The program writes run files from the same file, and the tables of docs/run-file.md are generated
from it (schema_page.py).
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Group:
    path: str
    since: int  # version of the format that added the group
    required: bool  # every file has it; groups of training runs: if the file has no other measurement
    description: str


@dataclass(frozen=True)
class Attribute:
    """An attribute of the group `path`."""

    path: str
    name: str
    type: str
    since: int
    required: bool
    description: str
    values: tuple = ()  # permitted values; empty if there is no restriction


@dataclass(frozen=True)
class Dataset:
    """A dataset. Each of its `dimensions` names a dimension scale in the root."""

    path: str
    dimensions: tuple
    type: str  # int64, uint64, float64, string, or string64 (fixed length of 64 bytes)
    units: str
    since: int
    required: bool
    description: str
    values: tuple = ()

    @property
    def group(self):
        return self.path.rpartition("/")[0]

    @property
    def name(self):
        return self.path.rpartition("/")[2]

    @property
    def is_text(self):
        return self.type.startswith("string")

    @property
    def is_scale(self):
        return not self.group


def load():
    text = Path(__file__).with_name("run_file_schema.json").read_text(encoding="utf-8")
    return json.loads(text)


def tuples(line):
    """Returns the dict with tuples instead of lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in line.items()}


SCHEMA = load()
FORMAT = SCHEMA["format"]
VERSION = SCHEMA["version"]
GROUPS = tuple(Group(**line) for line in SCHEMA["groups"])
ATTRIBUTES = tuple(Attribute(**tuples(line)) for line in SCHEMA["attributes"])
DATASETS = tuple(Dataset(**tuples(line)) for line in SCHEMA["datasets"])


@cache
def datasets(group):
    """Returns the datasets of a group such as "/steps"; those of "" are the dimension scales."""
    return tuple(spec for spec in DATASETS if spec.group == group)


def dataset(path):
    """Returns the dataset `path`. Raises `KeyError` if the schema does not have it."""
    for spec in DATASETS:
        if spec.path == path:
            return spec
    raise KeyError(path)


def attributes(path):
    """Returns the attributes of the group `path`."""
    return [spec for spec in ATTRIBUTES if spec.path == path]


PHASES = dataset("/phase").values
