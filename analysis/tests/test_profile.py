# SPDX-License-Identifier: BSD-3-Clause
"""Tests tables and the figure of profiles."""

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.figures.profile import profile_figure, profile_figures
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.profile import profile_tables
from synthetic import dataset, phases, write_run
from test_figures import faults

CONVOLUTION = "convolution 3x3, 64x32x32 -> 64x32x32"
# name, kind, phase, calls, flops, bytes, ceiling, bound, seconds of two ranks
ROWS = [
    ("upload", "upload", "upload", 1, 0, 0, "none", 0, (0.001, 0.001)),
    ("conv1", CONVOLUTION, "forward", 1, 1e9, 1e6, "compute", 0.01, (0.020, 0.030)),
    ("conv2", CONVOLUTION, "forward", 1, 1e9, 1e6, "compute", 0.01, (0.019, 0.031)),
    ("bn1", "batch norm", "forward", 1, 1e7, 1e8, "memory", 0.02, (0.040, 0.020)),
    ("update", "SGD with momentum", "update", 2, 0, 1e8, "cache", 0, (0.020, 0.020)),
    ("all-reduce", "all-reduce of the gradients", "all-reduce", 2, 0, 4e6, "none", 0, (0.5, 0.6)),
]


def write_profile(path):
    write_run(path, phases(4, (0, 0.001, 0.07, 0.01, 0, 0.02), (0, 0.001, 0.07, 0.01, 0, 0.02)), 64)
    columns = list(zip(*ROWS))
    with h5py.File(path, "a") as file:
        dataset(file, "/operation", np.arange(len(ROWS)))
        for name, values in zip(
            (
                "name",
                "kind",
                "phase",
                "calls",
                "flops",
                "bytes",
                "ceiling",
                "bound_seconds",
                "seconds",
            ),
            columns,
        ):
            dataset(file, f"/profile/{name}", np.array(values))
        dataset(file, "/profile/implementation", np.array([""] * len(ROWS)))
        file.require_group("results").attrs.update(
            {
                "profile_steps": 4.0,
                "profile_step_seconds": 0.102,
                "profile_step_seconds_without": 0.100,
                "profile_flops_per_second": 1e11,
                "profile_bytes_per_second": 5e9,
            }
        )
    return path


def test_operations_of_one_kind_and_phase_are_one_row(tmp_path):
    _, table = profile_tables([read_run(write_profile(tmp_path / "run.h5"))])
    rows = {(row["kind"], row["phase"]): row for row in table.rows}
    row = rows[CONVOLUTION, "forward"]
    assert row["calls"] == 2
    assert row["milliseconds"] == pytest.approx(39)
    assert row["share"] == pytest.approx(39)  # of 100 ms
    assert row["slowest_ms"] == pytest.approx(61)
    assert row["gflop_per_second"] == pytest.approx(2 / 0.039)
    assert row["gb_per_second"] == pytest.approx(2e-3 / 0.039)
    assert (row["ceiling"], row["bound_percent"]) == ("compute", pytest.approx(100 * 0.02 / 0.039))
    assert [row["milliseconds"] for row in table.rows] == sorted(
        (row["milliseconds"] for row in table.rows), reverse=True
    )


def test_kinds_are_sums_over_shapes(tmp_path):
    kinds, _ = profile_tables([read_run(write_profile(tmp_path / "run.h5"))])
    assert [(row["kind"], row["phase"]) for row in kinds.rows][:3] == [
        ("all-reduce of the gradients", "all-reduce"),
        ("batch norm", "forward"),
        ("convolution 3x3", "forward"),
    ]
    convolutions = kinds.rows[2]
    assert (convolutions["calls"], convolutions["milliseconds"]) == (2, pytest.approx(39))


def test_the_all_reduce_overlaps_and_has_no_share(tmp_path):
    _, table = profile_tables([read_run(write_profile(tmp_path / "run.h5"))])
    shares = {row["kind"]: row["share"] for row in table.rows}
    assert shares.pop("all-reduce of the gradients") is None
    assert sum(shares.values()) == pytest.approx(100)
    assert any("overlap" in note for note in table.footnotes)


def test_the_report_states_the_cost_of_the_profile(tmp_path):
    out = tmp_path / "out"
    path = write_profile(tmp_path / "run.h5")
    assert main(["report", str(path), "--out", str(out)]) == 0
    page = (out / "report.md").read_text()
    assert "cost of the profile: 102.00 ms per step with it, 100.00 ms without (+2.0 %" in page
    assert "highest rates: 100.0 GFLOP/s, 5.0 GB/s" in page
    assert "![profile](profile.svg)" in page
    assert (out / "profile.csv").is_file()


def test_validation_finds_a_missing_dataset(tmp_path, capsys):
    path = write_profile(tmp_path / "run.h5")
    assert main(["validate", str(path)]) == 0
    with h5py.File(path, "a") as file:
        file.attrs["format_version"] = 3
        del file["profile/ceiling"]
    assert main(["validate", str(path)]) != 0
    assert "/profile/ceiling is missing" in capsys.readouterr().out


def test_two_profiles_are_two_tables_and_figures(tmp_path):
    paths = [write_profile(tmp_path / name) for name in ("one.h5", "two.h5")]
    out = tmp_path / "out"
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    for name in ("profile-one", "profile-two"):
        assert (out / f"{name}.csv").is_file() and (out / f"{name}.svg").is_file()


def test_no_text_of_the_figure_is_cut_off(tmp_path):
    run = read_run(write_profile(tmp_path / "run.h5"))
    assert faults(profile_figure(run)) == []
    run.results["profile_flops_per_second"] = 0  # without roofline
    assert faults(profile_figure(run)) == []


def test_a_run_without_profile_has_no_table(tmp_path):
    path = write_run(tmp_path / "run.h5", phases(4, (0, 0.001, 0.07, 0.01, 0, 0.02)), 64)
    assert profile_tables([read_run(path)]) == []


def test_profiles_of_files_with_similar_names_have_own_tables_and_figures(tmp_path):
    runs = []
    for name in ("a/n_2.h5", "b/n_2.h5", "a/n-2.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        runs.append(read_run(write_profile(tmp_path / name)))
    names = [table.name for table in profile_tables(runs)]
    assert len(set(names)) == len(names) == 6
    assert (
        set(profile_figures(runs)) == {"profile-n-2", "profile-n-2-2", "profile-n-2-3"} < set(names)
    )
