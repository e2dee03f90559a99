# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the environment that a run inherits: settings of libraries, launchers and limits of the
system."""

import json
import os
import subprocess

import h5py
import pytest
from command_line import BIN, HANG, MPIRUN, environment, expect_failure, start, start_ranks, train


def header_line(name, result):
    """Returns the line of the header that starts with `name`."""
    assert result.returncode == 0, result.stderr
    return next(line for line in result.stdout.splitlines() if line.startswith(f"  {name} "))


@pytest.mark.parametrize(
    "variable", ["OMP_DYNAMIC=true", "OMP_MAX_ACTIVE_LEVELS=0", "OMP_NESTED=true"]
)
def test_settings_of_openmp_do_not_stop_the_training(variable):
    name, value = variable.split("=")
    assert start(*train(threads=2, watchdog=60), env={name: value}).returncode == 0


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"OMP_NUM_THREADS": "3,2"}, "3 threads per rank (OMP_NUM_THREADS)"),
        ({"OMP_NUM_THREADS": "3x", "OMP_THREAD_LIMIT": "1"}, "1 thread per rank"),
        ({"OMP_NUM_THREADS": "3", "LOCKSTEP_THREADS": "1"}, "1 thread per rank,"),
        ({"OMP_NUM_THREADS": "3", "OMP_THREAD_LIMIT": "1"}, "1 thread per rank (OMP_THREAD_LIMIT)"),
    ],
)
def test_variables_of_openmp_are_the_default_number_of_threads(env, expected):
    assert expected in header_line("binding", start(*train("--dry-run", threads=None), env=env))


def test_invalid_variable_of_openmp_is_ignored():
    facts = json.loads(start("info", "--json", env={"OMP_NUM_THREADS": "abc"}).stdout)[
        "environment"
    ]
    assert next(fact["source"] for fact in facts if fact["name"] == "threads") != "OMP_NUM_THREADS"
    binding = [
        header_line("binding", start_ranks((2, train("--dry-run", threads=None)), env=env))
        for env in ({"OMP_NUM_THREADS": ""}, {"OMP_NUM_THREADS": "1.5"})
    ]
    assert binding[0] == binding[1]


def test_too_many_threads_are_an_error():
    processor = min(os.sched_getaffinity(0))
    line = expect_failure(start("-c", processor, BIN, *train(threads=33), program="taskset"), 2)
    assert "--threads 33: too many for the 1 processor(s) of the rank; use at most 32" in line


@pytest.mark.parametrize(
    "env, status, words",
    [
        ({"OMP_THREAD_LIMIT": "1"}, 2, ["OMP_THREAD_LIMIT", "--threads 1"]),
        ({"OMP_STACKSIZE": "100000G"}, 4, ["no further thread", "OMP_STACKSIZE=100000G"]),
    ],
)
def test_threads_that_cannot_start_are_an_error(env, status, words):
    line = expect_failure(start(*train(threads=2), env=env), status)
    assert all(word in line for word in words), line


# The variables of `srun -n 2` without --mpi=pmix in which Open MPI looks for srun.
SRUN = {
    "SLURM_JOBID": "7",
    "SLURM_NODELIST": "node1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "0",
}


@pytest.mark.parametrize(
    "variables, launcher",
    [
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "torchrun"),
        ({"FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "0"}, "flux run"),
        (SRUN, "--mpi=pm"),
        (
            SRUN | {"PMI_JOBID": "7.0", "PMI_SIZE": "2", "PMI_RANK": "0"},
            "srun (SLURM_STEP_NUM_TASKS=2)",
        ),
    ],
)
def test_ranks_that_do_not_find_each_other_are_an_error(variables, launcher):
    line = expect_failure(start(*train(), env=variables), 2)
    assert launcher in line and "2 ranks were started" in line


def test_one_rank_reports_that_the_ranks_do_not_find_each_other():
    result = start(*train(), env=SRUN | {"SLURM_PROCID": "1"})
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


@pytest.mark.parametrize(
    "variables",
    [
        SRUN | {"SLURM_STEP_NUM_TASKS": "1"},
        SRUN | {"SLURM_PTY_PORT": "40001"},  # the shell of `srun --pty`
        SRUN | {"SLURM_STEP_ID": "4294967290"},  # the shell of `salloc`
    ],
)
def test_one_rank_of_a_job_step_needs_no_pmix(variables, tmp_path):
    result = start(*train(output=tmp_path / "run.h5"), env=variables)
    assert result.returncode == 0, result.stderr
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["environment"].attrs["SLURM_STEP_ID"] == variables["SLURM_STEP_ID"].encode()


@pytest.mark.parametrize(
    "variable, value, words",
    [
        ("LOCKSTEP_THREADS", "", ["environment: --threads '': must be a whole number"]),
        ("LOCKSTEP_LEARNING_RATE", "5", ["LOCKSTEP_LEARNING_RATE does not name an option", "'lr'"]),
        ("LOCKSTEP_EPOCS", "5", ["LOCKSTEP_EPOCS does not name an option", "--epochs"]),
    ],
)
def test_errors_in_variables_name_the_variable_or_the_environment(variable, value, words):
    line = expect_failure(start(*train(threads=None), env={variable: value}), 2)
    assert all(word in line for word in words), line


def test_a_directory_for_temporary_files_that_cannot_be_written_is_named():
    assert "TMPDIR=/proc: " in expect_failure(start(*train(), env={"TMPDIR": "/proc"}), 6)


def test_a_configuration_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "a.cfg").write_text("\ufefflr = 0.5\n", encoding="utf-8")
    assert "0.5" in header_line(
        "learning rate", start(*train("--dry-run", config=tmp_path / "a.cfg"))
    )
    (tmp_path / "b.cfg").write_text('lr = "0.5"\n', encoding="utf-8")
    assert f'{tmp_path}/b.cfg: --lr "0.5": must be' in expect_failure(
        start(*train(config=tmp_path / "b.cfg")), 2
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_an_unknown_memory_limit_is_not_exceeded():
    if not permits("unshare", "-m"):
        pytest.skip("this system does not permit mounts")
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount --bind /dev/null /proc/meminfo; exec "$0" "$@"',
        BIN,
        *train("--dry-run"),
    ]
    result = subprocess.run(
        command, env=environment(), text=True, capture_output=True, timeout=HANG, check=False
    )
    assert (
        "no limit is known" in header_line("memory", result)
        or "memory.limit_in_bytes" in result.stdout
    )


def permits(*command):
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "namespace", [["--user", "--map-root-user"], ["--user", "--map-root-user", "--pid", "--fork"]]
)
def test_each_rank_may_be_in_a_container_of_its_own(namespace):
    """The messages of a global batch of 2 x 2 images of ResNet-18 are large."""
    if not permits("unshare", *namespace):
        pytest.skip("this system does not permit namespaces")
    command = [*MPIRUN, "-n", "2", "unshare", *namespace, BIN, *train(watchdog=120)]
    result = subprocess.run(
        command, env=environment(), text=True, capture_output=True, timeout=HANG, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without an entry")
def test_a_user_without_home_directory_can_train():
    command = [
        "env",
        "-u",
        "HOME",
        "setpriv",
        "--reuid=12345",
        "--regid=12345",
        "--clear-groups",
        BIN,
        *train(),
    ]
    if not permits(*command[:7], "test", "-x", BIN, "-a"):
        pytest.skip("the program is in a folder that other users cannot read")
    result = subprocess.run(
        command,
        cwd="/",
        env=environment(),
        text=True,
        capture_output=True,
        timeout=HANG,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_info_lists_no_variable_as_a_version():
    result = start(
        "info",
        "--json",
        env={"OMP_NUM_THREADS": "3", "OMPI_MCA_orte_launch": "1", "SLURM_JOB_ID": "7"},
    )
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert all(name == name.lower() for name in values["versions"])
    assert values["environment_variables"]["OMP_NUM_THREADS"] == "3"
    assert not any(name.startswith(("OMPI_", "SLURM_")) for name in values["environment_variables"])


def test_info_prints_every_fact_with_its_source():
    result = start("info", "--json", env={"OMP_NUM_THREADS": "3", "OMP_THREAD_LIMIT": "2"})
    assert result.returncode == 0, result.stderr
    facts = [
        (fact["name"], fact["value"], fact["source"])
        for fact in json.loads(result.stdout)["environment"]
    ]
    assert ("threads", "2", "OMP_THREAD_LIMIT") in facts
    assert ("OpenMP thread limit", "2", "OMP_THREAD_LIMIT") in facts
    assert any(name == "memory limit" and "/" in source for name, _, source in facts)
    assert all(all(fact) for fact in facts)
    text = start("info").stdout
    assert {name for name, _, _ in facts} <= {line[2:27].strip() for line in text.splitlines()}
