# SPDX-License-Identifier: BSD-3-Clause
"""Tests of options: errors, differences between ranks, and threads."""

import os

import h5py
import pytest
from command_line import expect_failure, messages_of, start, start_ranks, train


# One error of each layer that checks options; the unit tests of the layer have the others.
@pytest.mark.parametrize(
    "arguments, words",
    [
        (["trian"], ["'train'"]),  # command line
        (
            ["train", "--batch-per-rank", "2", "--config", "/dev/zero"],
            ["/dev/zero", "more than 1.00 MB"],
        ),  # file of options
        (["train", "--batch-per-rank", "2", "--global-batch", "2"], ["both"]),  # configuration
        (["train", "--batch-per-rank", "2", "--classes", "5"], ["--classes", "10"]),  # dataset
        (["train", "--batch-per-rank", "2", "--precision", "tf32"], ["tf32"]),  # backend
        (["evaluate"], ["--init-from"]),  # command
    ],
)
def test_invalid_options_are_errors(arguments, words):
    line = expect_failure(start(*arguments), 2)
    for word in words:
        assert word in line


def test_global_batch_that_is_not_a_multiple_of_the_ranks_is_an_error():
    line = expect_failure(start_ranks((2, ["train", "--global-batch", "3"])), 2)
    assert "--global-batch 3" in line and "2 ranks" in line


def test_more_threads_than_processors_cause_a_warning():
    threads = os.cpu_count() + 1  # not more, because the dry run starts all threads
    result = start(*train("--dry-run", threads=threads, batch_per_rank=8))
    assert result.returncode == 0
    assert len(messages_of(result)) == 1 and f"{threads} threads" in messages_of(result)[0]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_threads_that_openmp_binds_compute_on_all_processors():
    def line_of(env):
        result = start(
            "train", "--data", "synthetic:24", "--batch-per-rank", "8", "--dry-run", env=env
        )
        assert result.returncode == 0 and messages_of(result) == []
        return next(line for line in result.stdout.splitlines() if line.startswith("  binding"))

    assert line_of({"OMP_PROC_BIND": "true"}) == line_of({})


def test_run_file_has_the_warnings_about_threads(tmp_path):
    cores = len(os.sched_getaffinity(0))
    for threads, expected in ((1, ""), (cores + 1, f"{cores + 1} threads share {cores} processor")):
        path = tmp_path / f"{threads}.h5"
        assert (
            start(
                *train(
                    threads=threads, steps=1, batch_per_rank=8, conv_algorithm="direct", output=path
                )
            ).returncode
            == 0
        )
        with h5py.File(path) as file:
            warnings = file["environment"].attrs["warnings"].decode()
        assert warnings.startswith(expected) and bool(warnings) == bool(expected)


def test_different_options_on_two_ranks_are_an_error():
    line = expect_failure(start_ranks((1, train(seed=1)), (1, train(seed=2))), 2)
    assert "seed is '1' on rank 0 but '2' on rank 1" in line


def test_invalid_option_on_one_rank_ends_all_ranks():
    line = expect_failure(start_ranks((1, train()), (1, train(lr="x"))), 2)
    assert "rank 1 on " in line and "--lr x" in line


def test_insufficient_memory_is_reported_before_the_training():
    line = expect_failure(start("train", "--batch-per-rank", "16", "--memory-limit", "100MB"), 4)
    assert "100 MB" in line
