# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that stay in the run file until their rows are used: most quantities use the rows of one epoch only."""

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.runfile.hdf5_access import errors_of_hdf5

IN_MEMORY_BYTES = 16 * 2**20  # datasets up to this size are read with the file
BLOCK_BYTES = 16 * 2**20  # of the rows that are processed together


class Rows:
    """An array whose rows are read when it is indexed. It has the shape and the operations of a
    NumPy array; operations on all rows read all rows. Subclasses define `read(rows)`, which returns the array of the rows
    with the ascending indices `rows`."""

    def __init__(self, shape, dtype=float):
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if first is Ellipsis or first is None:
            return np.asarray(self)[key]
        rows = np.arange(len(self))[first]
        found = self.read(np.unique(rows)) if rows.size else np.zeros((0, *self.shape[1:]), self.dtype)
        if np.ndim(rows) == 0:
            found = found[0]
        elif len(rows) != len(found) or np.any(np.diff(rows) < 0):
            found = found[np.searchsorted(np.unique(rows), rows)]
        return found[(slice(None),) * np.ndim(rows) + rest] if rest else found

    def __array__(self, dtype=None, copy=None):
        values = self.read(np.arange(len(self)))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


class StoredRows(Rows):
    """The rows of a dataset of numbers in a file. `open_file()` opens the file."""

    def __init__(self, open_file, name, shape):
        super().__init__(shape)
        self.open_file = open_file
        self.name = name

    def first(self, count):
        return StoredRows(self.open_file, self.name, (count, *self.shape[1:]))

    def read(self, rows):
        if len(rows) == 0:
            return np.zeros((0, *self.shape[1:]))
        first, last = int(rows[0]), int(rows[-1])
        with self.open_file() as file:
            with errors_of_hdf5(file.filename):
                found = np.asarray(file[self.name][first:last + 1], dtype=self.dtype)
            if len(found) != last - first + 1:
                raise ReportError(INPUT, f"{file.filename}: {self.name} became shorter while the file was read")
        return found if len(rows) == len(found) else found[rows - first]


class JoinedRows(Rows):
    """The rows `kept[i]` of each of the `arrays`, one after another."""

    def __init__(self, arrays, kept):
        super().__init__((sum(map(len, kept)), *arrays[0].shape[1:]))
        self.arrays = arrays
        self.kept = kept

    def read(self, rows):
        found, end = [], 0
        for array, chosen in zip(self.arrays, self.kept):
            begin, end = end, end + len(chosen)
            own = rows[(rows >= begin) & (rows < end)] - begin
            if len(own):
                found.append(array[chosen[own]])
        return np.concatenate(found) if found else np.zeros((0, *self.shape[1:]))


def join_rows(arrays, kept):
    """Returns the rows `kept[i]` of each of the `arrays`, one after another; in memory, unless one is stored."""
    if any(isinstance(array, Rows) for array in arrays):
        return JoinedRows(arrays, kept)
    return np.concatenate([array[chosen] for array, chosen in zip(arrays, kept)])


def blocks(rows, *arrays):
    """Yields (indices, block of each array): consecutive parts of the indices `rows`, and the rows of the arrays
    with these indices. A block has at most about BLOCK_BYTES per array. Without rows, yields one empty block."""
    row_bytes = max((array.nbytes // max(1, len(array)) for array in arrays), default=1)
    count = max(1, BLOCK_BYTES // max(1, row_bytes))
    for first in range(0, max(1, len(rows)), count):
        part = rows[first:first + count]
        yield part, *(array[part] for array in arrays)
