# SPDX-License-Identifier: BSD-3-Clause
"""Trainings of two ranks under ThreadSanitizer: no thread of Lockstep may race with another one.

LOCKSTEP_BIN is the program, built with the preset cpu-tsan. The reports about libraries in the file
`suppressions` are ignored; every other report is a failure.
"""

import os
import pathlib
import signal
import subprocess
import time

import pytest

BIN = os.environ["LOCKSTEP_BIN"]
# The program with the option --inject.
WITH_FAULTS = os.environ["LOCKSTEP_BUILD"] + "/tests/campaign/lockstep_with_faults"
MPIRUN = (
    os.environ.get("LOCKSTEP_MPIRUN", "mpirun --oversubscribe --bind-to none")
    .replace(";", " ")
    .split()
)
FOLDER = pathlib.Path(__file__).resolve().parent
TIMEOUT = 900

# Every kind of thread: 2 threads of OpenMP, 2 that load images, the watchdog and its answers,
# telemetry, checkpoints.
TRAINING = {
    "data": "synthetic:16@3x8x8",
    "batch-per-rank": 2,
    "epochs": 2,
    "threads": 2,
    "loader-threads": 2,
    "conv-algorithm": "direct",
    "telemetry": 100,
    "checkpoint-every": "1-steps",
    "watchdog": 600,
}


def environment(folder):
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")
    }
    options = (
        f"suppressions={FOLDER / 'suppressions'}:log_path={folder / 'race'}:exitcode=0"
        ":history_size=7"
    )
    return inherited | {
        "TSAN_OPTIONS": options,
        "OMP_TOOL_LIBRARIES": os.environ.get("LOCKSTEP_ARCHER", "libarcher.so"),
        "OMP_WAIT_POLICY": "passive",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }


def reports(folder):
    """Returns the reports of ThreadSanitizer of all ranks."""
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("race.*")))


def start(folder, *arguments, output="run.h5", program=BIN, **options):
    """Starts a training of two ranks; `options` replace those of TRAINING."""
    options = (
        TRAINING
        | {"checkpoint-dir": folder / "checkpoints", "output": folder / output}
        | {name.replace("_", "-"): value for name, value in options.items()}
    )
    command = [
        *MPIRUN,
        "-n",
        "2",
        program,
        "train",
        *(f"--{name}={value}" for name, value in options.items()),
        *arguments,
    ]
    return subprocess.Popen(
        command, env=environment(folder), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process, folder, status):
    output, errors = process.communicate(timeout=TIMEOUT)
    found = reports(folder)
    assert not found, found[:20000]
    assert process.returncode == status, output + errors


@pytest.mark.parametrize(
    "reducer", ["overlap", "allreduce", "gather-scatter", "parameter-server", "none"]
)
def test_reducer_has_no_race(tmp_path, reducer):
    finish(start(tmp_path, reducer=reducer), tmp_path, 0)


@pytest.mark.parametrize(
    "algorithm", ["shared-memory", "direct", "ring", "recursive-doubling", "mpi"]
)
def test_all_reduce_algorithm_has_no_race(tmp_path, algorithm):
    finish(start(tmp_path, all_reduce=algorithm, epochs=1), tmp_path, 0)


def test_convolution_algorithms_have_no_race(tmp_path):
    """Times all algorithms, so that all kernels run."""
    finish(start(tmp_path, conv_algorithm="auto", epochs=1), tmp_path, 0)


def test_pipeline_has_no_race(tmp_path):
    finish(
        start(tmp_path, pipeline_stages=2, micro_batches=2, batch_per_rank=4, epochs=1), tmp_path, 0
    )


def checkpoints(folder):
    return set((folder / "checkpoints").glob("*.h5"))


@pytest.mark.parametrize("reducer", ["overlap", "parameter-server"])
def test_stop_by_a_signal_and_resume_have_no_race(tmp_path, reducer):
    for part in range(2):
        process, earlier = (
            start(tmp_path, reducer=reducer, epochs=200, resume="auto", output=f"{part}.h5"),
            checkpoints(tmp_path),
        )
        while checkpoints(tmp_path) <= earlier:
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGUSR1)  # after SIGTERM, mpirun kills the ranks within a second
        finish(process, tmp_path, 75)


def test_timeout_of_the_watchdog_has_no_race(tmp_path):
    finish(start(tmp_path, program=WITH_FAULTS, watchdog=20, inject="stall:1:2"), tmp_path, 70)


def test_race_is_reported(tmp_path):
    """The program LOCKSTEP_RACE has a race between two of its threads and one between two threads
    of OpenMP."""
    for kind in ("threads", "openmp"):
        subprocess.run([os.environ["LOCKSTEP_RACE"], kind], env=environment(tmp_path), check=True)
        assert "data race" in reports(tmp_path) and "race.cpp" in reports(tmp_path)
        for path in tmp_path.glob("race.*"):
            path.unlink()
    subprocess.run([os.environ["LOCKSTEP_RACE"], "none"], env=environment(tmp_path), check=True)
    assert not reports(tmp_path)
