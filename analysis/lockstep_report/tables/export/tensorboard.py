# SPDX-License-Identifier: BSD-3-Clause
"""Export of scalars to event files of TensorBoard with tensorboardX: one folder per run."""

import tempfile
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from lockstep_report.errors import require
from lockstep_report.measure.step_times import all_step_seconds

OF_EPOCHS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


def write(folder, runs, selection):
    tensorboard = require("tensorboardX", "export to TensorBoard", "pip install tensorboardX, or export to CSV")
    for name, run in selection.named(runs):
        own = folder.subfolder(name)
        begin = begin_of(run)
        own.write(f"events.out.tfevents.{int(begin):010d}.lockstep",
                  event_file(tensorboard, begin, scalars(run, begin, selection.steps_of(run))), own.kinds[0])
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
    """Yields (time, step, {tag: finite value}) of the steps; the last step of an epoch has the values of the epoch too.
    The time is the begin of the run plus the duration of the steps."""
    seconds = all_step_seconds(run)
    phases = run.phase_seconds[steps].mean(axis=1)
    time = begin + np.cumsum(seconds)
    last = {int(np.flatnonzero(run.epoch == number)[-1]): row
            for row, number in enumerate(run.epoch_numbers) if np.any(run.epoch == number)}
    for index, of_phases in zip(steps, phases):
        values = {
            "step/loss": run.loss[index], "step/learning_rate": run.learning_rate[index],
            "step/seconds": seconds[index],
            "step/images_per_second": run.images[index] / seconds[index] if seconds[index] else 0,
            **{f"phase_seconds/{name}": value for name, value in zip(run.phases, of_phases)}}
        if index in last:
            values |= {f"epoch/{name}": run.epochs[name][last[index]] for name in OF_EPOCHS if name in run.epochs}
        known = {tag: float(value) for tag, value in values.items() if np.isfinite(value)}
        yield time[index], int(run.step[index]) + 1, known


def event_file(tensorboard, begin, values):
    """Returns the bytes of an event file. The writers of tensorboardX record the present time; here the same run
    gives the same bytes."""
    event, summary = tensorboard.proto.event_pb2.Event, tensorboard.proto.summary_pb2.Summary
    with tempfile.TemporaryDirectory(prefix="lockstep-report-") as scratch:
        path = Path(scratch) / "events"
        writer = tensorboard.record_writer.RecordWriter(str(path))
        writer.write(event(wall_time=begin, file_version="brain.Event:2").SerializeToString())
        for time, step, tags in values:
            found = summary(value=[summary.Value(tag=tag, simple_value=value) for tag, value in tags.items()])
            writer.write(event(wall_time=time, step=step, summary=found).SerializeToString())
        writer.close()
        return path.read_bytes()
