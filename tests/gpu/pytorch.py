# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch as the reference for the throughput: processes of tests/bench/pytorch_gpu.py that warm up
once and then measure a variant on request."""

import signal
import time

from measures import Unreadable, parse_json_lines
from running import InteractiveProcess

MEASURE_SECONDS = 1.2  # minimum duration of a measurement, which trains whole epochs
INTERRUPT_SECONDS = 10  # additional time after SIGUSR1 has abandoned a variant
NOT_READY = "not ready in time"


def is_usable(context, report):
    """Returns whether a PyTorch with all required features is installed; otherwise reports it. The
    program that imports PyTorch runs once per call."""
    if context.pytorch_problem is None:
        outcome = context.run("pytorch features", context.programs.torch_features, 60)
        found = parse_json_lines(outcome.stdout)
        report.numbers["pytorch"] = found
        if not outcome.ok or "missing" not in found:
            context.pytorch_problem = f"{outcome.reason} {outcome.tail[-200:]}"
        else:
            missing = ", ".join(found["missing"])
            context.pytorch_problem = missing and f"version {found['torch']} lacks {missing}"
    if context.pytorch_problem:
        report.not_run("PyTorch", context.pytorch_problem)
    return not context.pytorch_problem


class PytorchProcess:
    """A process with some variants at one batch size. It waits for requests to measure a variant."""

    def __init__(self, context, batch, variants):
        self.name, self.variants = f"pytorch {batch}", variants
        self.ready, self.errors = [], {}  # variants that are ready; reasons of those that are not
        self.process = InteractiveProcess(context.runner, self.name, [
            *context.programs.torch, "speed", "--data", str(context.args.data), "--batch",
            str(batch), "--variants", *variants])

    def wait_for_warm_up(self, seconds):
        """Waits until every variant is ready or has failed. After `seconds`, abandons the variants
        that are not ready."""
        deadline, is_interrupted, reply = time.monotonic() + seconds, False, {}
        while "all_ready" not in reply:
            try:
                line = self.process.read(deadline - time.monotonic())
            except TimeoutError:
                if not self.ready or is_interrupted:
                    return self.stop(NOT_READY)
                # SIGUSR1 abandons the variant that is warming up; the ready variants remain.
                is_interrupted, deadline = True, time.monotonic() + INTERRUPT_SECONDS
                self.process.process.send_signal(signal.SIGUSR1)
                continue
            if line is None:
                return self.stop(f"the program ended: {self.process.tail[-300:]}")
            reply = parse_json_lines(line)
            if "ready" in reply:
                self.ready.append(reply["ready"])
            elif "failed" in reply:
                self.errors[reply["failed"]] = (NOT_READY if is_interrupted
                                                else reply.get("error", "")[-300:])

    def stop(self, reason="stopped"):
        """Ends the process. `reason` becomes the error of all variants that have none."""
        self.process.stop()
        self.ready = []
        for variant in self.variants:
            self.errors.setdefault(variant, reason)

    def measure(self, variant, limit):
        """Returns the images/s of each epoch of one measurement. Raises Unreadable if it fails."""
        try:
            self.process.write(f"{variant} {MEASURE_SECONDS}")
            line = self.process.read(limit)
        except (OSError, TimeoutError) as error:
            self.stop()
            raise Unreadable(f"{self.name}: {error}") from None
        rates = parse_json_lines(line or "").get("images_per_second")
        if not rates:
            self.stop()
            raise Unreadable(f"{self.name}: the program ended during a measurement: "
                             f"{self.process.tail[-300:]}")
        return rates
