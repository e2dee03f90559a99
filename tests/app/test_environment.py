"""Tests of the environment that a run inherits: settings of libraries, launchers and limits of the system."""

import json
import os
import subprocess

import pytest
from test_cli import BIN, HANG, MPIRUN, environment, expect_failure, start, train


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
    ({"OMP_NUM_THREADS": "3x", "OMP_THREAD_LIMIT": "1"}, "1 thread per rank"),
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


@pytest.mark.parametrize("variables, launcher", [
    ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "torchrun"),
    ({"FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "0"}, "flux run"),
])
def test_ranks_that_do_not_find_each_other_are_an_error(variables, launcher):
    line = expect_failure(start(*train(), env=variables), 2)
    assert launcher in line and "2 ranks were started" in line


def permits(*command):
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("namespace", [["--user", "--map-root-user"], ["--user", "--map-root-user", "--pid", "--fork"]])
def test_each_rank_may_be_in_a_container_of_its_own(namespace):
    """The messages of a global batch of 2 x 2 images of ResNet-18 are large."""
    if not permits("unshare", *namespace):
        pytest.skip("this system does not permit namespaces")
    command = [*MPIRUN, "-n", "2", "unshare", *namespace, BIN, *train(watchdog=120)]
    result = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=HANG, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without an entry")
def test_a_user_without_home_directory_can_train():
    command = ["env", "-u", "HOME", "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", BIN, *train()]
    if not permits(*command[:7], "test", "-x", BIN, "-a"):
        pytest.skip("the program is in a folder that other users cannot read")
    result = subprocess.run(command, cwd="/", env=environment(), text=True, capture_output=True, timeout=HANG, check=False)
    assert result.returncode == 0, result.stderr


def test_info_prints_every_fact_with_its_source():
    result = start("info", "--json", env={"OMP_NUM_THREADS": "3", "OMP_THREAD_LIMIT": "2"})
    assert result.returncode == 0, result.stderr
    facts = [(fact["name"], fact["value"], fact["source"]) for fact in json.loads(result.stdout)["environment"]]
    assert ("threads", "2", "OMP_THREAD_LIMIT") in facts
    assert ("OpenMP thread limit", "2", "OMP_THREAD_LIMIT") in facts
    assert any(name == "memory limit" and "/" in source for name, _, source in facts)
    assert all(all(fact) for fact in facts)
    text = start("info").stdout
    assert {name for name, _, _ in facts} <= {line[2:27].strip() for line in text.splitlines()}
