"""Part d: compares the throughput of Lockstep and PyTorch. The configurations run alternately, once per round."""

import json
import signal
import time
from dataclasses import dataclass, field

from measures import WARM_UP_EPOCHS, Rate, Unreadable, parse_json, without_warm_up
from reports import NO_TIME
from running import InteractiveProcess

EPOCHS = 5  # per Lockstep run: two for warm-up, three that are evaluated
PYTORCH_SECONDS = 1.2  # minimum duration of a PyTorch measurement, which trains whole epochs
WALL_CLOCK_BOUND = 0.05  # largest relative difference of the throughput from phases and from the wall clock
NOT_READY = "not ready in time"
INTERRUPT_SECONDS = 15  # additional time for the warm-up of the other variants after SIGUSR1 has abandoned one
INITIAL_COSTS = {"lockstep": 7.0, "pytorch": 2.5}  # assumed seconds of a measurement before the first one is complete
# Two PyTorch processes per batch size: compilation in one of them does not delay the variants of the other.
NOT_COMPILED, COMPILED = ("graph", "eager", "host"), ("compile", "compile_graph")

# In the order of their importance: if time is short, the last ones are skipped.
CONFIGURATIONS = (
    ("lockstep", "bf16 device"), ("pytorch", "graph"), ("pytorch", "compile"), ("lockstep", "fp16 device"),
    ("pytorch", "compile_graph"), ("lockstep", "bf16 host"), ("pytorch", "eager"), ("pytorch", "host"),
    ("lockstep", "fp16 host"), ("lockstep", "fp16 device none"), ("lockstep", "bf16 device none"))


class PytorchProcess:
    """A pytorch_gpu.py process with some variants at one batch size. It waits for requests to measure a variant."""

    def __init__(self, context, batch, variants):
        self.name, self.variants = f"d pytorch {batch} {variants[0]}", variants
        self.ready, self.errors = [], {}  # variants that are ready; the reasons of those that are not
        self.is_warmed_up = False
        command = context.torch("speed", "--data", context.args.data, "--batch", batch, "--variants", *variants)
        try:
            self.process = InteractiveProcess(context.runner, self.name, command)
        except OSError as error:
            self.process = None
            self.stop(f"cannot be started: {error.strerror or error}")

    def wait_for_warm_up(self, deadline):
        """Waits until every variant is ready or has failed. At `deadline`, abandons the variants that are not ready."""
        is_interrupted = False
        while not self.is_warmed_up:
            try:
                line = self.process.read(deadline - time.monotonic())
            except TimeoutError:
                if not self.ready or is_interrupted:
                    self.stop(NOT_READY)
                    return
                # SIGUSR1 abandons the variant that is warming up; the variants that are ready remain.
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
                self.errors[reply["failed"]] = NOT_READY if is_interrupted else reply.get("error", "")
            self.is_warmed_up = "all_ready" in reply

    def stop(self, reason="stopped"):
        """Ends the process. `reason` becomes the error of all variants that have none."""
        if self.process is not None:
            self.process.stop()
        self.is_warmed_up, self.ready = True, []
        for variant in self.variants:
            self.errors.setdefault(variant, reason)

    def measure(self, variant, limit):
        """Returns the images/s of each epoch of one measurement. Raises Unreadable if the process fails."""
        try:
            self.process.write(f"{variant} {PYTORCH_SECONDS}")
            line = self.process.read(limit)
        except (OSError, TimeoutError) as error:
            self.stop(str(error))
            raise Unreadable(f"{self.name}: {error}") from None
        rates = json_object(line or "").get("images_per_second")
        if not rates:
            self.stop("the program ended")
            raise Unreadable(f"{self.name}: the program ended during a measurement: {self.process.tail[-300:]}")
        return rates


def json_object(line):
    """Returns the JSON object in `line`, or an empty dictionary if it has none."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass
class Configuration:
    """A variant of Lockstep or PyTorch at one batch size, and its measurements."""

    program: str
    variant: str
    rounds: list = field(default_factory=list)  # per round, images/s of each epoch
    wall_rounds: list = field(default_factory=list)  # the same from the wall clock; Lockstep only
    has_failed: bool = False

    @property
    def label(self):
        return f"{'Lockstep' if self.program == 'lockstep' else 'PyTorch'} {self.variant}"

    @property
    def precision(self):
        """Precision of a Lockstep configuration."""
        return self.variant.split()[0]

    @property
    def rate(self):
        return rate_of_all(self.rounds)

    @property
    def wall_rate(self):
        return rate_of_all(self.wall_rounds)

    def ratios(self, references):
        """Returns the ratio of the medians of this configuration and of the reference, {round: median}, per round."""
        return [Rate(rates).median / references[i] for i, rates in enumerate(self.rounds) if i in references]


def rate_of_all(rounds):
    return Rate([value for rates in rounds for value in rates])


# --- PyTorch processes ---------------------------------------------------------------------------------------

def processes_of(context, batch):
    """Yields the PyTorch processes for a batch size; starts each process that has not been started."""
    for variants in (NOT_COMPILED, COMPILED):
        key = f"{batch} {variants[0]}"
        if key not in context.background:
            context.background[key] = PytorchProcess(context, batch, variants)
        yield context.background[key]


def start_processes(context):
    """Starts PyTorch for all batch sizes. It warms up and compiles while the parts that measure no time run."""
    for batch in context.args.batches:
        list(processes_of(context, batch))


def wait_for_warm_up(context, report):
    """Waits until every process has warmed up, and reports the variants that are not ready. No process may warm up
    during a measurement, because this would reduce the measured throughput."""
    # With --compile-alone, each process starts here, after the preceding one has warmed up. This takes longer.
    deadline = time.monotonic() + context.clock.left * (0.6 if context.args.compile_alone else 0.3)
    for batch in context.args.batches:
        for process in processes_of(context, batch):
            process.wait_for_warm_up(deadline)
            for variant, error in process.errors.items():
                if error == NOT_READY:
                    report.skip(f"d batch {batch} PyTorch {variant}", error)
                else:
                    report.fail(f"d batch {batch} PyTorch {variant}: {error}")


def stop_processes(context):
    """Ends the PyTorch processes, because the next part needs the GPU memory."""
    for process in context.background.values():
        if isinstance(process, PytorchProcess):
            process.stop()


# --- measurements --------------------------------------------------------------------------------------------

def available_configurations(context, batch):
    ready = {variant for process in processes_of(context, batch) for variant in process.ready}
    return [Configuration(program, variant) for program, variant in CONFIGURATIONS
            if program == "lockstep" or variant in ready]


def select_configurations(report, batch, configurations, seconds, rounds, costs):
    """Returns the configurations whose measurements in all rounds take at most `seconds` together, and reports the
    others as skipped. `costs` has the seconds of one measurement of each program."""
    selected, total = [], 0.0
    for configuration in configurations:
        cost = rounds * costs[configuration.program]
        if total + cost <= seconds:
            selected.append(configuration)
            total += cost
        else:
            report.skip(f"d batch {batch} {configuration.label}",
                        f"{seconds:.0f} s are not sufficient for {rounds} more rounds")
    return selected


def select_kernels(context, report, batch, configurations):
    """Lets Lockstep select the cuDNN kernels by timing before the first measurement. Lockstep caches the selection, so
    that no measurement includes this time."""
    for precision in dict.fromkeys(one.precision for one in configurations if one.program == "lockstep"):
        name = f"d kernels {batch} {precision}"
        outcome = context.runner.run(name, context.lockstep(
            "plan", "--device", "cuda", "--batch-per-rank", batch, "--precision", precision, "--json"),
            context.clock.limit(150))
        if not outcome.ok:
            report.fail_outcome(outcome)
            continue
        kernels = parse_json(outcome.stdout, "lockstep plan").get("kernels") or []
        report.check(kernels, f"{name}: lockstep plan lists no kernels")
        context.numbers[name] = kernels
        norms = [k["kernel"] for k in kernels if k["phase"] == "forward" and is_batch_norm(k["kernel"])]
        statistics = sum("sums from the convolution" in kernel for kernel in norms)
        normalisation = sum("applied by the next convolution" in kernel for kernel in norms)
        report.add_text(
            f"Batch {batch}, {precision}: Lockstep selected the kernels in {outcome.seconds:.0f} s. The preceding "
            f"convolution computes the statistics of {statistics} of {len(norms)} batch norms, and the following "
            f"convolution applies the normalisation of {normalisation}.")


def is_batch_norm(kernel):
    """Returns whether a kernel that `lockstep plan` names is an implementation of batch norm."""
    return kernel.startswith(("one node", "two passes", "two graphs", "sums from"))


def measure_lockstep(context, report, batch, configuration, number):
    """Trains one run and adds its rates to the configuration. `number` is the number of the round, from 1."""
    precision, residency, *fusion = configuration.variant.split()
    name = f"{batch} {configuration.variant} {number}"
    arguments = context.train_arguments(
        context.path(f"d-{name.replace(' ', '-')}.h5"), precision, "--data", context.data, "--batch-per-rank", batch,
        "--epochs", EPOCHS, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency", residency,
        "--loader-threads", context.args.loader_threads, "--evaluate-every", "never",
        "--bn-fusion", *(fusion or ["auto"]))
    _, run = context.run_training(report, f"d {name}", arguments, 60)
    rates = without_warm_up(run.rates) if run is not None else []
    if not rates:
        configuration.has_failed = True
        if run is not None:
            report.fail(f"d {name}: the run has fewer than {WARM_UP_EPOCHS + 1} epochs")
        return
    configuration.rounds.append(rates)
    configuration.wall_rounds.append(without_warm_up(run.wall_rates))


def measure_pytorch(context, report, batch, configuration):
    """Runs one measurement in PyTorch and adds its rates to the configuration."""
    process = next(one for one in processes_of(context, batch) if configuration.variant in one.variants)
    try:
        configuration.rounds.append(process.measure(configuration.variant, context.clock.limit(60)))
        report.checks += 1
    except Unreadable as error:
        report.fail(str(error))
        configuration.has_failed = True


def run_alternately(context, report, batch, configurations, costs):
    """Measures every configuration once per round. Updates `costs` with the measured durations."""
    for number in range(1, context.args.rounds + 1):
        # Every other round is in reverse order, so that a drift of the GPU clocks affects all configurations equally.
        for configuration in configurations if number % 2 else configurations[::-1]:
            program = configuration.program
            if configuration.has_failed:
                continue
            if context.clock.left < costs[program] * 1.2:
                report.skip(f"d batch {batch} {configuration.label} from round {number}", NO_TIME)
                continue
            start = time.monotonic()
            if program == "lockstep":
                measure_lockstep(context, report, batch, configuration, number)
            else:
                measure_pytorch(context, report, batch, configuration)
            costs[program] = (costs[program] + time.monotonic() - start) / 2


def measure_bound(context, report, batch, precision):
    """Returns the roofline bound of the throughput in images/s from `lockstep plan --measure`; None if not measured."""
    name = f"d roofline bound {batch} {precision}"
    if context.clock.left < 12:
        report.skip(name, NO_TIME)
        return None
    command = context.lockstep("plan", "--device", "cuda", "--measure", "--batch-per-rank", batch, "--precision",
                               precision, "--json")
    outcome = context.runner.run(name, command, context.clock.limit(60))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return None
    bound = parse_json(outcome.stdout, "lockstep plan").get("floor") or {}
    keys = ("flops_per_second", "bytes_per_second", "seconds", "floor_seconds")
    is_valid = all(isinstance(bound.get(key), int | float) and bound[key] > 0 for key in keys)
    if not report.check(is_valid, f"{name}: lockstep plan printed no roofline bound"):
        return None
    context.numbers[name] = bound
    report.add_text(
        f"Batch {batch}, {precision}: the roofline bound of a step is {bound['floor_seconds'] * 1e3:.2f} ms at "
        f"{bound['flops_per_second'] / 1e12:.0f} TFLOP/s and {bound['bytes_per_second'] / 1e12:.2f} TB/s. The "
        f"{len(bound.get('operations') or [])} operations, timed individually, take {bound['seconds'] * 1e3:.2f} ms.")
    return batch / bound["floor_seconds"]


# --- results -------------------------------------------------------------------------------------------------

def best_pytorch_medians(context, configurations):
    """Returns {round: median of the fastest PyTorch configuration in this round}."""
    best = {}
    for i in range(context.args.rounds):
        medians = [Rate(one.rounds[i]).median for one in configurations
                   if one.program == "pytorch" and i < len(one.rounds)]
        if medians:
            best[i] = max(medians)
    return best


def report_batch(context, report, batch, configurations, bounds):
    """Adds the table of one batch size. Returns the best median ratio of a Lockstep configuration to PyTorch."""
    measured = [one for one in configurations if one.rounds]
    references = best_pytorch_medians(context, measured)
    report.add_text(f"### Batch {batch}")
    if not references:
        report.fail(f"d batch {batch}: no PyTorch configuration was measured")
    rows, best = [], 0.0
    for one in measured:
        ratios = one.ratios(references)
        ratio = f"{Rate(ratios).median:.2f} ({min(ratios):.2f} - {max(ratios):.2f})" if ratios else ""
        share, wall = "", ""
        if one.program == "lockstep":
            bound = bounds.get(one.precision)
            share = f"{one.rate.median / bound:.0%}" if bound else ""
            wall = f"{one.wall_rate.median:,.0f}"
            report.check(abs(one.rate.median / one.wall_rate.median - 1) <= WALL_CLOCK_BOUND,
                         f"d batch {batch} {one.variant}: the throughput is {one.rate.median:,.0f} img/s from the "
                         f"phases and {wall} img/s from the wall clock")
            best = max(best, Rate(ratios).median if ratios else 0.0)
        rows.append([one.label, f"{one.rate.median:,.0f}", one.rate.spread, wall, ratio, share, len(one.rounds),
                     len(one.rate.values)])
        context.numbers[f"d {batch} {one.label}"] = {"images_per_second": one.rounds, "wall": one.wall_rounds}
    report.add_table(["configuration", "img/s", "min - max", "img/s by wall clock", "ratio to PyTorch (min - max)",
                      "share of the roofline bound", "rounds", "epochs"], rows)
    return best


def add_explanation(context, report):
    report.add_text(
        "The throughput in images per second is the median over the epochs of all rounds. For Lockstep, it is computed "
        "from `/steps/phase_seconds`, with all phases including `data_wait`, without the first "
        f"{WARM_UP_EPOCHS} epochs of each run. For PyTorch, it is computed from the wall-clock time of whole epochs after "
        f"{WARM_UP_EPOCHS} warm-up epochs. Every configuration is measured once per round. A ratio divides the median of a "
        "configuration by the median of the fastest PyTorch configuration in the same round. PyTorch always uses bf16, "
        "also in comparison with Lockstep in fp16. Configurations with \"none\" use `--bn-fusion none`; the others use "
        "`--bn-fusion auto`. tests/bench/pytorch_gpu.py describes the PyTorch variants.")
    report.add_text(
        "PyTorch compiled while no other program used the GPU." if context.args.compile_alone else
        "PyTorch compiled while the preceding parts used the GPU, so Inductor may have selected slower kernels. Use "
        "`--compile-alone` to avoid this.")


def throughput(context, report):
    wait_for_warm_up(context, report)
    add_explanation(context, report)
    costs, best = dict(INITIAL_COSTS), {}
    for batch in context.args.batches:
        # Each batch size may use half of the remaining time and the last one all of it, so that the first is complete.
        seconds = context.clock.left * (1.0 if batch == context.args.batches[-1] else 0.5)
        configurations = select_configurations(report, batch, available_configurations(context, batch), seconds * 0.85,
                                               context.args.rounds, costs)
        if not configurations:
            report.skip(f"d batch {batch}", NO_TIME)
            continue
        select_kernels(context, report, batch, configurations)
        run_alternately(context, report, batch, configurations, costs)
        precisions = dict.fromkeys(one.precision for one in configurations if one.program == "lockstep" and one.rounds)
        bounds = {precision: measure_bound(context, report, batch, precision) for precision in precisions}
        best[batch] = report_batch(context, report, batch, configurations, bounds)
    report.headline = "best ratio to PyTorch: " + ", ".join(f"{best[batch]:.2f} at batch {batch}" for batch in best)
    stop_processes(context)
