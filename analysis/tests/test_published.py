# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the formula behind each published figure is identified: always with data that was
typed for these tests (data/README.md), and with the published tables if LOCKSTEP_PUBLISHED_TIMINGS
names their folder."""

import os
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep_report.models import published
from lockstep_report.runfile.times_csv import read_times
from lockstep_report.tables.published import column_table, published_tables, traffic_table

OWN = Path(__file__).parent / "data" / "own-times.csv"
FOLDER = os.environ.get("LOCKSTEP_PUBLISHED_TIMINGS")
needs_folder = pytest.mark.skipif(
    not FOLDER, reason="LOCKSTEP_PUBLISHED_TIMINGS is not set: the folder of the published tables"
)


def verdicts_of(path):
    return {v.column: v for v in published.check_times(read_times(path))}


def all_mistakes(verdict):
    return " ".join(verdict.mistakes)


def test_right_columns_agree():
    verdicts = verdicts_of(OWN)
    for column in ("published_speedup_t1_over_tn", "published_computation_seconds"):
        assert verdicts[column].mark == published.AGREES
        assert verdicts[column].mistakes == ()


def test_a_single_wrong_cell_is_named():
    verdict = verdicts_of(OWN)["published_communication_seconds"]
    assert verdict.mark == published.EXCEPT
    assert "2 x batch 200: published 1.1, correct is 1.0" in all_mistakes(verdict)
    assert [cell.agrees for cell in verdict.cells] == [True, True, False]


def test_speedup_against_the_previous_batch_is_recognised():
    verdict = verdicts_of(OWN)["published_speedup"]
    assert verdict.mark == published.DIFFERS
    assert verdict.found == "T(previous batch, same N)/T(N)"
    cell = verdict.cells[-1]
    assert (cell.published, cell.reproduced) == (Decimal("1.563"), Decimal("1.563"))
    assert cell.correct == Decimal("1.875")


def test_bandwidth_of_one_all_reduce_is_recognised():
    verdict = verdicts_of(OWN)["published_bandwidth_gb_per_s"]
    assert verdict.mark == published.DIFFERS
    assert "ONE all-reduce" in all_mistakes(verdict) and len(verdict.mistakes) == 1
    assert float(verdict.cells[0].correct) == pytest.approx(2.2347924)


def test_bandwidth_of_parameters_is_recognised():
    verdict = verdicts_of(OWN)["published_bandwidth_counted"]
    assert verdict.mark == published.DIFFERS
    assert "parameters, not bytes" in verdict.mistakes[0] and "4 times" in verdict.mistakes[0]
    assert "ceil(D/b)" in verdict.mistakes[1]
    assert [cell.agrees for cell in verdict.cells] == [False, True, False]


def changed(tmp_path, old, new):
    path = tmp_path / "times.csv"
    text = OWN.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_corrected_figures_would_agree(tmp_path):
    """The verdict depends on the figures: if they are correct, the column agrees."""
    path = changed(tmp_path, "0.00894", "2.23479")
    path.write_text(path.read_text().replace("0.00670", "0.83805").replace("0.04470", "5.58698"))
    assert verdicts_of(path)["published_bandwidth_gb_per_s"].mark == published.AGREES


def test_a_value_without_formula_is_not_derivable(tmp_path):
    path = changed(tmp_path, "0.00894", "0.5")
    verdict = verdicts_of(path)["published_bandwidth_gb_per_s"]
    assert verdict.mark == published.UNEXPLAINED and verdict.found == ""


def test_bandwidth_without_batch_needs_the_batch(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(
        "ranks,epoch_seconds,published_communication_s,published_bandwidth_gb_s\n1,10,0,0\n2,6,1,0.5\n"
    )
    verdict = verdicts_of(path)["published_bandwidth_gb_s"]
    assert (
        verdict.mark == published.UNEXPLAINED
        and "add the column batch_per_rank" in verdict.mistakes[0]
    )
    tables = {table.name: table for table in published_tables(read_times(path))}
    assert list(tables) == ["times-verdicts", "times-published_communication_s"]
    row = tables["times-verdicts"].rows[1]
    assert (row["correct"], row["found"]) == (None, None)
    assert f"published_bandwidth_gb_s: {verdict.mistakes[0]}" in tables["times-verdicts"].footnotes


def test_printed_digits_decide():
    assert published.rounds_to(Decimal("1.5897"), Decimal("1.59"))
    assert not published.rounds_to(Decimal("1.5849"), Decimal("1.59"))
    assert published.rounds_to(Decimal("4.025"), Decimal("4.03"))  # a tie may be rounded up or down
    assert published.rounds_to(Decimal("4.025"), Decimal("4.02"))
    assert published.to_digits_of(Decimal("4.025"), Decimal("4.02")) == Decimal("4.02")
    assert published.to_digits_of(Decimal("7.1975"), Decimal("7.2")) == Decimal("7.2")


def reproduced(verdict):
    return [(str(cell.published), str(cell.reproduced)) for cell in verdict.cells]


@needs_folder
@pytest.mark.parametrize("name", ["dataparallel-a", "dataparallel-b", "ddp-c"])
def test_published_figures_are_reproduced_to_their_digits(name):
    """Tests every column that follows from epoch times. One figure of table b was truncated."""
    for verdict in verdicts_of(Path(FOLDER) / f"{name}.csv").values():
        if verdict.mark == published.UNEXPLAINED:
            assert name == "ddp-c" and verdict.column != "published_speedup"
            continue
        differing = [pair for pair in reproduced(verdict) if pair[0] != pair[1]]
        cut_off = [("2.29", "2.30")] if verdict.column == "published_computation_seconds" else []
        assert differing == (cut_off if name == "dataparallel-b" else [])


@needs_folder
def test_table_a_counts_parameters():
    verdicts = verdicts_of(Path(FOLDER) / "dataparallel-a.csv")
    marks = [v.mark for v in verdicts.values()]
    assert marks == [published.AGREES] * 4 + [published.DIFFERS]
    verdict = verdicts["published_bandwidth_gparams_per_s"]
    assert "11,173,962" in verdict.found and "parameters, not bytes" in verdict.mistakes[0]
    table = column_table(verdict, "a")
    # 4 * 0.363852 = 1.455408 with the published number of steps
    assert float(table.rows[0]["same_steps"]) == pytest.approx(4 * 0.363852, rel=1e-5)


@needs_folder
def test_table_b_divides_one_all_reduce_by_an_epoch():
    verdicts = verdicts_of(Path(FOLDER) / "dataparallel-b.csv")
    assert verdicts["published_speedup_n_t1_over_tn"].mark == published.AGREES
    verdict = verdicts["published_bandwidth_gb_per_s"]
    assert verdict.mark == published.DIFFERS and "11,689,512" in verdict.found
    assert "ONE all-reduce" in verdict.mistakes[0]
    # 2 GPUs, batch 32: 46,758,048 bytes * 782 steps / 33.27 s
    assert float(verdict.cells[0].correct) == pytest.approx(46_758_048 * 782 / 33.27e9)


@needs_folder
def test_table_c_uses_the_previous_batch():
    verdict = verdicts_of(Path(FOLDER) / "ddp-c.csv")["published_speedup"]
    assert verdict.mark == published.DIFFERS
    assert verdict.found == "T(previous batch, same N)/T(N)"
    assert float(verdict.cells[1].correct) == pytest.approx(48.61245506 / 30.81851050)


@needs_folder
def test_table_d_traffic():
    table = traffic_table(read_times(Path(FOLDER) / "cpu-vgg11-d.csv"))
    rows = {row["ranks"]: row for row in table.rows}
    assert rows[4]["speedup"] == pytest.approx(437 / 153)
    assert rows[3]["epoch_seconds"] == 170  # the slowest of the three nodes
    # 196 steps * 36,924,456 bytes / 228 s
    assert rows[2]["needed"] == pytest.approx(196 * 36.924456 / 228)
    assert any("9,231,114" in note for note in table.notes)


def test_traffic_of_typed_data(tmp_path):
    """2 workers measured 97.5 * 4000 bytes / 10 s = 0.039 MB/s: 97.5 all-reduces of 1,000
    parameters in 10 s. This implies a batch of 12800/97.5 = 131; the nearest power of two, 128,
    needs 100 all-reduces, 0.04 MB/s."""
    path = tmp_path / "t.csv"
    path.write_text(
        "workers,node,epoch_seconds,cpu_user_percent,cpu_system_percent,"
        "network_mb_per_s\n1,0,18,50,10,\n2,0,9,40,10,0.039\n2,1,10,60,10,0.039\n"
    )
    times = read_times(path)
    assumptions = published.Assumptions(samples=12_800, models=(("as given", 1000),))
    table = traffic_table(times, assumptions)
    row = table.rows[1]
    assert row["implied"] == pytest.approx(97.5)
    assert row["needed"] == pytest.approx(0.04)
    assert row["cpu_percent"] == pytest.approx(60)
    assert row["speedup"] == pytest.approx(1.8)
