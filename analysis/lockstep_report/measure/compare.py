# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of two sets of runs: `Case`, the repeated runs of one configuration, its
quantities with intervals, and whether a change is significant or a regression. docs/analysis.md
states the method."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.accuracy import last_accuracy
from lockstep_report.measure.choices import REDUCERS, place_of
from lockstep_report.measure.comparison import grouped_repeats
from lockstep_report.measure.inference import median_interval, series_interval
from lockstep_report.measure.points import point_of
from lockstep_report.measure.window import step_seconds, timed_window
from lockstep_report.runfile import settings
from lockstep_report.runfile.experiment import (
    NEITHER,
    STATED,
    effect_of,
    is_of_software,
    options_of,
)
from lockstep_report.runfile.input_files import each
from lockstep_report.runfile.schema import PHASES, QUANTITIES as MEASUREMENTS


@dataclass(frozen=True)
class Quantity:
    """A quantity of a run. Values in tables are those of the run times `factor`."""

    name: str  # in JSON and for --check, with the unit of the values
    label: str
    unit: str
    factor: float = 1
    digits: int = 3
    better: int = -1  # -1: smaller values are better; 1: larger values; 0: neither


QUANTITIES = (
    Quantity("epoch_seconds", "Epoch", "s", digits=2),
    Quantity("training_seconds", "Epoch without data wait", "s", digits=2),
    Quantity("images_per_second", "Throughput", "images/s", digits=1, better=1),
    Quantity("step_seconds", "Step (slowest rank)", "ms", 1e3),
    Quantity("data_wait_seconds", "Step: data wait", "ms", 1e3),
    *(
        Quantity(
            f"{name}_seconds", f"Step: {name.replace('_', ' ')} (mean over the ranks)", "ms", 1e3
        )
        for name in PHASES
        if name != "data_wait"
    ),
    Quantity("all_reduce_seconds", "Step: all-reduce in progress (mean over the ranks)", "ms", 1e3),
    Quantity(
        "all_reduce_call_seconds",
        "Step: in calls of the all-reduce (mean over the ranks)",
        "ms",
        1e3,
    ),
    Quantity("all_reduce_waiting_seconds", "Epoch: waiting in the all-reduce", "s"),
    Quantity("all_reduce_transfer_seconds", "Epoch: transfer in the all-reduce", "s"),
    Quantity("test_accuracy", "Test accuracy, last", "%", 100, 2, better=1),
    Quantity("train_loss", "Training loss, last epoch", "", digits=4),
    Quantity("joules_per_image", "Energy per image", "J", digits=4),
    *(
        Quantity(
            m.name,
            m.label[:1].upper() + m.label[1:],
            m.unit,
            1 / m.divisor,
            m.digits,
            0 if m.name in ("utilisation", "processor_busy_seconds") else -1,
        )
        for m in MEASUREMENTS
    ),
)
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
BETTER, WORSE = "better", "worse"
CHECKED = ("epoch_seconds", "training_seconds", "step_seconds")  # unless --check names others
# What a case is, from the most to the least specific; `match` uses them in this order.
IDENTITY = ("setting", "ranks", "batch_per_rank", "mode", "options")
ENVIRONMENT = ("operating_system", "cpu_model", "all_reduce", "transport", "kernels")


@dataclass(frozen=True)
class Estimate:
    """The median of `count` values, steps of one run or repeated runs (`over`), with its 95 %
    interval; None if it has none."""

    median: float
    low: float = None
    high: float = None
    count: int = 1
    over: str = "runs"  # or "steps"


def estimates_of(runs, points):
    """Returns {name: Estimate} of repeated runs. A single run has intervals over its timed steps;
    several runs have intervals over the runs, from the median step of each."""
    of_steps = [step_values(run, timed_window(run).steps) for run in runs]
    of_runs = [
        run_values(run, point) | {name: np.median(values) for name, values in steps.items()}
        for run, point, steps in zip(runs, points, of_steps)
    ]
    found = {
        name: estimate([values[name] for values in of_runs], "runs")
        for name in BY_NAME
        if all(name in values for values in of_runs)
    }
    if len(runs) == 1:
        found |= {name: estimate(values, "steps") for name, values in of_steps[0].items()}
    return found


def estimate(values, over):
    values = np.asarray(values, dtype=float)
    interval = (series_interval if over == "steps" else median_interval)(values)
    ends = (interval.low, interval.high) if interval else (None, None)
    return Estimate(float(np.median(values)), *ends, len(values), over)


def step_values(run, steps):
    """Returns {name: (step)} of the quantities that every step has."""
    found = {"step_seconds": step_seconds(run, steps)}
    of_phases = run.phase_seconds[steps].mean(axis=1)
    found |= {f"{name}_seconds": of_phases[:, i] for i, name in enumerate(run.phases)}
    if len(run.bucket_bytes):
        found["all_reduce_seconds"] = metrics.busy_seconds(
            run.bucket_start[steps], run.bucket_end[steps]
        ).mean(axis=1)
        if run.bucket_calls is not None:
            found["all_reduce_call_seconds"] = run.bucket_calls[steps].sum(axis=2).mean(axis=1)
    return found


def run_values(run, point):
    """Returns {name: value} of the quantities that a run has once."""
    split = point.split
    loss = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    found = {
        **point.measurements,
        "epoch_seconds": point.epoch_seconds,
        "training_seconds": point.training_seconds,
        "images_per_second": point.images_per_second,
        "all_reduce_waiting_seconds": split and split.waiting_seconds,
        "all_reduce_transfer_seconds": split and split.transfer_bounds.value,
        "test_accuracy": last_accuracy(run),
        "train_loss": loss[-1] if len(loss) else None,
        "joules_per_image": point.joules_per_image,
    }
    return {
        name: float(value)
        for name, value in found.items()
        if value is not None and np.isfinite(value)
    }


@dataclass(frozen=True)
class Change:
    """The change from A to B: B - A, and B/A of the medians. The intervals are None if unknown."""

    difference: float
    difference_low: float = None
    difference_high: float = None
    ratio: float = None
    ratio_low: float = None
    ratio_high: float = None
    is_apart: bool = None  # whether the intervals do not overlap; None if one is unknown
    over: str = "runs"  # values of the intervals

    @property
    def is_significant(self):
        """Whether A and B differ; None if it is unknown, as for steps of single runs, which do not
        show how much runs differ."""
        return self.is_apart if self.over == "runs" else None


def change(a, b):
    """Returns the change between two estimates. It has an interval if both have one over the same
    kind of values: from the lowest to the highest result for values in the two intervals."""
    ratio = b.median / a.median if a.median > 0 else None
    if a.low is None or b.low is None or a.over != b.over:
        return Change(b.median - a.median, ratio=ratio)
    ratios = metrics.ratio_interval(b, a) if ratio is not None else (None, None)
    return Change(
        b.median - a.median,
        b.low - a.high,
        b.high - a.low,
        ratio,
        *ratios,
        is_apart=a.high < b.low or b.high < a.low,
        over=a.over,
    )


def direction(found, quantity):
    """Returns whether the quantity became better or worse; None if it did neither."""
    if quantity.better == 0 or found.difference == 0:
        return None
    return BETTER if (found.difference > 0) == (quantity.better > 0) else WORSE


def verdict(found, quantity):
    """Returns the text of the column "Change is"."""
    if found.is_apart is None:
        return "unknown (no interval)"
    kind = "significant" if found.over == "runs" else "within these runs"
    if not found.is_apart:
        return "not significant" if found.over == "runs" else f"none {kind}"
    return f"{kind}: {direction(found, quantity) or 'different'}"


def is_regression(found, quantity, tolerance):
    """Returns whether the quantity is worse by more than the share `tolerance` of A. A change whose
    interval includes 0 is no regression."""
    if direction(found, quantity) != WORSE or found.is_apart is False:
        return False
    if found.ratio is None:
        return True  # from 0 to a worse value
    return abs(found.ratio - 1) > tolerance


@dataclass(frozen=True)
class Case:
    """`identity`: texts by the names in IDENTITY. `settings`: {name: text}, in display order."""

    identity: dict
    settings: dict
    estimates: dict  # name -> Estimate
    sources: tuple  # names of the files
    notes: tuple = ()

    @property
    def title(self):
        batch = self.identity["batch_per_rank"]
        parts = [
            settings.plural(self.identity["ranks"], "rank"),
            batch and f"batch {batch} per rank",
            self.identity["mode"],
        ]
        return ", ".join(part for part in dict.fromkeys(parts) if part)


def cases_of(runs, skipped=None):
    """Returns the cases of the runs that trained, one for each configuration. `skipped`: as in
    `input_files.each`."""
    trained = {point.source: (run, point) for run, point in each(skipped, runs, point_of) if point}
    points = sorted((point for _, point in trained.values()), key=configuration_of)
    return [
        case_of([trained[point.source][0] for point in group], group, notes)
        for group, notes in grouped_repeats(points, configuration_of).values()
    ]


def configuration_of(point):
    return (
        point.setting,
        point.ranks,
        point.batch_per_rank,
        place_of(point.communication[0], REDUCERS),
        point.communication,
        tuple(sorted(point.variant | point.others)),
    )


def case_of(runs, points, further_notes):
    point = points[0]
    options = {
        (name, value) for name, value in point.variant | point.others if not is_of_software(name)
    }
    identity = {
        "setting": ", ".join(filter(None, settings.setting_texts(point.setting))),
        "ranks": str(point.ranks),
        "batch_per_rank": f"{point.batch_per_rank or ''}",
        "mode": point.mode,
        "options": ", ".join(f"{name} {value}" for name, value in sorted(options)),
    }
    notes = dict.fromkeys([*(note for p in points for note in p.notes), *further_notes])
    return Case(
        identity,
        settings_of(runs, point),
        estimates_of(runs, points),
        tuple(run.label for run in runs),
        tuple(notes),
    )


def settings_of(runs, point):
    """Returns {name: text} of what can explain a change, with all values if the runs differ."""
    found = dict(zip(settings.SETTING_PARTS, point.setting))
    found |= {
        "ranks": str(point.ranks),
        "batch per rank": f"{point.batch_per_rank or ''}",
        "reducer": point.reducer,
        "gradient dtype": point.gradient_dtype,
    }
    for name in sorted({name for run in runs for name in options_of(run)}):
        if effect_of(name, point.ranks) != NEITHER and name not in STATED:
            found[name] = joined(run.option(name) for run in runs)
    found["hosts"] = joined(", ".join(run.host_names) for run in runs)
    found["program"] = joined(settings.version_of(run) for run in runs)
    names = {
        name
        for run in runs
        for name in run.environment
        if name in ENVIRONMENT or name.startswith("OMP_") or is_of_software(name)
    }
    for name in sorted(names):
        texts = [str(run.environment.get(name, "")) for run in runs]
        # The attribute all_reduce also has the times by which the algorithm was selected.
        found[name] = joined(
            text.partition(":")[0] if name == "all_reduce" else text for text in texts
        )
    return found


def joined(values):
    return "; ".join(dict.fromkeys(str(value) for value in values))


def match(a, b):
    """Returns (pairs, rest of a, rest of b). Cases are a pair if they are equal in all of IDENTITY,
    or in as much of it as possible while both are the only such case of their side."""
    rest_a, rest_b, pairs = list(a), list(b), []
    for names in (
        IDENTITY,
        IDENTITY[:4],
        IDENTITY[1:4],
        IDENTITY[:3],
        IDENTITY[1:3],
        IDENTITY[1:2],
        (),
    ):
        of_a, of_b = (
            grouped(rest, lambda case, names=names: tuple(map(case.identity.get, names)))
            for rest in (rest_a, rest_b)
        )
        for key, own in of_a.items():
            if len(own) == len(of_b.get(key, ())) == 1:
                pairs.append((own[0], of_b[key][0]))
                rest_a.remove(own[0])
                rest_b.remove(of_b[key][0])
    return sorted(pairs, key=lambda pair: a.index(pair[0])), rest_a, rest_b


def changed_settings(a, b):
    """Returns [(name, text in a, text in b)] of the settings that differ; a setting that one side
    does not have is an empty text, and no difference if the sides are different programs."""
    names = list(dict.fromkeys([*a.settings, *b.settings]))
    if (
        a.settings.get("program", "").partition(" ")[0]
        != b.settings.get("program", "").partition(" ")[0]
    ):
        names = [name for name in names if name in a.settings and name in b.settings]
    return [
        (name, a.settings.get(name, ""), b.settings.get(name, ""))
        for name in names
        if a.settings.get(name, "") != b.settings.get(name, "")
    ]
