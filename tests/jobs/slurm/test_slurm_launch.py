# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the commands that start ranks in a job, and of the options of sbatch."""

import pytest
from in_process import write_program
from lockstep_study import slurm
from lockstep_study.errors import StudyError
from lockstep_study.scheduler import Array
from lockstep_study.site import Site, read_site
from lockstep_study.slurm import (
    container_command,
    describe_launcher,
    forget_outer_job,
    joined,
    keepalive,
    launch,
    present_launcher,
    without_filters,
)

SITE = Site("own", "", False, 4, 4, "4G", [])


def stub(tmp_path, name, text):
    write_program(tmp_path / name, f"#!/bin/bash\n{text}\n")
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.parametrize(
    "text, interface, launcher",
    [
        ("echo MPI plugin types are... none pmix pmix_v4", "", "srun"),
        ("echo none pmix >&2", "", "srun"),
        ("echo none pmi2", "", "mpirun"),
        ("echo none pmi2", "pmi2", "srun"),
        ("echo none pmix", "pmi2", "mpirun"),
        ("echo none my-pmix", "pmi2", "mpirun"),
        ("echo error; exit 1", "", "srun"),
    ],
)
def test_launcher_that_works_on_a_cluster(tmp_path, monkeypatch, text, interface, launcher):
    path = stub(tmp_path, "srun", text)
    monkeypatch.setenv("PATH", path)
    assert present_launcher({"PATH": path, "LOCKSTEP_SRUN_MPI": interface}) == launcher


def test_launcher_is_srun_if_there_is_none(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert present_launcher({"PATH": "/nowhere"}) == "srun"


@pytest.mark.parametrize("engines", [["apptainer"], ["singularity"], ["apptainer", "singularity"]])
@pytest.mark.parametrize("gpus, flags", [("", []), ("0", ["--nv"])])
def test_container_is_that_of_an_installed_engine(tmp_path, engines, gpus, flags):
    image = tmp_path / "a.sif"
    image.touch()
    for engine in engines:
        stub(tmp_path, engine, "")
    variables = {"PATH": str(tmp_path), "LOCKSTEP_IMAGE": str(image), "SLURM_JOB_GPUS": gpus}
    expected = [f"{tmp_path}/{engines[0]}", "exec", *flags, str(image)]
    assert container_command(variables) == expected
    assert container_command(variables | {"LOCKSTEP_IMAGE": ""}) == []


def test_container_needs_an_engine_and_an_image(tmp_path):
    with pytest.raises(StudyError, match="neither apptainer nor singularity is installed"):
        container_command({"PATH": "/nowhere", "LOCKSTEP_IMAGE": str(tmp_path)})
    with pytest.raises(StudyError, match="LOCKSTEP_IMAGE: cannot read /nowhere.sif"):
        container_command({"PATH": "/nowhere", "LOCKSTEP_IMAGE": "/nowhere.sif"})


def test_launcher_is_part_of_the_experiment():
    gpus = Site("own", "a100", False, 4, 4, "4G", [])
    assert describe_launcher("srun", SITE, {}) == "srun, site own"
    text = describe_launcher("mpirun", gpus, {"LOCKSTEP_IMAGE": "/a.sif"})
    assert text == "mpirun, site own, GPU a100, image /a.sif"


def test_ranks_start_with_srun_or_mpirun():
    assert launch("srun", 4, "2", ["apptainer"], {}) == [
        *("srun", "--mpi=pmix", "--export=ALL", "--kill-on-bad-exit=1", "--ntasks=4"),
        *("--cpus-per-task=2", "apptainer"),
    ]
    assert launch("mpirun", 4, "2", ["apptainer"], {})[1:] == [
        *("mpirun", "-n", "4", "--bind-to", "none", "apptainer")
    ]


def test_daemons_of_mpirun_end_if_a_link_is_lost():
    name = "PRTE_MCA_oob_tcp_keepalive_time"
    assert len(keepalive({})) == 6 and keepalive({})[name] == "30"
    assert keepalive({name: "5"})[name] == "5"


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--constraint=a", "--gres=gpu:1"], ["--constraint=a", "--gres=gpu:1"]),
        (["--constraint=a", "--qos=x", "--constraint=b|c"], ["--constraint=(a)&(b|c)", "--qos=x"]),
        (["--gres=gpu:1", "--gres=tmp:9"], ["--gres=gpu:1,tmp:9"]),
        (["--comment=a", "--comment=b"], ["--comment=a", "--comment=b"]),
        (["--exclusive", "--exclusive"], ["--exclusive", "--exclusive"]),
    ],
)
def test_options_of_the_site_and_the_user_are_joined(options, expected):
    assert joined(*options) == expected


def test_variables_of_the_outer_job_are_forgotten():
    kept = ["PATH", "SLURM_CONF", "SLURM_CLUSTERS", "PMIX_MCA_gds", "SBATCH_ACCOUNT", "MY_SLURM_X"]
    foreign = ["SLURM_JOB_ID", "SLURMD_NODENAME", "PMI_RANK", "PMIX_RANK", "SBATCH_JOB_NAME"]
    environment = dict.fromkeys([*kept, *foreign], "1")
    forget_outer_job(environment)
    assert list(environment) == kept
    environment = dict.fromkeys(["SQUEUE_STATES", "SQUEUE_FORMAT", "MY_SQUEUE_X"], "1")
    assert list(without_filters(environment)) == ["MY_SQUEUE_X"]


def test_sites_have_their_settings():
    generic = read_site("generic", "")
    assert (generic.needs_account, generic.ranks_per_node, generic.cores_per_rank) == (False, 4, 4)
    assert (generic.memory_per_core, generic.options, generic.gpu_options(2)) == ("4G", [], [])
    torch = read_site("torch", "h200")
    assert torch.needs_account and torch.options == ["--comment=preemption=yes;requeue=true"]
    assert torch.gpu_options(3) == ["--gres=gpu:3", "--constraint=h200"]


def test_environment_of_a_site_is_that_of_its_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "a=b\nc")
    assert read_site("generic", "").environment()["MINE"] == "a=b\nc"
    monkeypatch.setenv("PATH", stub(tmp_path, "bash", "exit 1"))
    assert SITE.environment()["MINE"] == "a=b\nc"  # that of this process


def test_nodes_and_ranks_per_node_of_an_array():
    array = slurm.Slurm(site=SITE, prefix="p", logs="/l").array_command
    words = array(Array(5, 2, 2, "1-3", ["x"]))
    assert words[:8] == [
        *("sbatch", "--parsable", "--job-name=p-n5", "--array=1-3%4", "--time=01:00:00"),
        *("--nodes=2", "--ntasks=5", "--ntasks-per-node=3"),
    ]
    assert "--cpus-per-task=2" in words and words[-1] == "x"
