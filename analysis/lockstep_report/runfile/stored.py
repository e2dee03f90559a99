# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that stay in the run file until their rows are used, and their processing in blocks of
rows: most quantities use the rows of one epoch only, and an epoch may be larger than the memory."""

from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.runfile.hdf5_access import errors_of_hdf5

IN_MEMORY_BYTES = 16 * 2**20  # datasets up to this size are read with the file
BLOCK_BYTES = 2 * 2**20  # of the rows that are processed together
SMALLEST_CACHE = 2**20  # of chunks, bytes; the default of HDF5


class Rows:
    """An array of numbers whose rows are read when it is indexed. It has the shape and the
    operations of a NumPy array; operations on all rows read all rows. `read(rows)` returns the
    array of the rows with the ascending indices `rows`; `opened()` returns a context that gives
    the same array, for several reads without opening the file for each [opens it for each]."""

    dtype = np.dtype(float)

    def __init__(self, read, shape, opened=None):
        self.read = read
        self.opened = opened or partial(nullcontext, self)
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
        if rows.ndim == 1 and np.all(rows[1:] > rows[:-1]):
            return self.gathered(rows, rest)
        needed, places = np.unique(rows, return_inverse=True)
        found = self.read(needed)[places.reshape(rows.shape)]
        return found[(slice(None),) * rows.ndim + tuple(rest)]

    def gathered(self, rows, others=()):
        """Returns the array with the ascending indices `rows`, and `others` along the other
        dimensions, which are selected from each block."""
        key = (slice(None), *others)
        parts = block_slices(len(rows), self)
        if len(parts) == 1 or not all(isinstance(index, (int, slice)) for index in others):
            return self.read(rows)[key]
        with self.opened() as source:
            array = np.empty((len(rows), *source.read(rows[:1])[key].shape[1:]))
            for part in parts:
                array[part] = source.read(rows[part])[key]
        return array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.gathered(np.arange(len(self))), dtype=dtype)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def opened(array):
    """Returns a context that gives the array, with its file open if it is stored."""
    return array.opened() if isinstance(array, Rows) else nullcontext(array)


def stored_rows(open_file, name, shape, chunk_bytes=0):
    """Returns the rows of the dataset `name` of numbers in the file that `open_file()` opens, whose
    chunks have `chunk_bytes` bytes. `open_file` has the options of `h5py.File`."""

    def dataset_of(file):
        with errors_of_hdf5(file.filename):
            return file[name]

    def read_from(dataset, rows):
        first, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        path = dataset.file.filename
        with errors_of_hdf5(path):
            found = np.asarray(dataset[first:end], dtype=Rows.dtype)
        if len(found) != end - first:
            raise ReportError(INPUT, f"{path}: {name} became shorter while the file was read")
        return found if len(rows) == len(found) else found[rows - first]

    def read(rows):
        with open_file() as file:
            return read_from(dataset_of(file), rows)

    @contextmanager
    def opened_rows():
        # HDF5 reads whole chunks, and keeps them while the dataset is open if the cache suffices.
        with open_file(rdcc_nbytes=max(SMALLEST_CACHE, chunk_bytes)) as file:
            yield Rows(partial(read_from, dataset_of(file)), shape)

    return Rows(read, shape, opened_rows)


def computed_rows(compute, shape, *sources):
    """Returns the rows that `compute(rows, *arrays)` returns for the ascending indices `rows` and
    `sources`, arrays whose files are open."""

    @contextmanager
    def opened_rows():
        with ExitStack() as stack:
            arrays = [stack.enter_context(opened(source)) for source in sources]
            yield Rows(lambda rows: compute(rows, *arrays), shape)

    return Rows(lambda rows: compute(rows, *sources), shape, opened_rows)


def chosen_rows(array, chosen):
    """Returns the rows of `array` with the ascending indices `chosen`; stored if the array is."""
    if not isinstance(array, Rows):
        return array[chosen]
    return computed_rows(
        lambda rows, source: source[chosen[rows]], (len(chosen), *array.shape[1:]), array
    )


def join_rows(arrays, kept):
    """Returns the rows `kept[i]` of each of the `arrays`, one after another; in memory, unless one
    is stored."""
    if not any(isinstance(array, Rows) for array in arrays):
        return np.concatenate([array[chosen] for array, chosen in zip(arrays, kept)])
    ends = np.cumsum([len(chosen) for chosen in kept])
    shape = (ends[-1], *arrays[0].shape[1:])

    def read_with(get, rows):
        """`get(i)` returns the array with the index i."""
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        return np.concatenate(
            [
                get(i)[kept[i][part - ends[i] + len(kept[i])]]
                for i, part in enumerate(parts)
                if len(part) or (i == 0 and len(rows) == 0)
            ]
        )

    @contextmanager
    def opened_rows():
        with OneOpen(arrays) as get:
            yield Rows(partial(read_with, get), shape)

    return Rows(partial(read_with, arrays.__getitem__), shape, opened_rows)


class OneOpen:
    """A context whose function `get(i)` returns the array with the index i and keeps its file open
    until it returns another one, because each open file has a cache."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.stack = ExitStack()
        self.index = None

    def __enter__(self):
        return self.get

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def get(self, index):
        if index != self.index:
            self.stack.close()
            self.array = self.stack.enter_context(opened(self.arrays[index]))
            self.index = index
        return self.array


def blocks(rows, *arrays):
    """Yields (indices, block of each array): consecutive parts of the indices `rows`, and the rows
    of the arrays with these indices. A block has at most about BLOCK_BYTES per array. Without rows,
    yields one empty block.
    """
    with ExitStack() as stack:
        sources = [stack.enter_context(opened(array)) for array in arrays]
        for part in block_slices(len(rows), *arrays):
            yield rows[part], *(source[rows[part]] for source in sources)


def block_slices(count, *arrays):
    """Returns the slices of `blocks` of `count` rows of the arrays."""
    row_bytes = max((array.nbytes // max(1, len(array)) for array in arrays), default=1)
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    return [slice(first, min(first + size, count)) for first in range(0, max(1, count), size)]


class BlockSum:
    """The sum over the rows of blocks. The rows are added in their order, so the sum does not
    depend on the size of the blocks; None before the first block."""

    def __init__(self):
        self.total = None

    def add(self, block):
        rows = block if self.total is None else np.concatenate([self.total[None], block])
        self.total = rows.sum(axis=0)
