# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the statements of the answer follow from one set of runs and agree with each other."""

import re

import h5py
import numpy as np
import pytest
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import point_of
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.answers.all_answers import headline_texts
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.registry import all_tables
from synthetic import phases, write_ladder, write_run


def write(path, ranks=1, batch=32, seconds=0.5, images=384, steps=None, **config):
    """Writes two epochs of `images` images, or `steps` steps of the first one."""
    per_epoch = images // (batch * ranks)
    made = phases(steps or 2 * per_epoch, *[(0.01, 0, seconds, 0.3, 0.05 * (ranks > 1), 0)] * ranks)
    made *= 1 + 0.2 * np.random.default_rng(len(str(path))).random((len(made), 1, 1))
    epochs = 1 if steps else 2
    return write_run(
        path,
        made,
        batch * ranks,
        batch=batch,
        epochs=epochs,
        reducer="overlap" if ranks > 1 else "none",
        config={"train-samples": str(images), **config},
        attributes={"part": 1, "steps_per_epoch": per_epoch, "images_per_epoch": images},
    )


def answer_of(*paths):
    runs = [read_run(path) for path in paths]
    points = add_comparison_notes(merge_repeats([p for p in map(point_of, runs) if p]))
    tables = all_tables(points, runs)
    texts = headline_texts(explain(points, runs).answers)
    return {table.name: table.rows for table in tables}, texts


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
        r"The highest throughput is ([\d.,]+) images/s:"
        r" an epoch of ([\d,]+) images takes ([\d.]+) s",
        text,
    )
    rate, images, seconds = (float(number.replace(",", "")) for number in found.groups())
    assert images / seconds == pytest.approx(rate, rel=0.01)
    rows = book["table-1-time-speedup"]
    assert rate == pytest.approx(max(row["images_per_second"] for row in rows), abs=0.06)
    assert ("ladder" in text) == (name == "ladder")
    for row in rows:
        assert row["images"] / row["epoch_seconds"] == pytest.approx(row["images_per_second"])


def test_a_ladder_answers_which_batch_fits(tmp_path):
    _, texts = answer_of(*STUDIES["ladder"](tmp_path))
    assert texts[2] == (
        "The largest batch of the ladder ladder.h5 that fits is 128 per rank on 1 rank with 410"
        " MiB; batch 512 exceeds the memory limit. Its highest throughput is 2,500.0 images/s on"
        " 1 rank at batch 128."
    )


def test_a_ladder_that_ended_before_the_memory_was_full_says_so(tmp_path):
    path = write_ladder(tmp_path / "ladder.h5", config={"train-samples": "1000"})
    with h5py.File(path, "r+") as file:
        file["ladder/status"][2] = "complete"
        file["ladder/images_per_second"][2] = 3000.0
    _, texts = answer_of(path)
    assert (
        "is 512 per rank on 1 rank; the next batch has more images than the 1,000 of the training"
        " set, so the memory limit was not reached"
    ) in " ".join(texts)


def test_scaling_names_why_a_run_is_no_base_case(tmp_path):
    _, texts = answer_of(write(tmp_path / "1.h5", threads="2"), write(tmp_path / "2.h5", 2))
    assert "has 2 threads per rank instead of 1 thread per rank" in texts[1]
    assert "run both with the same --threads" in texts[1]
