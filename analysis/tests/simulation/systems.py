# SPDX-License-Identifier: BSD-3-Clause
"""Simulated measurements with known truth: series of times, and run files with planted causes."""

from dataclasses import dataclass, field

import h5py
import numpy as np
from synthetic import PHASES, dataset, write_clocks, write_run

FORWARD, BACKWARD, UPDATE = 0.03, 0.06, 0.01  # seconds of a step of one rank
STEP = FORWARD + BACKWARD + UPDATE
EXPOSED = PHASES.index("exposed_communication")
KERNELS = "conv1 forward: direct; conv1 backward: direct"


def deviations(random, kind, steps, ranks=None):
    """Returns (step) or (step, rank): deviations of unit scale with median 0, of independent
    ranks."""
    shape = steps if ranks is None else (steps, ranks)
    values = random.standard_normal(shape)
    if kind == "AR(1) 0.6":
        for i in range(1, steps):
            values[i] = 0.6 * values[i - 1] + 0.8 * values[i]
    elif kind == "two states":  # a state lasts for 5 steps on average and is 3 units slower
        state = np.cumsum(random.random(shape) < 0.2, axis=0) % 2
        values += (
            3 * (state - 0.5)
            if ranks is None
            else 3 * np.where(random.random(ranks) < 0.5, state, 1 - state) - 1.5
        )
    elif kind == "skewed":
        values = random.exponential(size=shape) - np.log(2)
    return values


@dataclass(frozen=True)
class Effect:
    """An effect on the steps of N ranks. The functions take N and return seconds per step."""

    causes: object  # N -> {cause: mean over the ranks}
    every: dict = field(default_factory=dict)  # phase -> seconds, on all ranks
    rank: dict = field(default_factory=dict)  # the same on the last rank
    turn: float = 0.0  # delay of the forward pass of one rank, which is drawn for each step
    transfer: float = 0.0
    calls: float = 0.0  # of the backward pass
    options: dict = field(default_factory=dict)


EFFECTS = {
    "waiting": Effect(
        lambda n: {"slower_compute": 0.03 / n, "waiting": 0.03 * (n - 1) / n}, turn=0.03
    ),
    "transfer": Effect(lambda n: {"transfer": 0.02}, transfer=0.02),
    "communication": Effect(
        lambda n: {"communication": 0.01}, every={"exposed_communication": 0.01}
    ),
    "calls": Effect(lambda n: {"calls": 0.012}, every={"backward": 0.012}, calls=0.012),
    "data_wait": Effect(lambda n: {"data_wait": 0.012}, every={"data_wait": 0.012}),
    "upload": Effect(lambda n: {"upload": 0.011}, every={"upload": 0.011}),
    "slow_rank": Effect(
        lambda n: {"slow_rank": 0.03 / n, "waiting": 0.03 * (n - 1) / n}, rank={"forward": 0.03}
    ),
    "slower_compute": Effect(lambda n: {"slower_compute": 0.02}, every={"forward": 0.02}),
    "kernels": Effect(
        lambda n: {"slower_compute": 0.03},
        every={"backward": 0.03},
        options={"kernels": KERNELS.replace("direct", "winograd")},
    ),
}


def write_steps(
    path,
    random,
    ranks,
    effects=(),
    per_host=1,
    steps=30,
    sigma=0.002,
    factor=1.0,
    correlation="independent",
    batch=32,
    images=None,
    kernels=KERNELS,
    lack=0.0,
    clock=0.0,
    clock_error=0.0,
    config=(),
):
    """Writes a training of two epochs, of one and of `steps` steps, whose ranks start every step
    together and reduce one bucket after the backward pass. All times are multiplied by `factor`,
    and the passes of a rank vary by `sigma`. The clock of the last rank is ahead by `clock`; the
    file has no offsets, and the errors `clock_error`."""
    chosen = [EFFECTS[name] for name in effects] if ranks > 1 else []
    count = steps + 1
    phases = phases_of(random, chosen, deviations(random, correlation, count, ranks) * sigma)
    work = phases[:, :, :EXPOSED].sum(axis=2)
    transfer, calls = (sum(getattr(e, name) for e in chosen) for name in ("transfer", "calls"))
    end = work.max(axis=1, keepdims=True) + transfer
    exposed = end - work if ranks > 1 else np.zeros_like(work)
    phases[:, :, EXPOSED] += exposed
    begin = work - (BACKWARD / 2 if calls else 0)
    phases *= factor
    starts = np.zeros((count, ranks))
    starts[1:] = np.cumsum(phases.sum(axis=2).max(axis=1))[:-1, None]
    bucket = {}
    if ranks > 1:
        bucket = bucket_of(factor * begin, factor * end, factor * (exposed + calls))
    kernels = dict(pair for e in chosen for pair in e.options.items()).get("kernels", kernels)
    write_run(
        path,
        phases,
        batch * ranks,
        batch=batch,
        reducer="overlap" if calls else "allreduce",
        config={"train-samples": str(images or steps * batch * ranks), **dict(config)},
        attributes={
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": steps,
            "images_per_epoch": steps * batch * ranks,
        },
        epoch_of_step=np.array([1] + [2] * steps),
        environment={"all_reduce": "ring", "transport": "Open MPI", "kernels": kernels},
        ranks_of=ranks_of(ranks, per_host),
        **bucket,
    )
    starts[:, -1] += clock
    write_clocks(path, starts, error=clock_error)
    if lack:
        add_run_delay(path, lack, ranks)
    return path


def phases_of(random, effects, noise):
    """Returns (step, rank, phase) with the effects. `noise`: (step, rank), of the logarithms of the
    passes."""
    count, ranks = noise.shape
    phases = np.zeros((count, ranks, len(PHASES)))
    vary = np.exp(noise)
    for name, value in (("forward", FORWARD), ("backward", BACKWARD)):
        phases[:, :, PHASES.index(name)] = value * vary
    phases[:, :, PHASES.index("update")] = UPDATE
    for effect in effects:
        for name, value in effect.every.items():
            phases[:, :, PHASES.index(name)] += value
        for name, value in effect.rank.items():
            phases[:, -1, PHASES.index(name)] += value
        slow = random.integers(ranks, size=count)
        phases[np.arange(count), slow, PHASES.index("forward")] += effect.turn
    return phases


def bucket_of(begin, end, calls):
    """Returns the options of `write_run` for one bucket of all gradients."""
    return {
        "bucket_bytes": [4_000_000],
        "bucket_start": begin[:, :, None],
        "bucket_end": np.broadcast_to(end, begin.shape)[:, :, None],
        "bucket_calls": calls[:, :, None],
    }


def ranks_of(ranks, per_host):
    names = [f"node{rank // per_host}" for rank in range(ranks)]
    return {"hostname": names, "cpu_list": "0-7"}


def add_run_delay(path, share, ranks):
    """Adds that the ranks waited for a processor for a share of each epoch."""
    with h5py.File(path, "r+") as file:
        seconds = np.asarray(file["epochs/seconds"])
        delays = share * np.repeat(seconds[:, None], ranks, axis=1)
        dataset(file, "/epochs/run_delay_seconds", delays)


def write_study(
    folder, random, ranks, effects=(), per_host=1, repeats=1, spread=0.0, steps=30, **options
):
    """Writes the runs of one rank and of `ranks` ranks at a fixed batch per rank; the runs vary by
    `spread`. Returns the paths."""
    paths = []
    for count in (1, ranks):
        for repeat in range(repeats):
            paths.append(
                write_steps(
                    folder / f"{count}-{repeat}.h5",
                    random,
                    count,
                    effects,
                    per_host,
                    steps * ranks // count,
                    factor=np.exp(spread * random.standard_normal()),
                    images=steps * 32 * ranks,
                    **(options if count > 1 else {}),
                )
            )
    return paths
