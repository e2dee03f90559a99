# SPDX-License-Identifier: BSD-3-Clause
"""Access to HDF5 files that may be damaged or hostile: every failure is a `ReportError`, and every
text is printable."""

import stat
from contextlib import contextmanager, suppress

import h5py
import numpy as np

from lockstep_report.errors import INPUT, ReportError, cannot_read, errno_of, reason_of
from lockstep_report.escaping import printable
from lockstep_report.runfile.file_kind import HDF5, kind_of, read_head, wrong_kind


@contextmanager
def errors_of_hdf5(path):
    """Raises `ReportError` (input) for the errors that h5py raises if HDF5 cannot read `path`."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise cannot_read(path, error) from error


def open_run(path, **options):
    """Opens a run file for reading, with the `options` of `h5py.File`; in SWMR mode if it is being
    written or its writer was killed. Raises `ReportError` (input) if it cannot be opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ReportError(INPUT, f"{path}: not a regular file; give a run file of lockstep")
        head = read_head(path)
        kind = HDF5 if h5py.is_hdf5(str(path)) else kind_of(head)
    except FileNotFoundError as error:
        partial = path.with_name(path.name + ".partial")
        hint = (
            f"the run has not finished; give {partial.name}"
            if partial.is_file()
            else "give the path of a run file"
        )
        raise ReportError(INPUT, f"{path}: no such file; {hint}") from error
    except OSError as error:
        raise cannot_read(path, error) from error
    if kind != HDF5:
        raise wrong_kind(path, "an HDF5 file", kind, "give a run file of lockstep")
    try:
        return open_without_lock(path, options)
    except OSError as error:
        # The flags of the superblock must be exactly those of a file that is open for writing (1)
        # in SWMR mode (4), because in this mode HDF5 retries for minutes to read metadata that are
        # damaged.
        if len(head) >= 12 and head[8] >= 3 and head[11] == 1 | 4:
            with suppress(OSError):
                return open_without_lock(path, options | {"swmr": True, "libver": "latest"})
        raise failure_to_open(path, error) from error


def open_without_lock(path, options):
    """Opens a file so that neither locks of other programs nor file systems without locks hinder
    it, and it hinders no program that writes. With a lock if HDF5 is too old, or if this process
    has the file open with one.
    """
    try:
        return h5py.File(path, "r", locking=False, **options)
    except (OSError, ValueError) as error:
        if "locking" not in str(error):
            raise
    return h5py.File(path, "r", **options)


def failure_to_open(path, error):
    if errno_of(error):
        return cannot_read(path, error)
    if "already open for write" in str(error):
        return ReportError(
            INPUT,
            f"{path}: another program is writing it, or was killed while it did; try "
            "again when it has ended, or give another file",
        )
    return ReportError(INPUT, f"{path}: damaged or cut-off HDF5 file ({reason_of(error)})")


# No filter that run files use compresses more than deflate, by 1032 to 1.
MOST_COMPRESSION = 1100


def safe_objects(path, file):
    """Returns {path in the file: group or dataset}. Raises `ReportError` for objects that lockstep
    does not write and that would read other files (links, external and virtual storage), or need
    far more memory than the file has.
    """
    with errors_of_hdf5(path):
        most_bytes = MOST_COMPRESSION * path.stat().st_size
        links = []
        file.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
        items = {}
        for name, kind in links:
            place = "/" + name.decode("utf-8", "replace")
            if kind != h5py.h5l.TYPE_HARD:
                raise ReportError(INPUT, f"{path}: {place} is a link; lockstep writes none")
            items[place] = safe_object(path, place, h5py.h5o.open(file.id, name), most_bytes)
        return items


def safe_object(path, place, opened, most_bytes):
    """Returns the group or dataset with the low-level identifier `opened`. Uses the low-level
    functions of h5py, because the others take most of the time for reading a small file."""
    if h5py.h5o.get_info(opened).rc > 1:  # also excludes cycles
        raise ReportError(INPUT, f"{path}: {place} has several names; lockstep writes none")
    if not isinstance(opened, h5py.h5d.DatasetID):
        return h5py.Group(opened) if isinstance(opened, h5py.h5g.GroupID) else opened
    plan = opened.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count() > 0:
        raise ReportError(INPUT, f"{path}: {place} is stored in other files; lockstep writes none")
    size = opened.get_space().get_simple_extent_npoints() * opened.get_type().get_size()
    if size > most_bytes:
        raise ReportError(
            INPUT,
            f"{path}: {place} claims {size:,} bytes, more than a file of this size can contain",
        )
    return h5py.Dataset(opened)


def read_dataset(dataset):
    if h5py.check_string_dtype(dataset.dtype) is not None:
        texts = dataset.asstr(errors="replace")[()]
        if isinstance(texts, str):
            return printable(texts)
        return np.array([printable(text) for text in texts.flat], dtype=object).reshape(texts.shape)
    return dataset[()]


def read_attributes(node):
    return {name: plain(value) for name, value in node.attrs.items()}


def plain(value):
    """Converts an attribute to a Python value."""
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "replace"))
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (np.ndarray, np.generic)):
        values = list(map(plain, np.ravel(value).tolist()))
        return values[0] if len(values) == 1 else values
    return value
