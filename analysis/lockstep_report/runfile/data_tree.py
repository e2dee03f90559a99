# SPDX-License-Identifier: BSD-3-Clause
"""A run file as an xarray `DataTree`."""

from pathlib import Path

import numpy as np

from lockstep_report.errors import require_module
from lockstep_report.runfile import schema
from lockstep_report.runfile.hdf5_access import read_attributes, read_dataset
from lockstep_report.runfile.read import checked_objects, read_tables
from lockstep_report.runfile.stored import IN_MEMORY_BYTES, Rows

# Datasets of /ranks or of the same group that are coordinates along a dimension.
LABELS = {
    "rank": ("hostname", "device_name"),
    "step": ("epoch",),
    "bucket": ("bytes",),
    "message": ("algorithm", "bytes"),
    "operation": ("name",),
    "layer": ("description",),
    "point": ("batch_per_rank",),
}


def open_tree(path):
    """Reads one run file and returns an `xarray.DataTree` with a node for each group. With a
    version of xarray without `DataTree` (before 2024.10, for example that of Debian 12), returns
    {name of the group: `xarray.Dataset`}; the name of the root is "/".

    The root has the attributes of the file; `/config`, `/environment` and `/results` have
    attributes only. Variables have the attributes `units` and `long_name`. Each node has the
    coordinates of its dimensions (`step`, `rank`, `phase`, `epoch`, ...), and further coordinates
    along them, such as `hostname` along `rank`. Steps of an epoch that was being written are
    omitted. Large variables along `step` and `rank` are read when they are used, so the file must
    still exist then. Raises `ReportError` if the file cannot be read.
    """
    xarray = require_module("xarray", "lockstep_report.open")
    path = Path(path)
    with checked_objects(path) as (attributes, items):
        tables = read_tables(path, items, IN_MEMORY_BYTES)
        nodes = {"/": xarray.Dataset(attrs=attributes)} | {
            group.path.strip("/"): dataset_of(xarray, items, group.path, tables)
            for group in schema.GROUPS
            if group.path in items
        }
    return (
        xarray.DataTree.from_dict(nodes, name=path.name) if hasattr(xarray, "DataTree") else nodes
    )


def dataset_of(xarray, items, group, tables):
    found = xarray.Dataset(attrs=read_attributes(items[group]))
    columns = tables.get(group.strip("/"), {})
    for spec in schema.datasets(group):
        # /ranks/rank is also the coordinate.
        if spec.name in columns and spec.name not in spec.dimensions:
            # /telemetry/rank: the name `rank` is that of the coordinate
            found["sample_rank" if spec.name == "rank" else spec.name] = variable(
                xarray, spec, columns[spec.name]
            )
    return found.assign_coords(
        coordinates(xarray, items, group, tables["ranks"] | columns, found.sizes)
    )


def variable(xarray, spec, values):
    if isinstance(values, Rows):
        values = read_when_used(values)
    return xarray.Variable(
        spec.dimensions, values, {"units": spec.units, "long_name": spec.description}
    )


def read_when_used(rows):
    """Returns `Rows` as an array of xarray. A selection reads its rows only; a use of all values
    reads them once and keeps them, as in a file that xarray opens."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class StoredArray(BackendArray):
        dtype, shape = rows.dtype, rows.shape

        def __getitem__(self, key):
            return indexing.explicit_indexing_adapter(
                key, self.shape, indexing.IndexingSupport.OUTER, selected
            )

    def selected(key):
        """Returns the values with the indices `key`, one for each dimension."""
        first, *others = key
        found = rows[first]
        leading = (slice(None),) * (found.ndim - rows.ndim + 1)
        for place, index in reversed(list(enumerate(others))):
            found = found[leading + (slice(None),) * place + (index,)]
        return found

    return indexing.CopyOnWriteArray(
        indexing.MemoryCachedArray(indexing.LazilyIndexedArray(StoredArray()))
    )


def coordinates(xarray, items, group, columns, sizes):
    """Returns the coordinates of a group: the scale of each dimension, and labels along it."""
    made = {}
    for dimension, size in sizes.items():
        scale = schema.dataset(f"/{dimension}")
        numbers = read_dataset(items[scale.path])[:size] if scale.path in items else np.arange(0)
        made[dimension] = variable(
            xarray, scale, numbers if len(numbers) == size else np.arange(size)
        )
        for spec in (*schema.datasets("/ranks"), *schema.datasets(group)):
            if (
                spec.dimensions == (dimension,)
                and spec.name in LABELS.get(dimension, ())
                and spec.name in columns
            ):
                made[spec.name] = variable(xarray, spec, columns[spec.name])
    return made
