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
    variant: frozenset = frozenset()  # the other options that can change the time
    detail: str = ""  # what tells it from another point of the same place and mode
    reducer: str = ""
    gradient_dtype: str = ""
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
    joules_per_image: float = None  # of all devices
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
        if not self.phase_seconds:
            return None
        return sum(self.phase_seconds[p] for p in ("upload", "forward", "backward", "update"))

    @property
    def hidden_seconds(self):
        if self.allreduce_seconds is None or self.exposed_seconds is None:
            return None
        return metrics.hidden_seconds(self.allreduce_seconds, self.exposed_seconds)


NO_MATTER = {  # options that do not change what a step does, or that the table shows already
    "command", "data", "train-samples", "test-samples", "evaluate-every", "epochs", "steps",
    "batch-per-rank", "global-batch", "model", "device", "precision", "seed", "output",
    "overwrite", "json", "quiet", "dry-run", "checkpoint-dir", "checkpoint-every", "keep",
    "resume", "init-from", "watchdog", "link-gbit", "memory-limit", "ladder-start", "min-bytes",
    "max-bytes", "repeats", "reducer", "gradient-dtype",
}
ONE_RANK_NO_MATTER = NO_MATTER | {"bucket-mib", "bn"}
CIFAR10_IMAGES = 50_000


def data_of(run):
    """("cifar10", 50000) and the like; the number is None where the file does not say it."""
    kind, _, rest = run.option("data").partition(":")
    whole = CIFAR10_IMAGES if kind == "cifar10" else int(rest) if rest.isdigit() else None
    wanted = run.number("train-samples")
    return kind, min(filter(None, (whole, wanted)), default=None)


def setting_of(run):
    kind, images = data_of(run)
    data = " ".join(filter(None, (kind, f"{images} images" if images else "")))
    return (run.option("model"), run.option("device"), run.option("precision"), data)


def variant_of(run):
    """The options that can change the time beyond those that the tables show."""
    ignored = ONE_RANK_NO_MATTER if run.rank_count == 1 else NO_MATTER
    options = ((name.replace("_", "-"), str(value)) for name, value in run.config.items())
    return frozenset((name, value) for name, value in options if name not in ignored)


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
    wanted = data_of(run)[1]
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
    first = int(run.epoch[0])
    joules = metrics.epoch_reading(run.epochs, "energy_joules", window.epoch - first + 1)
    busy = metrics.busy_seconds(run.bucket_start[window.steps], run.bucket_end[window.steps])
    return Point(
        source=run.path.name,
        ranks=run.rank_count,
        batch_per_rank=batch_per_rank(run),
        epoch_seconds=scale * step.sum(),
        setting=setting_of(run),
        variant=variant_of(run),
        reducer=run.option("reducer"),
        gradient_dtype=run.option("gradient-dtype"),
        threads=run.option("threads"),
        training_seconds=scale * training.sum(),
        images_per_second=metrics.throughput(images, step),
        steps=int(round(scale * len(window.steps))),
        step_median=float(np.median(step)),
        step_interval=metrics.median_interval(step),
        phase_seconds=of_phases,
        allreduce_seconds=scale * busy.sum(axis=0).mean(),
        bytes_per_step=int(run.bucket_bytes.sum()) or None,
        joules_per_image=None if joules is None else float(
            joules.sum() / run.images[run.epoch == window.epoch].sum()),
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
    """One point for each setting, rank count, batch and set of options; repeats become their
    median. Points that differ only in options the tables do not show get these as `detail`."""
    groups = {}
    for point in points:
        key = (place_of(point), point.variant, point.bytes_per_step)
        groups.setdefault(key, []).append(point)
    merged = [median_point(group) for group in groups.values()]
    places = {}
    for point in merged:
        places.setdefault(place_of(point), []).append(point)
    merged = [replace(p, detail=difference(p, group)) for group in places.values() for p in group]
    return sorted(merged, key=lambda p: (p.setting, p.batch_per_rank, p.ranks, p.mode))


def place_of(point):
    return (point.setting, point.ranks, point.batch_per_rank, point.mode)


def difference(point, group):
    """The point's options that are not the same in the whole group: "threads 2"."""
    common = frozenset.intersection(*(p.variant for p in group))
    return ", ".join(f"{name} {value}" for name, value in sorted(point.variant - common))


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
        joules_per_image=median("joules_per_image"),
        repeats=len(group),
        scaled=any(p.scaled for p in group),
    )


def base_of(point, points):
    """T(1) of the assignment: the 1-rank point with the same batch per rank and setting."""
    return nearest(point, [p for p in points if p.ranks == 1 and p.setting == point.setting
                           and p.batch_per_rank == point.batch_per_rank])


def strong_base_of(point, points):
    """The 1-rank point with the same global batch and setting."""
    return nearest(point, [p for p in points if p.ranks == 1 and p.setting == point.setting
                           and p.batch_per_rank == point.global_batch])


def independent_of(point, points):
    """The no-communication baseline: as many independent replicas with the same batch each."""
    return nearest(point, [p for p in points if p.is_independent and p.setting == point.setting
                           and p.ranks == point.ranks
                           and p.batch_per_rank == point.batch_per_rank])


def nearest(point, others):
    """The one that differs in the fewest options; None of none."""
    return min(others, key=lambda p: len(p.variant ^ point.variant), default=None)
