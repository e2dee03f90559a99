# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a run that is stopped or killed and resumed has the same results as one that is not,
bit for bit.

LOCKSTEP_RESUME_ROUNDS is the number of times that each variant is interrupted in random steps [1];
LOCKSTEP_RESUME_SEED is the seed of the random numbers [1].
"""

import os
import random
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from command_line import BIN, HANG, MPIRUN, environment, train
from interrupted_runs import root

pytestmark = pytest.mark.slow
CHANGING_SUMS = os.environ.get("LOCKSTEP_CHANGING_SUMS")

ROUNDS = int(os.environ.get("LOCKSTEP_RESUME_ROUNDS", "1"))
SEED = int(os.environ.get("LOCKSTEP_RESUME_SEED", "1"))
STEPS_PER_EPOCH, EPOCHS = 4, 2
STEPS = STEPS_PER_EPOCH * EPOCHS
OPTIONS = {
    "model": "vgg11",
    "data": "synthetic:16",
    "batch_per_rank": 4,
    "steps": None,
    "epochs": EPOCHS,
    "evaluate_every": 1,
    "lr": 0.01,
    "lr_schedule": "cosine",
    "checkpoint_every": "1-steps",
    "keep": 2,
}
# Number of ranks, signals that interrupt the run, and options. The default reducer is overlap, and
# images are cropped and flipped. Of the launcher's processes only those of one rank can be killed
# at once.
VARIANTS = {
    "stopped": (1, (signal.SIGTERM, signal.SIGUSR1), {}),
    "killed": (1, (signal.SIGKILL,), {}),
    "bf16": (1, (signal.SIGTERM, signal.SIGKILL), {"precision": "bf16", "evaluate_every": 0}),
    "overlap": (2, (signal.SIGUSR1,), {"batch_per_rank": 2}),
    "pipeline": (
        2,
        (signal.SIGUSR1,),
        {"batch_per_rank": 4, "pipeline_stages": 2, "micro_batches": 2, "stage_cuts": "flops"},
    ),
}


def command(ranks, folder, options):
    """Returns the command of a run whose results do not depend on when it is executed."""
    launcher = [*MPIRUN, "-n", ranks] if ranks > 1 else []
    return [
        *map(str, launcher),
        BIN,
        *train(
            "--deterministic",
            **OPTIONS | options,
            resume="auto",
            checkpoint_dir=folder / "ckpt",
            output=folder / "run.h5",
        ),
    ]


def run_to_end(words):
    result = subprocess.run(words, env=environment(), text=True, capture_output=True, timeout=HANG)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def newest(folder):
    """Returns the step of the newest checkpoint, or 0."""
    return max((int(p.stem.split("-")[1]) for p in folder.glob("ckpt/checkpoint-*.h5")), default=0)


def interrupt(words, folder, number, rng):
    """Starts the command and sends the signal in a random step that it has not saved yet, or before
    its first step."""
    target = rng.randint(min(newest(folder), STEPS - 1), STEPS - 1)
    process = subprocess.Popen(
        words, env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + HANG
    while process.poll() is None and newest(folder) < target:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.2))
    process.send_signal(number)
    _, errors = process.communicate(timeout=HANG)
    # Without 75 or 0, the signal ended the process: always SIGKILL, and other signals before the
    # training.
    assert process.returncode in (0, 75, -number, 128 + number), errors
    assert newest(folder) >= target or process.returncode in (
        -number,
        128 + number,
    ), "an acknowledged checkpoint is lost"


def state(folder):
    """Returns the contents of the newest checkpoint, without those that describe the processes that
    have worked on the run."""
    with h5py.File(folder / "ckpt" / f"checkpoint-{newest(folder)}.h5") as file:
        contents = {
            name: value
            for name, value in file.attrs.items()
            if name not in ("part", "sequence", "run_id", "digest")
        }
        datasets = []
        file.visititems(
            lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) else None
        )
        return contents | {name: file[name][()].tobytes() for name in datasets}


def results(folder):
    """Returns the values of a run, by step and by epoch, that do not depend on time. A later part
    of the run replaces the steps that it repeats."""
    paths = [*folder.glob("run*.h5"), *folder.glob("run*.h5.partial")]
    steps, epochs = {}, {}
    for path in sorted(paths, key=lambda path: root(path)["part"]):
        with h5py.File(path, swmr=path.suffix == ".partial") as file:
            first = int(file.attrs["first_step"])
            columns = [
                file["steps"][name][()].tolist()
                for name in ("epoch", "loss", "learning_rate", "images")
            ]
            steps |= {first + i: row for i, row in enumerate(zip(*columns))}
            for i, epoch in enumerate(file["epoch"][()].tolist()):
                end = first + np.count_nonzero(np.array(columns[0]) <= epoch)
                if end == epoch * STEPS_PER_EPOCH:
                    epochs[epoch] = [
                        (
                            file["epochs"][name][i].tobytes()
                            if name != "parameter_hash"
                            else file["epochs"][name][i]
                        )
                        for name in ("test_loss", "test_accuracy", "parameter_hash")
                    ]
    return steps, epochs


@pytest.mark.parametrize("variant", VARIANTS)
def test_interrupted_run_has_the_bits_of_an_uninterrupted_one(tmp_path, variant):
    ranks, signals, options = VARIANTS[variant]
    rng = random.Random(f"{SEED} {variant}")
    whole = tmp_path / "whole"
    whole.mkdir()
    run_to_end(command(ranks, whole, options))
    expected, (expected_steps, expected_epochs) = state(whole), results(whole)
    assert len(expected_steps) == STEPS and len(expected_epochs) == EPOCHS
    for i in range(ROUNDS):
        folder = tmp_path / f"interrupted-{i}"
        folder.mkdir()
        words = command(ranks, folder, options)
        for _ in range(2):
            interrupt(words, folder, rng.choice(signals), rng)
        run_to_end(words)
        assert not [
            path for path in (folder / "ckpt").iterdir() if not path.name.startswith("checkpoint-")
        ]
        assert state(folder) == expected
        steps, epochs = results(folder)
        # The steps of an epoch in which the process was killed are in no run file, but their
        # results are in the checkpoint.
        lost = signal.SIGKILL in signals
        assert steps.items() <= expected_steps.items() if lost else steps == expected_steps
        assert epochs.items() <= expected_epochs.items() if lost else epochs == expected_epochs


@pytest.mark.skipif(
    not CHANGING_SUMS, reason="LOCKSTEP_CHANGING_SUMS is not set to the library to preload"
)
@pytest.mark.parametrize("ranks", [3, 4])
def test_results_do_not_depend_on_earlier_sums_of_the_mpi_library(tmp_path, ranks):
    """The library to preload changes the last bit of the sums from the fifth call on
    (changing_sums.c)."""
    found = []
    for variables in ([], [f"LD_PRELOAD={CHANGING_SUMS}"]):
        folder = tmp_path / str(len(variables))
        folder.mkdir()
        options = {
            "data": "synthetic:24",
            "batch_per_rank": 2,
            "bn": "sync",
            "grad_clip": 1,
            "steps": 3,
            "epochs": None,
        }
        *launcher, last, program = command(ranks, folder, options)[: len(MPIRUN) + 3]
        run_to_end(
            [
                *launcher,
                last,
                "env",
                *variables,
                program,
                *command(ranks, folder, options)[len(MPIRUN) + 3 :],
            ]
        )
        found.append((state(folder), *results(folder)))
    assert found[0] == found[1]


def test_run_resumes_with_other_numbers_of_ranks(tmp_path):
    """One rank trains three steps, two ranks the next three and four ranks the last two. With --bn
    sync they compute the same sums as one rank, in another order. The first step after the resume
    differs by the rounding of one step; training from random weights amplifies this difference in
    later steps."""
    options = {
        "batch_per_rank": None,
        "global_batch": 4,
        "bn": "sync",
        "lr": 0.001,
        "lr_schedule": "constant",
        "epochs": None,
    }
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    run_to_end(command(1, whole, options | {"steps": STEPS}))
    run_to_end(command(1, parts, options | {"steps": 3}))
    for before, ranks, steps in (1, 2, 6), (2, 4, STEPS):
        errors = run_to_end(command(ranks, parts, options | {"steps": steps})).stderr
        assert (
            f"with {before} data-parallel ranks, and this one has {ranks}" in errors
            and "not bit-identical" in errors
        )
    (expected, _), (steps, _) = results(whole), results(parts)
    assert sorted(steps) == sorted(expected) == list(range(STEPS))
    for step, (epoch, loss, *others) in steps.items():
        assert (epoch, others) == (expected[step][0], list(expected[step][2:]))
        assert loss == pytest.approx(expected[step][1], rel=1e-5 if step <= 3 else 1e-2), step
    ours, theirs = state(parts), state(whole)
    for name in theirs:
        if name.startswith("state/") and name.endswith("weight"):
            one, other = (np.frombuffer(values[name], np.float32) for values in (theirs, ours))
            assert np.linalg.norm(one - other) <= 1e-2 * np.linalg.norm(one), name
