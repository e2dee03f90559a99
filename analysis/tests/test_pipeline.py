# SPDX-License-Identifier: BSD-3-Clause
"""Tests the table and the figure of pipeline stages."""

import csv
import json

import h5py
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.runfile import schema
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.pipeline import ideal_bubble, pipeline_table, stage_shares
from synthetic import dataset, phases, write_run

PHASES = (0.0, 0.1, 1.0, 2.0, 0.5, 0.1)
STAGES = [
    {
        "first_layer": "input",
        "last_layer": "layer2.1.relu2",
        "parameters": 600,
        "memory_bytes": 200 * 2**20,
    },
    {
        "first_layer": "layer3.0.conv1",
        "last_layer": "loss",
        "parameters": 1400,
        "memory_bytes": 100 * 2**20,
    },
]


def write_pipeline(path, replicas=1, micro_batches=4):
    """Writes a run of 2 epochs with 2 stages. In the second epoch the first stage computes for 6 s,
    copies for 1 s and waits for 3 s; the second one computes for 8 s, copies for 1 s and ends 1 s
    before the first one."""
    ranks = 2 * replicas
    write_run(
        path,
        phases(4, *[PHASES] * ranks),
        32,
        epochs=2,
        config={
            "micro-batches": str(micro_batches),
            "pipeline-stages": "2",
            "pipeline-schedule": "1f1b",
        },
        environment={"pipeline_stages": json.dumps(STAGES)},
    )
    with h5py.File(path, "a") as file:
        for name, values in (("busy", (6, 8)), ("transfer", (1, 1)), ("wait", (3, 0))):
            dataset(
                file,
                f"/epochs/pipeline_{name}_seconds",
                [[50.0] * ranks, [float(v) for v in values] * replicas],
            )
    return path


def test_shares_are_those_of_the_longest_schedule():
    shares = stage_shares([6, 8], [1, 1], [3, 0], 2)
    assert shares.tolist() == [pytest.approx([0.6, 0.1, 0.3]), pytest.approx([0.8, 0.1, 0.1])]
    # two replicas: means
    shares = stage_shares([6, 8, 8, 8], [0, 0, 0, 0], [4, 0, 2, 0], 2)
    assert shares[:, 0].tolist() == pytest.approx([0.7, 0.8])


def test_ideal_bubble():
    assert ideal_bubble(1, 4) == 0
    assert ideal_bubble(4, 1) == 0.75
    assert ideal_bubble(2, 4) == pytest.approx(0.2)


def test_table_has_one_row_per_stage(tmp_path):
    runs = [
        read_run(write_pipeline(tmp_path / "p.h5", replicas=2)),
        read_run(write_run(tmp_path / "other.h5", phases(4, PHASES, PHASES), 32)),
    ]
    first, second = pipeline_table(runs).rows
    assert first["layers"] == "input to layer2.1.relu2"
    assert (first["replicas"], first["micro_batches"], first["stage"]) == (2, 4, 0)
    assert (second["parameters"], second["planned_mib"]) == (1400, 100)
    assert [first["busy_percent"], second["busy_percent"]] == pytest.approx([60, 80])
    assert [first["idle_percent"], second["idle_percent"]] == pytest.approx([30, 10])
    assert second["bubble_percent"] == pytest.approx(20)
    assert second["ideal_percent"] == pytest.approx(20)


def test_runs_without_pipeline_have_no_table(tmp_path):
    assert (
        pipeline_table([read_run(write_run(tmp_path / "o.h5", phases(4, PHASES, PHASES), 32))]).rows
        == []
    )


def test_report_has_the_table_and_the_figure(tmp_path):
    out = tmp_path / "out"
    path = write_pipeline(tmp_path / "p.h5")
    assert main(["report", str(path), "--out", str(out)]) == 0
    assert "### Stages of the pipelines" in (out / "report.md").read_text()
    assert "![pipeline-stages](pipeline-stages.svg)" in (out / "report.md").read_text()
    with (out / "pipeline-stages.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ideal_percent"]) for row in rows] == [20, 20]
    svg = (out / "pipeline-stages.svg").read_text()
    for text in ("1f1b", "M = 4", "busy", "idle", "ideal busy share"):
        assert text in svg


def test_quantities_are_in_the_schema():
    for name in ("busy", "transfer", "wait"):
        assert schema.dataset(f"/epochs/pipeline_{name}_seconds").dimensions == ("epoch", "rank")


def test_runs_with_other_stages_or_micro_batches_are_not_repeats(tmp_path):
    paths = [write_pipeline(tmp_path / f"p{m}.h5", micro_batches=m) for m in (2, 4)]
    points = merge_repeats([from_run(read_run(path)) for path in paths])
    assert [(p.repeats, p.batch_per_rank, p.global_batch) for p in points] == [(1, 16, 32)] * 2
    assert ["micro-batches 2" in p.mode for p in points] == [True, False]
