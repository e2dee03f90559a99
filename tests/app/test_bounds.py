# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the largest permitted values of all numeric options end in a refusal or in a run,
never in a signal."""

import json
import re
import subprocess

import pytest
from command_line import BIN, WITH_FAULTS, start

TABLE = json.loads(
    subprocess.run([BIN, "help", "options-json"], capture_output=True, text=True, check=True).stdout
)
MOST = {
    option["name"]: re.search(r"to (?:below )?([0-9.e+]+)", option["range"])[1]
    for option in TABLE
    if option["type"] in ("integer", "number", "bytes")
}
MOST |= {
    "momentum": "0.999",
    "label-smoothing": "0.999",
    "seed": 2**64 - 1,
}  # below the end of their ranges
RUN = {"data": "synthetic:128@3x8x8/10", "batch-per-rank": 32, "threads": 1, "loader-threads": 1}
THROW = "throw:0:6"  # the run ends with this injected exception in the second epoch


def end_of(command, *flags, **options):
    """Returns the exit status and the last error message of a run; `options`: names with
    underscores."""
    named = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    result = start(command, *named, *flags, program=WITH_FAULTS)
    return result.returncode, (result.stderr.splitlines() or [""])[-1]


def most(*names):
    return {name.replace("-", "_"): MOST[name] for name in names}


# The values that are multiplied with others are together in one run.
RUNS = [
    (
        "epochs",
        "evaluate-every",
        "warmup-epochs",
        "keep",
        "grace",
        "watchdog",
        "lr-reference-batch",
        "link-gbit",
        "telemetry",
        "momentum",
        "label-smoothing",
        "grad-clip",
        "seed",
        "bucket-mib",
        "memory-limit",
        "loader-threads",
        "batch-norm-sms",
        "engine-seconds",
    ),
    ("steps", "evaluate-every", "warmup-epochs"),
]
ENDS = [  # command, options with their largest value, status
    ("train", ("batch-per-rank",), 3),
    ("train", ("train-samples",), 2),
    ("train", ("test-samples",), 2),
    ("train", ("threads",), 2),
    ("train", ("micro-batches",), 2),
    ("train", ("pipeline-stages",), 2),
    ("train", ("lr", "weight-decay"), 5),
    ("train", ("loss-scale",), 2),
    ("train", ("classes", "batch-per-rank"), 3),
    ("train", ("trust-coefficient",), 2),
    ("ladder", ("ladder-start",), 0),
    ("allreduce", ("min-bytes", "max-bytes"), 4),
    ("allreduce", ("step-factor",), 0),
    ("plan", ("epochs", "global-batch"), 3),
    ("plan", ("steps", "profile"), 0),
]


@pytest.mark.parametrize("names", RUNS, ids=lambda names: names[0])
def test_runs_bear_the_largest_values(names, tmp_path):
    options = {name.replace("-", "_"): value for name, value in RUN.items()} | most(*names)
    status, line = end_of(
        "train",
        **options,
        inject=THROW,
        lr_schedule="cosine",
        lr_scaling="linear",
        checkpoint_dir=tmp_path,
        checkpoint_every="1000000000s",
    )
    assert (status, "injected exception" in line) == (70, True), line


@pytest.mark.parametrize(
    "command, names, expected", ENDS, ids=lambda value: "-".join(value) if value is tuple else None
)
def test_the_largest_values_are_refused_or_run(command, names, expected):
    defaults = {
        "train": {**RUN, "evaluate-every": "never", "steps": 2},
        "plan": RUN,
        "allreduce": {},
        "ladder": {"data": RUN["data"], "threads": 1},
    }[command]
    options = {name.replace("-", "_"): value for name, value in defaults.items()} | most(*names)
    if "steps" in names or "epochs" in names:
        options.pop("epochs" if "steps" in names else "steps", None)
    if "global-batch" in names:
        del options["batch_per_rank"]
    status, line = end_of(command, **options)
    assert status == expected, line


def test_every_number_has_a_case():
    named = {name for names in RUNS for name in names} | {
        name for _, names, _ in ENDS for name in names
    }
    assert named | {"repeats"} == set(MOST)  # 1,000,000 repeats take long and are only counted


@pytest.mark.parametrize(
    "text", ["synthetic:1000000@4096x4096x4096", "synthetic:1000001", "synthetic:10@4097x1x1"]
)
def test_images_have_bounds(text):
    status, line = end_of("plan", data=text, batch_per_rank=1)
    assert status == 2 and "must be" in line


@pytest.mark.parametrize(
    "layer",
    [
        "relu@2147483647x2147483647x2147483647x2147483647",
        "maxpool:k16@1x1x64x64",
        "conv:2147483647-2147483647,k3@1x8x8",
        "conv:3-8,k3,s1025,p1@1x8x8",
    ],
)
def test_layers_have_bounds(layer):
    status, line = end_of("layers", layer=layer)
    assert status == 2 and "is not a layer" in line
