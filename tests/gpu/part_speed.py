"""Part d: compares the throughput of Lockstep and PyTorch; the configurations take turns."""

import json
import signal
import time
from dataclasses import dataclass, field

from measures import SKIPPED_EPOCHS, Rate, Unreadable, counted, parse_json
from running import Conversation

EPOCHS = 5  # per Lockstep run: two for warm-up, three that are evaluated
ROUND_SECONDS = 1.2  # minimum duration of a PyTorch turn, which trains whole epochs
WALL_BOUND = 0.05  # largest relative difference of the throughput from phases and from the wall clock
NOT_READY, TOLD_SECONDS = "it was not ready in time", 15
GUESSED_SECONDS = {"lockstep": 7.0, "pytorch": 2.5}  # assumed duration of a turn before the first measurement
LIGHT, COMPILED = ("graph", "eager", "host"), ("compile", "compile_graph")

# Ordered by importance: if time is short, the last ones are skipped.
TURNS = (("lockstep", "bf16 device"), ("pytorch", "graph"), ("pytorch", "compile"), ("lockstep", "fp16 device"),
         ("pytorch", "compile_graph"), ("lockstep", "bf16 host"), ("pytorch", "eager"), ("pytorch", "host"),
         ("lockstep", "fp16 host"), ("lockstep", "fp16 device none"), ("lockstep", "bf16 device none"))


class Contender:
    """A PyTorch process with some variants for one batch size; it stays loaded and waits for its turns."""

    def __init__(self, context, batch, variants):
        self.name, self.variants = f"d pytorch {batch} {variants[0]}", variants
        self.ready, self.complaints, self.settled, self.told = [], {}, False, False
        command = context.torch("speed", "--data", context.args.data, "--batch", batch, "--variants", *variants)
        try:
            self.talk = Conversation(context.runner, self.name, command)
        except OSError as error:
            self.talk, self.settled = None, True
            self.complaints = dict.fromkeys(variants, f"cannot be started: {error.strerror or error}")

    def settle(self, deadline):
        """Waits until all variants have ended their warm-up or failed; ends those that are not ready at `deadline`."""
        while not self.settled:
            try:
                line = self.talk.read(deadline - time.monotonic())
            except TimeoutError:
                if not self.ready or self.told:
                    self.stop(NOT_READY)
                    return
                # Keep the variants that are ready; SIGUSR1 abandons the one that is warming up.
                self.told, deadline = True, time.monotonic() + TOLD_SECONDS
                self.talk.process.send_signal(signal.SIGUSR1)
                continue
            if line is None:
                self.stop(f"its program ended: {self.talk.tail[-300:]}")
                return
            answer = as_object(line)
            if "ready" in answer:
                self.ready.append(answer["ready"])
            elif "failed" in answer:
                self.complaints[answer["failed"]] = NOT_READY if self.told else answer.get("why", "")
            self.settled = "all_ready" in answer

    def stop(self, why="stopped"):
        if self.talk is not None:
            self.talk.stop()
        self.settled = True
        for variant in self.variants:
            self.complaints.setdefault(variant, why)
        self.ready = []

    def turn(self, variant, limit):
        """Runs one turn; returns the images per second of each epoch. Raises Unreadable if the process fails."""
        try:
            self.talk.write(f"{variant} {ROUND_SECONDS}")
            line = self.talk.read(limit)
        except (OSError, TimeoutError) as error:
            self.stop(str(error))
            raise Unreadable(f"{self.name}: {error}") from None
        rates = as_object(line or "").get("images_per_second")
        if not rates:
            self.stop("its program ended")
            raise Unreadable(f"{self.name}: ended in its turn: {self.talk.tail[-300:]}")
        return rates


def as_object(line):
    try:
        answer = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


@dataclass
class Entry:
    """Measurements of one configuration at one batch size."""

    kind: str
    name: str
    rounds: list = field(default_factory=list)  # one list per turn: images/s of its epochs
    wall: list = field(default_factory=list)
    broken: bool = False

    @property
    def label(self):
        return f"{'Lockstep' if self.kind == 'lockstep' else 'PyTorch'} {self.name}"

    @property
    def rate(self):
        return Rate([value for turn in self.rounds for value in turn])


def start_contenders(context):
    """Starts PyTorch for all batch sizes; it warms up and compiles while the parts that measure no time run."""
    for batch in context.args.batches:
        for variants in (LIGHT, COMPILED):
            context.background[f"{batch} {variants[0]}"] = Contender(context, batch, variants)


def contenders_of(context, batch):
    return [context.background[f"{batch} {variants[0]}"] for variants in (LIGHT, COMPILED)]


def settle(context, report):
    """Waits until every contender is ready, or ends it and reports it. No contender may warm up during a turn, because
    this would slow the turn down."""
    # With --compile-alone, compilation starts here and needs more time; otherwise it has been running for minutes.
    alone = context.args.compile_alone
    deadline = time.monotonic() + context.clock.left * (0.6 if alone else 0.3)
    for batch in context.args.batches:
        for variants in (LIGHT, COMPILED):
            key = f"{batch} {variants[0]}"
            if key not in context.background:
                context.background[key] = Contender(context, batch, variants)
            context.background[key].settle(deadline)
        for contender in contenders_of(context, batch):
            for variant, why in contender.complaints.items():
                if variant in contender.ready:
                    continue
                if why == NOT_READY:
                    report.cut(f"d batch {batch} PyTorch {variant}", why)
                else:
                    report.fail(f"d batch {batch} PyTorch {variant}", why)


def lockstep_turn(context, report, batch, entry, number):
    precision, residency, *fusion = entry.name.split()
    arguments = context.train_arguments(
        context.path(f"d-{batch}-{'-'.join(entry.name.split())}-{number}.h5"), precision, "--data", context.data,
        "--batch-per-rank", batch, "--epochs", EPOCHS, "--lr", "0.1", "--lr-schedule", "onecycle", "--data-residency",
        residency, "--loader-threads", context.args.loader_threads, "--evaluate-every", "never",
        "--bn-fusion", *(fusion or ["auto"]))
    _, run = context.run_training(report, f"d {batch} {entry.name} {number}", arguments, 60)
    rates = counted(run.rates) if run is not None else []
    if not report.check(rates or run is None, f"d {batch} {entry.name}: fewer than {SKIPPED_EPOCHS + 1} epochs"):
        rates = []
    if not rates:
        entry.broken = True
        return
    entry.rounds.append(rates)
    entry.wall.append(counted(run.wall_rates))


def pytorch_turn(context, report, batch, entry):
    contender = next(one for one in contenders_of(context, batch) if entry.name in one.variants)
    try:
        entry.rounds.append(contender.turn(entry.name, context.clock.limit(60)))
        report.check(True, entry.label)
    except Unreadable as error:
        report.fail(str(error))
        entry.broken = True


def entries_of(context, batch):
    ready = {variant for contender in contenders_of(context, batch) for variant in contender.ready}
    return [Entry(kind, name) for kind, name in TURNS if kind == "lockstep" or name in ready]


def fit_into(report, batch, entries, seconds, rounds, costs):
    """Returns the entries, in their order, whose turns of all rounds fit into `seconds`; reports the others as cut."""
    kept, spent = [], 0.0
    for entry in entries:
        cost = rounds * costs[entry.kind]
        if spent + cost <= seconds:
            kept.append(entry)
            spent += cost
        else:
            report.cut(f"d batch {batch} {entry.label}", f"{rounds} rounds more would not fit into {seconds:.0f} s")
    return kept


def take_turns(context, report, batch, entries, costs):
    rounds = context.args.rounds
    for number in range(1, rounds + 1):
        # Every other round is in reverse order, so that a drift of the GPU clocks affects all entries equally.
        for entry in entries if number % 2 else entries[::-1]:
            if entry.broken:
                continue
            if context.clock.left < costs[entry.kind] * 1.2:
                report.cut(f"d batch {batch} {entry.label} from round {number}", "no time was left")
                continue
            began = time.monotonic()
            if entry.kind == "lockstep":
                lockstep_turn(context, report, batch, entry, number)
            else:
                pytorch_turn(context, report, batch, entry)
            costs[entry.kind] = 0.5 * costs[entry.kind] + 0.5 * (time.monotonic() - began)


def choose_kernels(context, report, batch, entries):
    """Lets Lockstep time the cuDNN kernels before the first turn. It caches the result, so that no turn includes this
    time."""
    for precision in dict.fromkeys(entry.name.split()[0] for entry in entries if entry.kind == "lockstep"):
        name = f"d kernels {batch} {precision}"
        outcome = context.runner.run(name, context.lockstep(
            "plan", "--device", "cuda", "--batch-per-rank", batch, "--precision", precision, "--json"),
            context.clock.limit(150))
        if not outcome.ok:
            report.fail_outcome(outcome)
            continue
        kernels = parse_json(outcome.stdout, "lockstep plan").get("kernels") or []
        norms = [k["kernel"] for k in kernels if k["phase"] == "forward" and is_batch_norm(k["kernel"])]
        summed = sum("sums from the convolution" in kernel for kernel in norms)
        unwritten = sum("applied by the next convolution" in kernel for kernel in norms)
        report.check(kernels, f"{name}: lockstep plan names no kernels")
        report.say(f"Batch {batch}, {precision}: kernels chosen in {outcome.seconds:.0f} s. Of {len(norms)} batch norms "
                   f"{summed} take their sums from the convolution before, {unwritten} are applied by the one behind.")
        context.numbers[name] = kernels


def is_batch_norm(kernel):
    return kernel.startswith(("one node", "two passes", "two graphs", "sums from"))


def measure_floor(context, report, batch, precision):
    """Returns the roofline bound of one step from `lockstep plan --measure` in images per second, or None if it was not
    measured."""
    name = f"d floor {batch} {precision}"
    if context.clock.left < 12:
        report.cut(name, "no time was left")
        return None
    command = context.lockstep("plan", "--device", "cuda", "--measure", "--batch-per-rank", batch, "--precision",
                               precision, "--json")
    outcome = context.runner.run(name, command, context.clock.limit(60))
    if not outcome.ok:
        report.fail_outcome(outcome)
        return None
    floor = parse_json(outcome.stdout, "lockstep plan").get("floor") or {}
    keys = ("flops_per_second", "bytes_per_second", "seconds", "floor_seconds")
    sound = all(isinstance(floor.get(key), int | float) and floor[key] > 0 for key in keys)
    if not report.check(sound, f"{name}: no floor in what lockstep plan printed"):
        return None
    context.numbers[name] = floor
    report.say(f"Batch {batch}, {precision}: floor {floor['floor_seconds'] * 1e3:.2f} ms a step against "
               f"{floor['flops_per_second'] / 1e12:.0f} TFLOP/s and {floor['bytes_per_second'] / 1e12:.2f} TB/s; "
               f"operations one by one {floor['seconds'] * 1e3:.2f} ms, {len(floor.get('operations') or [])} rows.")
    return batch / floor["floor_seconds"]


def ratios(entry, best_of_round):
    """Returns, per round, the median of this configuration divided by the best median of PyTorch."""
    return [Rate(turn).median / best_of_round[i] for i, turn in enumerate(entry.rounds) if i in best_of_round]


def show_batch(context, report, batch, entries, floors):
    measured = [entry for entry in entries if entry.rounds]
    theirs = [entry for entry in measured if entry.kind == "pytorch"]
    best_of_round = {}
    for i in range(context.args.rounds):
        medians = [Rate(entry.rounds[i]).median for entry in theirs if i < len(entry.rounds)]
        if medians:
            best_of_round[i] = max(medians)
    rows, best = [], 0.0
    for entry in measured:
        per_round = ratios(entry, best_of_round)
        ratio = f"{Rate(per_round).median:.2f} ({min(per_round):.2f} - {max(per_round):.2f})" if per_round else ""
        floor = floors.get(entry.name.split()[0])
        share, wall = "", ""
        if entry.kind == "lockstep":
            share = f"{entry.rate.median / floor:.0%}" if floor else ""
            of_wall = Rate([value for turn in entry.wall for value in turn]).median
            wall = f"{of_wall:,.0f}"
            report.check(abs(entry.rate.median / of_wall - 1) <= WALL_BOUND,
                         f"d batch {batch} {entry.name}: the phases give {entry.rate.median:,.0f} img/s, the wall clock "
                         f"{of_wall:,.0f}")
            best = max(best, Rate(per_round).median if per_round else 0.0)
        rows.append([entry.label, f"{entry.rate.median:,.0f}", entry.rate.spread, wall, ratio, share, len(entry.rounds),
                     len(entry.rate.values)])
        context.numbers[f"d {batch} {entry.label}"] = {"images_per_second": entry.rounds, "wall": entry.wall}
    report.say(f"### Batch {batch}")
    if not theirs:
        report.fail(f"d batch {batch}: nothing of PyTorch was measured to compare with")
    report.table(["", "img/s", "min - max", "by the wall clock", "ratio to PyTorch's best (min - max)",
                  "share of the floor", "rounds", "epochs"], rows)
    return best


def speed(context, report):
    settle(context, report)
    report.say(f"Images per second: the median over epochs of all rounds, Lockstep's from `/steps/phase_seconds` (all "
               f"phases, the wait for data too) of the epochs after the first {SKIPPED_EPOCHS}, PyTorch's by the wall "
               f"clock of whole epochs after {SKIPPED_EPOCHS} to warm up. Every configuration takes its turn in every "
               "round; a ratio is that of one round's medians, PyTorch's best being the fastest variant of that round. "
               "PyTorch computes in bf16, also where it stands beside Lockstep's fp16. \"none\" is `--bn-fusion none`; "
               "the others let Lockstep choose. What the variants do: "
               "tests/bench/pytorch_gpu.py.")
    report.say("PyTorch compiled " + ("alone on the machine." if context.args.compile_alone else
               "beside the parts before this one, so Inductor chose among its kernels on a busy GPU; "
               "`--compile-alone` avoids that."))
    costs, best = dict(GUESSED_SECONDS), {}
    for index, batch in enumerate(context.args.batches):
        # Each batch may use half of the remaining time and the last one all of it, so that the first is complete.
        share = context.clock.left * (1.0 if index + 1 == len(context.args.batches) else 0.5)
        entries = fit_into(report, batch, entries_of(context, batch), share * 0.85, context.args.rounds, costs)
        if not entries:
            report.cut(f"d batch {batch}", "no time was left")
            continue
        choose_kernels(context, report, batch, entries)
        take_turns(context, report, batch, entries, costs)
        floors = {precision: measure_floor(context, report, batch, precision) for precision in ("bf16", "fp16")
                  if any(entry.rounds and entry.name.startswith(precision) for entry in entries)}
        best[batch] = show_batch(context, report, batch, entries, floors)
    report.headline = "ratio to PyTorch's best: " + ", ".join(f"{value:.2f} at {batch}" for batch, value in best.items())
    stop_contenders(context)


def stop_contenders(context):
    """Ends the PyTorch processes, because the next part needs the GPU memory."""
    for one in context.background.values():
        if isinstance(one, Contender):
            one.stop()
