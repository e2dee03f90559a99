# SPDX-License-Identifier: BSD-3-Clause
"""lockstep-report watch --log."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import OUTPUT, USAGE, ReportError
from lockstep_report.tables.export import trackers
from synthetic import write_ladder
from test_watch import Job, Output, Stream, Watch, finish, write_epochs


class Recorded:
    """Takes the place of a tracker: notes its calls."""

    def __init__(self):
        self.started, self.rows, self.ended = [], [], []

    def start(self, _library, *arguments):
        self.started.append(arguments)
        return self

    def log(self, rows):
        self.rows += rows

    def finish(self, is_complete):
        self.ended.append(is_complete)


@pytest.fixture
def recorded(monkeypatch):
    tracker = Recorded()
    monkeypatch.setitem(trackers.TRACKERS, "wandb", (tracker.start, "json"))
    return tracker


def test_each_step_is_logged_once_with_the_values_of_its_epoch(tmp_path, recorded):
    path, partial = tmp_path / "run.h5", tmp_path / "run.h5.partial"
    write_epochs(partial, 1)
    job = Job(
        lambda: write_epochs(partial, 2),
        lambda: None,
        lambda: finish(path, partial, 3, status="complete"),
    )
    log = trackers.Log("wandb")
    assert (
        Watch(path, Output(Stream(), False), sleep=job.sleep, clock=job.clock, log=log).follow()
        == 0
    )
    log.finish(True)
    log.finish(True)  # has no effect
    ((name, run_id, options),) = recorded.started
    assert (name, run_id, options["epochs"]) == ("run", "r", "3") and recorded.ended == [True]
    assert [step for _, step, _ in recorded.rows] == list(range(1, 31))
    assert [step for _, step, values in recorded.rows if "epoch/test_accuracy" in values] == [
        10,
        20,
        30,
    ]
    times = [time for time, *_ in recorded.rows]
    assert np.diff(times) == pytest.approx(0.04, abs=1e-6)  # the resolution of a time since 1970
    values = recorded.rows[4][2]
    assert values["step/seconds"] == pytest.approx(0.04) and values[
        "phase_seconds/forward"
    ] == pytest.approx(0.015)
    assert all(np.isfinite(list(values.values())).all() for *_, values in recorded.rows)


def test_a_ladder_and_a_failing_tracker_are_errors_of_one_line(tmp_path, recorded):
    write_ladder(tmp_path / "ladder.h5")
    with pytest.raises(ReportError, match="batch ladder; remove --log") as error:
        Watch(tmp_path / "ladder.h5", Output(Stream(), False), log=trackers.Log("wandb")).follow()
    assert error.value.status == USAGE
    recorded.log = lambda rows: 1 / 0
    write_epochs(tmp_path / "run.h5", 1, status="complete")
    with pytest.raises(ReportError, match="wandb: cannot log .*division by zero") as error:
        Watch(tmp_path / "run.h5", Output(Stream(), False), log=trackers.Log("wandb")).follow()
    assert error.value.status == OUTPUT


def test_a_missing_library_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["watch", str(tmp_path / "run.h5"), "--log", "wandb"]) == USAGE
    assert (
        capsys.readouterr().err
        == "lockstep-report: watch --log wandb needs wandb: pip install wandb\n"
    )


def watched(folder, tracker):
    write_epochs(folder / "run.h5", 2, status="complete")
    result = subprocess.run(
        [sys.executable, "-m", "lockstep_report", "watch", "run.h5", "--json", "--log", tracker],
        cwd=folder,
        env={**os.environ, "WANDB_MODE": "offline", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()] == [
        "run",
        "epoch",
        "epoch",
        "end",
    ]


@pytest.mark.requires("TENSORBOARD")
def test_tensorboard(tmp_path):
    watched(tmp_path, "tensorboard")
    (content,) = (tmp_path / "runs" / "run").glob("events.out.tfevents.*")
    assert content.read_bytes().count(b"epoch/test_accuracy") == 2


@pytest.mark.requires("TRACKERS")
def test_wandb(tmp_path):
    watched(tmp_path, "wandb")
    (content,) = (tmp_path / "wandb").glob("offline-run-*/run-r.wandb")
    assert b"epoch/test_accuracy" in content.read_bytes()


@pytest.mark.requires("TRACKERS")
def test_mlflow(tmp_path):
    import mlflow

    watched(tmp_path, "mlflow")
    store = tmp_path / "mlflow.db" if (tmp_path / "mlflow.db").exists() else tmp_path / "mlruns"
    client = mlflow.MlflowClient(f"sqlite:///{store}" if store.suffix else str(store))
    (run,) = client.search_runs([client.get_experiment_by_name("lockstep").experiment_id])
    assert run.info.status == "FINISHED" and run.data.params["epochs"] == "3"
    assert [
        metric.step for metric in client.get_metric_history(run.info.run_id, "step/loss")
    ] == list(range(1, 21))
    assert len(client.get_metric_history(run.info.run_id, "epoch/test_accuracy")) == 2
