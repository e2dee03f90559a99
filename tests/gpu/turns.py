"""Measures configurations of Lockstep and PyTorch in alternating turns and compares them."""

import time
from dataclasses import dataclass, field

from diagnosis import diagnose
from gpus import TARGET_RATIO
from measures import WARM_UP_EPOCHS, Rate, Unreadable, without_warm_up

EPOCHS = 5  # per Lockstep run: two for warm-up, three that are evaluated
RUN_SECONDS = 60  # time limit of one run or measurement
# A difference between the sum of the phases and the wall-clock time of an epoch above this bound is
# an error of the timers, not a slow run.
WALL_CLOCK_BOUND = 0.05


@dataclass
class Configuration:
    """A variant at one batch size, and its measurements. Lockstep variants are "PRECISION RESIDENCY
    [FUSION]", for example "bf16 device none"; PyTorch variants are those of pytorch_gpu.py."""

    batch: int
    variant: str
    process: object = None  # PytorchProcess, or None for Lockstep
    rounds: list = field(default_factory=list)  # per round, images/s of each epoch
    wall_rounds: list = field(default_factory=list)  # the same from the wall clock; Lockstep only
    has_failed: bool = False
    seconds: float = 0.0  # of the last measurement

    @property
    def label(self):
        return f"{'PyTorch' if self.process else 'Lockstep'} {self.variant}"

    @property
    def rate(self):
        return Rate([value for rates in self.rounds for value in rates])

    @property
    def wall_rate(self):
        return Rate([value for rates in self.wall_rounds for value in rates])


def measure_lockstep(context, report, one, number):
    """Trains one run and adds its rates to the configuration. `number` is the round, from 1."""
    precision, residency, *fusion = one.variant.split()
    name = f"{one.batch} {one.variant} {number}"
    arguments = context.train_arguments(
        name, precision, "--data", context.data, "--batch-per-rank", one.batch,
        "--epochs", EPOCHS, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency",
        residency, "--loader-threads", context.args.loader_threads, "--evaluate-every", "never",
        fusion=fusion[0] if fusion else "auto")
    outcome, run, has_failed = context.run_training(report, name, arguments, RUN_SECONDS)
    one.seconds = outcome.seconds
    rates = without_warm_up(run.rates) if run is not None else []
    if not rates:
        one.has_failed = True
        if run is not None:
            report.fail(f"{name}: the run has fewer than {WARM_UP_EPOCHS + 1} epochs")
        elif has_failed:
            diagnose(context, report, precision, one.batch, fusion=fusion[0] if fusion else "auto")
        return
    one.rounds.append(rates)
    one.wall_rounds.append(without_warm_up(run.wall_rates))


def measure_pytorch(context, report, one):
    """Runs one measurement in PyTorch. A failure of PyTorch is no failure of the test."""
    start = time.monotonic()
    try:
        one.rounds.append(one.process.measure(one.variant, context.limited(
            min(RUN_SECONDS, context.clock.left))))
    except Unreadable as error:
        report.not_run(one.label, str(error))
        one.has_failed = True
    one.seconds = time.monotonic() - start


def run_alternately(context, report, configurations, rounds):
    """Measures every configuration once per round, while the step has time."""
    for number in range(1, rounds + 1):
        # Every other round is in reverse order, so that a drift of the GPU clocks affects all
        # configurations equally.
        for one in configurations if number % 2 else configurations[::-1]:
            if one.has_failed:
                continue
            name = f"{one.batch} {one.label} round {number}"
            if not context.has_time(report, name, max(one.seconds * 1.3, 2)):
                continue
            if one.process is None:
                measure_lockstep(context, report, one, number)
            else:
                measure_pytorch(context, report, one)


def reference_medians(configurations, rounds):
    """Returns {round: median of the fastest PyTorch configuration in this round}."""
    best = {}
    for i in range(rounds):
        medians = [Rate(one.rounds[i]).median for one in configurations
                   if one.process and i < len(one.rounds)]
        if medians:
            best[i] = max(medians)
    return best


def ratios(one, references):
    """Returns the ratio of the medians of a configuration and of the reference, per round."""
    return [Rate(rates).median / references[i] for i, rates in enumerate(one.rounds)
            if i in references]


def report_turns(report, batch, configurations, rounds, bounds=None):
    """Adds the table of one batch size. `bounds` has the roofline bound of the throughput in
    images/s per precision. Returns the best median ratio of Lockstep to PyTorch, or None."""
    measured = [one for one in configurations if one.rounds]
    references, rows, best = reference_medians(measured, rounds), [], None
    for one in measured:
        values, share, wall = ratios(one, references), "", ""
        ratio = f"{Rate(values).median:.2f} ({min(values):.2f} - {max(values):.2f})" if values else ""
        if one.process is None:
            bound = (bounds or {}).get(one.variant.split()[0])
            share = f"{one.rate.median / bound:.0%}" if bound else ""
            wall = f"{one.wall_rate.median:,.0f}"
            report.check(abs(one.rate.median / one.wall_rate.median - 1) <= WALL_CLOCK_BOUND,
                         f"batch {batch} {one.variant}: the throughput is {one.rate.median:,.0f} "
                         f"img/s from the phases and {wall} img/s from the wall clock")
            if values:
                best = max(best or 0.0, Rate(values).median)
        rows.append([one.label, f"{one.rate.median:,.0f}", one.rate.spread, wall, ratio, share,
                     len(one.rounds), len(one.rate.values)])
        report.numbers[f"{batch} {one.label}"] = {"images_per_second": one.rounds,
                                                  "wall": one.wall_rounds}
    report.add_text(f"### Throughput at batch {batch}")
    report.add_table(["configuration", "img/s", "min - max", "img/s by wall clock",
                      "ratio to PyTorch (min - max)", "share of the roofline bound", "rounds",
                      "epochs"], rows)
    if best is not None:
        report.headlines.append(f"batch {batch}: ratio to PyTorch {best:.2f} (target {TARGET_RATIO:g})")
    elif rows:
        fastest = max(measured, key=lambda one: one.rate.median)
        report.headlines.append(f"batch {batch}: {fastest.label} {fastest.rate.median:,.0f} img/s")
    return best
