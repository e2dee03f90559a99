# SPDX-License-Identifier: BSD-3-Clause
"""Tests of grids, which are points without a table."""

import pytest
from lockstep_study.header import grid_points
from lockstep_study.status import read_stored
from study_command import RUN, calls, commands_of, show, study


def lines(*axes):
    return [" ".join([p.name, str(p.ranks), *p.words]) for p in grid_points(axes)]


def test_grid_has_every_combination_of_the_values():
    assert lines("ranks=1,2", "lr=0.1,0.2") == [
        "lr-0.1-n1 1 train --lr 0.1",
        "lr-0.2-n1 1 train --lr 0.2",
        "lr-0.1-n2 2 train --lr 0.1",
        "lr-0.2-n2 2 train --lr 0.2",
    ]


@pytest.mark.parametrize(
    "axes, points",
    [
        (["lr=0.1,0.2"], ["lr-0.1 1 train --lr 0.1", "lr-0.2 1 train --lr 0.2"]),
        (["ranks=2", "epochs=3"], ["point 2 train --epochs 3"]),
        (["command=layers,train"], ["layers 1 layers", "train 1 train"]),
        (
            ["nesterov=yes,-", "lr=1"],
            ["nesterov 1 train --nesterov --lr 1", "point 1 train --lr 1"],
        ),
    ],
)
def test_axes_are_columns(axes, points):
    assert lines(*axes) == points


@pytest.mark.parametrize(
    "axes, message",
    [
        (["ranks"], "--grid 'ranks' is not an option with values, such as ranks=1,2,4"),
        (["ranks="], "--grid 'ranks=' is not an option with values"),
        (["lr=1,,2"], "--grid 'lr=1,,2' is not an option with values"),
        (["LR=1"], "--grid 'LR=1' is not an option with values"),
        (["data=a\tb"], "its command contains a tab"),
        (["lr=1", "lr=2"], "two columns are named 'lr'"),
        (["ranks=1,0"], "the number of ranks is '0'"),
        (["seed=1,2"], "--seed is given by the program that runs the study"),
        (["data=$HOME"], "'$' is not expanded"),
        (["data=a b"], "the value of data, 'a b', contains a blank"),
        (["data=a;b"], "it contains the character ';'"),
        (["lr=1,1"], "--grid: two points are named 'point'"),
        (["lr=" + ",".join(map(str, range(1001)))], "--grid has more than 1000 points"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_grid_is_one_error(tmp_path, axes, message):
    ended = study("--dry-run", "--dir", tmp_path, "--grid", *axes)
    assert ended.returncode == 1 and ended.stdout == ""
    assert message in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_grid_and_table_exclude_each_other(table):
    ended = study("--dry-run", table, "--grid", "ranks=1")
    assert ended.stderr == "study: a table and --grid were both given; give one of them\n"


def test_grid_is_run_and_stored_as_a_table(tmp_path, program):
    words = ["--grid", "ranks=1,2", "batch-per-rank=8", "--", "--epochs", "2"]
    ended = study("--repeats", 3, *RUN, "--dir", tmp_path / "out", *words, **program())
    assert ended.returncode == 0, ended.stderr
    assert [call[:5] for call in calls(tmp_path)[:2]] == [
        ["train", "--batch-per-rank", "8", "--epochs", "2"]
    ] * 2
    stored = read_stored(tmp_path / "out")
    assert stored.repeats == 3
    assert stored.points == grid_points(["ranks=1,2", "batch-per-rank=8"])


def test_results_of_a_grid_are_in_a_folder_named_grid(tmp_path):
    ended = study("--dry-run", "--grid", "ranks=2", folder=tmp_path)
    [command] = commands_of(ended)
    assert command.startswith("mpirun -n 2 --bind-to none /nowhere train --seed 1 ")
    assert f"--output {tmp_path}/results/grid/point-1.0.h5 # " in command


def test_show_prints_the_commands_alone(tmp_path):
    ended = show("--repeats", 2, "--dir", tmp_path, "--grid", "command=layers", "ranks=1,2")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "".join(
        f"mpirun -n {ranks} --bind-to none /nowhere layers --output"
        f" {tmp_path}/n{ranks}-{repeat}.0.h5\n"
        for repeat in (1, 2)
        for ranks in (1, 2)
    )
