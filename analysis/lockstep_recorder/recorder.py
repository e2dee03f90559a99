# SPDX-License-Identifier: BSD-3-Clause
"""`Recorder`: records the phases of the training steps of a PyTorch program in a run file."""

import resource
import time
import warnings
from contextlib import nullcontext, suppress

import torch
import torch.distributed as dist
from lockstep_report.runfile.schema import PHASES
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from lockstep_recorder import facts
from lockstep_recorder.batches import images_of, moved
from lockstep_recorder.buckets import timer_of
from lockstep_recorder.meeting import Meeting
from lockstep_recorder.recording import Recording
from lockstep_recorder.run_file import last_writer
from lockstep_recorder.steps import CudaClock, HostClock, Step, values_of

START_LIMIT = 30  # seconds between the first and the last process that create the Recorder
NO_LENGTH = (TypeError, NotImplementedError, AttributeError)  # of len() of loaders and datasets


class Epoch:
    """The batches of an epoch. The length is for progress bars, such as that of tqdm."""

    def __init__(self, begin, loader):
        self.begin, self.loader = begin, loader

    def __iter__(self):
        return self.begin()

    def __len__(self):
        return len(self.loader)


class Recorder:
    """Records a training in the run file `path`, which rank 0 writes.

        with Recorder("run.h5", model, network="resnet18-cifar", data="cifar10") as recorder:
            for epoch in range(epochs):
                for images, labels in recorder.batches(loader, device):
                    optimizer.zero_grad()
                    recorder.backward(criterion(model(images), labels))
                    optimizer.step()

    `model`: the `DistributedDataParallel` or `DataParallel` that is trained; with one process, any
    module. `network`, `data`: their names, as in the options of Lockstep. `precision`: fp32, tf32,
    bf16 or fp16. `accumulate`: batches per update (gradient accumulation). `comm_hook`: (state,
    hook) that reduces the gradients instead of an all-reduce. `options`: further settings; runs
    that differ in one of them are no repeats. Collective: all processes must call the constructor,
    read all batches, and call `close`.
    """

    def __init__(
        self,
        path,
        model,
        *,
        network,
        data="",
        precision="fp32",
        accumulate=1,
        comm_hook=None,
        overwrite=False,
        **options,
    ):
        model = facts.plain_model(model)
        is_parallel = isinstance(model, DistributedDataParallel)
        self._path, self._model = path, model
        self._group = model.process_group if is_parallel else None
        self._rank = dist.get_rank(self._group) if is_parallel else 0
        self._meeting = Meeting(self._group) if is_parallel else None
        self._accumulate = accumulate
        self._clock = CudaClock() if facts.device_of(model).type == "cuda" else HostClock()
        self._config = facts.config_of(model, comm_hook) | {
            "model": network,
            "data": data,
            "precision": precision,
            "accumulate": str(accumulate),
            **{name.replace("_", "-"): str(value) for name, value in options.items()},
        }
        self._ranks = self._gathered(
            facts.rank_facts(model),
            "created it",
            "all processes must create the Recorder, not rank 0 alone, directly after "
            "DistributedDataParallel(...); rank 0 writes the file",
            limit=START_LIMIT,
        )
        self._step, self._steps, self._epoch = None, [], 0
        self._is_open, self._losses_before = False, 0
        # Bytes per element if the gradients are sent in another type than that in which they are
        # computed.
        self._width = (
            facts.WIDTHS.get(self._config["gradient-dtype"])
            if comm_hook or "gradient_dtype" in options
            else None
        )
        self.computed, self.is_timing = None, False
        self._reserve(path, overwrite)
        self._timer = None
        if is_parallel and len(self._ranks) > 1:
            self._timer = timer_of(model, *(comm_hook or (self._group, allreduce_hook)))
            self._timer.owner = self

    def batches(self, loader, device=None, images=None):
        """Returns an iterable of the batches of an epoch, moved to `device` if it is given, with
        the length of the loader. `images`: number of images of a batch, or a function that returns
        it [first dimension of the first tensor of the batch]. After `break`, the epoch has the
        steps up to it."""
        return Epoch(lambda: self._batches_of(loader, device, images), loader)

    def _batches_of(self, loader, device, images):
        self._finish_epoch()
        self._begin_epoch(loader)
        epoch, is_trained = self._epoch, True
        for batch in loader:
            self._require(is_trained)
            is_trained = False
            if self._step is None:
                self._step = Step(self._last)
            self._mark("data_wait")
            if device is not None:
                batch = moved(batch, device)
                self._mark("upload")
            self._step.images += images_of(batch, images)
            before = self._losses_before = len(self._step.losses)
            try:
                yield batch
            finally:  # also after `break`, or later, if something refers to this generator
                is_current = epoch == self._epoch and self._step is not None
                is_trained = is_current and len(self._step.losses) > before
                if is_trained:
                    self._end_batch()
            if not is_current:
                raise RuntimeError(
                    "Recorder: batches, evaluated or close was called within the loop over"
                    " Recorder.batches; call it after the loop, and use one Recorder per loop"
                )
        self._require(is_trained)
        self._end_step()
        self._is_complete = True
        if not facts.is_joined(self._model):
            self._finish_epoch()

    def backward(self, loss, scaled=None, **options):
        """Runs `loss.backward(**options)`, or that of `scaled` if it is given, the loss with the
        factor of a `GradScaler`."""
        if self._step is None:
            raise RuntimeError("Recorder.backward: call it in the loop over Recorder.batches")
        if self._timer is not None and self._timer.owner is not self:
            raise RuntimeError(
                "Recorder.backward: a later Recorder records this model; use one Recorder after the"
                " other"
            )
        step, first = self._step, len(self._step.buckets)
        self._mark("forward")
        self.computed, self.is_timing = None, True
        try:
            (loss if scaled is None else scaled).backward(**options)
        finally:
            self.is_timing = False
        step.marks.append((PHASES.index("backward"), [self.computed or self._clock.stamp()]))
        if len(step.buckets) > first:
            step.marks.append(
                (
                    PHASES.index("exposed_communication"),
                    [ends[0] for _, _, ends in step.buckets[first:]],
                )
            )
        step.losses.append(loss.detach())
        self._ended, self._cpu_ended = time.monotonic(), time.process_time()

    def evaluated(self, accuracy, loss=float("nan")):
        """Records the test accuracy (0 to 1) and the test loss after an epoch. Collective after
        `break`, and with `Join`; otherwise rank 0 can call it alone. The values are those of rank
        0."""
        if self._epoch == 0:
            raise RuntimeError("Recorder.evaluated: call it after an epoch")
        self._finish_epoch()
        if self._rank == 0 and not 0 <= accuracy <= 1:
            raise ValueError(
                f"Recorder.evaluated: the accuracy is a share from 0 to 1, not {float(accuracy):g};"
                " divide percent by 100"
            )
        if self._rank == 0 and self._recording.is_created:
            self._recording.replace_last(
                {
                    "/epochs/test_accuracy": float(accuracy),
                    "/epochs/test_loss": float(loss),
                    "/epochs/evaluation_seconds": time.monotonic() - self._ended,
                }
            )

    def close(self):
        """Completes the run file."""
        self._finish_epoch()
        self._close(*self._outcome())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        """Without an exception, completes the run file; with one, the file has the epochs before
        it."""
        if kind is None:
            self.close()
        elif kind is SystemExit and error.code in (None, 0):
            self._close(*self._outcome())
        else:
            self._close("failed", f"{kind.__name__}: {error}".removesuffix(": "))

    # For the timer of the buckets.

    def stamp(self):
        return self._clock.stamp()

    def end_computation(self):
        self.computed = self._clock.stamp()

    def add_bucket(self, buffer, ends):
        size = buffer.numel() * (self._width or buffer.element_size())
        self._step.buckets.append((size, self._clock.stamp(), ends))

    def _outcome(self):
        return self._recording.outcome() if self._rank == 0 else ("complete", "")

    def _close(self, status, failure):
        if self._rank == 0:
            if status == "complete" and not self._recording.is_created:
                warnings.warn(
                    f"Recorder: no epoch was recorded, so {self._path} is not written", stacklevel=3
                )
            self._recording.close(status, failure)

    def _reserve(self, path, overwrite):
        """Creates the recording of rank 0. Raises its error on all ranks."""
        self._recording, failure = None, None
        if self._rank == 0:
            try:
                environment = facts.environment_of(self._model)
                on_cuda = isinstance(self._clock, CudaClock)
                writer = last_writer(path, overwrite)
                self._recording = Recording(writer, self._config, environment, self._ranks, on_cuda)
            except Exception as error:  # of any type, because the other ranks wait
                failure = error
        failure = self._gathered(failure)[0]
        if failure is not None:
            raise failure

    def _gathered(
        self,
        value,
        what="reached this point",
        advice="all processes must call the same functions",
        **limits,
    ):
        """Returns the values of all ranks. Collective: waits for processes that are late, and then
        raises an error (`Meeting`)."""
        if self._group is None:
            return [value]
        self._meeting.wait(what, advice, **limits)
        values, device = [None] * dist.get_world_size(self._group), facts.device_of(self._model)
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            dist.all_gather_object(values, value, group=self._group)
        return values

    def _mark(self, phase):
        self._step.marks.append((PHASES.index(phase), [self._clock.stamp()]))

    def _require(self, is_trained):
        if not is_trained:
            raise RuntimeError(
                "Recorder: the loop over Recorder.batches must call Recorder.backward(loss) for"
                " each batch, instead of loss.backward(); an evaluation reads its loader directly"
            )

    def _begin_epoch(self, loader):
        try:
            self._steps_per_epoch = -(-len(loader) // self._accumulate)
        except NO_LENGTH:  # its length is unknown before the first epoch
            self._steps_per_epoch = 0
        with suppress(NO_LENGTH):
            self._config["train-samples"] = str(len(loader.dataset))
        self._epoch += 1
        self._steps, self._step, self._count = [], None, 0
        self._is_complete, self._is_open = False, True
        self._clock.begin_epoch()
        self._ended, self._cpu_ended = time.monotonic(), time.process_time()
        self._cpu = self._cpu_ended
        self._last = self._clock.stamp()

    def _end_batch(self):
        self._mark("update")
        self._last = self._step.marks[-1][1][0]
        self._ended, self._cpu_ended = time.monotonic(), time.process_time()
        self._count_batch()

    def _count_batch(self):
        self._count += 1
        if self._count % self._accumulate == 0:
            self._end_step()

    def _end_step(self):
        if self._step is not None:
            self._steps.append(self._step)
            self._step = None

    def _finish_epoch(self):
        """Gathers the steps of an epoch that has not been gathered, and appends them to the file.
        Collective once per epoch."""
        if not self._is_open:
            return
        if self._step is not None and len(self._step.losses) > self._losses_before:
            # the loop was left, and something refers to the iterator, which does not see it
            self._count_batch()
        self._is_open, self._step = False, None  # of an iteration that was left before its end
        steps, self._steps = self._steps, []
        measured = {
            "cpu_seconds": self._cpu_ended - self._cpu,
            "peak_resident_memory_bytes": (
                1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            ),
        }
        found = self._gathered(
            (values_of(steps, self._clock), measured, self._clock.error),
            f"ended epoch {self._epoch}",
            "all processes must read all batches from Recorder.batches",
        )
        if self._rank == 0:
            self._recording.append(self._epoch, found, self._steps_per_epoch, self._is_complete)
