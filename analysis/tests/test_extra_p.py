# SPDX-License-Identifier: BSD-3-Clause
"""The export to Extra-P: one model per line of measurements, and Extra-P itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.tables.export.extra_p import models
from planted import write_training

PACKAGES = Path(__file__).parents[2] / "build" / "python-packages"  # of jobs/setup --dev


def chosen(*places):
    """Returns {name: (parameters, points)} of the models of runs with these (ranks, batch per
    rank)."""
    trained = [
        (None, SimpleNamespace(ranks=ranks, batch_per_rank=batch)) for ranks, batch in places
    ]
    return {
        name: (parameters, [(point.ranks, point.batch_per_rank) for _, point in own])
        for name, (parameters, own) in models(trained).items()
    }


WEAK, STRONG = [(1, 64), (2, 64), (4, 64)], [(1, 64), (2, 32), (4, 16)]
OTHER_STRONG = [(1, 128), (2, 64), (4, 32)]
R, B = "ranks", "batch_per_rank"


@pytest.mark.parametrize(
    "places, expected",
    [
        (WEAK, {"": ([R], WEAK)}),
        (STRONG, {"": ([R], STRONG)}),
        ([(4, 64)], {"": ([R], [(4, 64)])}),
        ([*STRONG, (1, 32), (1, 16)], {"": ([R], STRONG)}),
        ([*WEAK, (4, 128)], {"": ([R], WEAK)}),
        ([*STRONG, *STRONG], {"": ([R], [*STRONG, *STRONG])}),
        (
            [*STRONG, *OTHER_STRONG],
            {"global batch 64": ([R], STRONG), "global batch 128": ([R], OTHER_STRONG)},
        ),
        (
            [*WEAK, (2, 32), (4, 16)],
            {"batch 64 per rank": ([R], WEAK), "global batch 64": ([R], STRONG)},
        ),
        ([(1, 32), (1, 64), (1, 128)], {"": ([B], [(1, 32), (1, 64), (1, 128)])}),
        ([(1, 32), (2, 64)], {"": ([R], [(1, 32), (2, 64)])}),
        (
            [(r, b) for r in (1, 2) for b in (8, 16)],
            {"": ([R, B], [(r, b) for r in (1, 2) for b in (8, 16)])},
        ),
    ],
)
def test_each_line_of_measurements_has_a_model(places, expected):
    assert chosen(*places) == expected


def exported(folder, global_batches):
    """Returns {name: path} of the export of strong-scaling studies with steps of 0.4 s · global
    batch / (256 · ranks)."""
    random = np.random.default_rng(1)
    runs = [
        str(
            write_training(
                folder / f"{size}-{ranks}.h5",
                random,
                ranks=ranks,
                steps=20,
                batch=size // ranks,
                images=size,
                work=0.4 * size / 256 / ranks,
                sigma=0.01,
                config={"train-samples": "10240"},
            )
        )
        for size in global_batches
        for ranks in (1, 2, 4, 8, 16)
    ]
    assert main(["export", *runs, "--to", "extra-p", "--out", str(folder / "out")]) == 0
    return {path.name: path for path in (folder / "out").glob("extra-p*.json")}


def test_each_global_batch_has_a_file(tmp_path):
    found = exported(tmp_path, (256, 512))
    assert sorted(found) == [
        "extra-p-overlap-global-batch-256.json",
        "extra-p-overlap-global-batch-512.json",
    ]
    for path in found.values():
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["parameters"] == ["ranks"]
        assert [each["point"] for each in content["measurements"]["step"]["time"]] == [
            [1],
            [2],
            [4],
            [8],
            [16],
        ]


@pytest.mark.requires("EXTRAP")
def test_extra_p_fits_the_times_of_a_strong_scaling_study(tmp_path):
    (path,) = exported(tmp_path, (256,)).values()
    code = "import sys; from extrap.extrap.extrapcmd import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            "--options",
            "allow_negative_exponents=1",
            "--json",
            path,
            "--print",
            "{callpath} | {model}",
        ],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    found = dict(line.split(" | ") for line in result.stdout.splitlines() if " | " in line)
    constant, _, falling = found["step"].partition(" + ")
    factor, _, power = falling.partition(" * ")
    assert power == "ranks^(-1)" and 0.39 < float(factor) < 0.41 and float(constant) < 0.02, found
