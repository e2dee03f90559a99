# SPDX-License-Identifier: BSD-3-Clause
"""Tests of submissions, with stubs of sbatch, squeue and scontrol."""

import os

import pytest
from in_process import call, write_program
from slurm_scripts import TABLE, options, submit


@pytest.fixture
def slurm_stubs(tmp_path):
    """A function that writes stubs of the programs of Slurm and returns the environment variables
    that select them. `jobs`: output of squeue; `failing`: number of the call of sbatch that fails;
    `answer`: what sbatch prints."""

    def make(jobs="", failing=0, size="1001", answer="$id"):
        folder = tmp_path / "slurm"
        folder.mkdir(exist_ok=True)
        for name, code in {
            "squeue": f"[[ $* == *--user* ]] || printf '{jobs}'",
            "srun": "echo pmix",
            "scontrol": f"echo 'MaxArraySize            = {size}'",
            "sbatch": (
                f'echo "$LOCKSTEP_GRACE" >>"{tmp_path}/sbatch.calls"; count=$(wc -l'
                f' <"{tmp_path}/sbatch.calls")\n[ $count -ne {failing} ] || {{ echo "sbatch: error:'
                f' no" >&2; exit 1; }}\nid=$((70 + count))\necho -e "{answer}"'
            ),
        }.items():
            write_program(folder / name, f"#!/bin/bash\n{code}\n")
        return {"PATH": f"{folder}:{os.environ['PATH']}", "LOCKSTEP_BIN": "/nowhere"}

    return make


def really_submit(table, tmp_path, variables, *arguments):
    words = ["--repeats", "2", "--dir", tmp_path / "out", *arguments, table]
    return call("submit", *words, environment=os.environ | variables)


def test_grace_reaches_the_tasks(table, tmp_path, slurm_stubs):
    assert really_submit(table, tmp_path, slurm_stubs(), "--grace", "30").returncode == 0
    assert set((tmp_path / "sbatch.calls").read_text(encoding="utf-8").split()) == {"30"}


def test_second_submission_of_a_study_is_refused(table, tmp_path, slurm_stubs):
    prefix = options(submit("--dir", tmp_path / "out", table).stdout.splitlines()[0])[
        "--job-name"
    ].removesuffix("-n1")
    jobs = {"71_1": "n2", "71_2": "n2", "9": "report"}
    waiting = [f"{job} PENDING {prefix}-{name} Resources" for job, name in jobs.items()]
    waiting += ["5 RUNNING other None", f"6_1 RUNNING {prefix}1-n2 None", ""]
    result = really_submit(table, tmp_path, slurm_stubs("\\n".join(waiting)))
    assert result.returncode != 0 and result.stdout == ""
    assert (
        result.stderr.splitlines()[-1]
        == "submit: a study of this folder is pending or running (jobs 9 71); wait for its report,"
        " or cancel it with: scancel 9 71"
    )
    assert not (tmp_path / "sbatch.calls").exists() and not (tmp_path / "out").exists()


def test_another_table_with_the_folder_of_pending_jobs_is_refused(table, tmp_path, slurm_stubs):
    other = table.with_name("other.tsv")
    other.write_text(TABLE, encoding="utf-8")
    pending = options(submit("--dir", tmp_path / "out", table).stdout.splitlines()[0])["--job-name"]
    result = really_submit(other, tmp_path, slurm_stubs(f"71_1 PENDING {pending} Resources\\n"))
    assert (
        result.returncode != 0
        and "a study of this folder is pending or running (jobs 71)" in result.stderr
    )


def test_jobs_do_not_inherit_the_job_in_which_they_are_submitted(table, tmp_path, slurm_stubs):
    stubs = slurm_stubs()
    (tmp_path / "slurm" / "sbatch").write_text(
        f"#!/bin/bash\nenv >'{tmp_path}/environment'\necho 70\n", encoding="utf-8"
    )
    outer = [
        "SLURM_MEM_PER_NODE",
        "SLURM_CPU_BIND_TYPE",
        "SLURM_EXPORT_ENV",
        "SLURM_STEP_ID",
        "SBATCH_CPU_BIND",
        "PMIX_RANK",
        "SBATCH_EXPORT",
        "SBATCH_ARRAY_INX",
        "SBATCH_WAIT",
        "SBATCH_SIGNAL",
        "SBATCH_GPUS",
        "SBATCH_MEM_PER_NODE",
    ]
    kept = [
        "SLURM_CONF",
        "PMIX_MCA_gds",
        "SBATCH_ACCOUNT",
        "SBATCH_PARTITION",
        "SBATCH_RESERVATION",
    ]
    assert really_submit(table, tmp_path, stubs | dict.fromkeys(outer + kept, "1")).returncode == 0
    names = {
        line.split("=")[0]
        for line in (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    }
    assert not names.intersection(outer) and names.issuperset(kept)


@pytest.mark.parametrize(
    "answer",
    [
        "$id",
        "$id;cluster2",
        "Welcome to Stampede3\\n--> host (login4)...OK\\n$id",
        "$id\\nquota: 7 of 10 GB",
        "Submitted batch job $id",
        "Submitted batch job $id on cluster slaking",
    ],
)
def test_id_is_found_in_the_answer_of_sbatch(table, tmp_path, slurm_stubs, answer):
    result = really_submit(table, tmp_path, slurm_stubs(answer=answer))
    assert (
        result.returncode == 0 and "submitted the arrays 71 72; job 73 writes" in result.stdout
    ), result.stderr
    assert "--dependency=afterany:71:72 " in result.stdout


def test_answer_without_an_id_is_one_error(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(answer="queued"))
    assert result.returncode == 1 and result.stderr.endswith(
        "printed no id of a job, but: queued; see squeue --me; submit again\n"
    )


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_jobs_get_the_environment(table, tmp_path, slurm_stubs, launcher):
    """Sites set SBATCH_EXPORT=NONE; LOCKSTEP_BIN and others would then not reach the tasks."""
    result = really_submit(
        table, tmp_path, slurm_stubs() | {"SBATCH_EXPORT": "NONE"}, "--launcher", launcher
    )
    assert [options(line)["--export"] for line in result.stdout.splitlines()[:-1]] == ["ALL"] * 3


def test_other_studies_are_submitted_at_the_same_time(table, tmp_path, slurm_stubs):
    other = options(submit("--dir", tmp_path / "other", table).stdout.splitlines()[0])["--job-name"]
    result = really_submit(
        table, tmp_path, slurm_stubs(f"71_1 PENDING {other} None\\n72 RUNNING bash\\n")
    )
    assert result.returncode == 0 and "submitted the arrays 71 72; job 73 writes" in result.stdout


def test_jobs_use_a_copy_of_the_table(table, tmp_path, slurm_stubs):
    assert really_submit(table, tmp_path, slurm_stubs()).returncode == 0
    assert (tmp_path / "out" / "table.tsv").read_text(encoding="utf-8") == TABLE
    again = really_submit(tmp_path / "out" / "table.tsv", tmp_path, slurm_stubs())
    assert again.returncode == 0, again.stderr


def test_error_of_sbatch_lists_the_submitted_arrays(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(failing=2))
    assert result.returncode != 0
    assert result.stderr.splitlines()[-2:] == [
        "sbatch: error: no",
        (
            "submit: sbatch failed, see above; the arrays 71 were submitted: wait until they have"
            " ended, or cancel them with scancel 71; then the same command submits the rest (if the"
            " number of jobs is limited: reduce --repeats)"
        ),
    ]


def test_array_that_is_too_large_is_one_error(table, tmp_path, slurm_stubs):
    result = really_submit(table, tmp_path, slurm_stubs(size="6"))
    assert result.returncode != 0 and not (tmp_path / "sbatch.calls").exists()
    assert (
        result.stderr
        == "submit: the study has 6 runs, but the largest array of this cluster has 5 tasks; split"
        " the table or reduce --repeats\n"
    )
    assert really_submit(table, tmp_path, slurm_stubs(size="7")).returncode == 0
