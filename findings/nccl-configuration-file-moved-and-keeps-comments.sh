#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# NCCL's configuration file of a user, ~/.nccl.conf: which home it is in, and what a line means.
#
# Expected: the file is found by HOME in all versions; text after # is a comment anywhere; blanks around = do not matter, as in most
# such files.
# Seen: NCCL 2.28.9 takes the home of the user database and ignores HOME; NCCL 2.32.3 takes HOME. So a job or container that sets HOME
# reads another file, or none, after an update of NCCL. A # is a comment only at the beginning of a line: `NCCL_SOCKET_IFNAME=lo # why`
# sets the name "lo # why", and quotes and trailing blanks also belong to the value. A line with a blank before = has no effect and
# gives no message. Every other name is put into the environment of the process too, such as UCX_TLS, which other libraries read.
# Variables that are already set have precedence over the file.
# Consequences: look at the environment of a process after NCCL was initialised, which shows the settings of the file; write one
# NAME=VALUE per line without blanks, quotes and trailing comments; name the file in NCCL_CONF_FILE, which all versions read.
#
# Needs: bash, Python 3.9 or newer with pip, x86-64, 1 GB for temporary files. No GPU and no driver.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 2.28.9 2.32.3; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$work/$version" \
    "nvidia-nccl-cu13==$version"
done

cat >"$work/settings.py" <<'PYTHON'
import ctypes
import sys

nccl, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
identifier, version = ctypes.create_string_buffer(128), ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
assert nccl.ncclGetUniqueId(identifier) == 0  # reads the file
values = [f"{name}={(libc.getenv(name.encode()) or b'(not set)').decode()}" for name in sys.argv[2:]]
print(f"NCCL {version.value}:", ", ".join(values))
PYTHON

mkdir "$work/home"
cat >"$work/home/.nccl.conf" <<'CONF'
# a comment
NCCL_ALGO=Ring
NCCL_PROTO = LL
NCCL_DEBUG_FILE="quoted" # why
NCCL_NTHREADS=256
UCX_TLS=tcp
CONF

cd "$work"
show() { # VERSION NAME...
  local version=$1
  shift
  HOME="$work/home" python3 "$work/settings.py" "$work/$version/nvidia/nccl/lib/libnccl.so.2" "$@" | tee -a "$work/seen"
}
unset NCCL_ALGO NCCL_PROTO NCCL_DEBUG_FILE NCCL_NTHREADS UCX_TLS NCCL_CONF_FILE
show 2.28.9 NCCL_ALGO
show 2.32.3 NCCL_ALGO NCCL_PROTO NCCL_DEBUG_FILE UCX_TLS
NCCL_NTHREADS=64 show 2.32.3 NCCL_NTHREADS
NCCL_CONF_FILE="$work/home/.nccl.conf" show 2.28.9 NCCL_ALGO NCCL_PROTO NCCL_DEBUG_FILE UCX_TLS

cat >"$work/expected" <<'SEEN'
NCCL 22809: NCCL_ALGO=(not set)
NCCL 23203: NCCL_ALGO=Ring, NCCL_PROTO=(not set), NCCL_DEBUG_FILE="quoted" # why, UCX_TLS=tcp
NCCL 23203: NCCL_NTHREADS=64
NCCL 22809: NCCL_ALGO=Ring, NCCL_PROTO=(not set), NCCL_DEBUG_FILE="quoted" # why, UCX_TLS=tcp
SEEN
diff "$work/expected" "$work/seen" || { echo "the behaviour has changed" && exit 1; }
