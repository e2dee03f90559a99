# SPDX-License-Identifier: BSD-3-Clause
"""Tests that outputs of nccl-tests, in the formats of its versions, are read as sweeps and as
networks."""

import json

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.models.fits import alpha_beta_fits
from lockstep_report.models.prediction.sweep_fit import network_of_sweeps
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.tables.sweep import sweep_table
from nccl_outputs import (
    ALPHA,
    BETA,
    SIZES,
    bandwidths,
    dated,
    json_lines,
    json_text,
    microseconds,
    oldest,
    per_iteration,
    text,
)
from planted import write_sweep, write_training


def runs_of(tmp_path, *contents):
    paths = [tmp_path / f"output-{number}" for number in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(content, encoding="utf-8")
    return load_runs(paths).runs


def network(tmp_path, *contents, algorithm="ring"):
    return network_of_sweeps(runs_of(tmp_path, *contents), algorithm)


@pytest.mark.parametrize(
    "contents",
    [
        [text()],
        [text(root=False, wrong="error")],
        [text(devices=False)],
        [oldest()],
        [json_lines()],
        [text(prefix="[1,0]<stdout>:")],
        [text(prefix="0: ")],
        [json_text()],
        [per_iteration(text())],
        [text(ranks=2), json_text(ranks=4)],
        [text(ranks=4, hosts=4).replace("Group  0 ", "")],
        [text() + text(ranks=4)],
        [dated(text())],
        [text(sizes=SIZES[:0]).replace("Avg", "") + text()],
    ],
    ids=[
        "text",
        "old text",
        "no devices",
        "oldest text",
        "JSON lines",
        "mpirun",
        "srun",
        "JSON",
        "per iteration",
        "two files",
        "hosts",
        "two tables",
        "dates",
        "after a failure",
    ],
)
def test_outputs_give_the_times_that_they_contain(tmp_path, contents):
    found = network(tmp_path, *contents)
    [level] = found.levels
    assert found.label == "NCCL ring"
    middle = [(ends.low + ends.high) / 2 for ends in (level.alpha, level.beta)]
    assert middle == pytest.approx([ALPHA, BETA], rel=1e-3)
    for ranks in (2, 8, 64):
        assert 1e6 * found.seconds(ranks, 2**20, [middle]) == pytest.approx(
            microseconds(ranks, 2**20), rel=1e-3
        )


@pytest.mark.parametrize(
    "content, words",
    [
        (
            text(factor=7 / 8),
            "busbw / algbw is 0.875, which is that of no all-reduce on the 8 ranks that it lists",
        ),
        (text(ranks=2, hosts=2, factor=0), "each process ran alone: build nccl-tests with MPI=1"),
        (
            text(ranks=2).replace("#  Rank  1", "#"),
            "each process ran alone: build nccl-tests with MPI=1",
        ),
        (text(time="cputime"), "CPU times (option -C)"),
        (json_text(name="cpu_time"), "CPU times (option -C)"),
        (text(ranks=8, hosts=2), "several ranks on several hosts"),
        (text(sizes=SIZES[-2:]), "fewer than 3 measured sizes"),
        (text(sizes=[]), "it has no bandwidths out of place"),
        (text(operation="none"), "it measures no all-reduces"),
        (text().replace("    -1", "     0"), "it measures no all-reduces"),
        (text(ranks=2).replace("Rank  1", "Rank  0"), "each process ran alone"),
        (text(sizes=[1024], devices=False), "number of ranks is unknown"),
        (
            text(factor=7 / 8, devices=False),
            "busbw / algbw is 0.875, which is that of no all-reduce)",
        ),
        (json_lines(name="AllGather"), "no all-reduces"),
        (
            '{"version": 1, "nccl_version": 2, "results": 5}',
            "this output of nccl-tests cannot be used",
        ),
        ('{"version": 1, "nccl_version": 2, "config": {}}', "results is missing"),
        (json_text()[:-30], "this output of nccl-tests cannot be used"),
    ],
)
def test_outputs_that_determine_no_network_are_named(tmp_path, content, words):
    with pytest.raises(ReportError) as caught:
        network(tmp_path, content)
    assert (
        words in str(caught.value)
        and "; give " in str(caught.value)
        and caught.value.status == INPUT
    )


def test_command_predicts_with_outputs(tmp_path, capsys):
    run = write_training(tmp_path / "run.h5", np.random.default_rng(1), ranks=2)
    for name, content in (("text", text()), ("output.json", json_text())):
        (tmp_path / name).write_text(content, encoding="utf-8")
    command = [
        "predict",
        str(run),
        "--ranks",
        "2,4",
        "--network",
        str(tmp_path / "output.json"),
        str(tmp_path / "text"),
    ]
    assert main(command) == 0
    assert "NCCL ring (predicted)" in capsys.readouterr().out
    assert main([*command, "--algorithm", "tree"]) == 0
    assert main([*command, "--algorithm", "direct"]) == INPUT
    assert "direct of NCCL, only for ring, tree" in capsys.readouterr().err
    assert (
        main([*command[:-2], str(run), str(tmp_path / "text")]) == INPUT
    )  # a run file is not of this kind


@pytest.mark.parametrize("version, library", [(None, ""), ("2.28.7", "2.28.7"), (22807, "2.28.7")])
def test_fields_of_the_json_file_may_be_absent(tmp_path, version, library):
    content = json.loads(json_text()) | {
        "nccl_version": version,
        "config": None,
        "out_of_bounds": None,
    }
    (found,) = runs_of(tmp_path, json.dumps(content))
    assert found.environment["transport"] == f"NCCL {library}".strip() and len(
        found.allreduce["bytes"]
    ) == len(SIZES)


def table_of(tmp_path, *contents):
    return sweep_table(runs_of(tmp_path, *contents))


def test_sweep_table_has_the_printed_values(tmp_path):
    table = table_of(tmp_path, text())
    assert [row["bytes"] for row in table.rows] == SIZES
    for row in table.rows:
        assert (row["source"], row["algorithm"], row["ranks"]) == (
            "output-0",
            "NCCL (nccl-tests)",
            8,
        )
        assert row["median_us"] == pytest.approx(microseconds(8, row["bytes"]), abs=0.01)
        assert [row["algbw"], row["busbw"]] == pytest.approx(bandwidths(8, row["bytes"]), rel=5e-3)
        assert row["wrong"] == 0 and row["low_us"] is None and row["repeats"] is None
    notes = " | ".join(table.footnotes)
    average = np.mean([row["busbw"] for row in table.rows])
    assert (
        f"output-0: average busbw, the mean over the sizes: NCCL (nccl-tests) {average:.3f} GB/s"
        in notes
    )
    assert "output-0: times are means over 20 iterations, out of place" in notes
    assert (
        "NVIDIA H100" in notes
        and "host node-0" in notes
        and "nccl-tests 2.19.6" in notes
        and "commit" not in notes
    )
    assert "warning" not in notes and "wrong results" not in notes


CUT = text().splitlines(keepends=True)


@pytest.mark.parametrize(
    "content, wrong, words",
    [
        (text(error="3"), 3, "wrong results in 9 of 9 rows (#wrong)"),
        (text().replace("N/A", "2", 1), 2, "wrong results in 1 of 9 rows (#wrong)"),
        (
            json_text().replace('"nwrong": 0.0', '"nwrong": 5.0', 1),
            5,
            "wrong results in 1 of 9 rows (#wrong)",
        ),
        (
            text(root=False, wrong="error", error="1e+00", bounds=24),
            None,
            "wrong results: 24 out of bounds",
        ),
        (text(root=False, wrong="error", error="1e-07"), None, None),
        (oldest(), None, None),
        (json_text(), 0, None),
        (text(error="N/A"), None, "warning: the results were not checked (option -c)"),
        (
            "".join(CUT[:-3]) + CUT[-7][:60],
            0,
            "cut off or mixed with other output and are not used: 1",
        ),
        ("".join(CUT[:-3]), 0, "warning: the output ends before its last line"),
        (
            text() + text(operation="none"),
            0,
            "warning: not used: table 2: it measures no all-reduces",
        ),
    ],
)
def test_wrong_results_and_incomplete_outputs_are_named(tmp_path, content, wrong, words):
    table = table_of(tmp_path, content)
    assert len(table.rows) == 9 and table.rows[0]["wrong"] == wrong
    notes = [note for note in table.footnotes if "warning" in note or "wrong results" in note]
    assert (notes == []) if words is None else any(words in note for note in notes)


def test_tables_types_and_operations_of_a_file_are_separate_sweeps(tmp_path):
    several = (
        text()
        + text(ranks=4, sizes=SIZES[:3], operation="max", data_type="half")
        + text(ranks=4, sizes=SIZES[:3]).partition("(B)")[2]
    )
    runs = runs_of(tmp_path, several)
    assert [
        (run.file_name, run.rank_count, len(run.allreduce["bytes"]), run.option("gradient-dtype"))
        for run in runs
    ] == [
        ("output-0 (table 1)", 8, 9, "fp32"),
        ("output-0 (table 2, half max)", 4, 3, "fp16"),
        ("output-0 (table 2, float sum)", 4, 3, "fp32"),
    ]
    assert len(alpha_beta_fits(runs, [])) == 3


def test_report_shows_both_programs_side_by_side(tmp_path, capsys):
    """An NCCL sweep of Lockstep and the output of nccl-tests on the same ranks are different
    measurements."""
    run = write_sweep(
        tmp_path / "run.h5",
        np.random.default_rng(1),
        8,
        1e-5,
        1e-11,
        SIZES,
        algorithm="nccl",
        config={"transport": "nccl"},
        hosts=["node-0"] * 8,
    )
    (tmp_path / "sweep.txt").write_text(text(error="7"), encoding="utf-8")
    files = [str(tmp_path / "sweep.txt"), str(run)]
    assert main(["report", *files, "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| sweep.txt | NCCL (nccl-tests) | 8 |" in page and "| run.h5 | NCCL | 8 |" in page
    figure = (tmp_path / "out" / "allreduce-sweep.svg").read_text(encoding="utf-8")
    for words in (
        "8 ranks",
        "sweep.txt",
        "run.h5",
        "wrong results in 9 of 9 rows",
        "means over 20 iterations",
        "n = 9 repeats",
    ):
        assert words in " ".join(figure.split()), words
    assert len(alpha_beta_fits(load_runs(files).runs, [])) == 2
    assert main(["html", *files, "-o", str(tmp_path / "page.html")]) == 0
    assert main(["summary", *files]) == 0
    assert "8 ranks on 1 host" in capsys.readouterr().out


def test_files_of_no_kind_give_one_line(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("size count type\n", encoding="utf-8")
    (tmp_path / "cut.json").write_text(json_text()[:-30], encoding="utf-8")
    assert (
        main(
            [
                "report",
                str(tmp_path / "notes.txt"),
                str(tmp_path / "cut.json"),
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == INPUT
    )
    first, second = capsys.readouterr().err.splitlines()
    assert (
        "notes.txt: not an HDF5 file, but a text; give " in first + second
        and "cut.json: this output of nccl-tests" in first + second
    )
