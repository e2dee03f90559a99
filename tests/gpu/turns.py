# SPDX-License-Identifier: BSD-3-Clause
"""Measures configurations of Lockstep and PyTorch in alternating turns and compares them."""

import statistics
import time
from dataclasses import dataclass, field

from context import LOADER_THREADS
from diagnosis import diagnose
from measures import Unreadable
from ranks import start

WARM_UP_EPOCHS = 2  # excluded from throughput: kernels are selected, and GPU clocks rise
EPOCHS = WARM_UP_EPOCHS + 3  # per Lockstep run
ROUNDS = 3
RUN_SECONDS = 60  # time limit of one run or measurement
# A difference between the sum of the phases and the wall-clock time of an epoch above this bound is
# an error of the timers, not a slow run.
WALL_CLOCK_BOUND = 0.05
RATE_COLUMNS = ["img/s", "min - max", "img/s by wall clock"]


@dataclass
class Configuration:
    """A variant at one batch size, and its measurements. Lockstep variants are "PRECISION RESIDENCY
    [FUSION]", for example "bf16 device none"; PyTorch variants are those of pytorch_gpu.py."""

    batch: int
    variant: str
    process: object = None  # PytorchProcess, or None for Lockstep
    ranks: int = 1
    rounds: list = field(default_factory=list)  # per round, images/s of each epoch
    wall_rounds: list = field(default_factory=list)  # the same from the wall clock; Lockstep only
    has_failed: bool = False
    seconds: float = 0.0  # of the last measurement

    @property
    def label(self):
        ranks = f" {self.ranks} ranks" if self.ranks > 1 else ""
        return f"{'PyTorch' if self.process else 'Lockstep'} {self.variant}{ranks}"

    @property
    def rate(self):
        """Median over the epochs of all rounds in images per second."""
        return statistics.median(sum(self.rounds, []))

    def medians(self):
        """Returns {round: median over its epochs}."""
        return dict(enumerate(map(statistics.median, self.rounds)))

    def ratios(self, references):
        """Returns the ratio of the median to that of the reference, {round: median}, per round."""
        return [rate / references[i] for i, rate in self.medians().items() if i in references]

    def rate_cells(self, report):
        """Returns the cells of RATE_COLUMNS, and checks that phases and wall clock agree."""
        rates, walls = sum(self.rounds, []), sum(self.wall_rounds, [])
        wall = f"{statistics.median(walls):,.0f}" if walls else ""
        if walls:
            report.check(abs(self.rate / statistics.median(walls) - 1) <= WALL_CLOCK_BOUND,
                         f"batch {self.batch} {self.label}: the throughput is {self.rate:,.0f} img/s "
                         f"from the phases and {wall} img/s from the wall clock")
        report.numbers[f"{self.batch} {self.label}"] = {"images_per_second": self.rounds,
                                                        "wall": self.wall_rounds}
        return [f"{self.rate:,.0f}", f"{min(rates):,.0f} - {max(rates):,.0f}", wall]


def median_and_range(values):
    """Returns the text "median (min - max)"; empty without values."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} - {max(values):.2f})" if values else ""


def measure_lockstep(context, report, one, number):
    """Trains one run and adds its rates to the configuration. `number` is the round, from 1."""
    precision, residency, *fusion = one.variant.split()
    name = f"{one.batch} {one.label} {number}"
    fusion = fusion[0] if fusion else "auto"
    arguments = context.train_arguments(
        name, precision, "--data", context.data, "--batch-per-rank", one.batch,
        "--epochs", EPOCHS, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency",
        residency, "--loader-threads", LOADER_THREADS, fusion=fusion)
    training = context.checked_training(report, name, arguments, RUN_SECONDS,
                                        start(context, one.ranks))
    one.seconds, one.has_failed = training.outcome.seconds, training.run is None
    if training.run is not None:
        one.rounds.append(training.run.rates[WARM_UP_EPOCHS:])
        one.wall_rounds.append(training.run.wall_rates[WARM_UP_EPOCHS:])
    elif training.can_be_rerun and one.ranks == 1:
        diagnose(context, report, precision, one.batch, fusion=fusion)


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


def run_alternately(context, report, configurations, rounds=ROUNDS):
    """Measures every configuration once per round, while the step has time. Returns those that have a
    measurement."""
    for number in range(1, rounds + 1):
        # Every other round is in reverse order, so that a drift of the GPU clocks affects all
        # configurations equally.
        for one in configurations if number % 2 else configurations[::-1]:
            name = f"{one.batch} {one.label} round {number}"
            if one.has_failed or not context.has_time(report, name, max(one.seconds * 1.3, 2)):
                continue
            if one.process is None:
                measure_lockstep(context, report, one, number)
            else:
                measure_pytorch(context, report, one)
    return [one for one in configurations if one.rounds]


def fastest_pytorch(configurations):
    """Returns {round: median of the fastest PyTorch configuration in this round}."""
    best = {}
    for one in configurations:
        for i, rate in one.medians().items() if one.process else ():
            best[i] = max(best.get(i, 0.0), rate)
    return best


def report_turns(report, batch, measured, bounds=None):
    """Adds the table of one batch size. `bounds` has the roofline bound of the throughput in
    images/s per precision."""
    references, rows, best = fastest_pytorch(measured), [], []
    for one in measured:
        ratios, bound = one.ratios(references), (bounds or {}).get(one.variant.split()[0])
        if ratios and one.process is None:
            best.append(statistics.median(ratios))
        rows.append([one.label, *one.rate_cells(report), median_and_range(ratios),
                     f"{one.rate / bound:.0%}" if bound and not one.process else ""])
    report.add_text(f"### Throughput at batch {batch}")
    report.add_table(["configuration", *RATE_COLUMNS, "ratio to PyTorch (min - max)",
                      "share of the roofline bound"], rows)
    if best:
        report.headlines.append(f"batch {batch}: ratio to PyTorch {max(best):.2f}")
    elif measured:
        fastest = max(measured, key=lambda one: one.rate)
        report.headlines.append(f"batch {batch}: {fastest.label} {fastest.rate:,.0f} img/s")
