# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that stay in the run file until their rows are used: most quantities use the rows of one
epoch only."""

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.runfile.hdf5_access import errors_of_hdf5

IN_MEMORY_BYTES = 16 * 2**20  # datasets up to this size are read with the file
BLOCK_BYTES = 16 * 2**20  # of the rows that are processed together


class Rows:
    """An array of numbers whose rows are read when it is indexed. It has the shape and the
    operations of a NumPy array; operations on all rows read all rows. `read(rows)` returns the
    array of the rows with the ascending indices `rows`."""

    dtype = np.dtype(float)

    def __init__(self, read, shape):
        self.read = read
        self.shape = tuple(shape)
        self.ndim = len(self.shape)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        first, *rest = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis or first is None:
            return np.asarray(self)[key]
        rows = np.arange(len(self))[first]
        needed, places = np.unique(rows, return_inverse=True)
        found = self.read(needed)[places.reshape(rows.shape)]
        return found[(slice(None),) * rows.ndim + tuple(rest)]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.read(np.arange(len(self))), dtype=dtype)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def stored_rows(open_file, name, shape):
    """Returns the rows of the dataset `name` of numbers in the file that `open_file()` opens."""

    def read(rows):
        first, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        with open_file() as file:
            with errors_of_hdf5(file.filename):
                found = np.asarray(file[name][first:end], dtype=Rows.dtype)
            if len(found) != end - first:
                raise ReportError(
                    INPUT, f"{file.filename}: {name} became shorter while the file was read"
                )
        return found if len(rows) == len(found) else found[rows - first]

    return Rows(read, shape)


def join_rows(arrays, kept):
    """Returns the rows `kept[i]` of each of the `arrays`, one after another; in memory, unless one
    is stored."""
    if not any(isinstance(array, Rows) for array in arrays):
        return np.concatenate([array[chosen] for array, chosen in zip(arrays, kept)])
    ends = np.cumsum([len(chosen) for chosen in kept])

    def read(rows):
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        return np.concatenate(
            [
                array[chosen[part - end + len(chosen)]]
                for array, chosen, end, part in zip(arrays, kept, ends, parts)
            ]
        )

    return Rows(read, (ends[-1], *arrays[0].shape[1:]))


def blocks(rows, *arrays):
    """Yields (indices, block of each array): consecutive parts of the indices `rows`, and the rows
    of the arrays with these indices. A block has at most about BLOCK_BYTES per array. Without rows,
    yields one empty block.
    """
    row_bytes = max((array.nbytes // max(1, len(array)) for array in arrays), default=1)
    count = max(1, BLOCK_BYTES // max(1, row_bytes))
    for first in range(0, max(1, len(rows)), count):
        part = rows[first : first + count]
        yield part, *(array[part] for array in arrays)
