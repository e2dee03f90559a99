# SPDX-License-Identifier: BSD-3-Clause
"""Runs jobs/slurm/submit --dry-run and array tasks with stubs of srun and scontrol.

No cluster is needed. Of the sites in jobs/slurm/sites, only the options of sbatch are tested; their
values are facts about clusters that these tests cannot check.
"""

import os
import pathlib
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
SUBMIT = ROOT / "jobs" / "slurm" / "submit"
TASK = ROOT / "jobs" / "slurm" / "task.sbatch"
TABLE = (
    "# name\tranks\tcommand\none\t1\ttrain --global-batch 64\n\n"
    "two\t2\ttrain --batch-per-rank 32\ntwo-big\t2\ttrain --batch-per-rank 128\n"
)


def submit(*arguments, **variables):
    """Runs `submit --dry-run` with additional environment variables, without lockstep unless
    LOCKSTEP_BIN is one of them."""
    environment = os.environ | {"LOCKSTEP_BIN": "/nowhere", "LOCKSTEP_ACCOUNT": ""} | variables
    return subprocess.run(
        [SUBMIT, "--dry-run", *map(str, arguments)], capture_output=True, text=True, env=environment
    )


def options(line):
    """Returns {option: value} of a command line."""
    return {
        word.partition("=")[0]: word.partition("=")[2]
        for word in shlex.split(line)
        if word.startswith("--")
    }


def complete(folder, point):
    """Writes the marker of a complete run, without its experiment, and its run file."""
    (folder / f"{point}.70_1.0.h5").touch()
    (folder / f"{point}.done").write_text(f"{point}.70_1.0.h5\n", encoding="utf-8")


def run_task(
    tmp_path,
    table,
    task,
    status,
    restart=0,
    state="RUNNING",
    directory=None,
    root=ROOT,
    site="generic",
    **variables,
):
    """Runs one array task with stubs of srun and scontrol, which record their last arguments. srun
    creates the run file and exits with `status`; scontrol prints that the job is in the state
    `state`. `variables` are added to the environment.
    """
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, code in (("srun", status), ("scontrol", 0)):
        (programs / name).write_text(
            f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/{name}.calls"\n'
            f'[ "$1" != --oneliner ] || echo "JobId=77 JobState={state} Reason=None"\n'
            f'[ {name} = scontrol ] || touch -- "${{@: -1}}"\nexit {code}\n',
            encoding="utf-8",
        )
        (programs / name).chmod(0o755)
    environment = (
        os.environ
        | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LOCKSTEP_BIN": "/opt/lockstep",
            "SLURM_CPUS_PER_TASK": "4",
            "SLURM_ARRAY_JOB_ID": "77",
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_RESTART_COUNT": str(restart),
        }
        | variables
    )
    return subprocess.run(
        ["bash", TASK, root, site, "", "srun", table, "3", directory or tmp_path, "--epochs", "2"],
        capture_output=True,
        text=True,
        env=environment,
    )
