# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the report names runs whose ranks lacked processors, and no cause that this
explains."""

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.contention import lack_of
from lockstep_report.measure.points import from_run
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.measure.window import timed_window
from lockstep_report.models.answers.all_answers import headline_texts
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.registry import all_tables
from lockstep_report.tables.summary import summary, summary_values
from synthetic import (
    dataset,
    phases,
    write_ladder,
    write_layers,
    write_run,
    write_stack,
    write_sweep,
)

STEP = (0.1, 0, 0.3, 0.5, 0.1, 0)  # 1 s, of which 0.8 s are computation
MIDDLE = "other processes ran on its processors"


def write(path, ranks=2, step=STEP, device="cpu", readings=(), config=(), cpu_list="0-1"):
    """Writes two epochs of 20 / `ranks` steps, of which the second is timed. `readings`: name ->
    value of each rank in the second epoch."""
    steps = 20 // ranks
    write_run(
        path,
        phases(2 * steps, *[step] * ranks),
        32 * ranks,
        epochs=2,
        config={"device": device, **dict(config)},
        attributes={"part": 1, "steps_per_epoch": steps, "images_per_epoch": 640},
        ranks_of={"cpu_list": cpu_list},
    )
    with h5py.File(path, "r+") as file:
        for name, values in dict(readings).items():
            dataset(file, f"/epochs/{name}", [np.zeros(ranks), values])
    return path


def lack(path):
    run = read_run(path)
    return lack_of(run, timed_window(run))


@pytest.mark.parametrize(
    "readings, share, rank, cause",
    [
        (
            {
                "run_delay_seconds": [1.0, 4.0],
                "processor_busy_seconds": [20.0, 20.0],
                "cpu_seconds": [8.0, 5.0],
            },
            0.4,
            1,
            MIDDLE,
        ),
        (
            {
                "run_delay_seconds": [1.0, 4.0],
                "processor_busy_seconds": [13.5, 13.5],
                "cpu_seconds": [8.0, 5.0],
            },
            0.4,
            1,
            "threads of this run share its processors",
        ),
        ({"run_delay_seconds": [4.0, 1.0]}, 0.4, 0, "other processes or threads used it"),
        ({"run_delay_seconds": [4.0, 1.0], "throttled_periods": [30, 0]}, 0.4, 0, "CPU quota"),
        (
            {
                "run_delay_seconds": [0.1, 0.2],
                "processor_steal_seconds": [5.0, 5.0],
                "processor_busy_seconds": [15.0, 15.0],
            },
            0.25,
            0,
            "hypervisor",
        ),
        ({"cpu_seconds": [8.5, 2.0]}, 0.6, 1, "other processes or threads used it"),
        ({"cpu_seconds": [8.5, 8.0]}, 0.0, 0, ""),
        ({"run_delay_seconds": [np.nan, np.nan], "cpu_seconds": [8.0, 3.0]}, 0.5, 1, ""),
        (
            {
                "run_delay_seconds": [np.nan, np.nan],
                "cpu_seconds": [8.0, 3.0],
                "processor_steal_seconds": [0.0, 0.0],
                "processor_busy_seconds": [9.0, 9.0],
            },
            0.5,
            1,
            "",
        ),
    ],
)
def test_the_rank_that_lacked_a_processor_for_longest_and_why(
    tmp_path, readings, share, rank, cause
):
    found = lack(write(tmp_path / "a.h5", readings=readings))
    assert found.share == pytest.approx(share)
    assert found.rank == rank and cause in found.cause


@pytest.mark.parametrize(
    "options",
    [
        {"device": "cuda", "readings": {"run_delay_seconds": [9.0, 9.0]}},
        {"readings": {"cpu_seconds": [2.0, 2.0]}, "config": {"bn": "sync"}},  # ranks may sleep
        {"readings": {"cpu_seconds": [2.0, 2.0]}, "config": {"reducer": "parameter-server"}},
        {},
    ],
)
def test_runs_that_do_not_show_it(tmp_path, options):
    assert lack(write(tmp_path / "a.h5", **options)) is None


def test_a_data_wait_is_no_lack_of_processors(tmp_path):
    """The rank sleeps for 0.9 s of each step and computes for 0.1 s with its processor."""
    path = write(
        tmp_path / "a.h5", step=(0.9, 0, 0.1, 0, 0, 0), readings={"cpu_seconds": [1.0, 1.0]}
    )
    assert lack(path).share == 0


def study(tmp_path, delays, base=0.0):
    """Returns the points and runs of 1 rank, and of 2 ranks with these delays, which take 1.5 times
    as long per step."""
    paths = [write(tmp_path / "one.h5", 1, readings={"run_delay_seconds": [base]})]
    for n, delay in enumerate(delays):
        paths.append(
            write(
                tmp_path / f"two-{n}.h5",
                2,
                (0.1, 0, 0.3, 1.0, 0.1, 0),
                readings={"run_delay_seconds": [0.0, 15 * delay]},
            )
        )
    runs = [read_run(path) for path in paths]
    return add_comparison_notes(merge_repeats([from_run(run) for run in runs])), runs


def statements(points, runs):
    """Returns the cells of the explanation and the answer as one text."""
    tables = all_tables(points, runs)
    chosen = ("questions", "advice", "efficiency-causes")
    cells = [
        f"{table.name}: { {key: value for key, value in row.items() if value is not None} }"
        for table in tables
        if table.name in chosen
        for row in table.rows
    ]
    answers = explain(points, runs).answers
    return "\n".join([*cells, *headline_texts(answers)])


def test_no_cause_is_named_that_the_lack_explains(tmp_path):
    points, runs = study(tmp_path, [0.4])
    loss, *_ = explain(points, runs).losses
    assert loss.causes == {"lacking": pytest.approx(loss.seconds)}
    text = statements(points, runs)
    assert "ranks lacked a processor for up to 40 % of the epoch" in text
    assert "cannot be told apart" in text and "lacking-processors" in text
    for cause in (
        "memory bandwidth",
        "slower",
        "How wrong is the derived",
        "waiting-rank",
        "looks better",
    ):
        assert cause not in text, cause
    assert "a rank lacked a processor for at least 40 % of the epoch" in points[-1].notes[0]


def test_tables_of_runs_name_those_whose_times_do_not_count(tmp_path):
    tables = {table.name: table for table in all_tables(*study(tmp_path, [0.4]))}
    for name in ("time-to-accuracy", "learning-curves"):
        assert any("ranks lacked a processor" in str(note) for note in tables[name].notes), name
    assert not any("lacked" in str(note) for note in tables["accuracy"].notes)


def test_a_base_case_without_processors_explains_nothing_either(tmp_path):
    points, runs = study(tmp_path, [0.0], base=5.0)
    assert set(explain(points, runs).losses[0].causes) == {"lacking"}
    assert "one.h5), ranks lacked" in statements(points, runs)


def test_idle_machines_have_no_statement(tmp_path):
    points, runs = study(tmp_path, [0.04])
    assert "lacked" not in statements(points, runs)
    assert "slower_compute" in explain(points, runs).losses[0].causes
    assert not any(p.notes for p in points)


def test_one_of_three_repeats_spoils_no_median_but_is_noted(tmp_path):
    points, runs = study(tmp_path, [0.0, 0.31, 0.0])
    assert not points[-1].lacks_processors
    assert "lacking" not in explain(points, runs).losses[0].causes
    assert any("at least 30 %" in note and note.endswith("(two-1.h5)") for note in points[-1].notes)


def test_summary_states_it_and_gives_the_share(tmp_path, capsys):
    run = read_run(write(tmp_path / "a.h5", readings={"run_delay_seconds": [0.0, 4.0]}))
    assert any("lacked a processor for at least 40 %" in line for line in summary(run))
    assert summary_values(run)["lacking_processor_share"] == pytest.approx(0.4)
    out = tmp_path / "page.html"
    assert main(["html", str(run.path), "-o", str(out)]) == 0
    assert "In 1 run (a.h5), ranks lacked a processor for up to 40 %" in out.read_text()


@pytest.mark.parametrize("write_file", [write_ladder, write_sweep, write_layers, write_stack])
@pytest.mark.parametrize("share, is_named", [(0.3, True), (0.02, False), (None, False)])
def test_tables_of_other_commands_have_a_note(tmp_path, write_file, share, is_named):
    path = write_file(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["environment"].attrs["warnings"] = ""
        if share is not None:
            file.create_group("results").attrs["lacking_processor_share"] = share
    table = next(t for t in all_tables([], [read_run(path)]) if t.name != "alpha-beta")
    found = [note for note in table.notes if "lacked a processor for 30 % of the time" in note]
    assert bool(found) == is_named


def test_a_base_case_without_processors_is_noted_at_the_speedup(tmp_path):
    points, _ = study(tmp_path, [0.0], base=5.0)
    assert any("lacked processors in the base case one.h5" in note for note in points[-1].notes)


@pytest.mark.parametrize(
    "others, text",
    [
        ([10.4], "at least 0.5 processors"),
        ([40.0], "at least 2 processors"),
        ([4.0], None),
        ([np.nan], None),
    ],
)  # of a machine that does not provide it
def test_other_processes_on_other_processors_are_a_note(tmp_path, others, text):
    readings = {
        "processor_busy_seconds": [17.0],
        "other_processor_busy_seconds": others,
        "cpu_seconds": [17.0],
    }
    notes = from_run(read_run(write(tmp_path / "a.h5", ranks=1, readings=readings))).notes
    found = [note for note in notes if "share its memory bandwidth" in note]
    assert len(found) == (text is not None)
    assert text is None or text in found[0]


def test_the_processor_time_of_all_ranks_of_the_host_is_not_that_of_neighbours(tmp_path):
    readings = {
        "processor_busy_seconds": [10.0, 10.0],
        "other_processor_busy_seconds": [10.0, 10.0],
        "cpu_seconds": [9.9, 9.8],
    }
    notes = from_run(read_run(write(tmp_path / "a.h5", readings=readings))).notes
    assert not any("share its memory bandwidth" in note for note in notes)


@pytest.mark.parametrize(
    "busy, count", [([17.0], 2), ([37.0], 1)]
)  # 37 s: others ran on the rank's processors too
def test_a_lack_that_others_cause_is_one_note(tmp_path, busy, count):
    readings = {
        "run_delay_seconds": [4.0],
        "processor_busy_seconds": busy,
        "other_processor_busy_seconds": [40.0],
        "cpu_seconds": [17.0],
    }
    notes = from_run(read_run(write(tmp_path / "a.h5", ranks=1, readings=readings))).notes
    assert (
        len(
            [
                note
                for note in notes
                if "lacked a processor" in note or "share its memory bandwidth" in note
            ]
        )
        == count
    )
