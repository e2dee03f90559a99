# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
sys.path.append(str(Path(__file__).parents[2] / "build" / "python-packages"))  # of jobs/setup --dev

import pytest  # noqa: E402
from synthetic import phases, write_run  # noqa: E402

STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)
TWO = (0.01, 0.01, 0.03, 0.04, 0.025, 0.01)

pytest.register_assert_rewrite("commands", "pytorch_programs", "nccl_outputs")


@pytest.fixture
def one(tmp_path):
    """Path of a run on one rank."""
    return str(write_run(tmp_path / "one.h5", phases(20, STEP), 10, epochs=2, batch=10))


@pytest.fixture
def pair(tmp_path, one):
    """Paths of runs on one and on two ranks."""
    return [
        one,
        str(
            write_run(
                tmp_path / "two.h5",
                phases(10, STEP, STEP),
                20,
                epochs=2,
                batch=10,
                bucket_bytes=[400],
                bucket_start=[0.05],
                bucket_end=[0.1],
            )
        ),
    ]


@pytest.fixture
def runs(tmp_path):
    """Paths of two runs of 2 epochs: 1 rank with 10 steps per epoch, 2 ranks with 5."""
    one = write_run(tmp_path / "one.h5", phases(20, STEP), 10, epochs=2, batch=10)
    two = write_run(
        tmp_path / "two.h5",
        phases(10, TWO, TWO),
        20,
        epochs=2,
        batch=10,
        bucket_bytes=[400],
        bucket_start=[0.05],
        bucket_end=[0.1],
    )
    return [str(one), str(two)]
