# SPDX-License-Identifier: BSD-3-Clause
"""Runs submit --dry-run and array tasks with stubs of srun and scontrol, in this process.

No cluster is needed. Of the sites in jobs/slurm/sites, only the options of sbatch are tested; their
values are facts about clusters that these tests cannot check.
"""

import os
import pathlib
import shlex
import subprocess

from in_process import call, write_program

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
    return call("submit", "--dry-run", *arguments, environment=submit_environment(variables))


def submit_process(*arguments, root=ROOT, folder=".", **variables):
    """Runs the script `jobs/slurm/submit --dry-run` below `root` in this folder."""
    return subprocess.run(
        [root / "jobs" / "slurm" / "submit", "--dry-run", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=submit_environment(variables),
        cwd=folder,
    )


def submit_environment(variables):
    return os.environ | {"LOCKSTEP_BIN": "/nowhere", "LOCKSTEP_ACCOUNT": ""} | variables


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


def run_task(tmp_path, table, task, status, directory=None, **settings):
    """Runs one array task with stubs of srun and scontrol; `settings` are those of
    `task_environment`."""
    environment = task_environment(tmp_path, task, status, **settings)
    return call("task", *task_words(table, directory or tmp_path), environment=environment)


def run_task_process(tmp_path, table, task, status, root=ROOT, site="generic"):
    """Runs one array task with the script below `root`."""
    return subprocess.run(
        ["bash", root / "jobs" / "slurm" / "task.sbatch", root, *task_words(table, tmp_path, site)],
        capture_output=True,
        text=True,
        env=task_environment(tmp_path, task, status),
    )


def task_words(table, directory, site="generic"):
    return [site, "", "srun", table, "3", directory, "--epochs", "2"]


def task_environment(tmp_path, task, status, restart=0, state="RUNNING", **variables):
    """Returns the environment of an array task with stubs of srun and scontrol, which record their
    last arguments. srun creates the run file and exits with `status`; scontrol prints that the job
    is in the state `state`. `variables` are added to the environment."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, code in (("srun", status), ("scontrol", 0)):
        write_program(
            programs / name,
            f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/{name}.calls"\n'
            f'[ "$1" != --oneliner ] || echo "JobId=77 JobState={state} Reason=None"\n'
            f'[ {name} = scontrol ] || touch -- "${{@: -1}}"\nexit {code}\n',
        )
    # jobs/check sets variables of Open MPI for its tests.
    inherited = {name: text for name, text in os.environ.items() if "_MCA_" not in name}
    return (
        inherited
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


def report(table, repeats, directory, **variables):
    """Runs the job that writes the report."""
    return call("report", table, repeats, directory, environment=os.environ | variables)


def report_process(table, repeats, directory):
    """Runs the job that writes the report with its script."""
    script = TASK.with_name("report.sbatch")
    return subprocess.run(
        ["bash", script, ROOT, "generic", table, str(repeats), directory],
        capture_output=True,
        text=True,
    )
