# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the units and formats of times in tables."""

import pytest
from times_files import TIMES, rows_of


@pytest.mark.parametrize(
    "first, second",
    [
        ("83.4", "45"),
        ("83.4 s", "45 sec"),
        ("83400 ms", "45000ms"),
        ("1:23.4", "0:45"),
        ("00:01:23.4", "00:00:45"),
        ("1m23.4s", "0m45.000s"),
        ("1 min 23.4 s", "0.75 min"),
        ("PT1M23.4S", "PT45S"),
        ("0 days 00:01:23.400000", "0 days 00:00:45"),
        ("8.34e1", "4.5E+01"),
        ("0-00:01:23.4", "00:45"),
    ],
)
def test_times_of_people_and_programs_are_seconds(tmp_path, first, second):
    assert rows_of(tmp_path, f"gpus,epoch_seconds\n1,{first}\n2,{second}\n")[0] == TIMES


@pytest.mark.parametrize(
    "cell, seconds",
    [
        ("1-02:03:04", 93784),
        ("2-01:24:56", 177896),
        ("1-2", 93600),
        ("2d3h", 183600),
        ('"1 day, 2:03:04"', 93784),
        ("1h2m3s", 3723),
        ("100:00", 6000),
        ("24:28:49", 88129),
    ],
)
def test_long_times_of_schedulers_are_read(tmp_path, cell, seconds):
    assert rows_of(tmp_path, f"ranks,epoch_seconds\n4,{cell}\n")[0] == [(4, None, seconds)]


@pytest.mark.parametrize(
    "name, cells, note",
    [
        ("epoch time (s)", ("83.4", "45"), None),
        ("epoch_ms", ("83400", "45000"), None),
        ("Epoch time [min]", ("1.39", "0.75"), None),
        ("seconds per epoch", ("83.4", "45"), None),
        ("s/epoch", ("83.4", "45"), None),
        ("avg_epoch_time_s", ("83.4", "45"), None),
        ("Epoch time / ms", ("83400", "45000"), None),
        ("epochTime", ("83.4", "45"), "column epochTime: numbers without a unit are seconds"),
        (
            "Time per epoch",
            ("1:23.4", "45"),
            "column Time per epoch: times such as 1:23.4 are minutes:seconds",
        ),
        ("epoch (s)", ("83.4", "45"), None),
    ],
)
def test_the_unit_may_be_in_the_name(tmp_path, name, cells, note):
    rows, notes = rows_of(tmp_path, f"gpus;{name}\n1;{cells[0]}\n2;{cells[1]}\n")
    assert rows == TIMES
    assert any(note in line for line in notes) if note else notes == []
