# SPDX-License-Identifier: BSD-3-Clause
"""Tests the numbers that figures of single steps and of work show."""

from typing import NamedTuple, Optional

import numpy as np
from drawn import lines, numbers, ticks
from lockstep_report.figures import telemetry as telemetry_figure, work as work_figure
from lockstep_report.figures.style import new_figure
from lockstep_report.measure.fitting import Estimate
from lockstep_report.measure.stragglers import Straggler
from lockstep_report.runfile.read import read_run
from matplotlib.colors import to_hex
from planted import write_training
from test_telemetry import write as write_telemetry


def test_telemetry_shows_steps_rates_and_ends_of_epochs(tmp_path):
    run = read_run(write_telemetry(tmp_path / "a.h5"))
    steps, *panels = telemetry_figure.draw_telemetry(run).axes
    dots, *marks = lines(steps)
    assert dots[1] == numbers(1 + 0.1 * np.arange(1, 31)) and dots[2] == [100] * 30
    assert sorted(mark[1][0] for mark in marks) == [2.5, 4] and steps.get_ylim()[0] == 0
    assert len(panels) == 4 and all(axes.get_ylim()[0] == 0 for axes in panels)
    by_title = {axes.get_title(loc="left"): lines(axes) for axes in panels}
    processors, memory, network = (
        by_title[name] for name in ("Processors in use", "Resident memory", "Network")
    )
    assert processors[1][0] == "user, rank 1" and set(processors[1][2]) == {3}  # 1.5 (rank + 1)
    assert (
        memory[2][0] == "rank 2" and memory[2][1][-1] == 10 and memory[2][2][-1] == 33
    )  # 3 (1 + t) MiB
    assert (
        network[0][0] == "node1 eth0, received"
        and set(network[0][2]) == {2}
        and set(network[1][2]) == {4}
    )


def test_dots_of_long_runs_are_the_longest_of_a_group(monkeypatch):
    monkeypatch.setattr(telemetry_figure, "MOST_STEPS", 2)
    seconds = np.array([1.0, 3, 2, 5, 4.0])
    monkeypatch.setattr(telemetry_figure, "step_seconds", lambda run, steps: seconds[steps])
    axes = new_figure(6.4, 4.8).subplots()
    telemetry_figure.draw_steps(axes, None, np.arange(10.0, 15))
    assert lines(axes) == [(None, [11, 13], [3000, 5000])]
    assert axes.get_title("left") == "Step (slowest rank; the longest of each 3 steps)"


def test_work_is_in_classes_relative_to_the_median_rank():
    work = np.ones((100, 4))
    work[50:, 2] = 1.15
    work[:10, 1] = 1.5  # the limit belongs to the lower class
    work[90:, 3] = 1.75
    classes, edges, ranks = work_figure.work_classes(work, columns=10)
    assert edges.tolist() == list(range(0, 101, 10)) and ranks.tolist() == [0, 1, 2, 3]
    assert classes.tolist() == [[0] * 10, [4] + [0] * 9, [0] * 5 + [3] * 4 + [2], [0] * 9 + [5]]
    classes, edges, ranks = work_figure.work_classes(work[:, :3], columns=60, rows=2)
    assert (
        ranks.tolist() == [0, 1] and classes[1, -1] == 3 and len(edges) == 61 and edges[-1] == 100
    )


class Written(NamedTuple):
    """A run that a test writes."""

    name: str
    ranks: int
    slow_rank: Optional[int] = None


WRITTEN = (Written("a", 2), Written("b", 4, 2), Written("c", 4, 2), Written("d", 3))


def read_written(folder):
    """Returns the runs of WRITTEN; the slow ranks work 30 ms longer."""
    random = np.random.default_rng(1)
    options = {"steps": 300, "work": 0.1, "sigma": 1e-6, "slow": 0.03}
    paths = [
        write_training(
            folder / f"{run.name}.h5", random, ranks=run.ranks, slow_rank=run.slow_rank, **options
        )
        for run in WRITTEN
    ]
    return [read_run(path) for path in paths]


def straggler(run):
    """Returns the straggler of a run of four ranks, which have a slow one, or of another run."""
    if run.rank_count != 4:
        return Straggler(run.label, run.rank_count, 0, "", Estimate(0.0), 0.1, False, 0.5)
    excess = Estimate(0.03, 0.029, 0.031)
    return Straggler(run.label, 4, 2, "node2", excess, 0.1, True, 0.5)


def test_work_of_a_run_is_drawn_with_its_slowest_rank(tmp_path):
    runs = read_written(tmp_path)
    # A repeat of a slow run, and the other runs, are left out.
    (axes,) = work_figure.work_figure(runs, list(map(straggler, runs))).axes
    assert " ".join(axes.get_title(loc="left").split()) == (
        "b.h5: rank 2 on node2, 30 ms per step more than the others (95 % interval 29.0 to 31.0 ms)"
    )
    background, *classes, frame = axes.patches
    first, last = background.get_x(), background.get_x() + background.get_width()
    assert (first, last) == (2, 302)
    assert numbers(background.get_bbox().extents) == [first, -0.5, last, 3.5]
    assert background.get_label() == "up to 2 % above"
    assert to_hex(background.get_facecolor()) == "#eef0f3"
    assert numbers(frame.get_bbox().bounds) == [first, 1.5, last - first, 1]
    assert numbers((*axes.get_xlim(), *axes.get_ylim())) == [first, last, 3.5, -0.5]
    cells = {patch.get_label(): patch.get_path().vertices.reshape(-1, 5, 2) for patch in classes}
    assert [len(found) for found in cells.values()] == [0, 0, 0, 60, 0]
    slow_cells = cells["20 to 50 % above"]
    assert numbers(slow_cells[0][:4]) == numbers(
        [(first, 1.5), (first + 5, 1.5), (first + 5, 2.5), (first, 2.5)]
    )
    assert numbers(slow_cells[1:, 0, 0]) == numbers(slow_cells[:-1, 1, 0])
    assert slow_cells[-1, 1, 0] == last
    assert classes[3].get_path().codes.tolist() == [1, 2, 2, 2, 79] * 60
    assert [label for _, label in ticks(axes.yaxis)] == [0, 1, 2, 3]


def test_work_of_equal_ranks_is_drawn_without_a_slow_one(tmp_path):
    runs = [run for run in read_written(tmp_path) if run.rank_count != 4]
    figure = work_figure.work_figure(runs, list(map(straggler, runs)))
    title = figure.axes[0].get_title(loc="left")
    assert title.startswith("d.h5: rank 0, 0 ms") and title.endswith("significant")
    assert work_figure.work_figure([], []) is None
    idle, _, _ = work_figure.work_classes(np.zeros((4, 2)))
    assert idle.tolist() == [[0] * 4] * 2  # no work to compare
