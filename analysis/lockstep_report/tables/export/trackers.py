# SPDX-License-Identifier: BSD-3-Clause
"""Logs the steps and epochs of a training to an experiment tracker (TensorBoard, Weights & Biases, MLflow), through the
tracker's own library, while `lockstep-report watch` follows the run. Tags and values are those of `tensorboard.scalars`. The
environment variables of a tracker (WANDB_MODE, WANDB_PROJECT, MLFLOW_TRACKING_URI, ...) set where it stores them."""

import os
from pathlib import Path

import numpy as np

from lockstep_report.errors import OUTPUT, USAGE, ReportError, reason_of, require
from lockstep_report.tables.export.tensorboard import begin_of, scalars

PROJECT = "lockstep"
WHAT = "watch --log {0}"
REMEDY = "pip install {0}"


class TensorBoard:
    """Writes to the folder runs/NAME."""

    def __init__(self):
        self.library = require("tensorboardX", WHAT.format("tensorboard"), REMEDY)

    def start(self, name, _run_id, options):
        self.writer = self.library.SummaryWriter(str(Path("runs") / name))
        self.writer.add_text("options", "\n".join(f"    {option} = {value}" for option, value in options.items()))

    def log(self, rows):
        for time, step, values in rows:
            for tag, value in values.items():
                self.writer.add_scalar(tag, value, step, walltime=time)
        self.writer.flush()

    def finish(self, _is_complete):
        self.writer.close()


class WandB:
    """Logs to Weights & Biases. A run that is watched again continues under its identifier."""

    def __init__(self):
        self.library = require("wandb", WHAT.format("wandb"), REMEDY)

    def start(self, name, run_id, options):
        self.run = self.library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), name=name, config=options, resume="allow",
            id="".join(letter if letter.isalnum() else "-" for letter in run_id))

    def log(self, rows):
        for _, step, values in rows:
            self.run.log(values, step=step)

    def finish(self, is_complete):
        self.run.finish(exit_code=0 if is_complete else 1)


class MLflow:
    """Logs to MLflow, to the experiment `lockstep` unless its environment names another one."""

    MOST_VALUES = 1000  # of one call
    LONGEST = 500  # characters of a parameter

    def __init__(self):
        self.library = require("mlflow", WHAT.format("mlflow"), REMEDY)

    def start(self, name, _run_id, options):
        if not {"MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"} & set(os.environ):
            self.library.set_experiment(PROJECT)
        self.run_id = self.library.start_run(run_name=name).info.run_id
        self.library.log_params({option: value[:self.LONGEST] for option, value in options.items()})

    def log(self, rows):
        metric = self.library.entities.Metric
        metrics = [metric(tag, value, int(1000 * time), step) for time, step, values in rows for tag, value in values.items()]
        client = self.library.MlflowClient()
        for first in range(0, len(metrics), self.MOST_VALUES):
            client.log_batch(self.run_id, metrics=metrics[first:first + self.MOST_VALUES])

    def finish(self, is_complete):
        self.library.end_run("FINISHED" if is_complete else "FAILED")


TRACKERS = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}


class Log:
    """Logs what is new in a run, which is read again and again."""

    def __init__(self, name):
        self.name, self.tracker = name, TRACKERS[name]()
        self.steps = None  # number of logged steps; None before the start and after the end

    def update(self, run):
        """Logs the steps and epochs that the run has gained. Raises `ReportError`: usage if it is no training, output if
        the tracker fails."""
        if run.ladder:
            raise ReportError(USAGE, f"{run.path}: --log records trainings, and this is a batch ladder; remove --log")
        try:
            if self.steps is None:
                options = dict(sorted(run.config.items()))
                self.tracker.start(run.path.name.removesuffix(".partial").removesuffix(".h5"), run.run_id, options)
                self.steps = 0
            first, self.steps = self.steps, len(run.step)
            self.tracker.log(list(scalars(run, begin_of(run), np.arange(first, self.steps))))
        except Exception as error:  # of any library
            raise ReportError(OUTPUT, f"{self.name}: cannot log ({reason_of(error)})") from error

    def finish(self, is_complete):
        if self.steps is not None:
            self.steps = None
            self.tracker.finish(is_complete)
