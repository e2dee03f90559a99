# SPDX-License-Identifier: BSD-3-Clause
"""Tests of jobs/slurm with a real Slurm: tests/slurm/cluster starts two nodes on this machine.

Every scenario has a cluster of its own and mostly waits for Slurm, therefore all selected scenarios
run at the same time.
"""

import os
import pathlib
import re
import shlex
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from slurm_cluster import OPTIONS, ROOT, STATUS, SUBMIT, Cluster

ENDLESS = 100_000  # steps of runs that a test stops


def write_strong_table(path):
    """Writes the rows of the table `strong` with 1, 2 and 8 ranks at global batch 128."""
    text = (ROOT / "jobs" / "studies" / "strong.tsv").read_text(encoding="utf-8")
    rows = re.findall("^(?:name|strong-128-n[128]) .*\n", text, re.M)
    path.write_text("".join(rows), encoding="utf-8")
    return path


def strong_study_ends_in_one_report(cluster):
    """The points of the table `strong` with 1, 2 and 8 ranks (two nodes), in folders with special
    characters in their names."""
    odd = cluster.work / "a copy, 100%j $(touch x) `touch x` 'of' \"it\" [1]; & é"
    odd.mkdir()
    (odd / "lockstep").symlink_to(ROOT)
    table = write_strong_table(odd / "strong table.tsv")
    further = ["--global-batch", "16", "--epochs", "1", "--train-samples", "64"]
    study = cluster.submit(
        table,
        folder=odd / "results",
        program=odd / "lockstep" / "jobs" / "slurm" / "submit",
        further=further,
    )
    table.unlink()  # the jobs have a copy
    assert len(study.arrays) == 3
    points = "strong-128-n1, strong-128-n2, strong-128-n8"
    assert study.warnings.splitlines() == [
        f"submit: --global-batch 16 replaces --global-batch 128 of {points}",
        f"submit: --epochs 1 replaces --epochs 2 of {points}",
    ]
    cluster.wait_for_state(study.report, "COMPLETED", "FAILED")
    assert cluster.job(study.report)["JobState"] == "COMPLETED", list(study.folder.glob("logs/*"))
    for index, point in enumerate(("strong-128-n1", "strong-128-n2", "strong-128-n8")):
        assert study.parts(point) == ["complete"]
        assert (study.folder / "logs" / f"{study.arrays[index]}_{index + 1}.log").exists()
    report = (study.folder / "report" / "report.md").read_text(encoding="utf-8")
    assert "strong-128-n8" in report
    assert "strong-128-n8" in (study.folder / "report.html").read_text(encoding="utf-8")
    assert list(cluster.work.rglob("x")) == [] and not pathlib.Path("x").exists()
    changed = cluster.try_submit(study.folder / "table.tsv", folder=odd / "results")
    assert changed.returncode != 0 and "epochs from '1' to '2'" in changed.stderr, changed.stderr
    again = cluster.try_submit(study.folder / "table.tsv", folder=odd / "results", further=further)
    assert (
        again.returncode == 0
        and again.stdout == f"all points are complete; the results are in {study.folder}\n"
    ), again.stderr


def exclusive_study_of_several_commands_is_complete_without_what_does_not_fit(cluster):
    table = (
        "one\t1\ttrain --batch-per-rank 4\nbig\t2\ttrain --batch-per-rank 8 --memory-limit"
        " 10MB\nsweep\t2\tallreduce\n"
    )
    mixed = cluster.submit(
        table,
        "--exclusive",
        "--partition=batch",
        "--sbatch",
        "--exclude=node2",
        further=["--epochs", "1", "--max-bytes", "4K"],
    )
    assert cluster.job(f"{mixed.arrays[0]}_1")["OverSubscribe"] == "NO"
    assert re.search(rf"^{mixed.folder}: \d of 3 runs complete", cluster.run(STATUS, mixed.folder))
    cluster.wait_for_state(mixed.report, "COMPLETED", "FAILED")
    assert cluster.job(mixed.report)["JobState"] == "COMPLETED"
    assert (
        cluster.run(STATUS, mixed.folder)
        == f"{mixed.folder}: 2 of 3 runs complete, 1 do not fit in memory\n"
    )
    assert "points that do not fit in memory: big" in (mixed.folder / "report.html").read_text(
        encoding="utf-8"
    )


def has_restarted(cluster, task):
    return int(cluster.job(task)["Restarts"]) >= 1


def signal_before_the_time_limit_requeues_the_task_which_resumes(cluster):
    """Slurm checks time limits every 30 s: the signal arrives between 10 s and 40 s after the
    start. With srun, the ranks receive it; with mpirun, the batch script. On a busy machine, it can
    arrive before the first step: then the task is requeued too, and leaves no run file."""
    studies = [
        cluster.submit(
            "limited\t2\ttrain --batch-per-rank 4\n",
            "--time",
            "1",
            "--grace",
            "20",
            "--launcher",
            launcher,
            further=["--steps", str(ENDLESS)],
            folder=launcher,
        )
        for launcher in ("srun", "mpirun")
    ]
    for limited in studies:
        cluster.wait_until(partial(has_restarted, cluster, f"{limited.arrays[0]}_1"))
        cluster.wait_until(partial(limited.parts, "limited"))
        assert limited.parts("limited")[0] == "preempted"
        assert limited.resumed() > 0
        assert "due to time limit" not in cluster.output()


def urgent_job_preempts_a_task_which_resumes(cluster):
    table = "first\t2\ttrain --batch-per-rank 4\n"
    preempted = cluster.submit(table, further=["--steps", "240"])
    task = f"{preempted.arrays[0]}_1"
    preempted.started("first")
    urgent = cluster.run(
        "sbatch",
        "--parsable",
        "--partition=urgent",
        "--ntasks-per-node=4",
        "--nodes=2",
        "--output=/dev/null",
        "--wrap",
        "sleep 1",
    ).strip()
    cluster.wait_for_state(urgent, "COMPLETED")
    assert preempted.parts("first") == ["preempted"]
    cluster.wait_for_state(task, "COMPLETED", "FAILED")
    assert cluster.job(task)["JobState"] == "COMPLETED" and cluster.job(task)["Restarts"] == "1"
    assert preempted.parts("first") == ["preempted", "complete"] and preempted.resumed() > 0


def states(cluster, study):
    """Returns the states of the two tasks of the first array."""
    return [cluster.job(f"{study.arrays[0]}_{index}")["JobState"] for index in (1, 2)]


def cancelled_array_is_not_requeued_and_can_be_submitted_again(cluster):
    table = "one\t1\ttrain --batch-per-rank 4\ntwo\t1\ttrain --batch-per-rank 4\n"
    cancelled = cluster.submit(table, "--at-once", "1", further=["--steps", str(ENDLESS)])
    cancelled.started("one")
    assert cluster.job(f"{cancelled.arrays[0]}_2")["JobState"] == "PENDING"  # --at-once 1
    second = cluster.try_submit(table, further=["--steps", str(ENDLESS)])
    assert second.returncode != 0 and second.stdout == ""
    assert re.search(
        r"0 of 2 runs complete, 1 pending; running: one-1 \(.+\)\n$",
        cluster.run(STATUS, cancelled.folder),
    )
    waiting = f"{cancelled.arrays[0]}_2"
    cluster.run("scontrol", "hold", waiting)
    cluster.wait_until(
        lambda: (
            f"held: two-1 (by an administrator: scontrol release {waiting}); running: one-1"
            in cluster.run(STATUS, cancelled.folder)
        )
    )
    cluster.run("scontrol", "release", waiting)
    assert (
        f"a study of this folder is pending or running (jobs {cancelled.arrays[0]}"
        f" {cancelled.report}); wait for" in second.stderr
    )
    cluster.run("scancel", cancelled.arrays[0])
    cluster.wait_for_state(cancelled.report, "FAILED", "COMPLETED")
    assert cluster.job(cancelled.report)["JobState"] == "FAILED"
    log = (cancelled.folder / "logs" / f"report-{cancelled.report}.log").read_text(encoding="utf-8")
    assert "runs that are not complete: one-1 two-1" in log
    assert states(cluster, cancelled) == ["CANCELLED", "CANCELLED"]
    assert re.search(
        r"0 of 2 runs complete, 1 not started; failed: one-1 \(.+\)\n$",
        cluster.run(STATUS, cancelled.folder),
    )
    time.sleep(3)  # a requeued job would be pending
    assert states(cluster, cancelled) == ["CANCELLED", "CANCELLED"]
    again = cluster.submit(table, further=["--steps", str(ENDLESS)])
    assert again.resumed() > 0


def task_of_a_failed_node_resumes_on_another_node(cluster):
    lost = cluster.submit("lost\t2\ttrain --batch-per-rank 4\n", further=["--steps", "120"])
    task = f"{lost.arrays[0]}_1"
    lost.started("lost")
    node = cluster.job(task)["NodeList"]
    (cluster.folder / f"{node}.off").touch()
    try:
        cluster.kill_node(node)
        cluster.wait_until(lambda: cluster.job(task)["Restarts"] == "1")
        cluster.wait_for_state(task, "COMPLETED", "FAILED")
        assert cluster.job(task)["NodeList"] != node
    finally:
        (cluster.folder / f"{node}.off").unlink()
    assert cluster.job(task)["JobState"] == "COMPLETED"
    assert lost.parts("lost")[-1] == "complete" and lost.resumed() > 0


def ranks_find_each_other_or_one_line_says_how(cluster):
    """Forms of srun that need a PMIx server, and one rank, which needs none."""
    program = os.environ["LOCKSTEP_BIN"]

    def srun(*words):
        result = (
            cluster.start_parts("srun", *words) if ":" in words else cluster.start("srun", *words)
        )
        lines = [line for line in result.stderr.splitlines() if not line.startswith("srun: ")]
        found = re.search(r"^  launcher +(.+) \(environment variables\)$", result.stdout, re.M)
        return result.returncode, found and found[1], lines

    parts = ["-n", "1", program, "info", ":", "-n", "2", program, "info"]  # of a heterogeneous step
    for words, ranks in (["-n", "2", program, "info"], 2), (parts, 3):
        for kind in ("none", "pmi2"):
            status, _, lines = srun(f"--mpi={kind}", *words)
            assert status == 2 and len(lines) == 1 and "start with `srun --mpi=pm" in lines[0], (
                lines
            )
        assert srun("--mpi=pmix", *words) == (0, f"srun (SLURM_STEP_NUM_TASKS={ranks})", [])
    for kind in ("none", "pmi2", "pmix"):
        assert srun(f"--mpi={kind}", "-n", "1", program, "info") == (
            0,
            "srun (SLURM_STEP_NUM_TASKS=1)",
            [],
        )
    train = [program, "train", *OPTIONS, "--batch-per-rank", "4", "--steps", "2"]
    assert srun("--mpi=pmix", "-n", "1", *train, ":", "-n", "1", *train)[0] == 0
    shell = cluster.start(
        "script", "--quiet", "--return", "--command", f"srun -n 1 --pty {program} info", "/dev/null"
    )
    assert shell.returncode == 0 and "none (environment variables)" in shell.stdout, shell.stdout
    inside = cluster.start(
        "srun", "-n", "1", *os.environ["LOCKSTEP_MPIRUN"].split(), "-n", "2", program, "info"
    )
    assert (
        inside.returncode == 0 and "mpirun of Open MPI (OMPI_COMM_WORLD_SIZE=2)" in inside.stdout
    ), inside.stderr


def study_submitted_inside_a_job_is_independent_of_that_job(cluster):
    """Only the outer job has an amount of memory per node, which contradicts the memory per
    processor of the jobs."""
    table = cluster.work / "inner.tsv"
    table.write_text("one\t1\ttrain --batch-per-rank 4 --steps 2\n", encoding="utf-8")
    command = shlex.join(
        map(
            str,
            [
                SUBMIT,
                "--repeats",
                "1",
                "--launcher",
                "srun",
                "--dir",
                cluster.work / "inner",
                table,
                "--",
                *OPTIONS,
            ],
        )
    )
    outer = cluster.run(
        "sbatch",
        "--parsable",
        "--mem=1G",
        "--cpus-per-task=2",
        f"--output={cluster.work}/outer.log",
        "--wrap",
        f"srun {command}",
    ).strip()
    cluster.wait_for_state(outer, "COMPLETED", "FAILED")
    log = (cluster.work / "outer.log").read_text(encoding="utf-8")
    report = re.search(r"job (\d+) writes", log)
    assert report, log
    cluster.wait_for_state(report[1], "COMPLETED", "FAILED")
    logs = "\n".join(
        path.read_text(encoding="utf-8") for path in (cluster.work / "inner" / "logs").glob("*")
    )
    assert cluster.job(report[1])["JobState"] == "COMPLETED", logs


def submit_with_both_launchers(cluster, table, *further):
    """Submits a study with srun and one with mpirun, and waits for their ends; returns both."""
    studies = [
        cluster.submit(table, "--launcher", launcher, further=further, folder=launcher)
        for launcher in ("srun", "mpirun")
    ]
    for study in studies:
        cluster.wait_for_state(study.report, "COMPLETED", "FAILED")
    return studies


def ranks_bound_by_slurm_have_processors_of_their_own(cluster):
    for study in submit_with_both_launchers(
        cluster, "two\t2\ttrain --batch-per-rank 4\n", "--steps", "2"
    ):
        log = (study.folder / "logs" / f"{study.arrays[0]}_1.log").read_text(encoding="utf-8")
        assert study.parts("two") == ["complete"], log
        bound = re.search(r"^  binding .* processors of rank 0: (\d+); 1: (\d+)$", log, re.M)
        assert bound and bound[1] != bound[2], log


def accounting_has_the_state_time_and_memory_of_every_task(cluster):
    """The memory of ranks is in the job step with srun, and in the batch script with mpirun. The
    point `bad` fails in its job, because `submit` cannot check the cuts of a pipeline on its own
    single rank."""
    table = (
        "two\t2\ttrain --batch-per-rank 4\n"
        "bad\t2\ttrain --batch-per-rank 4 --pipeline-stages 2 --stage-cuts nowhere\n"
    )
    studies = submit_with_both_launchers(cluster, table, "--steps", "60")
    for study, step in zip(studies, ("0", "batch")):
        job = study.arrays[0]
        rows = dict(
            line.split("|", 1)
            for line in cluster.run(
                "sacct",
                "--noheader",
                "--parsable2",
                f"--jobs={job}",
                "--format=JobID,State,ElapsedRaw,MaxRSS,ExitCode",
                "--units=M",
            ).splitlines()
        )
        assert re.fullmatch(r"COMPLETED\|\d+\|\|0:0", rows[f"{job}_1"]), rows
        memory = re.fullmatch(r"COMPLETED\|\d+\|([\d.]+)M\|0:0", rows[f"{job}_1.{step}"])
        assert memory and float(memory[1]) > 100, rows
        assert re.fullmatch(r"FAILED\|\d+\|\|2:0", rows[f"{job}_2"]), rows
        status = cluster.run(STATUS, study.folder)
        assert "1 of 2 runs complete" in status and "failed: bad-1 (FAILED" in status, status


SCENARIOS = {
    function.__name__: function
    for function in (
        strong_study_ends_in_one_report,
        exclusive_study_of_several_commands_is_complete_without_what_does_not_fit,
        signal_before_the_time_limit_requeues_the_task_which_resumes,
        urgent_job_preempts_a_task_which_resumes,
        cancelled_array_is_not_requeued_and_can_be_submitted_again,
        task_of_a_failed_node_resumes_on_another_node,
        ranks_find_each_other_or_one_line_says_how,
        study_submitted_inside_a_job_is_independent_of_that_job,
        ranks_bound_by_slurm_have_processors_of_their_own,
        accounting_has_the_state_time_and_memory_of_every_task,
    )
}
OPTIONS_OF_CLUSTER = {ranks_bound_by_slurm_have_processors_of_their_own: ["--affinity"]}


def run_scenario(function):
    """Runs a scenario in a new cluster. Returns its exception, or None, and the logs of its
    jobs."""
    with tempfile.TemporaryDirectory(prefix="lockstep-slurm-") as folder:
        cluster = Cluster(pathlib.Path(folder), OPTIONS_OF_CLUSTER.get(function, []))
        try:
            with cluster:
                function(cluster)
        except BaseException as error:  # the test raises it again
            return error, cluster.output()
    return None, ""


@pytest.fixture(scope="session")
def outcomes(request):
    """Starts all selected scenarios. Returns {name: future of the outcome}."""
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.fail("LOCKSTEP_BIN is not set to the program; CTest sets it")
    names = [
        item.callspec.params["scenario"]
        for item in request.session.items
        if "outcomes" in item.fixturenames
    ]
    with ThreadPoolExecutor(len(names)) as pool:
        yield {name: pool.submit(run_scenario, SCENARIOS[name]) for name in names}


@pytest.mark.requires("SLURM")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_slurm(scenario, outcomes):
    error, logs = outcomes[scenario].result()
    print(logs)
    if error:
        raise error
