#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A virtual dataset of HDF5 contains zeros for a source file that another program has open for writing (HDF5 1.10 to 1.14.2).
#
# Expected: a virtual dataset joins the files of several runs or ranks. A source that is missing gives the fill value, which is documented;
# a source that exists but cannot be opened is an error, as it is if the file is opened directly.
# Seen: with HDF5 1.14.2 (h5py 3.11 to 3.12), a source that is locked by its writer, and one that is no HDF5 file, give the fill value
# without an error or a warning, so a mean over the runs is too low. With HDF5 1.14.6 (h5py 3.15), both raise the error of the direct
# access. HDF5 1.10.8 (Debian 12) and 1.12.2 behave as 1.14.2, and HDF5 2.0.0 as 1.14.6 (tested by hand). A missing source is the
# fill value in all versions.
# Consequences: give a virtual dataset the fill value NaN, and count the NaN; create it with `fillvalue=float("nan")`, because the
# default is 0 also if the sources have another fill value. Upgrade HDF5 before the files of running programs are joined.
#
# Needs: bash, Python 3.9 to 3.12 with pip, x86-64 or aarch64 Linux, a file system with flock, 200 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 3.11.0 3.15.1; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$work/h5py-$version" \
    "h5py==$version" numpy==1.26.4
done

cat >"$work/join.py" <<'PYTHON'
import json
import os
import subprocess
import sys

import h5py
import numpy as np

NAMES = ("closed", "missing", "text", "written")
for number, name in enumerate(NAMES, start=1):
    with h5py.File(f"{name}.h5", "w") as file:
        file["seconds"] = np.full(2, float(number))
layout = h5py.VirtualLayout((len(NAMES), 2), dtype="f8")
for row, name in enumerate(NAMES):
    layout[row] = h5py.VirtualSource(f"{name}.h5", "seconds", (2,))
with h5py.File("all.h5", "w") as file:
    file.create_virtual_dataset("seconds", layout)
os.remove("missing.h5")
with open("text.h5", "w", encoding="utf-8") as file:
    file.write("version https://example.org/a-pointer-instead-of-the-file\n")
code = "import h5py, sys; file = h5py.File('written.h5', 'r+'); print('open', flush=True); sys.stdin.read()"
writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
writer.stdout.readline()


def result(read):
    try:
        return read().tolist()
    except OSError as error:
        return type(error).__name__


def directly(name):
    with h5py.File(f"{name}.h5") as file:
        return file["seconds"][()]


found = {}
with h5py.File("all.h5") as joined:
    for row, name in enumerate(NAMES):
        found[name] = [result(lambda: directly(name)), result(lambda: joined["seconds"][row])]
writer.stdin.close()
writer.wait()
print(f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}: {{source: [directly, in the virtual dataset]}}\n  {json.dumps(found)}")
zeros = [0.0, 0.0]
is_old = h5py.version.hdf5_version_tuple < (1, 14, 6)
expected = {
    "closed": [[1.0, 1.0], [1.0, 1.0]], "missing": ["FileNotFoundError", zeros],
    "text": ["OSError", zeros if is_old else "OSError"], "written": ["BlockingIOError", zeros if is_old else "BlockingIOError"]}
assert found == expected, "the behaviour has changed"
PYTHON
cd "$work"
unset HDF5_USE_FILE_LOCKING
for version in 3.11.0 3.15.1; do
  PYTHONPATH=$work/h5py-$version python3 join.py
done
