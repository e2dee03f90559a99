# SPDX-License-Identifier: BSD-3-Clause
"""Tests tables, figures and summaries of single layers and of stacks of layers."""

import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.layers import layer_table
from lockstep_report.tables.stack import stack_table
from synthetic import write_layers, write_stack


def test_layers_have_a_row_per_pass_with_the_shares_of_the_rates(tmp_path):
    table = layer_table([read_run(write_layers(tmp_path / "l.h5"))])
    forward, backward, failed = table.rows
    assert forward["median_ms"] == pytest.approx(2)
    assert forward["copy_percent"] == pytest.approx(100 * 12e6 / 2e-3 / 1e10)
    assert backward["copy_percent"] == pytest.approx(100 * 18e6 / 5e-3 / 1e10)
    assert backward["product_percent"] == pytest.approx(100 * 3e6 / 5e-3 / 1e11)
    assert forward["peak_mb"] == pytest.approx(50)
    assert failed["status"] == "out of memory"
    assert "median_ms" not in failed
    assert failed["estimated_mb"] == pytest.approx(1e6)


def test_unreadable_power_is_stated_and_never_zero(tmp_path):
    table = layer_table([read_run(write_layers(tmp_path / "l.h5"))])
    assert all(row.get("power_watts") is None for row in table.rows)
    assert "l.h5: power and energy are not readable on this device" in table.notes
    table = layer_table([read_run(write_layers(tmp_path / "p.h5", power=300.0))])
    assert table.rows[0]["power_watts"] == 300
    assert table.rows[0]["energy_joules"] == pytest.approx(2.1)
    assert not any("not readable" in str(note) for note in table.notes)


def test_stacks_have_the_depths_and_the_forward_time(tmp_path):
    table = stack_table(
        [
            read_run(write_stack(tmp_path / "s.h5")),
            read_run(write_stack(tmp_path / "s2.h5", devices=2)),
        ]
    )
    assert [
        (row["devices"], row["depth"], row["estimated_depth"], row["status"]) for row in table.rows
    ] == [
        (1, 20, 19, "fits"),
        (1, 21, 19, "out of memory"),
        (2, 40, 38, "fits"),
        (2, 41, 38, "out of memory"),
    ]
    assert table.rows[0]["forward_ms"] == pytest.approx(200)
    assert table.rows[1]["forward_ms"] is None
    assert table.rows[1]["peak_mb"] is None
    assert any("several devices" in str(note) for note in table.notes)


def test_report_has_tables_and_figures_of_layers_and_stacks(tmp_path):
    out = tmp_path / "out"
    paths = [str(write_layers(tmp_path / "l.h5")), str(write_stack(tmp_path / "s.h5", devices=2))]
    assert main(["report", *paths, "--out", str(out)]) == 0
    page = (out / "report.md").read_text()
    assert "### Single layers" in page and "### Deepest stack of layers" in page
    for name in ("layers", "stack"):
        assert f"![{name}]({name}.svg)" in page
        assert (out / f"{name}.png").stat().st_size > 1000
    assert "relu@1x3x1000x1000" in (out / "layers.svg").read_text()
    assert "2 devices" in (out / "stack.svg").read_text()


@pytest.mark.parametrize("write", [write_layers, write_stack])
def test_files_are_valid_and_have_a_summary(tmp_path, capsys, write):
    path = str(write(tmp_path / "r.h5"))
    assert main(["validate", path]) == 0
    assert main(["summary", path]) == 0
    assert "No steps" not in capsys.readouterr().out
