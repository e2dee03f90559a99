"""Tests of the Slurm scripts without a cluster: the jobs that `submit` would submit, and one array task with a test
double of srun.

The files of both sites were written from the documentation of the sites; these tests cover only the scripts.
"""

import os
import pathlib
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUBMIT = ROOT / "jobs" / "slurm" / "submit"
TASK = ROOT / "jobs" / "slurm" / "scaling.sbatch"
TABLE = "# name\tranks\toption\tbatch\none\t1\tglobal-batch\t64\n\ntwo\t2\tbatch-per-rank\t32\ntwo-big\t2\tbatch-per-rank\t128\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.tsv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def submit(*arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "LOCKSTEP_ACCOUNT"} | variables
    return subprocess.run([SUBMIT, "--dry-run", *map(str, arguments)], capture_output=True, text=True, env=environment)


@pytest.fixture
def program(tmp_path):
    """A function that writes a test double of lockstep, which records its arguments and exits with `status`."""
    def make(status, line=""):
        path = tmp_path / "lockstep"
        path.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/lockstep.calls"\n'
                        f"echo '{line}' >&2\nexit {status}\n", encoding="utf-8")
        path.chmod(0o755)
        return {"LOCKSTEP_BIN": str(path)}
    return make


def options(line):
    return {word.partition("=")[0]: word.partition("=")[2] for word in shlex.split(line) if word.startswith("--")}


def test_one_array_per_rank_count(table, tmp_path):
    answer = submit("--repeats", 3, "--at-once", 2, "--dir", tmp_path / "out", table)
    assert answer.returncode == 0, answer.stderr
    arrays = [options(line) for line in answer.stdout.splitlines()]
    assert [(a["--ntasks"], a["--nodes"], a["--array"]) for a in arrays] == [("1", "1", "1,2,3%2"), ("2", "1", "4,5,6,7,8,9%2")]
    for array in arrays:
        assert array["--signal"] == "TERM@120" and array["--open-mode"] == "append" and "--requeue" in array
        assert array["--output"].endswith("logs/%A_%a.log")


def test_ranks_fill_nodes_evenly(table, tmp_path):
    table.write_text("six\t6\tglobal-batch\t96\n", encoding="utf-8")
    array = options(submit("--repeats", 1, "--dir", tmp_path / "out", table).stdout)
    assert (array["--nodes"], array["--ntasks-per-node"]) == ("2", "3")  # the site `generic` has 4 ranks per node


def test_finished_points_are_left_out(table, tmp_path):
    (tmp_path / "two-2.done").touch()
    lines = submit("--repeats", 2, "--dir", tmp_path, table).stdout.splitlines()
    assert [options(line)["--array"] for line in lines] == ["1,2%4", "3,5,6%4"]


def test_account_is_asked_for_where_it_is_mandatory(table):
    refused = submit("--site", "torch", table)
    assert refused.returncode != 0 and "--account" in refused.stderr
    accepted = submit("--site", "torch", "--account", "a_b_1", table)
    assert options(accepted.stdout.splitlines()[0])["--account"] == "a_b_1"
    assert "--partition" not in accepted.stdout


@pytest.mark.parametrize("line", ["x y\t1\tglobal-batch\t64", "x\tmany\tglobal-batch\t64", "x\t1\tbatch\t64", "x\t1\tglobal-batch\t$(id)"])
def test_unreadable_table_is_refused(table, line):
    table.write_text(line + "\n", encoding="utf-8")
    answer = submit(table)
    assert answer.returncode != 0 and "cannot read the line" in answer.stderr


@pytest.mark.parametrize("text, complaint", [
    ("a\t1\tglobal-batch\t64\nb\t1\tglobal-batch\t32\na\t2\tglobal-batch\t64\n", "two points are named 'a'"),
    ("a\t3\tglobal-batch\t64\n", "not a multiple of its 3 ranks; use for example 66"),
    ("a\t1\tglobal-batch\t64\r\n", "Windows line ends (CRLF)"),
    ("# only a comment\n", "has no points"),
])
def test_table_with_a_mistake_is_refused_in_one_line(table, text, complaint):
    table.write_bytes(text.encode())
    answer = submit(table)
    assert answer.returncode != 0 and answer.stdout == ""
    assert complaint in answer.stderr and len(answer.stderr.splitlines()) == 1


def test_last_line_without_a_line_end_is_a_point(table, tmp_path):
    table.write_text("a\t1\tglobal-batch\t64\nb\t2\tglobal-batch\t64", encoding="utf-8")
    answer = submit("--dir", tmp_path / "out", table)
    assert [options(line)["--ntasks"] for line in answer.stdout.splitlines()] == ["1", "2"]


def test_further_options_are_checked_by_the_program(table, tmp_path, program):
    answer = submit("--dir", tmp_path / "out", table, "--", "--epochs", "2", **program(0))
    assert answer.returncode == 0, answer.stderr
    assert "--epochs 2" in answer.stdout
    words = (tmp_path / "lockstep.calls").read_text().split()
    assert words[0] == "train" and words[-3:] == ["--epochs", "2", "--dry-run"]
    assert dict(zip(words, words[1:]))["--batch-per-rank"] == "32"  # the smallest batch in the table


@pytest.mark.parametrize("status", [2, 3])
def test_further_options_that_the_program_refuses_are_not_submitted(table, program, status):
    answer = submit(table, "--", "--epocs", "2", **program(status, "lockstep: unknown option --epocs"))
    assert answer.returncode != 0 and answer.stdout == ""
    assert answer.stderr == "submit: lockstep refuses the options after --: lockstep: unknown option --epocs\n"


@pytest.mark.parametrize("further, status", [(["--device", "cuda"], 2), (["--device=cuda"], 2), (["--epochs", "2"], 4)])
def test_options_that_cannot_be_checked_here_are_submitted_with_a_note(table, tmp_path, program, further, status):
    answer = submit("--dir", tmp_path / "out", table, "--", *further, **program(status))
    assert answer.returncode == 0 and "sbatch" in answer.stdout
    assert "were not checked" in answer.stderr


@pytest.mark.parametrize("further", [["--epocs", "2"], ["--seed", "7"], ["--epochs", "two"]])
def test_mistakes_are_found_by_the_real_program(table, further):
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.skip("LOCKSTEP_BIN names no program; run by ctest")
    answer = submit(table, "--", *further)
    assert answer.returncode != 0 and further[0] in answer.stderr, answer.stderr


@pytest.mark.parametrize("arguments", [["--site", "nowhere"], ["--site", "../sites/generic"], ["--repeats", "0"], ["--what"], ["second.tsv"]])
def test_bad_options_are_refused(table, arguments):
    answer = submit(table, *arguments)
    assert answer.returncode != 0 and answer.stderr.startswith("submit: ")


@pytest.mark.parametrize("name", ["strong.tsv", "weak.tsv"])
def test_tables_of_the_repository_are_readable(name, tmp_path):
    answer = submit("--dir", tmp_path, ROOT / "jobs" / "slurm" / name)
    assert answer.returncode == 0, answer.stderr
    assert len(answer.stdout.splitlines()) == 4  # one job array each for 1, 2, 4 and 8 ranks


def run_task(tmp_path, table, task, status, restart=0):
    """Runs one array task with test doubles of srun and scontrol, which record their arguments."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, code in (("srun", status), ("scontrol", 0)):
        (programs / name).write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/{name}.calls"\nexit {code}\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}", "LOCKSTEP_BIN": "/opt/lockstep", "SLURM_CPUS_PER_TASK": "4",
        "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_RESTART_COUNT": str(restart)}
    return subprocess.run(["bash", TASK, ROOT, "generic", table, "3", tmp_path, "--epochs", "2"],
                          capture_output=True, text=True, env=environment)


def test_task_runs_its_point(tmp_path, table):
    assert run_task(tmp_path, table, 8, 0).returncode == 0  # line 3, repeat 2
    words = (tmp_path / "srun.calls").read_text().split()
    assert {"--mpi=pmix", "--kill-on-bad-exit=1", "--ntasks=2", "--cpus-per-task=4", "/opt/lockstep"} <= set(words)
    pairs = dict(zip(words, words[1:]))
    assert (pairs["--batch-per-rank"], pairs["--seed"], pairs["--epochs"], pairs["--threads"]) == ("128", "2", "2", "4")
    assert pairs["--output"] == f"{tmp_path}/two-big-2.77_8.0.h5"
    assert (tmp_path / "two-big-2.done").read_text() == "two-big-2.77_8.0.h5\n"
    assert not (tmp_path / "scontrol.calls").exists()


def test_complete_point_is_not_run_again(tmp_path, table):
    (tmp_path / "one-1.done").write_text("one-1.70_1.0.h5\n", encoding="utf-8")
    answer = run_task(tmp_path, table, 1, 0)
    assert answer.returncode == 0 and "complete: one-1.70_1.0.h5" in answer.stdout
    assert not (tmp_path / "srun.calls").exists()


def test_interrupted_task_is_requeued(tmp_path, table):
    assert run_task(tmp_path, table, 1, 75).returncode == 0
    assert (tmp_path / "scontrol.calls").read_text().split() == ["requeue", "77_1"]
    assert not (tmp_path / "one-1.done").exists()


def test_task_that_never_finishes_is_given_up(tmp_path, table):
    answer = run_task(tmp_path, table, 1, 75, restart=10)
    assert answer.returncode != 0 and "not asking again" in answer.stderr
    assert not (tmp_path / "scontrol.calls").exists()


def test_failure_is_passed_on(tmp_path, table):
    assert run_task(tmp_path, table, 1, 5).returncode == 5
    assert not (tmp_path / "scontrol.calls").exists()
    assert not (tmp_path / "one-1.done").exists()
