# SPDX-License-Identifier: BSD-3-Clause
"""Times the all-reduces of a `DistributedDataParallel` with a communication hook."""

import weakref

from torch.autograd import Variable

timers = weakref.WeakKeyDictionary()  # {model: timer}; a model accepts one hook


class BucketTimer:
    """Calls the communication hook `hook` with `state`, and records in the steps of `owner` when
    each bucket arrives and is reduced. `owner`: the last Recorder of the model."""

    def __init__(self, state, hook):
        self.state, self.hook, self.owner = state, hook, None

    def time(self, _, bucket):
        # A backward pass that does not belong to a step.
        if self.owner is None or not self.owner.is_timing:
            return self.hook(self.state, bucket)
        owner, ends = self.owner, []
        owner.add_bucket(bucket.buffer(), ends)
        if bucket.is_last():
            # The callback runs at the end of the pass in which this bucket is complete, before DDP
            # waits for the buckets. With reentrant checkpoints, that is one of several nested
            # passes.
            owner.end_computation()
            Variable._execution_engine.queue_callback(owner.end_computation)

        def ended(future):
            value = future.value()
            ends.append(owner.stamp())
            return value

        return self.hook(self.state, bucket).then(ended)


def timer_of(model, state, hook):
    """Returns the timer of the model, which it registers if there is none. Raises `RuntimeError` if
    the model has another hook, and `TypeError` if it calls no hook with buckets."""
    if getattr(model, "_use_python_reducer", False):
        raise TypeError(
            'Recorder: with torch._dynamo.config.optimize_ddp = "python_reducer" there are no'
            ' buckets to time; use "ddp_optimizer", the default'
        )
    advice = (
        "give a communication hook to the Recorder, comm_hook=(state, hook), instead of to the"
        " model"
    )
    timer = timers.get(model)
    if timer is not None:
        if timer.hook is not hook:
            raise RuntimeError(
                f"Recorder: an earlier Recorder of the model has another comm_hook; {advice}, and"
                " always the same"
            )
        return timer
    timer = BucketTimer(state, hook)
    try:
        model.register_comm_hook(None, timer.time)
    except RuntimeError as error:
        raise RuntimeError(f"Recorder: {advice} ({error})") from error
    timers[model] = timer
    return timer
