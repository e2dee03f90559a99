# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the statements of the answer follow from one set of runs and agree with each other."""

import re

import numpy as np
import pytest
from lockstep_report.html.answer import answer
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import point_of
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.registry import all_tables
from synthetic import phases, write_ladder, write_run


def write(path, ranks=1, batch=32, seconds=0.5, images=384, steps=None, **config):
    """Writes two epochs of `images` images, or `steps` steps of the first one."""
    per_epoch = images // (batch * ranks)
    made = phases(steps or 2 * per_epoch, *[(0.01, 0, seconds, 0.3, 0.05 * (ranks > 1), 0)] * ranks)
    made *= 1 + 0.2 * np.random.default_rng(len(str(path))).random((len(made), 1, 1))
    return write_run(
        path,
        made,
        batch * ranks,
        batch=batch,
        epochs=1 if steps else 2,
        reducer="overlap" if ranks > 1 else "none",
        config={"train-samples": str(images), **config},
        attributes={"part": 1, "steps_per_epoch": per_epoch, "images_per_epoch": images},
    )


def answer_of(*paths):
    runs = [read_run(path) for path in paths]
    points = add_comparison_notes(merge_repeats([p for p in map(point_of, runs) if p]))
    tables = all_tables(points, runs)
    return {table.name: table.rows for table in tables}, answer(tables, points)


STUDIES = {
    "one run": lambda d: [write(d / "a.h5")],
    "few steps": lambda d: [write(d / "a.h5", steps=5), write(d / "b.h5", 2, steps=4)],
    "weak": lambda d: [write(d / f"{n}.h5", n, seconds=0.5 + 0.1 * n) for n in (1, 2, 4)],
    "strong": lambda d: [write(d / f"{n}.h5", n, 64 // n, seconds=1 / n + 0.1) for n in (1, 2, 4)],
    "two repeats": lambda d: [write(d / "a.h5", seconds=0.2), write(d / "b.h5", seconds=0.9)],
    "batches": lambda d: [write(d / f"{b}.h5", batch=b, seconds=b / 100) for b in (16, 32, 64)],
    "few images": lambda d: [write(d / "all.h5"), write(d / "few.h5", images=96)],
    "ladder": lambda d: [write(d / "a.h5"), write_ladder(d / "ladder.h5")],
}


@pytest.mark.parametrize("name", STUDIES)
def test_statements_of_the_answer_agree(tmp_path, name):
    book, texts = answer_of(*STUDIES[name](tmp_path))
    text = " ".join(texts)
    found = re.search(
        r"shortest epoch.*? takes ([\d.]+) s.*?, which is ([\d.,]+) images/s for its ([\d,]+)"
        r" images",
        text,
    )
    seconds, rate, images = (float(number.replace(",", "")) for number in found.groups())
    assert images / seconds == pytest.approx(rate, rel=0.01)
    same = [row for row in book["table-1-time-speedup"] if row["images"] == images]
    assert seconds == pytest.approx(min(row["epoch_seconds"] for row in same), abs=0.006)
    assert images == max(row["images"] for row in book["table-1-time-speedup"])
    assert ("ladder" in text) == (name == "ladder")
    for row in book["table-1-time-speedup"]:
        assert row["images"] / row["epoch_seconds"] == pytest.approx(row["images_per_second"])


def test_a_ladder_is_named_as_a_separate_measurement(tmp_path):
    _, texts = answer_of(*STUDIES["ladder"](tmp_path))
    assert (
        "A separate measurement, the batch ladder: 1 rank (device), has its shortest epoch, 20.00"
        " s, 3 steps, extrapolated, at batch 128 per rank." in texts[0]
    )


def test_scaling_names_why_a_run_is_no_base_case(tmp_path):
    _, texts = answer_of(write(tmp_path / "1.h5", threads="2"), write(tmp_path / "2.h5", 2))
    assert "has 2 threads per rank instead of 1 thread per rank" in texts[1]
    assert "run both with the same --threads" in texts[1]
