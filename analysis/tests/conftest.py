# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
sys.path.append(str(Path(__file__).parents[2] / "build" / "python-packages"))  # of jobs/setup --dev

import pytest  # noqa: E402
from synthetic import phases, write_run  # noqa: E402

STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)


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
