# SPDX-License-Identifier: BSD-3-Clause
"""Tests the command `predict` and its figure."""

import json

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT, USAGE
from lockstep_report.figures.arrange import text_boxes
from lockstep_report.figures.scaling import prediction_figure
from lockstep_report.runfile.read import read_run
from planted import write_training
from predictions import predicted, ring_network


def run_command(capsys, *arguments):
    status = main(["predict", *map(str, arguments)])
    return status, capsys.readouterr()


def files_of(tmp_path):
    random = np.random.default_rng(7)
    net = tmp_path / "net.json"
    net.write_text(
        json.dumps(
            {
                "name": "a|b",
                "library": "MPI",
                "algorithm": "ring",
                "levels": [{"alpha": 1e-5, "beta": [1e-9, 2e-9]}],
            }
        )
    )
    return [write_training(tmp_path / f"{n}.h5", random, ranks=n) for n in (2, 4)], net


def test_command_prints_a_table_and_writes_a_figure(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    out = tmp_path / "out"
    status, printed = run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--out", out)
    assert status == 0
    assert "MPI ring (predicted)" in printed.out
    assert "| 64 \\* |" in printed.out
    assert {path.suffix for path in out.glob("predicted-step.*")} == {
        ".md",
        ".csv",
        ".tex",
        ".svg",
        ".png",
        ".pdf",
    }
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--out", out)
    assert first == {path.name: path.read_bytes() for path in out.iterdir()}


def test_files_of_the_report_in_the_same_folder_remain(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    out = tmp_path / "out"
    assert main(["tables", *map(str, runs), "--out", str(out)]) == 0
    before = {path.name for path in out.iterdir()}
    run_command(capsys, *runs, "--ranks", "8", "--network", net, "--out", out)
    after = {path.name for path in out.iterdir()}
    assert before < after
    assert main(["tables", *map(str, runs), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == after


def test_command_prints_json(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    status, printed = run_command(
        capsys, *runs, "--ranks", "2,64", "--network", net, "--json", "--bucket-mib", "1"
    )
    values = json.loads(printed.out)
    assert status == 0
    assert values["is_predicted"] is True
    first = values["predicted"][0]
    assert (first["ranks"], first["model"], first["basis"]) == (2, "MPI ring", "4.h5")
    low, high = first["predicted_step_seconds"]["interval"]
    assert low <= first["predicted_step_seconds"]["value"] <= high
    assert first["measured_step_seconds"] is None  # other buckets than measured


def test_measured_steps_are_beside_the_predicted_ones(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    _, printed = run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--json")
    two, many = json.loads(printed.out)["predicted"]
    assert two["measured_run"] == "2.h5"
    assert two["measured_step_seconds"] == pytest.approx(0.053, abs=0.02)
    assert many["measured_step_seconds"] is None


def test_repeated_runs_count_with_their_median(tmp_path):
    random = np.random.default_rng(3)
    paths = [
        write_training(tmp_path / f"{ranks}-{work}.h5", random, ranks=ranks, work=work)
        for ranks in (1, 2)
        for work in (0.09, 0.05, 0.06)
    ]
    (row,) = predicted([read_run(path) for path in paths], ring_network(), [2])
    assert row.predicted.basis.source == "2-0.06.h5"
    assert row.source == "2-0.09.h5, 2-0.05.h5, 2-0.06.h5"
    assert row.base == pytest.approx(0.06, rel=0.2)
    assert row.measured == pytest.approx(row.predicted.basis.measured_step)


@pytest.mark.parametrize(
    "arguments, status, text",
    [
        (("--network", "RUN"), INPUT, "not a sweep"),
        (("--network", "NET", "NET"), USAGE, "one description"),
        (("--network", "NET", "--algorithm", "ring"), USAGE, "only for sweeps"),
        (("--network", "none.json"), INPUT, "cannot be read"),
        (("--network", "none.h5"), INPUT, "no such file"),
    ],
)
def test_errors_have_one_line(tmp_path, capsys, arguments, status, text):
    runs, net = files_of(tmp_path)
    names = {"RUN": runs[0], "NET": net}
    found, printed = run_command(
        capsys, *runs, "--ranks", "8", *(names.get(a, a) for a in arguments)
    )
    assert found == status
    assert text in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("ranks", ["0", "a", "2000000", ""])
def test_wrong_rank_lists_are_refused(capsys, ranks):
    with pytest.raises(SystemExit) as stop:
        run_command(capsys, "a.h5", "--ranks", ranks, "--network", "net.json")
    assert stop.value.code == USAGE


@pytest.mark.parametrize(
    "counts",
    [
        [8],
        *(
            pytest.param(counts, marks=pytest.mark.slow)
            for counts in ([2, 64], [2**k for k in range(1, 8)], list(range(2, 82, 2)))
        ),
    ],
)
def test_texts_of_the_figure_fit(tmp_path, counts):
    runs, _ = files_of(tmp_path)
    figure = prediction_figure(predicted(list(map(read_run, runs)), ring_network(), counts))
    boxes = text_boxes(figure)
    canvas = figure.bbox
    assert all(box.x0 >= canvas.x0 and box.x1 <= canvas.x1 for box in boxes)
    assert all(box.y0 >= canvas.y0 and box.y1 <= canvas.y1 for box in boxes)
