"""A `Point`: what was measured at one rank count and batch, from run files or from a CSV."""

from dataclasses import dataclass, replace

import numpy as np

from lockstep_report import metrics
from lockstep_report.errors import INPUT, ReportError

IMBALANCE = "imbalance"  # the slowest rank's step less the mean over the ranks


@dataclass(frozen=True)
class Point:
    """One row of the tables. Seconds are per epoch unless they say otherwise; None: not known."""

    source: str
    ranks: int
    batch_per_rank: int
    epoch_seconds: float  # every component
    setting: tuple = ()  # what must be equal for two points to be compared: model, device, ...
    reducer: str = ""
    threads: str = ""
    training_seconds: float = None  # without data_wait
    images_per_second: float = None
    steps: int = None  # of the epoch
    step_median: float = None
    step_interval: metrics.Interval = None  # over the steps of one run
    epoch_interval: metrics.Interval = None  # over repeated runs
    phase_seconds: dict = None  # mean over the ranks, and the imbalance
    allreduce_seconds: float = None  # mean over the ranks
    bytes_per_step: int = None  # all-reduced per step
    repeats: int = 1
    rule: str = ""  # which steps
    scaled: bool = False  # the epoch is scaled up from fewer steps

    @property
    def global_batch(self):
        return self.ranks * self.batch_per_rank

    @property
    def is_independent(self):
        """Independent replicas: several ranks, no communication."""
        return self.reducer == "none" and self.ranks > 1

    @property
    def mode(self):
        """What a table says in the column "Mode"."""
        if self.is_independent:
            return "independent replicas, no communication"
        if self.ranks == 1:
            return "1 rank"
        return self.reducer or "synchronous"

    @property
    def exposed_seconds(self):
        return self.phase_seconds["exposed_communication"] if self.phase_seconds else None

    @property
    def compute_seconds(self):
        if not self.phase_seconds:
            return None
        return sum(self.phase_seconds[p] for p in ("upload", "forward", "backward", "update"))

    @property
    def hidden_seconds(self):
        if self.allreduce_seconds is None or self.exposed_seconds is None:
            return None
        return metrics.hidden_seconds(self.allreduce_seconds, self.exposed_seconds)


SETTING = ("model", "device", "precision", "train-samples")  # options; see `Point.setting`


def setting_of(run):
    return tuple(run.option(name) for name in SETTING)


def setting_names(settings):
    """{setting: what tells it from the others}; empty texts where there is only one."""
    settings = sorted(set(settings))
    if len(settings) < 2:
        return {setting: "" for setting in settings}
    names = {}
    for setting in settings:
        others = [s for s in settings if s != setting]
        parts = [part for i, part in enumerate(setting)
                 if part and any(len(o) <= i or o[i] != part for o in others)]
        if len(setting) == len(SETTING) and setting[3] in parts:
            parts[parts.index(setting[3])] += " images"
        names[setting] = " ".join(parts)
    return names


def batch_per_rank(run):
    """From the options; otherwise from the largest step."""
    given = run.number("batch-per-rank")
    if given:
        return given
    whole = run.number("global-batch")
    if whole:
        return whole // run.rank_count
    return int(round(run.images.max() / run.rank_count))


def epoch_images(run, epoch):
    """(images, scaled): of a whole epoch. A run stopped by --steps gives the data set's size."""
    seen = int(run.images[run.epoch == epoch].sum())
    wanted = run.number("train-samples")
    whole_batch = batch_per_rank(run) * run.rank_count
    if run.number("steps") and wanted and seen <= wanted - whole_batch:
        return wanted, True
    return seen, False


def from_run(run):
    """The point that a run file measured."""
    if not run.has_steps:
        raise ReportError(
            INPUT, f"{run.path}: holds no steps (status {run.status}); nothing to report"
        )
    window = metrics.report_window(run.epoch)
    phases = run.phase_seconds[window.steps]
    step = metrics.step_seconds(phases, run.phases)
    training = metrics.training_seconds(phases, run.phases)
    images = run.images[window.steps]
    whole, scaled = epoch_images(run, window.epoch)
    scale = whole / images.sum()
    of_phases = {name: scale * phases[:, :, i].sum(axis=0).mean()
                 for i, name in enumerate(run.phases)}
    of_phases[IMBALANCE] = scale * step.sum() - sum(of_phases.values())
    busy = metrics.busy_seconds(run.bucket_start[window.steps], run.bucket_end[window.steps])
    return Point(
        source=run.path.name,
        ranks=run.rank_count,
        batch_per_rank=batch_per_rank(run),
        epoch_seconds=scale * step.sum(),
        setting=setting_of(run),
        reducer=run.option("reducer"),
        threads=run.option("threads"),
        training_seconds=scale * training.sum(),
        images_per_second=metrics.throughput(images, step),
        steps=int(round(scale * len(window.steps))),
        step_median=float(np.median(step)),
        step_interval=metrics.median_interval(step),
        phase_seconds=of_phases,
        allreduce_seconds=scale * busy.sum(axis=0).mean(),
        bytes_per_step=int(run.bucket_bytes.sum()) or None,
        rule=window.rule,
        scaled=scaled,
    )


def from_times(row, parameters=None, train_samples=None):
    """The point of one row of a CSV of epoch times; `parameters` are 4 bytes each."""
    steps = None
    if train_samples and row.batch_per_rank:
        steps = metrics.steps_per_epoch(train_samples, row.batch_per_rank, row.ranks)
    return Point(
        source=row.source,
        ranks=row.ranks,
        batch_per_rank=row.batch_per_rank or 0,
        epoch_seconds=float(row.seconds),
        setting=(row.source.removesuffix(".csv"),),
        images_per_second=train_samples / float(row.seconds) if train_samples else None,
        steps=steps,
        bytes_per_step=4 * parameters if parameters else None,
        rule="epoch times as given in the CSV",
    )


def merge_repeats(points):
    """One point for each setting, rank count, batch and mode; repeats become their median."""
    groups = {}
    for point in points:
        key = (point.setting, point.ranks, point.batch_per_rank, point.mode, point.threads,
               point.bytes_per_step)
        groups.setdefault(key, []).append(point)
    merged = [median_point(group) for group in groups.values()]
    return sorted(merged, key=lambda p: (p.setting, p.batch_per_rank, p.ranks, p.mode))


def median_point(group):
    """Medians over repeated runs of the same point."""
    if len(group) == 1:
        return group[0]

    def median(name):
        values = [getattr(p, name) for p in group]
        return None if None in values else float(np.median(values))

    phases = None
    if all(p.phase_seconds for p in group):
        phases = {name: float(np.median([p.phase_seconds[name] for p in group]))
                  for name in group[0].phase_seconds}
    return replace(
        group[0],
        source=", ".join(p.source for p in group),
        epoch_seconds=median("epoch_seconds"),
        training_seconds=median("training_seconds"),
        images_per_second=median("images_per_second"),
        step_median=median("step_median"),
        step_interval=None,
        epoch_interval=metrics.median_interval([p.epoch_seconds for p in group]),
        phase_seconds=phases,
        allreduce_seconds=median("allreduce_seconds"),
        repeats=len(group),
        scaled=any(p.scaled for p in group),
    )


def base_of(point, points):
    """T(1) of the assignment: the 1-rank point with the same batch per rank and setting."""
    return find(points, point.setting, ranks=1, batch=point.batch_per_rank)


def strong_base_of(point, points):
    """The 1-rank point with the same global batch and setting."""
    return find(points, point.setting, ranks=1, batch=point.global_batch)


def independent_of(point, points):
    """The no-communication baseline: as many independent replicas with the same batch each."""
    for other in points:
        if (other.is_independent and other.setting == point.setting
                and other.ranks == point.ranks and other.batch_per_rank == point.batch_per_rank):
            return other
    return None


def find(points, setting, ranks, batch):
    for other in points:
        if (other.setting, other.ranks, other.batch_per_rank) == (setting, ranks, batch):
            return other
    return None
