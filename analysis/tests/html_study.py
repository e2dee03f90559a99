# SPDX-License-Identifier: BSD-3-Clause
"""A study with planted parameters for the tests of the page: weak and strong scaling from 1 to 16
ranks with repeats, a slow rank, a ladder, and sweeps.

Run as a program, it writes the run files to a folder: python3 analysis/tests/html_study.py FOLDER
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from planted import write_sweep, write_training  # noqa: E402
from synthetic import phases, write_ladder, write_run  # noqa: E402

SIZES = [4 * 4**n for n in range(12)]
BUCKETS = (4e6, 2e6, 1e6)


def write_study(folder, counts=(1, 2, 4, 8, 16), repeats=6):
    """Writes the run files to `folder`, which is created, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(17)
    for ranks in counts:
        for repeat in range(repeats):
            weak = folder / f"weak-{ranks:02d}-{repeat + 1}.h5"
            write_weak(weak, random, ranks)
            curve(weak, repeat, ranks)
        if ranks > 1:
            strong = folder / f"strong-{ranks:02d}.h5"
            write_strong(strong, random, ranks)
            curve(strong, 0, 1)
    write_ladder(folder / "ladder.h5")
    for algorithm, alpha, beta in (("ring", 2e-5, 4e-9), ("direct", 5e-6, 9e-9)):
        write_sweep(
            folder / f"sweep-{algorithm}.h5", random, 8, alpha, beta, SIZES, algorithm=algorithm
        )
    return folder


def write_weak(path, random, ranks):
    communication = {"sizes": BUCKETS, "reducer": "overlap"}
    if ranks == 1:
        communication = {"sizes": (), "reducer": "none"}
    write_training(
        path,
        random,
        ranks=ranks,
        steps=320 // ranks,
        alpha=2e-4 * ranks,
        beta=4e-9,
        work=0.1,
        images=32 * ranks,
        slow_rank=ranks - 1 if ranks > 4 else None,
        slow=0.012,
        epochs=2,
        **communication,
    )


def write_strong(path, random, ranks):
    write_training(
        path,
        random,
        ranks=ranks,
        steps=320,
        sizes=BUCKETS,
        alpha=2e-4 * ranks,
        beta=4e-9,
        batch=32 // ranks,
        work=0.1 / ranks + 0.004,
        images=32,
        reducer="overlap",
        epochs=2,
    )


def write_points(folder, count):
    """Writes training runs at `count` numbers of ranks from 1 on, all with the same batch per rank
    and with long names; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for ranks in range(1, count + 1):
        step = (0.01, 0.01, 0.3, 0.6 + 0.01 * ranks, 0.02 * (ranks - 1), 0.05)
        write_run(
            folder / f"a-run-with-a-rather-long-name-on-{ranks}-ranks.h5",
            phases(8, *[step] * ranks),
            32 * ranks,
            epochs=2,
            config={"train-samples": "100000"},
            environment={"warnings": ""},
            ranks_of={"hostname": [f"compute-node-{n:04d}.cluster" for n in range(ranks)]},
        )
    return folder


def curve(path, seed, ranks):
    """Replaces the losses and accuracies of a run by values that improve."""
    with h5py.File(path, "r+") as file:
        count = len(file["epoch"])
        done = np.arange(1, count + 1) / (1 + 0.1 * np.log2(ranks)) + 0.03 * seed
        for name, values in (
            ("train_loss", 2.3 * np.exp(-done)),
            ("test_loss", 2.2 * np.exp(-done)),
            ("test_accuracy", 1 - 0.9 * np.exp(-done)),
        ):
            file[f"epochs/{name}"][:] = values


if __name__ == "__main__":
    write_study(Path(sys.argv[1]))
