# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the same input gives the same bytes: all commands run twice, in different folders,
processes, time zones and hash seeds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from planted import write_sweep, write_training
from synthetic import write_ladder, write_layers, write_stack

COMMANDS = """
report runs --link-gbit 10 --out report
tables runs --out tables
figures runs --out figures
figures runs --width one-column --out paper
explain runs --json
explain runs
summary runs
index runs --csv index.csv
validate runs/train-2.h5
compare runs/train-1.h5 runs/train-2.h5 --json
predict runs/train-2.h5 --ranks 4,8 --network runs/sweep.h5 --algorithm ring --out predicted
export runs --to csv --out csv
export runs --to extra-p --out extra-p
export runs --to trace --out trace
watch runs/train-2.h5 --once
"""
PROGRAM = """
import sys
from lockstep_report.cli import main
for line in sys.stdin.read().strip().splitlines():
    print(line, main(line.split()), flush=True)
"""


def outputs(folder, source, seed, zone):
    """Runs all commands in `folder` on a copy of the runs. Returns {relative path: bytes} of all
    files, and what the commands printed."""
    shutil.copytree(source, folder / "runs")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=COMMANDS,
        cwd=folder,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TZ": zone,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
    )
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    } | {"stdout": done.stdout}


@pytest.mark.slow  # the commands are run twice
def test_all_outputs_of_all_commands_are_the_same_bytes(tmp_path):
    random, source = np.random.default_rng(1), tmp_path / "source"
    source.mkdir()
    for ranks in (1, 2):
        write_training(
            source / f"train-{ranks}.h5",
            random,
            ranks=ranks,
            steps=8,
            sizes=(4e6, 2e6) if ranks > 1 else (),
        )
    write_sweep(source / "sweep.h5", random, 2, 1e-4, 1e-9, [2**10, 2**16, 2**22])
    write_ladder(source / "ladder.h5")
    write_layers(source / "layers.h5")
    write_stack(source / "stack.h5")
    folders = [tmp_path / "a", tmp_path / "another-folder"]
    for folder in folders:
        folder.mkdir()
    first, second = (
        outputs(folder, source, seed, zone)
        for folder, seed, zone in zip(folders, ("1", "2"), ("UTC", "Asia/Tokyo"))
    )
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert {Path(name).suffix for name in first} >= {
        ".md",
        ".csv",
        ".tex",
        ".svg",
        ".png",
        ".pdf",
        ".json",
        ".h5",
    }
    for line in COMMANDS.strip().splitlines():
        assert f"{line} 0" in first["stdout"], first["stdout"][-2000:]
