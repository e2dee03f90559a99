# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the environment of the ranks on this machine, and of the program that a study starts."""

import os
from types import SimpleNamespace

import pytest
from lockstep_study import machine
from lockstep_study.machine import can_start, forget_missing_folders, mpi_environment
from lockstep_study.points import ROOT
from lockstep_study.programs import Programs, last_line


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    """Two processors that are one core, of a user with a home who is not root, in no container."""
    monkeypatch.setattr(machine, "processors", lambda: 2)
    monkeypatch.setattr(machine, "physical_cores", lambda: 1)
    monkeypatch.setattr(machine, "has_home", lambda: True)
    monkeypatch.setattr(machine, "CONTAINERS", ())
    be_user(monkeypatch, 1000)


def be_user(monkeypatch, number):
    """Lets the module see another user; pytest itself needs the true one."""
    monkeypatch.setattr(machine, "os", SimpleNamespace(**vars(os) | {"getuid": lambda: number}))


def test_environment_has_only_what_the_machine_needs():
    assert mpi_environment(1, {}) == {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle": "0",
    }


def test_root_and_users_without_a_home_may_start_ranks(monkeypatch):
    be_user(monkeypatch, 0)
    monkeypatch.setattr(machine, "has_home", lambda: False)
    variables = mpi_environment(1, {})
    assert variables["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert variables["HOME"] == "/nonexistent"


@pytest.mark.parametrize("kind", ["apptainer", "docker"])
def test_ranks_in_containers_copy_through_shared_memory(tmp_path, monkeypatch, kind):
    environment = {"APPTAINER_CONTAINER": "a.sif"} if kind == "apptainer" else {}
    if kind == "docker":
        monkeypatch.setattr(machine, "CONTAINERS", ("/nowhere", str(tmp_path)))
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"
    assert mpi_environment(1, environment)[name] == "none"
    assert mpi_environment(1, environment | {name: "cma"})[name] == "cma"


def test_variables_of_the_user_have_precedence_unless_they_are_empty():
    name = "OMPI_MCA_rmaps_base_oversubscribe"
    assert mpi_environment(1, {name: "0"})[name] == "0"
    assert mpi_environment(1, {name: ""})[name] == "1"


@pytest.mark.parametrize("ranks, hardware_threads", [(1, False), (2, True), (3, False)])
def test_hardware_threads_are_used_if_the_cores_do_not_suffice(ranks, hardware_threads):
    names = mpi_environment(ranks, {})
    assert ("OMPI_MCA_hwloc_base_use_hwthreads_as_cpus" in names) == hardware_threads


def test_ranks_that_a_machine_can_start():
    assert can_start(32) and not can_start(33)


def test_processors_are_those_of_this_process(monkeypatch):
    monkeypatch.undo()
    assert machine.processors() == len(os.sched_getaffinity(0))
    assert 1 <= machine.physical_cores() <= machine.processors()


def test_user_database_contains_this_user(monkeypatch):
    monkeypatch.undo()
    assert machine.has_home()
    be_user(monkeypatch, 2**31 - 7)
    assert not machine.has_home()


def test_folders_that_do_not_exist_are_forgotten(tmp_path):
    variables = {"TMPDIR": str(tmp_path), "TEMP": "/nowhere/job77", "TMP": "", "HOME": "/nowhere"}
    forget_missing_folders(variables)
    assert variables == {"TMPDIR": str(tmp_path), "HOME": "/nowhere"}


def test_program_is_the_given_one_that_of_the_path_or_the_build(tmp_path):
    (tmp_path / "lockstep").touch(0o755)
    path = {"PATH": str(tmp_path)}
    built = str(ROOT / "build" / "cpu" / "bin" / "lockstep")
    assert Programs(path | {"LOCKSTEP_BIN": "/a"}).lockstep() == "/a"
    assert Programs(path).lockstep() == f"{tmp_path}/lockstep"
    assert Programs({"PATH": "/nowhere"}).lockstep() == built
    assert Programs(path, has_image=True).lockstep() == "lockstep"
    assert Programs(path, container=["apptainer"]).lockstep() == "lockstep"
    assert Programs(path | {"LOCKSTEP_BIN": "/a"}, has_image=True).lockstep() == "/a"


def test_program_is_present_if_it_is_found_or_in_a_container(tmp_path):
    assert not Programs({"PATH": "/nowhere", "LOCKSTEP_BIN": "/nowhere"}).is_present()
    assert Programs({"LOCKSTEP_BIN": "/nowhere"}, container=["apptainer"]).is_present()
    (tmp_path / "lockstep").touch(0o755)
    assert Programs({"PATH": str(tmp_path)}).is_present()


def test_program_that_does_not_start_or_end_has_a_status():
    programs = Programs(dict(os.environ))
    missing, late = programs.run("/nowhere"), programs.run("sleep", 9, timeout=0.05)
    assert (missing.returncode, missing.stderr) == (127, "/nowhere: No such file or directory")
    assert (late.returncode, late.stderr) == (124, "sleep took too long")


def test_last_line_is_the_last_that_is_not_empty():
    assert last_line("a\n  b \n\n \n") == "b" and last_line("") == last_line("\n") == ""
