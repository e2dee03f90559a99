# SPDX-License-Identifier: BSD-3-Clause
"""Tests that run files are read without locks, and that errors of the operating system are not
called damage."""

import errno
import fcntl
import resource
import shutil
import subprocess

import h5py
import pytest
from programs import run_report
from synthetic import phases, write_run

# Replaces the functions that lock and read files whose names end with .h5 by functions that fail
# with the error FAIL.
FAILING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int fails(int file, const char* call) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) < 3 || strcmp(path + strlen(path) - 3, ".h5")) return 0;
  if (!strstr(getenv("CALLS"), call)) return 0;
  errno = atoi(getenv("FAIL"));
  return 1;
}
int flock(int file, int operation) { return fails(file, "flock") ? -1 : 0; }
ssize_t read(int file, void* data, size_t size) {
  ssize_t (*next)(int, void*, size_t) = dlsym(RTLD_NEXT, "read");
  return fails(file, "read") ? -1 : next(file, data, size);
}
ssize_t pread64(int file, void* data, size_t size, off_t at) {
  ssize_t (*next)(int, void*, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
  return fails(file, "pread") ? -1 : next(file, data, size, at);
}
ssize_t pread(int file, void* data, size_t size, off_t at) { return pread64(file, data, size, at); }
"""


@pytest.fixture
def run(tmp_path):
    return write_run(
        tmp_path / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2, batch=10
    )


@pytest.fixture
def failing(tmp_path):
    """A function that returns environment variables with which these system calls fail with an
    error."""
    (tmp_path / "failing.c").write_text(FAILING, encoding="utf-8")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", tmp_path / "failing.so", tmp_path / "failing.c", "-ldl"],
        check=True,
    )
    return lambda number, calls: {
        "LD_PRELOAD": str(tmp_path / "failing.so"),
        "FAIL": str(number),
        "CALLS": calls,
    }


def summary(run, **options):
    done = run_report("summary", run, **options)
    assert "damaged" not in done.stderr
    return done


def test_locks_of_other_programs_and_file_systems_without_locks_do_not_hinder(run, failing):
    assert summary(run, environment=failing(errno.ENOLCK, "flock")).returncode == 0
    with run.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert summary(run).returncode == 0
        done = summary(run, environment={"HDF5_USE_FILE_LOCKING": "TRUE"})
        assert (
            done.returncode == 3
            and "cannot be read (Resource temporarily unavailable)" in done.stderr
        )
        name, value = done.stderr.split("export ")[1].strip().split("=")
        assert summary(run, environment={name: value}).returncode == 0


def test_file_that_this_process_has_open_is_read(run):
    script = (
        f"import h5py, lockstep_report as lr; file = h5py.File({str(run)!r});"
        f" print(len(lr.load({str(run)!r})))"
    )
    assert run_report(program=["-c", script]).stdout == "1\n"


@pytest.mark.parametrize(
    "number, remedy",
    [
        (
            errno.EIO,
            "the disk or the network file system failed; try again, or use a copy of the file",
        ),
        (
            errno.ESTALE,
            "the server of the network file system has replaced or removed it; try again",
        ),
    ],
)
@pytest.mark.parametrize("calls", ["read,pread", "pread"])
def test_errors_of_the_file_system_are_named(run, failing, number, remedy, calls):
    done = summary(run, environment=failing(number, calls))
    assert done.returncode == 3
    assert (
        done.stderr == f"lockstep-report: {run}: cannot be read ({errno_text(number)}); {remedy}\n"
    )


def errno_text(number):
    return {errno.EIO: "Input/output error", errno.ESTALE: "Stale file handle"}[number]


def test_more_files_than_a_process_may_open_are_read(run, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(40):
        shutil.copy(run, folder / f"{number}.h5")
    done = run_report(
        "summary", folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    )
    assert done.returncode == 0, done.stderr


def test_missing_file_descriptors_are_named(run):
    script = f"""
import os, pathlib, resource
from lockstep_report.runfile.read import read_run
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
try:
    while True: os.dup(1)
except OSError: pass
try: read_run(pathlib.Path({str(run)!r}))
except Exception as error: print(error)
"""
    line = f"{run}: cannot be read (Too many open files); permit more open files: ulimit -n 4096"
    assert run_report(program=["-c", script]).stdout == line + "\n"


def test_file_that_is_being_written_is_named(run):
    with h5py.File(run, "r+", libver="latest"):
        done = summary(run)
    assert (
        done.returncode == 3
        and "another program is writing it, or was killed while it did" in done.stderr
    )
    assert summary(run).returncode == 0
