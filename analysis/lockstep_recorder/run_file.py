# SPDX-License-Identifier: BSD-3-Clause
"""Writes a run file (docs/run-file.md) that grows by one epoch at a time."""

import fcntl
import os
import shutil
import weakref
from pathlib import Path

import h5py
import numpy as np
from lockstep_report.runfile import schema

from lockstep_recorder import attempts

GROWING = ("step", "epoch")  # dimensions
LIBVER = ("v110", "v110")  # what HDF5 1.10 can read; older formats have no SWMR
writers = weakref.WeakValueDictionary()  # {path: writer} of this process
locked = weakref.WeakSet()  # writers with a lock


class RunFileWriter:
    """The run file `path`, which is `path`.partial until `close`. The constructor reserves the
    name: raises `FileExistsError` if the file exists and `overwrite` is false, or if a run that is
    active writes it. The `.partial` file of a terminated run is renamed, and so is the file of an
    earlier attempt of the same job.
    """

    def __init__(self, path, overwrite=False):
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.is_created = False
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"{path}: the folder {self.path.parent} does not exist; create it"
            )
        if self.path.exists() and not overwrite:
            if not attempts.is_of_earlier_attempt(self.path):
                raise FileExistsError(f"{path} exists; give another name, or overwrite=True")
            set_aside(self.path)
        self.lock = reserve(self.partial)
        locked.add(self)

    def create(self, attributes, groups, columns, measured, steps_per_epoch, rows=None):
        """Writes what is the same for all epochs, and the `rows` {path: values} of the epochs until
        now. `attributes`: of the root; `groups`: {group: attributes}; `columns`: {path: values} of
        datasets that do not grow, among them the scales of all other dimensions that the file has;
        `measured`: paths of the optional datasets to which `append` will add rows. Replaces a file
        with other values, which readers and a kill find complete until then."""
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        with_lock = reserve(fresh)
        with opened(fresh, "w") as file:
            set_attributes(
                file,
                {
                    "format": schema.FORMAT,
                    "format_version": schema.VERSION,
                    "status": "running",
                    "failure": "",
                    "part": 1,
                    "first_step": 0,
                    **attributes,
                },
            )
            for group in schema.GROUPS:
                if group.required:
                    set_attributes(file.create_group(group.path), groups.get(group.path, {}))
            create_datasets(file, columns, measured, steps_per_epoch)
            if rows:
                append_rows(file, rows)
        fresh.rename(self.partial)
        self.release()
        self.lock, self.is_created = with_lock, True

    def rows(self):
        """Returns {path: values} of the growing datasets."""
        with self.opened("r") as file:
            return {
                spec.path: file[spec.path][()]
                for spec in filter(grows, schema.DATASETS)
                if spec.path in file
            }

    def append(self, columns):
        """Appends the rows {path: values} of an epoch; NaN (texts: "") to the growing datasets that
        `columns` lacks. /epoch is written last, so a reader never uses an epoch that is not
        complete."""
        with self.opened("r+") as file:
            file.swmr_mode = True  # a kill leaves a file that can be read
            append_rows(file, columns)

    def replace_last(self, columns):
        """Replaces the values {path: value} of the last epoch."""
        with self.opened("r+") as file:
            file.swmr_mode = True
            for path, value in columns.items():
                file[path][-1] = value

    def close(self, groups=None, **attributes):
        """Completes a copy of the file with these attributes of the root and `groups`, {group:
        attributes}, and renames it to `path`. Without an epoch there is no file."""
        if self.lock is None:
            return
        if self.is_created:
            copy = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
            shutil.copyfile(self.partial, copy)
            with opened(copy, "r+") as file:
                for group, values in {"/": attributes, **(groups or {})}.items():
                    set_attributes(file[group], values)
            with open(copy, "rb") as written:
                os.fsync(written.fileno())
            os.replace(copy, self.path)
        self.partial.unlink()
        self.release()

    def release(self):
        os.close(self.lock)
        self.lock = None

    def opened(self, mode):
        if self.lock is None:
            raise RuntimeError(
                f"Recorder: {self.path} is closed, or a later Recorder of this process writes it;"
                " give another name"
            )
        return opened(self.partial, mode)


def opened(path, mode):
    return h5py.File(path, mode, libver=LIBVER, locking=False)


def append_rows(file, columns):
    counts = {name: len(columns[f"/{name}"]) for name in GROWING}
    growing = [spec for spec in filter(grows, schema.DATASETS) if spec.path in file]
    for spec in sorted(growing, key=lambda spec: spec.path == "/epoch"):
        added = counts[spec.dimensions[0]]
        found = file[spec.path]
        found.resize(len(found) + added, axis=0)
        values = columns.get(spec.path, b"" if spec.is_text else np.nan)
        found[len(found) - added :] = values
        found.flush()


def leave_locks():
    """Closes the locks in a child of fork, such as a worker of a DataLoader, which would keep them
    after the end of its parent."""
    for writer in locked:
        if writer.lock is not None:
            writer.release()


os.register_at_fork(after_in_child=leave_locks)


def last_writer(path, overwrite=False):
    """Returns a `RunFileWriter`, which takes the name from an earlier one of this process that was
    not closed. For example, a cell of a notebook is run again after an exception."""
    key = Path(path).absolute()
    if key in writers and writers[key].lock is not None:
        writers[key].release()
    writers[key] = writer = RunFileWriter(path, overwrite)
    return writer


def grows(spec):
    return spec.dimensions[0] in GROWING


def reserve(partial):
    """Creates the file `partial` and returns a descriptor with a lock, by which other runs see that
    it is in use."""
    with_lock = os.open(partial, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(with_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(with_lock)
        raise FileExistsError(f"{partial}: an active run writes it; give another name") from None
    except OSError:
        pass  # a file system without locks
    try:
        is_current = os.path.samestat(os.fstat(with_lock), os.stat(partial))
    except FileNotFoundError:
        is_current = False
    if is_current and os.fstat(with_lock).st_size == 0:
        return with_lock
    os.close(with_lock)
    if is_current:
        set_aside(partial)
    return reserve(partial)  # another file has the name since the one with the lock was opened


def set_aside(path):
    """Appends the first free number to the name of a file: run.h5.1."""
    number = 1
    while (other := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    path.rename(other)


def set_attributes(node, values):
    for name, value in values.items():
        if isinstance(value, str):  # HDF5 protects texts of fixed length by checksums
            encoded = value.encode() or b"\0"
            node.attrs.create(name, encoded, dtype=h5py.string_dtype("utf-8", len(encoded)))
        else:
            node.attrs[name] = value


def create_datasets(file, columns, measured, steps_per_epoch):
    """Creates the datasets of `RunFileWriter.create` that have all their dimensions in the file."""
    sizes = dict.fromkeys(GROWING, 0) | {
        path[1:]: len(values) for path, values in columns.items() if schema.dataset(path).is_scale
    }
    for spec in schema.DATASETS:  # the scales are the first of them
        is_wanted = spec.required or spec.path in measured
        if spec.path in columns:
            create_dataset(file, spec, (len(columns[spec.path]),), columns[spec.path])
        elif grows(spec) and sizes.keys() >= {*spec.dimensions} and is_wanted:
            shape = [sizes[name] for name in spec.dimensions]
            first = steps_per_epoch if spec.dimensions[0] == "step" else 1
            create_dataset(file, spec, shape, None, (first, *shape[1:]))
        else:
            continue
        if not spec.is_scale:
            for axis, scale in enumerate(spec.dimensions):
                file[spec.path].dims[axis].attach_scale(file[scale])


def create_dataset(file, spec, shape, values, chunks=None):
    """Creates a dataset; one with `chunks` grows along its first dimension."""
    if spec.is_text:
        length = (
            64 if spec.type == "string64" else max([1, *(len(text.encode()) for text in values)])
        )
        kind = h5py.string_dtype("utf-8", length)
        values = (
            None if values is None else np.array([text.encode() for text in values], dtype=kind)
        )
    else:
        kind = {"int64": "<i8", "uint64": "<u8", "float64": "<f8"}[spec.type]
    options = {} if chunks is None else {"chunks": tuple(chunks), "maxshape": (None, *shape[1:])}
    made = file.create_dataset(
        spec.path, shape=tuple(shape), dtype=kind, data=values, fletcher32=True, **options
    )
    set_attributes(
        made,
        {
            "units": spec.units,
            "long_name": spec.description,
            **({"_Encoding": "utf-8"} if spec.is_text else {}),
        },
    )  # xarray otherwise reads bytes
    if spec.is_scale:
        made.make_scale(spec.name)
