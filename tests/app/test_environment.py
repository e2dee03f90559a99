"""Tests of the environment that a run inherits: settings of libraries, launchers and limits of the system."""

import pytest
from test_cli import expect_failure, start, train


def header_line(name, result):
    """Returns the line of the header that starts with `name`."""
    assert result.returncode == 0, result.stderr
    return next(line for line in result.stdout.splitlines() if line.startswith(f"  {name} "))


@pytest.mark.parametrize("variable", ["OMP_DYNAMIC=true", "OMP_MAX_ACTIVE_LEVELS=0", "OMP_NESTED=true"])
def test_settings_of_openmp_do_not_stop_the_training(variable):
    name, value = variable.split("=")
    assert start(*train(threads=2, watchdog=60), env={name: value}).returncode == 0


@pytest.mark.parametrize("env, expected", [
    ({"OMP_NUM_THREADS": "3,2"}, "3 threads per rank (OMP_NUM_THREADS)"),
    ({"OMP_NUM_THREADS": "3", "LOCKSTEP_THREADS": "1"}, "1 thread per rank,"),
    ({"OMP_NUM_THREADS": "3", "OMP_THREAD_LIMIT": "1"}, "1 thread per rank (OMP_THREAD_LIMIT)"),
])
def test_variables_of_openmp_are_the_default_number_of_threads(env, expected):
    assert expected in header_line("binding", start(*train("--dry-run", threads=None), env=env))


@pytest.mark.parametrize("env, status, words", [
    ({"OMP_THREAD_LIMIT": "1"}, 2, ["OMP_THREAD_LIMIT", "--threads 1"]),
    ({"OMP_STACKSIZE": "100000G"}, 4, ["no further thread", "OMP_STACKSIZE=100000G"]),
])
def test_threads_that_cannot_start_are_an_error(env, status, words):
    line = expect_failure(start(*train(threads=2), env=env), status)
    assert all(word in line for word in words), line
