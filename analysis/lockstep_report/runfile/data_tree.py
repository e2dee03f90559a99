# SPDX-License-Identifier: BSD-3-Clause
"""A run file as an xarray `DataTree`."""

from pathlib import Path

import numpy as np

from lockstep_report.errors import require
from lockstep_report.runfile import schema
from lockstep_report.runfile.hdf5_access import (
    attributes_of, errors_of_hdf5, open_run, read_attributes, read_dataset, safe_objects)
from lockstep_report.runfile.read import check_header, check_structure, is_stored, stored, usable_steps
from lockstep_report.runfile.stored import IN_MEMORY_BYTES, StoredRows

# Datasets of /ranks or of the same group that are coordinates along a dimension.
LABELS = {"rank": ("hostname", "device_name"), "step": ("epoch",), "bucket": ("bytes",),
          "message": ("algorithm", "bytes"), "operation": ("name",),
          "layer": ("description",), "point": ("batch_per_rank",)}


def open_tree(path):
    """Opens one run file and returns an `xarray.DataTree` with a node for each group. With a version of xarray
    without `DataTree` (before 2024.10, for example that of Debian 12), returns a `Tree`, which has the same
    interface for reading.

    The root has the attributes of the file; `/config`, `/environment` and `/results` have attributes only.
    Variables have the attributes `units` and `long_name`. Each node has the coordinates of its dimensions (`step`,
    `rank`, `phase`, `epoch`, ...), and further coordinates along them, such as `hostname` along `rank`. Steps of
    an epoch that was being written are omitted. Datasets (step, rank, ...) of more than 16 MiB are read when they
    are used. Raises `ReportError` if the file cannot be read.
    """
    xarray = require("xarray", "lockstep_report.open")
    nodes = {"/": xarray.Dataset()}
    path = Path(path)
    with errors_of_hdf5(path), open_run(path) as file:
        nodes["/"].attrs = check_header(path, file)
        items = safe_objects(path, file)
        check_structure(path, items, nodes["/"].attrs)
        rows = step_count(items)
        for group in schema.GROUPS:
            if group.path in items:
                nodes[group.path] = dataset_of(xarray, path, items, group.path, rows)
    if hasattr(xarray, "DataTree"):
        return xarray.DataTree.from_dict(nodes, name=path.name)
    return Tree(path.name, {name.strip("/"): node for name, node in nodes.items()})


def step_count(items):
    columns = {spec.name: items[spec.path] for spec in schema.datasets("/steps") if spec.path in items}
    if "epoch" not in columns or "/epoch" not in items:
        return 0
    empty = np.zeros(len(columns["epoch"]))
    buckets = {name: items.get(f"/buckets/{name}", empty) for name in ("start_seconds", "end_seconds")}
    if not len(items.get("/buckets/bytes", ())):
        buckets = {name: empty for name in buckets}
    return usable_steps(columns, buckets, items["/epoch"][()])


def dataset_of(xarray, path, items, group, rows):
    found = xarray.Dataset(attrs=attributes_of(items, group))
    variables = {}
    for spec in schema.datasets(group):
        if spec.path in items:
            values, attributes = variable_of(path, items, spec, rows)
            variables[spec.name] = (spec.dimensions, values, attributes)
    sizes = shortest(variables)
    for name, (dimensions, values, attributes) in variables.items():
        if name in dimensions:  # /ranks/rank is also the coordinate
            continue
        cut = tuple(slice(sizes[dimension]) for dimension in dimensions)
        data = lazy(xarray, values, cut) if isinstance(values, StoredRows) else values[cut]
        # /telemetry/rank: the name `rank` is that of the coordinate
        key = "sample_rank" if name == "rank" else name
        found[key] = xarray.Variable(dimensions, data, attributes)
    return found.assign_coords(coordinates(xarray, items, group, sizes))


def shortest(variables):
    """Returns {dimension: length of the shortest variable}."""
    sizes = {}
    for dimensions, values, _ in variables.values():
        for dimension, size in zip(dimensions, values.shape):
            sizes[dimension] = min(size, sizes.get(dimension, size))
    return sizes


def variable_of(path, items, spec, rows):
    dataset = items[spec.path]
    attributes = read_attributes(dataset)
    attributes = {name: attributes.get(name, default) for name, default in (
        ("units", spec.units), ("long_name", spec.description))}
    if is_stored(spec, items, IN_MEMORY_BYTES):
        return stored(path, dataset, spec).first(rows), attributes
    values = read_dataset(dataset)
    return (values[:rows] if spec.dimensions[0] == "step" else values), attributes


def lazy(xarray, rows, cut):
    """Returns the rows as an array of xarray that is read when it is used."""
    indexing = xarray.core.indexing

    class Backend(xarray.backends.BackendArray):
        shape = rows.shape
        dtype = rows.dtype

        def __getitem__(self, key):
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

        @staticmethod
        def read(key):
            """`key`: an integer, a slice or an array of integers for each dimension."""
            found = rows[key[0]]
            place = np.ndim(np.arange(len(rows))[key[0]])  # of the second dimension in `found`
            for own in key[1:]:
                found = found[(slice(None),) * place + (own,)]
                place += not isinstance(own, (int, np.integer))
            return found

    return indexing.LazilyIndexedArray(Backend())[indexing.BasicIndexer(cut)]


def coordinates(xarray, items, group, sizes):
    """Returns the coordinates of a group: the scale of each dimension, and labels along it."""
    made = {}
    for dimension, size in sizes.items():
        scale = schema.dataset(f"/{dimension}")
        labels = [spec for spec in (*schema.datasets("/ranks"), *schema.datasets(group))
                  if spec.dimensions == (dimension,) and spec.name in LABELS.get(dimension, ())]
        for spec in (scale, *labels):
            values = (read_dataset(items[spec.path]) if spec.path in items else np.arange(size))[:size]
            if len(values) == size:
                made[spec.name] = xarray.Variable(
                    (dimension,), values, {"units": spec.units, "long_name": spec.description})
    return made


class Tree:
    """A tree of `xarray.Dataset`: the part of the interface of `xarray.DataTree` for reading. A node
    has a `name`, `path`, `attrs`, `dataset` and `children`; `tree["steps"]` is a node, and
    `tree["steps/loss"]` or `tree["steps"]["loss"]` is a variable."""

    def __init__(self, name, datasets, path="/"):
        self.name = name
        self.path = path
        self.dataset = datasets[""]
        self.children = {key: Tree(key, {"": value}, f"/{key}") for key, value in datasets.items() if key}
        self.groups = (path, *(child.path for child in self.children.values()))

    def to_dataset(self):
        return self.dataset.copy(deep=False)

    def __iter__(self):
        return iter([*self.dataset.data_vars, *self.children])

    def __contains__(self, key):
        return key in self.children or key in self.dataset

    def __getitem__(self, key):
        first, _, rest = key.strip("/").partition("/")
        node = self.children[first] if first in self.children else self.dataset[first]
        return node[rest] if rest else node

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.children[name] if name in self.children else getattr(self.dataset, name)

    def __repr__(self):
        return "\n".join([f"{self.path}\n{self.dataset!r}", *map(repr, self.children.values())])
