# SPDX-License-Identifier: BSD-3-Clause
"""The scalars of the steps and epochs of a training: as event files of TensorBoard, one folder per
run, and for an experiment tracker (TensorBoard, Weights & Biases, MLflow), through the tracker's
own library, while `lockstep-report watch` follows the run. The environment variables of a tracker
(WANDB_MODE, WANDB_PROJECT, MLFLOW_TRACKING_URI, ...) set where it stores them.
"""

import os
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from lockstep_report.errors import OUTPUT, USAGE, ReportError, reason_of, require_module
from lockstep_report.measure.window import all_step_seconds
from lockstep_report.runfile.names import stem_of

OF_EPOCHS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
PROJECT = "lockstep"


def write_event_files(folder, runs, selection):
    tensorboard = require_module(
        "tensorboardX", "export to TensorBoard", "pip install tensorboardX, or export to CSV"
    )
    for name, run in selection.named(runs):
        own = folder.subfolder(name)
        begin = begin_of(run)
        own.write(
            f"events.out.tfevents.{int(begin):010d}.lockstep",
            event_file(tensorboard, begin, scalars(run, begin, selection.steps_of(run))),
            own.kinds[0],
        )
        own.finish()
        folder.written += own.written


def begin_of(run):
    """Returns the time at which the run file was created, in seconds since 1970; 0 if unknown."""
    text = str(run.attributes.get("date_utc", "")).replace("Z", "+00:00")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return found.replace(tzinfo=found.tzinfo or timezone.utc).timestamp()


def scalars(run, begin, steps):
    """Yields (time, step, {tag: finite value}) of the steps; the last step of an epoch has the
    values of the epoch too. The time is the begin of the run plus the duration of the steps."""
    seconds = all_step_seconds(run)
    time = begin + np.cumsum(seconds)
    last = {
        int(np.flatnonzero(run.epoch == number)[-1]): row
        for row, number in enumerate(run.epoch_numbers)
        if np.any(run.epoch == number)
    }
    for index, of_phases in zip(steps, run.phase_seconds[steps].mean(axis=1)):
        values = {
            "step/loss": run.loss[index],
            "step/learning_rate": run.learning_rate[index],
            "step/seconds": seconds[index],
            "step/images_per_second": run.images[index] / seconds[index] if seconds[index] else 0,
            **{f"phase_seconds/{name}": value for name, value in zip(run.phases, of_phases)},
        }
        if index in last:
            values |= {
                f"epoch/{name}": run.epochs[name][last[index]]
                for name in OF_EPOCHS
                if name in run.epochs
            }
        yield (
            time[index],
            int(run.step[index]) + 1,
            {tag: float(value) for tag, value in values.items() if np.isfinite(value)},
        )


def event_file(tensorboard, begin, values):
    """Returns the bytes of an event file. The writers of tensorboardX record the present time; here
    the same run gives the same bytes."""
    event, summary = tensorboard.proto.event_pb2.Event, tensorboard.proto.summary_pb2.Summary
    with tempfile.TemporaryDirectory(prefix="lockstep-report-") as scratch:
        path = Path(scratch) / "events"
        writer = tensorboard.record_writer.RecordWriter(str(path))
        writer.write(event(wall_time=begin, file_version="brain.Event:2").SerializeToString())
        for time, step, tags in values:
            found = summary(
                value=[summary.Value(tag=tag, simple_value=value) for tag, value in tags.items()]
            )
            writer.write(event(wall_time=time, step=step, summary=found).SerializeToString())
        writer.close()
        return path.read_bytes()


class TensorBoard:
    """Writes to the folder runs/NAME."""

    def __init__(self, library, name, _run_id, options):
        self.writer = library.SummaryWriter(str(Path("runs") / name))
        self.writer.add_text(
            "options", "\n".join(f"    {option} = {value}" for option, value in options.items())
        )

    def log(self, rows):
        for time, step, values in rows:
            for tag, value in values.items():
                self.writer.add_scalar(tag, value, step, walltime=time)
        self.writer.flush()

    def finish(self, _is_complete):
        self.writer.close()


class WandB:
    """Logs to Weights & Biases. A run that is watched again continues under its identifier."""

    def __init__(self, library, name, run_id, options):
        self.run = library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=name,
            config=options,
            resume="allow",
            id="".join(letter if letter.isalnum() else "-" for letter in run_id),
        )

    def log(self, rows):
        for _, step, values in rows:
            self.run.log(values, step=step)

    def finish(self, is_complete):
        self.run.finish(exit_code=0 if is_complete else 1)


class MLflow:
    """Logs to MLflow, to the experiment `lockstep` unless its environment names another one."""

    MOST_VALUES = 1000  # of one call
    LONGEST = 500  # characters of a parameter

    def __init__(self, library, name, _run_id, options):
        self.library = library
        if not {"MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"} & set(os.environ):
            library.set_experiment(PROJECT)
        self.run_id = library.start_run(run_name=name).info.run_id
        library.log_params({option: value[: self.LONGEST] for option, value in options.items()})

    def log(self, rows):
        metric = self.library.entities.Metric
        metrics = [
            metric(tag, value, int(1000 * time), step)
            for time, step, values in rows
            for tag, value in values.items()
        ]
        client = self.library.MlflowClient()
        for first in range(0, len(metrics), self.MOST_VALUES):
            client.log_batch(self.run_id, metrics=metrics[first : first + self.MOST_VALUES])

    def finish(self, is_complete):
        self.library.end_run("FINISHED" if is_complete else "FAILED")


TRACKERS = {
    "tensorboard": (TensorBoard, "tensorboardX"),
    "wandb": (WandB, "wandb"),
    "mlflow": (MLflow, "mlflow"),
}


class Log:
    def __init__(self, name):
        self.name = name
        self.start, module = TRACKERS[name]
        self.library = require_module(module, f"watch --log {name}", "pip install {0}")
        # The tracker of the run while it is logged, and the number of logged steps.
        self.tracker, self.steps = (
            None,
            0,
        )

    def update(self, run):
        """Logs the steps and epochs that the run has gained. Raises `ReportError`: usage if it is
        no training, output if the tracker fails."""
        if run.ladder:
            raise ReportError(
                USAGE,
                f"{run.path}: --log records trainings, and this is a batch ladder; remove --log",
            )
        try:
            if self.tracker is None:
                name = stem_of(run.path.name)
                self.tracker = self.start(
                    self.library, name, run.run_id, dict(sorted(run.config.items()))
                )
            first, self.steps = self.steps, len(run.step)
            self.tracker.log(list(scalars(run, begin_of(run), np.arange(first, self.steps))))
        except Exception as error:  # of any library
            raise ReportError(OUTPUT, f"{self.name}: cannot log ({reason_of(error)})") from error

    def finish(self, is_complete):
        tracker, self.tracker = self.tracker, None
        if tracker:
            tracker.finish(is_complete)
