"""Tests of jobs/slurm with a real Slurm: tests/slurm/cluster starts two nodes on this machine.

The tests are skipped if this machine cannot start Slurm, or fail if LOCKSTEP_REQUIRE_SLURM=1.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import h5py
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = pathlib.Path(__file__).resolve().parent / "cluster"
ENDLESS = 100_000  # steps of runs that a test stops
OPTIONS = ["--data", "synthetic:64@3x8x8", "--threads", "1", "--evaluate-every", "never", "--checkpoint-every", "10-steps"]


@pytest.fixture(scope="module")
def slurm():
    """Starts the cluster and yields its folder. The cluster ends when its standard input is closed."""
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.fail("LOCKSTEP_BIN is not set to the program; CTest sets it")
    with tempfile.TemporaryDirectory(prefix="lockstep-slurm-") as folder:
        yield from running_cluster(pathlib.Path(folder))
        assert subprocess.run(["pgrep", "-f", folder]).returncode == 1, "processes of the cluster remain"


def running_cluster(folder):
    """Yields `folder` while the cluster runs."""
    with subprocess.Popen([CLUSTER, "run", folder, "bash", "-c", "echo ready && cat"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as daemons:
        if daemons.stdout.readline() != "ready\n":
            reason = daemons.stderr.read().strip()
            if daemons.wait() == 77 and os.environ.get("LOCKSTEP_REQUIRE_SLURM") != "1":
                pytest.skip(reason)
            pytest.fail(reason)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        try:
            yield folder
        finally:
            del os.environ["SLURM_CONF"]
            daemons.stdin.close()
            daemons.wait(30)


@pytest.fixture
def study(slurm, tmp_path):
    """Yields a function that submits a study. Cancels all jobs after the test and prints their logs if it failed."""
    wait_until(lambda: run("sinfo", "--noheader", "--partition=batch", "--format=%t %D").split() == ["idle", "2"], 60)
    submitted = []

    def submit(table, *options, further=(), folder="results", **variables):
        path = tmp_path / "points.tsv"
        path.write_text(table, encoding="utf-8")
        submitted.append(Study(tmp_path / folder, ROOT / "jobs" / "slurm" / "submit", path, options, further, variables))
        return submitted[-1]
    yield submit
    subprocess.run(["scancel", "--user", "root"], check=True)
    for each in submitted:
        print(each.output())
    wait_until(lambda: not run("squeue", "--noheader"), 60)


class Study:
    """A submitted study: `arrays` are the ids of the array jobs, `report` is the id of the report job."""

    def __init__(self, folder, program, table, options=(), further=(), variables=None):
        self.folder = folder
        result = subprocess.run(
            [program, "--repeats", "1", "--dir", folder, *options, table, "--", *OPTIONS, *further],
            capture_output=True, text=True, env=os.environ | (variables or {}))
        assert result.returncode == 0, result.stderr
        self.warnings = result.stderr
        found = re.search(r"submitted the arrays ([\d ]+); job (\d+) writes", result.stdout)
        assert found, result.stdout
        self.arrays, self.report = found[1].split(), found[2]

    def started(self, point, restart=0):
        """Waits until the first checkpoint of a point exists and its process after `restart` restarts runs."""
        wait_until(lambda: list(self.folder.glob(f"checkpoints/{point}-1/checkpoint-*.h5")) and
                   list(self.folder.glob(f"{point}-1.{self.arrays[0]}_*.{restart}.h5*")), 60)

    def output(self):
        """Returns the logs of the jobs."""
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted((self.folder / "logs").glob("*")))

    def parts(self, point):
        """Returns the status of each run file of a point, by restart."""
        files = sorted(self.folder.glob(f"{point}-1.*.h5"), key=lambda path: int(path.suffixes[-2][1:]))
        return [status(path) for path in files]

    def resumed(self):
        """Waits until a task with the index 1 has resumed from a checkpoint; returns its number of steps."""
        log = self.folder / "logs" / f"{self.arrays[0]}_1.log"
        return int(wait_until(lambda: log.exists() and re.search(r"^  resumed after step (\d+)$", log.read_text(), re.M), 60)[1])


def status(path):
    with h5py.File(path) as file:
        return file.attrs["status"]


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=60).stdout


def job(identifier):
    """Returns the fields of a job as `scontrol show job` prints them."""
    return dict(re.findall(r"(\w+)=(\S*)", run("scontrol", "--oneliner", "show", "job", identifier)))


def wait_until(condition, limit):
    """Waits until the condition is true; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while not (result := condition()):
        assert time.monotonic() < end, f"not true after {limit} s; jobs:\n" + run("squeue", "--all", "--states=all")
        time.sleep(0.2)
    return result


def wait_for_state(identifier, *states, limit=120):
    wait_until(lambda: job(identifier)["JobState"] in states, limit)


def kill_node(slurm, node):
    """Kills slurmd of a node. All other processes of the node end with it."""
    for pid in run("pgrep", "-f", f"^slurmd -D -N {node} -f {slurm}/").split():
        os.kill(int(pid), signal.SIGKILL)


def test_strong_study_ends_in_one_report(slurm, tmp_path):
    """The points of the table `strong` with 1, 2 and 8 ranks (two nodes), in folders with special characters in their names."""
    odd = tmp_path / "a copy, 100%j $(touch x) 'of'"
    odd.mkdir()
    (odd / "lockstep").symlink_to(ROOT)
    lines = (ROOT / "jobs" / "studies" / "strong.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (odd / "strong table.tsv").write_text("".join(line for line in lines if re.match("strong-128-n[128]\t", line)), encoding="utf-8")
    study = Study(odd / "results", odd / "lockstep" / "jobs" / "slurm" / "submit", odd / "strong table.tsv",
                  further=["--global-batch", "16", "--epochs", "1", "--train-samples", "64"])
    assert len(study.arrays) == 3 and study.warnings == ""
    wait_for_state(study.report, "COMPLETED", "FAILED")
    assert job(study.report)["JobState"] == "COMPLETED", list(study.folder.glob("logs/*"))
    for index, point in enumerate(("strong-128-n1", "strong-128-n2", "strong-128-n8")):
        assert study.parts(point) == ["complete"]
        assert (study.folder / "logs" / f"{study.arrays[index]}_{index + 1}.log").exists()
    report = (study.folder / "report" / "report.md").read_text(encoding="utf-8")
    assert "strong-128-n8" in report
    assert list(tmp_path.rglob("x")) == [] and not pathlib.Path("x").exists()


def test_signal_before_the_time_limit_requeues_the_task_which_resumes(study):
    """Slurm checks time limits every 30 s: the signal arrives between 10 s and 40 s after the start. With srun, the ranks
    receive it; with mpirun, the batch script."""
    studies = [study("limited\t2\ttrain --batch-per-rank 4\n", "--time", "1", "--grace", "20", "--launcher", launcher,
                     further=["--steps", str(ENDLESS)], folder=launcher) for launcher in ("srun", "mpirun")]
    for limited in studies:
        wait_until(lambda: int(job(f"{limited.arrays[0]}_1")["Restarts"]) >= 1, 100)
        assert limited.parts("limited")[0] == "preempted"
        assert limited.resumed() > 0
        assert "due to time limit" not in limited.output()


def test_urgent_job_preempts_a_task_which_resumes(study):
    table = "first\t2\ttrain --batch-per-rank 4\n"
    preempted = study(table, further=["--steps", "120"])
    task = f"{preempted.arrays[0]}_1"
    preempted.started("first")
    urgent = run("sbatch", "--parsable", "--partition=urgent", "--ntasks-per-node=4", "--nodes=2", "--output=/dev/null",
                 "--wrap", "sleep 1").strip()
    wait_for_state(urgent, "COMPLETED")
    assert preempted.parts("first") == ["preempted"]
    wait_for_state(task, "COMPLETED", "FAILED")
    assert job(task)["JobState"] == "COMPLETED" and job(task)["Restarts"] == "1"
    assert preempted.parts("first") == ["preempted", "complete"] and preempted.resumed() > 0


def test_cancelled_array_is_not_requeued_and_can_be_submitted_again(study):
    table = "one\t1\ttrain --batch-per-rank 4\ntwo\t1\ttrain --batch-per-rank 4\n"
    cancelled = study(table, "--at-once", "1", further=["--steps", str(ENDLESS)])
    cancelled.started("one")
    assert job(f"{cancelled.arrays[0]}_2")["JobState"] == "PENDING"  # --at-once 1
    run("scancel", cancelled.arrays[0])
    wait_for_state(cancelled.report, "FAILED", "COMPLETED", limit=60)
    assert job(cancelled.report)["JobState"] == "FAILED"
    log = (cancelled.folder / "logs" / f"report-{cancelled.report}.log").read_text(encoding="utf-8")
    assert "runs that are not complete: one-1 two-1" in log
    assert [job(f"{cancelled.arrays[0]}_{index}")["JobState"] for index in (1, 2)] == ["CANCELLED", "CANCELLED"]
    time.sleep(8)  # longer than the delay of a requeue
    assert [job(f"{cancelled.arrays[0]}_{index}")["JobState"] for index in (1, 2)] == ["CANCELLED", "CANCELLED"]
    again = study(table, further=["--steps", str(ENDLESS)])
    assert again.resumed() > 0


def test_task_of_a_failed_node_resumes_on_another_node(slurm, study):
    lost = study("lost\t2\ttrain --batch-per-rank 4\n", further=["--steps", "50"])
    task = f"{lost.arrays[0]}_1"
    lost.started("lost")
    node = job(task)["NodeList"]
    (slurm / f"{node}.off").touch()
    try:
        kill_node(slurm, node)
        wait_until(lambda: job(task)["Restarts"] == "1", 60)
        wait_for_state(task, "COMPLETED", "FAILED")
        assert job(task)["NodeList"] != node
    finally:
        (slurm / f"{node}.off").unlink()
    assert job(task)["JobState"] == "COMPLETED"
    assert lost.parts("lost")[-1] == "complete" and lost.resumed() > 0
