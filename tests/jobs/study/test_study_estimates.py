# SPDX-License-Identifier: BSD-3-Clause
"""Tests of estimated durations, with stubs of lockstep that print what a timed step would."""

import pytest
from lockstep_study import durations
from lockstep_study.command import Commands
from lockstep_study.durations import Estimator, Processors, bytes_of, bytes_of_sweep, duration
from lockstep_study.points import Point
from lockstep_study.programs import Programs
from study_command import OPTIONS_OF_PROGRAMS, calls

STEP = {"images_per_second": "100.0", "train-samples": '"30000"', "test-samples": '"3000"'}


@pytest.fixture(autouse=True)
def clock_that_stands(monkeypatch):
    """Programs take no time, unless a test sets another clock."""
    monkeypatch.setattr(durations.time, "monotonic", lambda: 0.0)


@pytest.fixture
def estimate(tmp_path, program):
    """A function that returns the estimated duration of a point, whose experiment is `config`."""

    def seconds(words, config="", ranks=1, processors=None, further=(), step=STEP, launch=None):
        lines = "".join(f' "{name}": {value},\\n' for name, value in step.items())
        stub = program(
            experiment=f"[ $2 = experiment ] && printf '%s\\n' {config} || echo"
            f" '{OPTIONS_OF_PROGRAMS}'",
            check=f"""echo "$@" >>"{tmp_path}/calls"; printf '{lines}'; exit""",
        )
        commands = Commands(Programs(stub), tmp_path, list(further))
        estimator = Estimator(commands, processors or Processors(per_rank=2), launch)
        point = Point("a", ranks, tuple(words.split()))
        found = estimator.seconds(point)
        assert estimator.seconds(point) == found  # from the first timed step
        return found

    return seconds


TRAINING = "epochs=2 steps=0 evaluate-every=never batch-per-rank=8 global-batch=8"


@pytest.mark.parametrize(
    "config, ranks, seconds",
    [
        (TRAINING, 1, 2 * 300),
        (TRAINING, 2, 300),
        (f"{TRAINING} evaluate-every=1", 1, 2 * 300 + 2 * 10),
        (f"{TRAINING} evaluate-every=2", 1, 2 * 300 + 10),
        (f"{TRAINING} evaluate-every=3", 1, 2 * 300),
        (f"{TRAINING} evaluate-every=0", 1, 2 * 300 + 10),
        (f"{TRAINING} steps=50", 1, 50 * 8 / 100),
        (f"{TRAINING} steps=50 evaluate-every=9", 1, 50 * 8 / 100 + 10),
        (f"{TRAINING} pipeline-stages=1", 1, 2 * 300),
        (f"{TRAINING} pipeline-stages=2", 1, None),
    ],
)
def test_training_is_estimated_from_a_timed_step(estimate, config, ranks, seconds):
    assert estimate("train --epochs 2", config, ranks) == seconds


@pytest.mark.parametrize(
    "ranks, config, processors, threads, slowdown",
    [
        (1, "", Processors(per_rank=3), 3, 1),
        (1, "", Processors(shared=8), 8, 1),
        (2, "", Processors(shared=9), 4, 1),
        (4, "", Processors(shared=2), 1, 2),
        (1, "threads=8", Processors(shared=2), 8, 4),
        (1, "threads=0", Processors(shared=2), 2, 1),
        (2, "threads=8", Processors(per_rank=2), 8, 1),
    ],
)
def test_ranks_share_processors(estimate, tmp_path, ranks, config, processors, threads, slowdown):
    seconds = estimate("train", f"{TRAINING} {config}", ranks, processors)
    assert seconds == 600 / ranks * slowdown
    [words] = calls(tmp_path)
    assert words[words.index("--threads") + 1] == str(threads)


def test_timed_step_has_the_options_that_affect_the_time(estimate, tmp_path):
    words = "train --batch-per-rank 64 --epochs 9 --nesterov --config a.ini --test-samples 5"
    config = TRAINING.replace("batch-per-rank=8", "batch-per-rank=64")
    assert estimate(words, config, further=["--quiet", "--batch-per-rank", "64"]) == 600
    assert [" ".join(words) for words in calls(tmp_path)] == [
        "train --config a.ini --test-samples 5 --batch-per-rank 32 --threads 2 --steps 2"
        " --evaluate-every never --json"
    ]


def test_start_of_the_program_is_counted(estimate, monkeypatch):
    times = iter([2.0, 5.5])
    monkeypatch.setattr(durations.time, "monotonic", lambda: next(times))
    assert estimate("train", TRAINING) == 3.5 + 600


@pytest.mark.parametrize("batch, timed", [(1, 1), (31, 31), (32, 32), (33, 32), (0, 32)])
def test_batch_of_the_timed_step_is_limited(estimate, tmp_path, batch, timed):
    estimate("train", TRAINING.replace("batch-per-rank=8", f"batch-per-rank={batch}"))
    assert f"--batch-per-rank {timed} --threads" in " ".join(calls(tmp_path)[0])


def test_ladder_has_batches_up_to_the_training_images(estimate):
    """The batches are 100, 400, 1600, 6400 and 25600; the next one exceeds 30000 images."""
    config = "ladder-start=100 epochs=2 steps=0 batch-per-rank=0"
    assert estimate("ladder", config) == 5 * 2 * 30000 / 100
    config = "ladder-start=7500 epochs=2 steps=3"
    assert estimate("ladder", config) == 3 * (7500 + 30000) / 100
    assert estimate("ladder", "epochs=1 steps=1") == sum(32 * 4**i for i in range(5)) / 100


def test_duration_is_unknown_if_no_step_was_timed(estimate):
    assert estimate("train", TRAINING, step={"train-samples": "9"}) is None
    assert estimate("layers", TRAINING) is None
    assert estimate("stack", TRAINING) is None
    commands = Commands(Programs({"LOCKSTEP_BIN": "/nowhere"}), ".", [])
    assert Estimator(commands, Processors(per_rank=1)).seconds(Point("a", 1, ("train",))) is None


@pytest.fixture
def clock(monkeypatch):
    """Wall times: 2 s for the first sweep, 6 s for the second one."""
    times = iter([0, 2, 2, 8])
    monkeypatch.setattr(durations.time, "monotonic", lambda: next(times))


def launch(ranks):
    return ["env", f"RANKS={ranks}"]


def test_sweep_is_estimated_from_two_short_ones(estimate, tmp_path, clock):
    """It starts in 2 s and takes 4 s for 1K to 4M; 1K to 64M has 16 times as many bytes."""
    factor = bytes_of_sweep(1 << 10, 64 << 20, 4) / bytes_of_sweep(1 << 10, 4 << 20, 4)
    seconds = estimate("allreduce --max-bytes 64M --quiet", ranks=2, launch=launch)
    assert seconds == pytest.approx(2 + 4 * factor) and 15 < factor < 17
    assert [" ".join(words) for words in calls(tmp_path)] == [
        "allreduce --quiet --max-bytes 1024 --json",
        f"allreduce --quiet --max-bytes {4 << 20} --json",
    ]


def test_short_sweep_takes_as_long_as_it_was_timed(estimate, clock, tmp_path):
    words = "allreduce --min-bytes 2K --max-bytes 1M --step-factor 2"
    assert estimate(words, launch=launch) == 6
    assert calls(tmp_path)[1][-3:] == ["--max-bytes", str(1 << 20), "--json"]


@pytest.mark.parametrize(
    "words",
    ["--step-factor 1", "--step-factor x", "--min-bytes x", "--max-bytes 1.5M", "--max-bytes 0"],
)
def test_sweep_with_invalid_options_has_an_unknown_duration(estimate, words):
    assert estimate(f"allreduce {words}", launch=launch) is None


def test_sweep_that_cannot_start_has_an_unknown_duration(estimate):
    assert estimate("allreduce") is None
    assert estimate("allreduce", launch=lambda ranks: ["false"]) is None


def test_sizes_are_those_of_a_sweep():
    assert bytes_of_sweep(1, 64, 4) == 1 + 4 + 16 + 64
    assert bytes_of_sweep(3, 2, 2) == 0
    sizes = ["5", "1K", "2M", "3G", "1T", "-1", ""]
    assert [bytes_of(text) for text in sizes] == [5, 1 << 10, 2 << 20, 3 << 30, 0, 0, 0]


@pytest.mark.parametrize(
    "seconds, text",
    [
        (None, "duration unknown"),
        (0, "about 0 s"),
        (89, "about 89 s"),
        (90, "about 2 min"),
        (5399, "about 90 min"),
        (5400, "about 1.5 h"),
        (36000, "about 10.0 h"),
    ],
)
def test_duration_is_rounded(seconds, text):
    assert duration(seconds) == text
