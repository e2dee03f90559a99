# SPDX-License-Identifier: BSD-3-Clause
"""A `Point`: the measurements at one rank count and batch, from run files or from a CSV."""

from dataclasses import dataclass, field

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure import choices, metrics, validity
from lockstep_report.measure.contention import (
    COMPUTE_PHASES,
    contention_notes,
    known_reading,
    lack_of,
)
from lockstep_report.measure.inference import Interval, series_interval
from lockstep_report.measure.link_bytes import link_bytes
from lockstep_report.measure.step_notes import epoch_notes, step_notes
from lockstep_report.measure.stragglers import COMPUTATION, slow_work
from lockstep_report.measure.waiting import (
    MOST_STEPS,
    Split,
    all_reduce_busy_seconds,
    split_of,
    times_of,
)
from lockstep_report.measure.window import (
    batch_per_rank,
    epoch_rate,
    step_seconds,
    timed_seconds,
    timed_window,
)
from lockstep_report.runfile import settings
from lockstep_report.runfile.experiment import HOSTS, LOCKSTEP, program_of, results_of, variant_of
from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.runfile.stored import BlockSum, blocks

IMBALANCE = "imbalance"  # time of the slowest rank less the means of the phases


@dataclass(frozen=True, eq=False)  # points are keys by identity
class Point:
    """One row of the tables. Seconds are per epoch, except `step_*`; None means unknown."""

    source: str
    ranks: int
    batch_per_rank: int
    epoch_seconds: float  # including all phases
    setting: tuple = ()  # must be equal for two points to be compared: model, device, ...
    variant: frozenset = frozenset()  # other properties that affect the time
    others: frozenset = frozenset()  # properties that affect only the results
    detail: str = ""  # properties in which points of the setting differ, as text
    is_of_hosts: bool = (
        False  # whether points that differ only in their hosts are in several series
    )
    reducer: str = ""
    gradient_dtype: str = ""
    training_seconds: float = None  # excludes data_wait
    images_per_second: float = None
    images: int = None  # per epoch
    steps: int = None  # per epoch
    step_median: float = None
    step_interval: Interval = None  # over the steps of one run
    epoch_interval: Interval = None  # over repeated runs
    phase_seconds: dict = None  # phase -> mean over ranks; also the imbalance
    slow_seconds: float = None  # computation of slow ranks beyond the median rank, mean over ranks
    allreduce_seconds: float = None  # mean over ranks
    split: Split = None  # waiting and transfer of each rank, the parts of the all-reduce
    bytes_per_step: int = None  # bytes all-reduced per step
    link_bytes: float = None  # of these, over the link of a host that carries most; None if unknown
    sent_bytes: float = None  # in messages of a step, of the rank that sends most
    received_bytes: float = None  # the same for the bytes received
    all_sent_bytes: float = None  # in messages of a step, sum over the ranks
    joules_per_image: float = None  # summed over all devices
    measurements: dict = field(
        default_factory=dict
    )  # name -> maximum over ranks, of one epoch, if all ranks measured it
    lacks: dict = field(default_factory=dict)  # run -> contention.Lack, if it is significant
    link_gbit: float = None  # rate of the link that was given to the run
    hosts: tuple = ()  # host names
    host_count: int = None
    threads: int = None  # CPU threads per rank, if they compute
    processors: int = None  # processors on which the ranks of the first host may run
    cores: int = None  # physical cores of these processors
    program: str = LOCKSTEP
    version: str = ""  # version of the program
    algorithm: str = ""  # of the all-reduce, with its library
    kernels: tuple = ()  # (operation, implementation) pairs
    status: str = "complete"  # of the run
    repeats: int = 1
    repeated_epochs: tuple = ()  # epoch_seconds of each of several runs
    repeated_sources: tuple = ()  # names of these runs
    rule: str = ""  # how the timed steps were selected
    scaled: bool = False  # times are scaled because the run has no complete epoch
    notes: tuple = ()  # validity notes, one sentence each

    @property
    def global_batch(self):
        return round(self.ranks * self.batch_per_rank)

    @property
    def mean_step(self):
        """The mean step time in seconds; None if the number of steps is unknown."""
        return self.epoch_seconds / self.steps if self.steps else None

    @property
    def epoch_repeats(self):
        return self.repeated_epochs or (self.epoch_seconds,)

    @property
    def sources(self):
        return self.repeated_sources or (self.source,)

    @property
    def is_independent(self):
        """True for independent replicas: several ranks without communication."""
        return self.reducer == "none" and self.ranks > 1

    @property
    def is_pipeline(self):
        """Whether the ranks hold stages of the network."""
        return dict(self.variant).get("pipeline-stages", "1") != "1"

    @property
    def lacks_processors(self):
        """Whether the ranks lacked processors in at least half of the runs."""
        return bool(self.lacks) and 2 * len(self.lacks) >= self.repeats

    def link_rate(self, given=None):
        """Returns the rate of the link between the ranks in Gbit/s, `given` or that of the run;
        None if it is unknown or if no message uses a link, because all ranks are on one host."""
        return None if self.host_count == 1 else given or self.link_gbit

    @property
    def is_all_reduced(self):
        """Whether every rank receives the sum of the gradients."""
        return self.reducer not in choices.NOT_ALL_REDUCED

    @property
    def communication(self):
        """The reducer and the data type of the gradients, which one rank does not use."""
        return (self.reducer, self.gradient_dtype) if self.ranks > 1 else ("", "")

    @property
    def series(self):
        """What the points of a curve over the numbers of ranks have in common."""
        return (
            self.setting,
            self.communication,
            frozenset(pair for pair in self.variant if self.is_of_hosts or pair[0] != HOSTS),
        )

    @property
    def mode(self):
        """Text of the column "Mode", a label."""
        if self.is_independent:
            text = "independent replicas, no communication"
        elif self.ranks == 1:
            text = "1 rank"
        else:
            text = self.reducer or "synchronous"
            if self.gradient_dtype not in ("", "fp32"):
                text += f", {self.gradient_dtype} gradients"
        return f"{text} ({self.detail})" if self.detail else text

    @property
    def exposed_seconds(self):
        return self.phase_seconds["exposed_communication"] if self.phase_seconds else None

    @property
    def compute_seconds(self):
        return sum(self.phase_seconds[p] for p in COMPUTE_PHASES) if self.phase_seconds else None

    @property
    def transfer(self):
        """`Bounds` of the time of the transfer in the all-reduces. If waiting is unknown, the whole
        all-reduce is the upper bound. None if there are no all-reduces."""
        if self.split:
            return self.split.transfer_bounds
        return metrics.Bounds(None, self.allreduce_seconds) if self.allreduce_seconds else None

    @property
    def bandwidth(self):
        """`Bounds` of the bus bandwidth of the all-reduces in bytes/s; None if unknown."""
        if not self.transfer or not self.bytes_per_step or not self.steps:
            return None
        seconds = (self.transfer.high, self.transfer.low, self.transfer.value)
        found = [
            metrics.bus_bandwidth(self.bytes_per_step * self.steps, time, self.ranks)
            for time in seconds
        ]
        return None if found[0] is None else metrics.Bounds(*found)

    @property
    def link_share(self):
        """The bytes over the link of a host per byte of the bus bandwidth; None if unknown."""
        return self.link_bytes and self.link_bytes / metrics.ring_bytes(
            self.bytes_per_step, self.ranks
        )

    def link_use(self, bytes_per_second, rate):
        """Returns the share of a link of `rate` Gbit/s that is used at a bus bandwidth; None if it
        is unknown."""
        if bytes_per_second is None or not self.link_share:
            return None
        return metrics.utilisation(self.link_share * bytes_per_second, rate)

    @property
    def hidden_seconds(self):
        """Transfer during the backward pass; None if unknown."""
        return self.split.mean("hidden") if self.split else None


def from_run(run):
    """Returns the point of a run. Raises `ReportError` if the run has no steps."""
    if not run.has_steps:
        raise ReportError(
            INPUT, f"{run.path}: holds no steps (status {run.status}); nothing to report"
        )
    window = timed_window(run)
    lack = lack_of(run, window)
    is_significant = lack is not None and lack.is_significant
    origin = run.parts[run.part_of_step[window.steps[0]]] if run.parts else run
    times = times_of_epoch(run, window)
    step = step_seconds(run, window.steps)
    return Point(
        source=run.label,
        ranks=run.rank_count,
        batch_per_rank=batch_per_rank(run),
        setting=settings.setting_of(origin),
        variant=variant_of(origin),
        others=results_of(origin),
        reducer=run.option("reducer"),
        gradient_dtype=run.option("gradient-dtype"),
        images=window.epoch_images,
        steps=window.epoch_steps,
        step_median=float(np.median(step)),
        step_interval=series_interval(step),
        **times,
        bytes_per_step=int(run.bucket_bytes.sum()) or None,
        link_bytes=link_bytes_of(run),
        **traffic_of(run, window.steps),
        **readings_of(run, window),
        lacks={run.label: lack} if is_significant else {},
        **machine_of(run, origin),
        status=run.status,
        rule=window.rule,
        scaled=window.is_extrapolated,
        notes=(
            *validity.run_notes(run, origin, window),
            *(step_notes(step, run.step[window.steps] + 1) or epoch_notes(run, window)),
            *contention_notes(run, window, lack),
        ),
    )


def times_of_epoch(run, window):
    """Returns the fields of the point with the times of a complete epoch."""
    step, training, phases = timed_seconds(run, window.steps)
    epoch_seconds, images_per_second = epoch_rate(run, window, step)
    scale = epoch_seconds / step.sum()
    of_phases = {name: scale * phases[:, i].mean() for i, name in enumerate(run.phases)}
    of_phases[IMBALANCE] = epoch_seconds - sum(of_phases.values())
    busy, _ = all_reduce_busy_seconds(run, window.steps)
    return {
        "epoch_seconds": epoch_seconds,
        "images_per_second": images_per_second,
        "training_seconds": scale * training.sum(),
        "phase_seconds": of_phases,
        "slow_seconds": scale * len(step) * slow_work(computation_of(run, window.steps)),
        "allreduce_seconds": scale * busy.mean(),
        "split": split_of(run, window.steps, times_of(run, window), scale),
    }


def computation_of(run, steps):
    """Returns (step, rank): the time of the computation in the first MOST_STEPS of `steps`."""
    columns = [run.phases.index(name) for name in COMPUTATION]
    return np.concatenate(
        [
            phases[:, :, columns].sum(axis=2)
            for _, phases in blocks(steps[:MOST_STEPS], run.phase_seconds)
        ]
    )


def readings_of(run, window):
    """Returns the fields of the point with the measurements of the timed epoch."""
    readings = {
        quantity.name: known_reading(run, quantity.name, window.epoch) for quantity in QUANTITIES
    }
    known = {name: values for name, values in readings.items() if values is not None}
    joules = known.get("energy_joules")
    images = run.images[run.epoch == window.epoch].sum()
    return {
        "joules_per_image": None if joules is None else float(joules.sum() / images),
        "measurements": {name: float(values.max()) for name, values in known.items()},
    }


def machine_of(run, origin):
    """Returns the fields of the point about the program and the processors, of the part `origin`
    of the run."""
    return {
        "link_gbit": run.link_gbit,
        "hosts": origin.host_names,
        "host_count": origin.host_count or None,
        "threads": threads_of(run),
        "processors": processors_of(run),
        "cores": processors_of(run, "core_list"),
        "program": program_of(origin),
        "version": settings.version_of(origin),
        "algorithm": choices.algorithm_of(origin) if run.rank_count > 1 else "",
        "kernels": choices.kernels_of(origin),
    }


def threads_of(run):
    """Returns the number of CPU threads per rank; None if they do not compute."""
    return run.number("threads") if settings.uses_threads(run) else None


def point_of(run):
    """Returns the point of a training run; None for other runs."""
    return from_run(run) if run.has_steps and not run.ladder else None


def processors_of(run, column="cpu_list"):
    """Returns the number of processors, or physical cores (`core_list`), of the ranks of the first
    host; None if unknown."""
    hosts = run.ranks["host"]
    listed = [
        validity.parse_processors(text)
        for host, text in zip(hosts, run.ranks.get(column, ()))
        if host == hosts[0]
    ]
    return len(set().union(*listed)) if listed and all(listed) else None


def traffic_of(run, steps):
    """Returns the bytes of messages per step, mean over `steps`; nothing if they are not known."""
    if not {"sent", "received"} <= run.traffic.keys():
        return {}
    sent, received = (mean_rows(run.traffic[name], steps) for name in ("sent", "received"))
    found = {
        "sent_bytes": sent.max(),
        "received_bytes": received.max(),
        "all_sent_bytes": sent.sum(),
    }
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def mean_rows(array, steps):
    """Returns the mean over the rows `steps` of an array."""
    total = BlockSum()
    for _, values in blocks(steps, array):
        total.add(values)
    return total.total / len(steps)


def link_bytes_of(run):
    """Returns the bytes of a step over the link that carries most of them; None if they are not
    known."""
    if run.option("reducer") in choices.NOT_ALL_REDUCED:
        return None
    algorithm = choices.algorithm_of(run)
    if run.option("reducer") == "gather-scatter":
        algorithm = choices.labelled("gather-scatter", choices.library_of(run))
    found = [link_bytes(algorithm, run.ranks["host"], int(size)) for size in run.bucket_bytes]
    return sum(found) if found and None not in found else None


def from_times(row, parameters=None, train_samples=None, notes=()):
    """Returns the point of one row of a CSV of epoch times. `parameters`: number of parameters of 4
    bytes each."""
    found = {}
    if train_samples:
        found["images_per_second"] = train_samples / float(row.seconds)
    if train_samples and row.batch_per_rank:
        found["steps"] = metrics.steps_per_epoch(train_samples, row.batch_per_rank, row.ranks)
    if parameters:
        found["bytes_per_step"] = 4 * parameters
    if parameters and row.ranks > 1:
        found["link_bytes"] = metrics.ring_bytes(4 * parameters, row.ranks)
    return Point(
        source=row.source,
        ranks=row.ranks,
        batch_per_rank=row.batch_per_rank or 0,
        epoch_seconds=float(row.seconds),
        setting=(row.source.removesuffix(".csv"), *row.series),
        images=train_samples,
        program="",
        rule="epoch times as given in the CSV",
        notes=tuple(notes),
        **found,
    )
