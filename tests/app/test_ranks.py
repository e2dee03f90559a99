# SPDX-License-Identifier: BSD-3-Clause
"""Tests of failures with several ranks: one rank prints one line, the exit status is as documented,
and no rank hangs."""

import os
import pathlib
import resource
import subprocess
import sys

import h5py
import pytest
from command_line import (
    BIN,
    HANG,
    MPIRUN,
    environment,
    expect_failure,
    messages_of,
    start_ranks,
    train,
)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))
from lockstep_report.measure.validity import parse_processors  # noqa: E402


def warnings_of(result):
    return [line for line in messages_of(result) if line.startswith("lockstep: warning: ")]


def with_file_size_limit(ranks, arguments, limit):
    """Runs ranks under mpirun with files of at most `limit` bytes, including the anonymous files of
    shared memory."""

    def set_limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*MPIRUN, "-n", str(ranks), BIN, *map(str, arguments)],
        env=environment(),
        text=True,
        capture_output=True,
        timeout=HANG,
        preexec_fn=set_limit,
    )


# --- shared memory
# -------------------------------------------------------------------------------------------

LESS_THAN_THE_GRADIENTS = 16 << 20  # bytes; the gradients of resnet18-cifar have 44.7 MB


@pytest.mark.parametrize("size", [pytest.param("64m", marks=pytest.mark.slow), "64k"])
def test_small_dev_shm_does_not_prevent_shared_memory(size):
    if os.geteuid() != 0:
        pytest.skip("mounting a small /dev/shm requires root")
    probe = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/dev/shm"],
        capture_output=True,
        text=True,
    )
    if probe.returncode != 0:
        pytest.skip(f"this machine does not permit mounting: {probe.stderr.strip()}")
    script = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    command = [*MPIRUN, "-n", "2", BIN, *train("--all-reduce", "shared-memory")]
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command],
        env=environment(),
        text=True,
        capture_output=True,
        timeout=HANG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all-reduce     shared-memory" in result.stdout


def test_one_rank_warns_if_the_ranks_cannot_share_memory():
    result = with_file_size_limit(2, train(), LESS_THAN_THE_GRADIENTS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all-reduce     shared-memory" not in result.stdout
    [warning] = [line for line in warnings_of(result) if "share memory" in line]
    assert "File too large" in warning and "messages" in warning


def test_explicit_shared_memory_algorithm_without_shared_memory_is_an_error():
    result = with_file_size_limit(
        2, train("--all-reduce", "shared-memory"), LESS_THAN_THE_GRADIENTS
    )
    line = expect_failure(result, 2)
    assert (
        "the all-reduce algorithm shared-memory is not available: the ranks of this host cannot"
        " share memory" in line
    )


# --- one error message from one rank
# ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["--all-reduce", "hierarchical"],
            (
                "the all-reduce algorithm hierarchical is not available: it needs ranks on several"
                " hosts"
            ),
        ),
        (
            ["--all-reduce", "ring", "--gradient-dtype", "bf16"],
            "the all-reduce algorithm ring is not available: it sends fp32 only",
        ),
        (["--transport", "nccl"], "transport nccl carries the gradients of GPUs"),
    ],
)
def test_error_on_all_ranks_is_printed_once(arguments, words):
    line = expect_failure(start_ranks((2, train(*arguments))), 2)
    assert words in line


@pytest.mark.parametrize("binding", ["auto", pytest.param("none", marks=pytest.mark.slow)])
def test_ranks_that_mpirun_does_not_bind_compute_on_different_cores(tmp_path, binding):
    result = start_ranks((2, train(threads=1, binding=binding, output=tmp_path / "run.h5")))
    assert result.returncode == 0, result.stderr
    with h5py.File(tmp_path / "run.h5") as file:
        processors, cores = (file[f"ranks/{name}"].asstr()[:] for name in ("cpu_list", "core_list"))
    if binding == "auto" and len(allowed_cores()) > 1:
        assert parse_processors(cores[0]).isdisjoint(parse_processors(cores[1]))
        assert parse_processors(processors[0]) | parse_processors(
            processors[1]
        ) == os.sched_getaffinity(0)
    else:
        assert (
            parse_processors(processors[0])
            == parse_processors(processors[1])
            == os.sched_getaffinity(0)
        )
        assert parse_processors(cores[0]) == allowed_cores()


def test_ranks_whose_threads_openmp_binds_to_the_same_processors_cause_a_warning():
    expected = "binds the threads of ranks 0 and 1 to the same processors"
    for env, is_bound in (({"OMP_PROC_BIND": "true"}, True), ({}, False)):
        result = start_ranks((2, train("--dry-run")), env=env)
        assert result.returncode == 0, result.stderr
        assert [expected in line for line in warnings_of(result)].count(True) == is_bound


def allowed_cores():
    """Returns the physical cores of the processors of this process, each named by its lowest
    processor."""

    def core_of(processor):
        siblings = pathlib.Path(
            f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        )
        return min(parse_processors(siblings.read_text())) if siblings.exists() else processor

    return {core_of(processor) for processor in os.sched_getaffinity(0)}
