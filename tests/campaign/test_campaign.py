# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the campaign itself: its bounds, draws and checks, and a small slice of each kind of
fault."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import pytest

sys.dont_write_bytecode = True
FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import checks  # noqa: E402
import injected  # noqa: E402
from bounds import percentile, upper_bound  # noqa: E402
from job import Job  # noqa: E402
from kinds import KINDS, Outcome, is_before_queries  # noqa: E402
from runner import ATTEMPTS, KEEP, STEPS, Reference, Run, Runner  # noqa: E402

# --- bounds


@pytest.mark.parametrize(
    "failures, runs, expected",
    [
        (0, 200, 0.014867),
        (0, 1000, 0.0029912),
        (1, 100, 0.046561),
        (5, 100, 0.102253),
        (50, 100, 0.586378),
        (3, 3, 1),
        (0, 0, 1),
    ],
)
def test_upper_bound_is_that_of_clopper_and_pearson(failures, runs, expected):
    assert upper_bound(failures, runs) == pytest.approx(expected, rel=1e-4)


def test_bound_of_no_failures_has_a_closed_form():
    for runs in (1, 10, 3000):
        assert upper_bound(0, runs, 0.99) == pytest.approx(1 - 0.01 ** (1 / runs), rel=1e-9)


@pytest.mark.parametrize("failures, runs", [(-1, 10), (11, 10)])
def test_impossible_counts_are_an_error(failures, runs):
    with pytest.raises(ValueError, match="failures"):
        upper_bound(failures, runs)


def test_percentile_is_a_value_of_the_sample():
    assert [percentile(range(1, 101), p) for p in (0, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([7.5], 99) == 7.5


# --- draws


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_draws_depend_on_seed_and_index_only(kind):
    permitted = kind.hosts
    draws = [kind.draw(5, index, permitted, (2, 3, 4)) for index in range(200)]
    assert draws == [kind.draw(5, index, permitted, (2, 3, 4)) for index in range(200)]
    assert draws != [kind.draw(6, index, permitted, (2, 3, 4)) for index in range(200)]
    assert {draw.ranks for draw in draws} == {2, 3, 4}
    assert {draw.hosts for draw in draws} == set(kind.hosts)
    assert {draw.action for draw in draws} == set(kind.actions)
    assert all(draw.victim < draw.ranks and 0 <= draw.position < 1 for draw in draws)
    assert {draw.victim for draw in draws} == {0, 1, 2, 3}


def test_injected_faults_name_the_rank_of_the_draw():
    kind = KINDS["inject"]
    draws = [kind.draw(1, index, (1,), (2, 3)) for index in range(300)]
    assert all(draw.fault.split(":")[:2] == [draw.action, str(draw.victim)] for draw in draws)
    phases = {draw.fault.split(":")[3] for draw in draws if draw.fault.count(":") == 3}
    assert phases == {*injected.BEFORE, *injected.STEP_PHASES, *injected.LATER}


def test_no_rank_finishes_at_the_end_where_all_ranks_do():
    kind = KINDS["inject"]
    draws = [kind.draw(1, index, (1,), (2, 3)) for index in range(1000)]
    phases = {draw.fault.split(":")[3] for draw in draws if draw.action == "finish"}
    assert phases == {*injected.BEFORE, *injected.STEP_PHASES, *injected.LATER} - {"end"}


def test_draws_use_only_the_permitted_hosts_and_ranks():
    draws = [KINDS["kills"].draw(1, index, (1,), (3,)) for index in range(50)]
    assert {(draw.hosts, draw.ranks) for draw in draws} == {(1, 3)}


@pytest.mark.parametrize(
    "activity, expected",
    [("MPI_Init_thread", True), ("creating communicators", True), ("comparing options", False)],
)
def test_ranks_are_not_named_before_they_can_ask_each_other(activity, expected):
    line = f"lockstep: rank 2 on a: watchdog timeout: no progress for 5 s during {activity}; check"
    assert is_before_queries(f"mpirun\n{line}\n") == expected


# --- jobs


def start(folder, script):
    return Job(["bash", "-c", script], folder, f"test-{os.getpid()}-{folder.name}", 300)


def test_job_is_over_after_its_last_process(tmp_path):
    job = start(tmp_path, "OMPI_COMM_WORLD_RANK=1 setsid sleep 0.7 & sleep 0.1")
    ranks, seconds = job.wait_until_over(time.monotonic(), 20)
    assert 0.5 < ranks <= seconds


def test_job_that_leaves_a_process_is_not_over(tmp_path):
    job = start(tmp_path, "OMPI_COMM_WORLD_RANK=1 setsid sleep 100 & sleep 0.1")
    try:
        assert job.wait_until_over(time.monotonic(), 1) == (None, None)
        assert list(job.ranks()) == [1]
    finally:
        job.kill()
    assert job.processes() == {}


def test_launcher_that_remains_is_told_from_ranks_that_remain(tmp_path):
    job = start(tmp_path, "sleep 100")
    try:
        ranks, seconds = job.wait_until_over(time.monotonic(), 0.5)
        assert ranks is not None and seconds is None
    finally:
        job.kill()


def test_run_file_that_is_renamed_while_it_is_looked_for_is_left_out(tmp_path, monkeypatch):
    gone, kept = tmp_path / "run.h5.partial", tmp_path / "run.part2.h5"
    kept.write_bytes(b"1")
    monkeypatch.setattr(pathlib.Path, "glob", lambda *_: [gone, kept])
    assert checks.run_files(tmp_path) == [kept]


def test_temporary_files_and_shared_memory_are_found(tmp_path):
    script = (
        'mkdir "$TMPDIR/ompi.host.0"; touch "$TMPDIR/left" "$TMPDIR/ompi.host.0/file";'
        " PMIX_NAMESPACE=3735928559 sleep 1"
    )
    job = start(tmp_path, script)
    job.wait_for(lambda: job.processes() and job.job_ids)
    segment = pathlib.Path("/dev/shm/test_segment.deadbeef.0")
    segment.touch()
    try:
        job.wait_until_over(time.monotonic(), 10)
        assert job.leftovers() == (
            [segment, job.scratch / "ompi.host.0" / "file"],
            [job.scratch / "left"],
        )
    finally:
        segment.unlink()


# --- checks of files


def write_checkpoint(path, step, value=1.0):
    with h5py.File(path, "w") as file:
        file["state/weight"] = np.full(100, value, np.float32)
        for name in checks.COUNTERS:
            file.attrs[name] = step


@pytest.fixture
def run(tmp_path):
    """A run with valid checkpoints of the last two steps, both of which existed before the
    fault."""
    write_checkpoint(tmp_path / "valid.h5", 1)
    digests = {}
    for step in range(1, STEPS + 1):
        write_checkpoint(tmp_path / "other.h5", step)
        digests[step] = checks.digest(tmp_path / "other.h5")
    kind = KINDS["kills"]
    made = Run(
        Runner("true", "true", ["mpirun"], tmp_path),
        kind,
        kind.draw(1, 0, (1,), (2,)),
        Reference(digests, {}, {}, 1, 1),
    )
    made.checkpoints.mkdir(parents=True)
    made.acknowledged = [STEPS - 2, STEPS]
    for step in made.acknowledged:
        write_checkpoint(made.checkpoints / f"checkpoint-{step}.h5", step)
    return made


def failed_checks(run):
    outcome = Outcome(run.draw)
    run.check_files(outcome)
    assert {"run file", "checkpoints valid", "checkpoints kept"} <= outcome.checked
    return set(outcome.failures)


def test_valid_files_pass(run):
    assert KEEP == 2 and failed_checks(run) == set()


def test_checkpoint_with_another_value_fails(run):
    write_checkpoint(
        run.checkpoints / f"checkpoint-{STEPS}.h5",
        STEPS,
        np.nextafter(np.float32(1), np.float32(2)),
    )
    assert failed_checks(run) == {"checkpoints valid"}


def test_truncated_checkpoint_fails(run):
    path = run.checkpoints / f"checkpoint-{STEPS}.h5"
    path.write_bytes(path.read_bytes()[:-10])
    assert failed_checks(run) == {"checkpoints valid"}


def test_lost_checkpoint_fails(run):
    (run.checkpoints / f"checkpoint-{STEPS}.h5").unlink()
    assert failed_checks(run) == {"checkpoints kept"}


def test_checkpoint_that_newer_ones_have_replaced_is_not_lost(run):
    run.acknowledged = [STEPS - 4, STEPS - 2]
    assert failed_checks(run) == set()


def test_unreadable_run_file_fails(run):
    (run.folder / "run.h5.partial").write_bytes(b"no HDF5")
    assert failed_checks(run) == {"run file"}


def test_tolerated_check_is_counted_but_does_not_fail_the_run(run):
    outcome = Outcome(run.draw, tolerated=("launcher over",))
    outcome.check("launcher over", False, "late")
    assert not outcome.has_failed and outcome.failures
    outcome.check("ranks over", False, "late")
    assert outcome.has_failed


def test_job_that_always_ends_before_the_fault_fails_the_run(run, monkeypatch):
    attempts = []
    monkeypatch.setattr(Run, "execute", lambda self: attempts.append(self))
    run.runner.references[2, 1, "reference"] = run.reference
    outcome = run.runner.run(run.kind, run.draw)
    assert outcome.has_failed and "fault before the end" in outcome.failures
    assert len(attempts) == ATTEMPTS
    # Every attempt places the fault earlier, whether it is before the training or in it.
    for duration in ("start", "training"):
        seconds = [getattr(attempt.reference, duration) for attempt in attempts]
        assert seconds == sorted(set(seconds), reverse=True) and seconds[-1] < 0.1 * seconds[0]


# --- the program


def campaign(*arguments):
    return subprocess.run(
        [sys.executable, FOLDER / "campaign", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "KIND"),
        (("kill:3",), "none of the kinds kills, stalls"),
        (("kills:x",), "not a number"),
        (("kills",), "--minutes"),
        (("kills:1", "kills:2"), "twice"),
        (("--jobs", "0", "kills:1"), "--jobs"),
        (("--ranks", "1", "kills:1"), "--ranks"),
        (("--program", "/none", "kills:1"), "/none is not a program"),
        (("--with-faults", "/none", "flips:1"), "/none is not a program"),
        (("--work", "/none", "kills:1"), "--work: /none is not a folder"),
        (("--json", "/none/file.json", "kills:1"), "--json: /none is not a folder"),
    ],
)
def test_usage_errors(arguments, message):
    result = campaign("--hosts", "one", *arguments)
    assert result.returncode == 2 and message in result.stderr


def test_help_explains_every_kind():
    text = campaign("--help").stdout
    assert all(f"  {name}" in text for name in KINDS)


def test_failed_reference_run_is_an_error(tmp_path):
    result = campaign("--hosts", "one", "--work", tmp_path, "--program", "/bin/false", "kills:1")
    assert result.returncode == 1 and "the uninterrupted run failed with status 1" in result.stderr


def slice_of(tmp_path, *arguments):
    """Runs a slice in which no check may fail; returns its results."""
    with tempfile.TemporaryDirectory(
        dir="/dev/shm"
    ) as work:  # checkpoints on a disk take several times as long
        result = campaign(
            "--jobs", 2, "--work", work, "--json", tmp_path / "result.json", *arguments
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert not list(pathlib.Path(work).iterdir())
    found = json.loads((tmp_path / "result.json").read_text())["kinds"]
    for name, kind in found.items():
        assert f"{name}: {kind['runs']} runs, 0 failed" in result.stdout
    return found


def test_slice_on_one_host(tmp_path):
    found = slice_of(
        tmp_path,
        "--hosts",
        "one",
        "--ranks",
        "2,4",
        "kills:3",
        "stalls:1",
        "resumes:2",
        "slow:1",
        "inject:2",
        "flips:1",
    )
    assert {name: kind["runs"] for name, kind in found.items()} == {
        "flips": 1,
        "inject": 2,
        "kills": 3,
        "resumes": 2,
        "slow": 1,
        "stalls": 1,
    }
    assert found["resumes"]["checks"]["resumed equal"]["runs"] == 2
    assert found["kills"]["checks"]["launcher over"]["runs"] == 3


@pytest.mark.requires("CLUSTER")
def test_slice_between_hosts(tmp_path):
    found = slice_of(
        tmp_path, "--hosts", "two", "--ranks", "2", "kills:2", "network:2", "resumes:1"
    )
    assert {name: kind["runs"] for name, kind in found.items()} == {
        "kills": 2,
        "network": 2,
        "resumes": 1,
    }
