"""PyTorch as the reference for the throughput: processes of tests/bench/pytorch_gpu.py that warm up
once and then measure a variant on request."""

import json
import signal
import time

from measures import Unreadable, parse_json_lines
from running import InteractiveProcess

MEASURE_SECONDS = 1.2  # minimum duration of a measurement, which trains whole epochs
INTERRUPT_SECONDS = 10  # additional time after SIGUSR1 has abandoned a variant
NOT_READY = "not ready in time"


def find_problem(context, report):
    """Returns why the installed PyTorch cannot be used, or an empty string."""
    outcome = context.run("pytorch features", context.programs.torch_features, 60)
    found = parse_json_lines(outcome.stdout)
    report.numbers["pytorch"] = found
    if not outcome.ok or "missing" not in found:
        return f"{outcome.failure} {outcome.tail[-200:]}"
    missing = ", ".join(found["missing"])
    return f"version {found['torch'] or '(none)'} lacks {missing}" if missing else ""


def is_usable(context, report):
    """Returns whether a PyTorch with all required features is installed; otherwise reports it. The
    program that imports PyTorch runs once per call."""
    if context.pytorch_problem is None:
        context.pytorch_problem = find_problem(context, report)
    if context.pytorch_problem:
        report.not_run("PyTorch", context.pytorch_problem)
    return not context.pytorch_problem


def json_object(line):
    """Returns the JSON object in `line`, or an empty dictionary if it has none."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


class PytorchProcess:
    """A process with some variants at one batch size. It waits for requests to measure a variant."""

    def __init__(self, context, batch, variants):
        self.name, self.batch = f"pytorch {batch} {variants[0]}", batch
        self.variants = list(variants)
        self.ready, self.errors = [], {}  # variants that are ready; reasons of those that are not
        self.is_warmed_up = False
        command = [*context.programs.torch, "speed", "--data", str(context.args.data), "--batch",
                   str(batch), "--variants", *variants]
        try:
            self.process = InteractiveProcess(context.runner, self.name, command)
        except OSError as error:
            self.process = None
            self.stop(f"cannot be started: {error.strerror or error}")

    def wait_for_warm_up(self, seconds):
        """Waits until every variant is ready or has failed. After `seconds`, abandons the variants
        that are not ready."""
        deadline, is_interrupted = time.monotonic() + seconds, False
        while not self.is_warmed_up:
            try:
                line = self.process.read(deadline - time.monotonic())
            except TimeoutError:
                if not self.ready or is_interrupted:
                    self.stop(NOT_READY)
                    return
                # SIGUSR1 abandons the variant that is warming up; the ready variants remain.
                is_interrupted, deadline = True, time.monotonic() + INTERRUPT_SECONDS
                self.process.send_signal(signal.SIGUSR1)
                continue
            if line is None:
                self.stop(f"the program ended: {self.process.tail[-300:]}")
                return
            reply = json_object(line)
            if "ready" in reply:
                self.ready.append(reply["ready"])
            elif "failed" in reply:
                self.errors[reply["failed"]] = (NOT_READY if is_interrupted
                                                else reply.get("error", "")[-300:])
            self.is_warmed_up = "all_ready" in reply

    def stop(self, reason="stopped"):
        """Ends the process. `reason` becomes the error of all variants that have none."""
        if self.process is not None:
            self.process.stop()
        self.is_warmed_up, self.ready = True, []
        for variant in self.variants:
            self.errors.setdefault(variant, reason)

    def measure(self, variant, limit):
        """Returns the images/s of each epoch of one measurement. Raises Unreadable if it fails."""
        try:
            self.process.write(f"{variant} {MEASURE_SECONDS}")
            line = self.process.read(limit)
        except (OSError, TimeoutError) as error:
            self.stop(str(error))
            raise Unreadable(f"{self.name}: {error}") from None
        rates = json_object(line or "").get("images_per_second")
        if not rates:
            tail = self.process.tail[-300:]
            self.stop("the program ended")
            raise Unreadable(f"{self.name}: the program ended during a measurement: {tail}")
        return rates
