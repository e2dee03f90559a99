# SPDX-License-Identifier: BSD-3-Clause
"""Estimates how long the points of a study take, from a timed step on this machine. The estimates
include the start of the program, but no communication."""

import re
import time
from dataclasses import dataclass

from lockstep_study.command import groups, name_of, without
from lockstep_study.errors import StudyError
from lockstep_study.experiment import experiment
from lockstep_study.machine import can_start
from lockstep_study.points import integer, option_value

STEP_LIMIT = 30  # seconds; a step that takes longer is not timed
LARGEST_BATCH = 32  # of a timed step: larger ones are not much faster per image
# Options of a timed step that are given with values of their own.
OWN = ("--batch-per-rank", "--global-batch", "--threads", "--micro-batches", "--profile")
KEPT = ("--config", "--test-samples")
VALUE = re.compile(r'^ *"(images_per_second|train-samples|test-samples)": "?([0-9.e+]+)"?,?$', re.M)
SWEEP_BYTES = 4 << 20  # largest message of a short sweep
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
FORWARD_SHARE = 1 / 3  # of a training step, which an evaluation also takes


@dataclass
class Processors:
    """Processors that the ranks of a point share (`shared`), or, if 0, that each rank has for
    itself (`per_rank`)."""

    shared: int = 0
    per_rank: int = 0

    def threads(self, ranks):
        return self.per_rank or max(1, self.shared // ranks)

    def slowdown(self, ranks, threads):
        return max(1.0, ranks * threads / self.shared) if self.shared else 1.0


class Estimator:
    """Estimates durations. `launch(ranks)` returns the command that starts ranks; None if ranks
    cannot be started here."""

    def __init__(self, commands, processors, launch=None):
        self.commands, self.processors, self.launch = commands, processors, launch
        self.timed = {}  # command of timed steps -> the values that it printed

    def seconds(self, point):
        """Returns the estimated duration of a point, or None if it is unknown."""
        if point.command in ("train", "ladder"):
            return self.training_seconds(point)
        if point.command == "allreduce":
            return self.sweep_seconds(point)
        return None

    def training_seconds(self, point):
        if not self.commands.programs.read_options("train"):
            return None
        try:
            text = experiment(self.commands, point, 1, "")
        except StudyError:
            return None
        config = dict(line.partition("=")[::2] for line in text.splitlines())
        if config.get("pipeline-stages", "1") != "1":
            return None
        threads = integer(config.get("threads")) or self.processors.threads(point.ranks)
        batch = integer(config.get("batch-per-rank")) or LARGEST_BATCH
        values = self.time_step(point, min(batch, LARGEST_BATCH), threads)
        if not values.get("images_per_second"):
            return None
        images = images_of_training(config, values)
        if point.command == "ladder":
            images = images_of_ladder(config, values)
        rate = values["images_per_second"] / self.processors.slowdown(point.ranks, threads)
        return values["start"] + images / point.ranks / rate

    def time_step(self, point, batch, threads):
        """Returns what a training with the options of the point that affect times prints after one
        timed step of one rank, and the seconds until then as `start`."""
        programs = self.commands.programs
        kept = {*KEPT, *programs.options.affecting_time}.difference(OWN)
        words = [
            word
            for group in groups(self.commands.merge(point).words[1:])
            if name_of(group) in kept
            for word in group
        ]
        own = ["--batch-per-rank", str(batch), "--threads", str(threads), "--steps", "2"]
        command = ("train", *words, *own, "--evaluate-every", "never", "--json")
        if command not in self.timed:
            begin = time.monotonic()
            answer = programs.run(programs.lockstep(), *command, timeout=STEP_LIMIT)
            start = time.monotonic() - begin
            found = VALUE.findall(answer.stdout) if answer.returncode == 0 else ()
            self.timed[command] = {name: float(value) for name, value in found} | {"start": start}
        return self.timed[command]

    def sweep_seconds(self, point):
        """Returns the duration of an all-reduce sweep from the wall times of two short ones with
        the same ranks: beyond the start of the program, it grows with the bytes of the messages."""
        words = self.commands.merge(point).words
        smallest = bytes_of(option_value(words, "--min-bytes") or "1K")
        largest = bytes_of(option_value(words, "--max-bytes") or "64M")
        factor = integer(option_value(words, "--step-factor") or "4")
        if (
            self.launch is None
            or not can_start(point.ranks)
            or factor < 2
            or not smallest
            or not largest
        ):
            return None
        short = max(smallest, min(largest, SWEEP_BYTES))
        start, seconds = (self.time_sweep(point, words, most) for most in (smallest, short))
        if start is None or seconds is None:
            return None
        timed, all_bytes = (bytes_of_sweep(smallest, most, factor) for most in (short, largest))
        return start + max(0.0, seconds - start) * all_bytes / timed

    def time_sweep(self, point, words, largest):
        """Returns the wall time of a sweep with messages up to `largest`, or None if it fails."""
        programs = self.commands.programs
        own = without(words, "--max-bytes")
        start = (*self.launch(point.ranks), programs.lockstep())
        command = (*start, *own, "--max-bytes", str(largest), "--json")
        if command not in self.timed:
            begin = time.monotonic()
            environment = programs.environment_of(point.ranks)
            answer = programs.run(*command, env=environment, timeout=STEP_LIMIT)
            seconds = time.monotonic() - begin
            self.timed[command] = seconds if answer.returncode == 0 else None
        return self.timed[command]


def images_of_training(config, values):
    """Returns the images of all ranks that a training computes, evaluations counted as their share
    of a step."""
    steps, epochs = integer(config.get("steps")), integer(config.get("epochs"))
    if steps:
        images = steps * integer(config.get("global-batch"))
    else:
        images = epochs * values.get("train-samples", 0)
    every = config.get("evaluate-every")
    evaluations = 0
    if every != "never":
        evaluations = 1 if steps or every == "0" else epochs // max(1, integer(every))
    return images + evaluations * values.get("test-samples", 0) * FORWARD_SHARE


def images_of_ladder(config, values):
    """Returns the images of a batch ladder that memory does not stop: every batch per rank, four
    times as large as the one before, that does not exceed the training images."""
    samples, batch = values.get("train-samples", 0), integer(config.get("ladder-start")) or 32
    images, steps = 0, integer(config.get("steps"))
    while batch <= samples:
        images += steps * batch if steps else integer(config.get("epochs")) * samples
        batch *= 4
    return images


def bytes_of_sweep(smallest, largest, factor):
    """Returns the sum of the sizes of the messages."""
    total = 0
    while smallest <= largest:
        total += smallest
        smallest *= factor
    return total


def bytes_of(text):
    """Returns the bytes of a size such as 64M; 0 if it has another form."""
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?B?)", text.replace("iB", ""))
    return int(found[1]) * UNITS.get(found[2], 1) if found else 0


def known(estimates):
    """Returns the sum of the durations that are known, or None if none is."""
    found = [seconds for seconds in estimates if seconds is not None]
    return sum(found) if found else None


def total(estimates):
    """Returns the duration of several runs as text, and how many of them are unknown."""
    unknown = sum(seconds is None for seconds in estimates)
    text = duration(known(estimates))
    return f"{text}, and {unknown} of unknown duration" if 0 < unknown < len(estimates) else text


def duration(seconds):
    """Returns a duration as text; "duration unknown" for None."""
    if seconds is None:
        return "duration unknown"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
