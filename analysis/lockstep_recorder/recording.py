# SPDX-License-Identifier: BSD-3-Clause
"""`Recording`: the run file of a training, which rank 0 writes."""

import os
import warnings
from datetime import datetime, timezone

import numpy as np
import torch
from lockstep_report.runfile.schema import PHASES

from lockstep_recorder import facts
from lockstep_recorder.shape import Shape
from lockstep_recorder.steps import epoch_columns, refitted


class Recording:
    """Appends epochs to a run file, and creates it again if an epoch has another shape than those
    before. `config`: the settings, which the recorder completes later. `ranks`: the facts of all
    ranks. `on_cuda`: whether the phases are measured on a GPU.
    """

    def __init__(self, writer, config, environment, ranks, on_cuda):
        self._writer, self._config, self._environment = writer, config, environment
        self._ranks, self._on_cuda = ranks, on_cuda
        self._warnings, self._is_diverged = [], False
        self._shape, self._begun, self._written = Shape(), None, 0

    @property
    def is_created(self):
        return self._writer.is_created

    def append(self, epoch, found, steps_per_epoch, is_complete):
        """Appends an epoch with the values of all ranks, `found`: [(values, measured, clock
        error)]. `is_complete`: all batches were read."""
        count = self._common_steps(epoch, [len(of.images) for of, *_ in found])
        if count == 0:
            return
        counted = [of.images[:count] for of, *_ in found]
        images = np.sum(counted, axis=0)
        largest, sizes = max(map(max, counted)), found[0][0].sizes[:count]
        before = self._shape
        self._shape = before.with_epoch(images, largest, sizes, steps_per_epoch, is_complete)
        buckets = len(self._shape.buckets)
        columns = epoch_columns(epoch, found, self._ranks, buckets, self._on_cuda)
        losses = torch.as_tensor(columns["/steps/loss"])
        self._is_diverged |= not all(map(torch.isfinite, losses))
        if self._shape.stated != before.stated:
            self._create(set(columns), buckets)
        columns["/step"] += self._written
        self._written += len(images)
        self._writer.append(columns)

    def replace_last(self, values):
        """Replaces values of the last epoch."""
        self._writer.replace_last(values)

    def outcome(self):
        """Returns the status of a training that has ended, and why it failed."""
        return ("failed", "the loss is not finite") if self._is_diverged else ("complete", "")

    def close(self, status, failure):
        self._writer.close(
            {"/environment": {"warnings": "\n".join(self._warnings)}},
            status=status,
            failure=failure,
        )

    def _common_steps(self, epoch, counts):
        """Returns the number of steps that all ranks trained; warns if some trained more, or if
        there are none."""
        if min(counts) < max(counts):
            self._warn(
                epoch,
                f"the ranks trained {min(counts)} to {max(counts)} steps; the run file has the"
                f" first {min(counts)}",
            )
        elif max(counts) == 0:
            self._warn(epoch, "the loader has no batch; the run file lacks it")
        return min(counts)

    def _warn(self, epoch, text):
        self._warnings.append(f"epoch {epoch}: {text}")
        warnings.warn(f"Recorder: {self._warnings[-1]}", stacklevel=2)

    def _create(self, measured, buckets):
        """Creates the run file, or replaces it with one for the current shape. `measured`: the
        datasets of an epoch; `buckets`: their number."""
        now = datetime.now(timezone.utc)
        self._begun = self._begun or {
            **facts.program(),
            "date_utc": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "run_id": (
                f"{now.strftime('%Y%m%dT%H%M%S.%fZ')}-{self._ranks[0]['hostname']}-{os.getpid()}"
            ),
        }
        shape = self._shape
        attributes = self._begun | {
            "steps_per_epoch": shape.steps,
            "images_per_epoch": shape.images,
        }
        config = self._config | {
            "batch-per-rank": str(shape.batch_per_rank),
            "global-batch": str(shape.global_batch),
        }
        fixed = {
            "/phase": PHASES,
            "/clock_reading": ("begin", "end"),
            **facts.rank_columns(self._ranks),
        }
        if buckets:
            fixed |= {"/bucket": range(buckets), "/buckets/bytes": shape.buckets}
        rows = refitted(self._writer.rows(), buckets) if self._writer.is_created else None
        self._writer.create(
            attributes,
            {"/config": config, "/environment": self._environment},
            fixed,
            measured,
            shape.steps,
            rows,
        )
