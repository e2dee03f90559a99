# SPDX-License-Identifier: BSD-3-Clause
"""Tests the table of the quantities that are measured per epoch and rank."""

import csv

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.schema import QUANTITIES
from synthetic import dataset, phases, write_run

STEPS = phases(20, *[(0, 0, 0.1, 0, 0, 0)] * 2)


def write(path, **measured):
    """Writes a run of 2 epochs and 2 ranks with datasets (epoch, rank) of /epochs."""
    write_run(path, STEPS, 20, epochs=2, batch=10)
    with h5py.File(path, "r+") as file:
        for name, values in measured.items():
            dataset(file, f"/epochs/{name}", np.array(values, float))
    return path


def test_every_quantity_has_a_header_with_its_unit():
    headers = {quantity.name: quantity.header for quantity in QUANTITIES}
    assert headers["energy_joules"] == "Energy (J)"
    assert headers["utilisation"] == "Utilisation"
    assert headers["memory_used_bytes"] == "Memory used (MiB)"
    assert headers["peak_resident_memory_bytes"] == "Peak resident memory (MiB)"


def test_the_table_has_the_maximum_over_the_ranks_of_the_timed_epoch(tmp_path):
    path = write(
        tmp_path / "a.h5",
        memory_used_bytes=[[9 * 2**20] * 2, [2**20, 3 * 2**20]],
        energy_joules=[[np.nan] * 2] * 2,
    )
    out = tmp_path / "out"
    assert main(["report", str(path), "--out", str(out)]) == 0
    with (out / "measurements.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["memory_used_bytes"]) == 3
    assert row["energy_joules"] == ""
    text = (out / "measurements.md").read_text()
    assert "Memory used (MiB)" in text and "- memory used: device memory in use" in text
    assert "Energy" not in text
    assert text in (out / "report.md").read_text()


def test_a_run_without_measurements_has_no_table(tmp_path):
    out = tmp_path / "out"
    assert main(["tables", str(write(tmp_path / "a.h5")), "--out", str(out)]) == 0
    assert not (out / "measurements.md").exists()


def test_repeats_have_the_median_of_what_all_of_them_measured(tmp_path):
    points = [
        from_run(
            read_run(write(tmp_path / f"{value}.h5", memory_used_bytes=[[value] * 2] * 2, **extra))
        )
        for value, extra in ((1, {}), (2, {"energy_joules": [[5, 5]] * 2}), (9, {}))
    ]
    (merged,) = merge_repeats(points)
    assert merged.measurements == {"memory_used_bytes": pytest.approx(2)}


def test_the_summary_prints_the_peak_memory(tmp_path, capsys):
    path = write(tmp_path / "a.h5", peak_resident_memory_bytes=[[0, 0], [3 * 2**20, 5 * 2**20]])
    assert main(["summary", str(path)]) == 0
    assert "Peak resident memory: 5 MiB (maximum over the ranks)." in capsys.readouterr().out
