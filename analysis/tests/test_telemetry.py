# SPDX-License-Identifier: BSD-3-Clause
"""Tests tables and figures of the telemetry and of the energy on numbers known by hand."""

import csv
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.figures import telemetry as telemetry_figure
from lockstep_report.figures.canvas import canvas
from lockstep_report.html.markup import table_element
from lockstep_report.measure import telemetry
from lockstep_report.runfile.input_files import load_runs
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.validate import problems
from lockstep_report.tables.table import csv_text, latex, markdown
from lockstep_report.tables.telemetry import energy_table, network_table, telemetry_table
from synthetic import dataset, phases, write_run
from test_figures import faults

RATES = {
    "user_cpu_seconds": 1.5,
    "system_cpu_seconds": 0.25,
    "voluntary_context_switches": 40,
    "involuntary_context_switches": 10,
    "sampler_cpu_seconds": 0.0005,
}
UNKNOWN = (
    "device_utilisation",
    "device_memory_bytes",
    "device_power_watts",
    "device_energy_joules",
    "host_energy_joules",
)
INTERFACES = (("eth0", "lo"), ("eth0", "lo"), ("ib0", ""))


def write(path, *, seconds=10.0, ranks=3, attributes=(), environment=(), epochs=(), **columns):
    """Writes a run of 2 epochs of 1.5 s and 3 ranks on 2 hosts, sampled ten times a second from
    0 s on. Counters grow at RATES, multiplied by the rank + 1. `columns`: other values of a
    quantity of /telemetry, or a function of the times. `epochs`: datasets (epoch, rank)."""
    step = phases(30, *[(0, 0, 0.1, 0, 0, 0)] * ranks)
    write_run(
        path,
        step,
        20,
        epochs=2,
        batch=10,
        environment=environment,
        attributes={
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": 15,
            "images_per_epoch": 300,
            **dict(attributes),
        },
        ranks_of={"hostname": ["node1", "node1", "node2"][:ranks]},
    )
    times = np.arange(0, seconds + 0.05, 0.1)
    with h5py.File(path, "r+") as file:
        ends = 1 + 0.1 * np.arange(1, 31)
        dataset(file, "/steps/end_seconds", np.repeat(ends[:, None], ranks, axis=1))
        for name, values in dict(epochs).items():
            dataset(file, f"/epochs/{name}", np.array(values, float))
        write_samples(file, times, ranks, columns)
    return path


def write_samples(file, times, ranks, columns):
    """Writes /telemetry with samples at `times` on each rank."""
    dataset(file, "/sample", np.arange(ranks * len(times)))
    dataset(file, "/interface", [0, 1])
    rank = np.repeat(np.arange(ranks), len(times))
    time = np.tile(times, ranks)
    dataset(file, "/telemetry/rank", rank)
    values = {
        "seconds": time,
        "resident_memory_bytes": (rank + 1) * 2**20 * (1 + time),
        **{name: rate * time * (rank + 1) for name, rate in RATES.items()},
        **{name: np.full(len(time), np.nan) for name in UNKNOWN},
        **{name: column(time, rank) for name, column in columns.items()},
    }
    for name, column in values.items():
        dataset(file, f"/telemetry/{name}", column)
    moved = np.stack([2e6 * time, np.where(rank == 2, np.nan, 0 * time)], axis=1)
    dataset(file, "/telemetry/received_bytes", moved)
    dataset(file, "/telemetry/sent_bytes", 2 * moved)
    dataset(file, "/telemetry/interface_name", np.array(INTERFACES[:ranks], dtype=object))


def test_the_file_is_valid(tmp_path):
    assert problems(write(tmp_path / "a.h5")) == []


def test_the_rates_are_those_of_the_counters(tmp_path):
    rows = telemetry_table([read_run(write(tmp_path / "a.h5"))]).rows
    assert [row["rank"] for row in rows] == [0, 1, 2]
    row = rows[1]
    assert row["samples"] == 101
    assert row["seconds"] == pytest.approx(10)
    assert row["user_processors"] == pytest.approx(3)
    assert row["system_processors"] == pytest.approx(0.5)
    assert row["voluntary_per_second"] == pytest.approx(80)
    assert row["involuntary_per_second"] == pytest.approx(20)
    assert row["resident_mib"] == pytest.approx(22)
    assert row["sampler_percent"] == pytest.approx(0.1)
    assert row["device_percent"] is row["device_watts"] is row["device_mib"] is None


def test_gpu_power_follows_from_the_energy_if_it_is_counted(tmp_path):
    columns = {
        "device_power_watts": lambda t, r: np.where(t < 5, 100.0, 300.0),
        "device_utilisation": lambda t, r: np.where(t < 5, 0.0, 1.0),
        "device_memory_bytes": lambda t, r: 2**20 * (1 + t),
    }
    row, *_ = telemetry_table([read_run(write(tmp_path / "a.h5", **columns))]).rows
    assert row["device_watts"] == pytest.approx(200, abs=2)
    assert row["device_percent"] == pytest.approx(50, abs=1)
    assert row["device_mib"] == pytest.approx(11)
    columns["device_energy_joules"] = lambda t, r: 250 * t
    row, *_ = telemetry_table([read_run(write(tmp_path / "b.h5", **columns))]).rows
    assert row["device_watts"] == pytest.approx(250)


def test_the_mean_of_unequal_intervals_is_over_time():
    samples = telemetry.Samples(
        0, (), {"seconds": np.array([0.0, 1.0, 2.0, 10.0]), "x": np.array([1.0, 1.0, np.nan, 3.0])}
    )
    assert samples.mean("x") == pytest.approx((1 * 1 + 9 * 2) / 10)


def test_traffic_is_counted_once_per_host(tmp_path):
    rows = network_table([read_run(write(tmp_path / "a.h5"))]).rows
    assert [(row["host"], row["interface"]) for row in rows] == [
        ("node1", "eth0"),
        ("node2", "ib0"),
    ]
    assert rows[0]["received_mb"] == pytest.approx(20)
    assert rows[0]["sent_mb_s"] == pytest.approx(4)


def test_rates_over_windows_keep_the_total():
    seconds = np.array([0.0, 0.1, 0.2, 0.6, 0.7, 1.3])
    times, values = telemetry_figure.rates(seconds, np.array([0.0, 1, 2, 3, 9, 10]))
    assert times == pytest.approx([0.3, 0.95])
    assert values == pytest.approx([3 / 0.6, 7 / 0.7])


def test_a_gap_of_readings_is_left_out():
    times, values = telemetry_figure.rates(np.arange(5.0), np.array([0, np.nan, 4, np.nan, 6]))
    assert times == pytest.approx([1, 3]) and values == pytest.approx([2, 1])


@pytest.mark.parametrize(
    "columns",
    (
        {},
        {
            "device_power_watts": lambda t, r: 300 + t,
            "device_utilisation": lambda t, r: 0 * t + 0.5,
            "device_memory_bytes": lambda t, r: 2**30 + t,
            "host_energy_joules": lambda t, r: 90 * t,
        },
    ),
)
def test_every_text_of_the_figure_is_visible(tmp_path, columns):
    run = read_run(write(tmp_path / "a.h5", **columns))
    assert faults(telemetry_figure.draw_telemetry(run)) == []


def test_values_of_any_size_have_no_factor_above_the_axis(tmp_path):
    """It would overlap the title of the panel."""
    path = write(
        tmp_path / "a.h5",
        host_energy_joules=lambda t, r: 1e-6 * t,
        seconds=9.0,
        device_power_watts=lambda t, r: 1e7 + t,
    )
    with canvas("one-column"):
        figure = telemetry_figure.draw_telemetry(read_run(path))
        assert figure.get_figheight() < 12 and faults(figure) == []


def test_many_ranks_are_a_mean_and_a_range(tmp_path):
    x = np.arange(3.0)
    (curve,) = telemetry_figure.rank_curves([(rank, x, x + rank) for rank in range(9)], "user", "-")
    assert curve.y == pytest.approx([4, 5, 6])
    assert curve.range[0] == pytest.approx(x) and curve.range[1] == pytest.approx(x + 8)


def test_the_report_has_the_telemetry(tmp_path):
    out = tmp_path / "out"
    assert main(["report", str(write(tmp_path / "a.h5")), "--out", str(out)]) == 0
    assert (out / "telemetry-a.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "report.md").read_text()
    assert "![telemetry-a]" in text and "User (processors)" in text
    with (out / "telemetry-network.csv").open() as file:
        assert [row["host"] for row in csv.DictReader(file)] == ["node1", "node2"]


def test_a_run_without_telemetry_has_neither_table_nor_figure(tmp_path):
    out = tmp_path / "out"
    path = write_run(tmp_path / "a.h5", phases(4, (0, 0, 1, 0, 0, 0)), 20)
    assert main(["report", str(path), "--out", str(out)]) == 0
    assert not list(out.glob("telemetry*")) and not list(out.glob("energy*"))


def test_each_part_of_a_run_has_its_own_clock(tmp_path):
    common = {"run_id": "r", "date_utc": "2026-01-01"}
    first = write(tmp_path / "run.h5", attributes=common)
    write(
        tmp_path / "run.part2.h5",
        seconds=5.0,
        attributes={**common, "part": 2, "first_step": 15, "date_utc": "2026-01-02"},
    )
    runs = load_runs([first]).runs
    rows = telemetry_table(runs).rows
    assert [(row["source"], row["rank"], row["samples"]) for row in rows[::3]] == [
        ("run.h5", 0, 101),
        ("run.part2.h5", 0, 51),
    ]


def energy_row(tmp_path, name, **options):
    (row,) = energy_table([read_run(write(tmp_path / f"{name}.h5", **options))]).rows
    return row


def test_energy_of_devices_and_hosts(tmp_path):
    # Ranks 0 and 1 are on one host and read the same counter, 40 J; the other host used 20 J.
    row = energy_row(
        tmp_path,
        "a",
        epochs={
            "energy_joules": [[100, 110, 90], [110, 100, 90]],
            "host_energy_joules": [[40, 40, 20], [40, 40, 20]],
        },
    )
    assert row["device_joules"] == pytest.approx(300)
    assert row["host_joules"] == pytest.approx(60)
    assert row["counted"] == "devices + hosts"
    assert row["joules_per_image"] == pytest.approx(720 / 600)
    assert row["test_accuracy_percent"] == pytest.approx(60)
    assert row["joules_per_point"] == pytest.approx(720 / 60)


def test_energy_that_is_not_readable_is_a_text(tmp_path):
    nan = [[np.nan] * 3] * 2
    path = write(
        tmp_path / "a.h5",
        epochs={"energy_joules": nan, "host_energy_joules": nan},
        environment={"host_energy": "not readable: energy_uj: Permission denied"},
    )
    table = energy_table([read_run(path)])
    (row,) = table.rows
    assert row["device_joules"] == row["host_joules"] == "not readable"
    assert row["counted"] == "nothing"
    assert row["joules_per_image"] is None and row["joules_per_point"] is None
    assert table.notes[-1].endswith("not readable: energy_uj: Permission denied")


def test_energy_that_no_run_could_read_is_one_note(tmp_path):
    nan = [[np.nan] * 3] * 2
    runs = [
        read_run(
            write(
                tmp_path / f"{name}.h5",
                epochs={"energy_joules": nan, "host_energy_joules": nan},
                environment={"host_energy": "not readable: no RAPL zone"},
            )
        )
        for name in "abc"
    ]
    table = energy_table(runs)
    assert table.printed_rows == [] and len(table.rows) == 3
    note = "energy is not readable on these devices and hosts; host energy: not readable: no RAPL"
    for text in (markdown(table), latex(table), table_element(table)):
        assert text.count(note) == 1 and "Devices" not in text
    assert csv_text(table).count("nothing") == 3
    some = energy_row(tmp_path, "d", epochs={"host_energy_joules": [[40, 40, 20]] * 2})
    assert some["counted"] == "hosts"


def test_energy_without_sampling_is_not_measured(tmp_path):
    row = energy_row(
        tmp_path,
        "a",
        environment={"host_energy": "not measured"},
        epochs={"energy_joules": [[1, 1, 1]] * 2, "host_energy_joules": [[np.nan] * 3] * 2},
    )
    assert row["host_joules"] == "not measured"
    assert row["counted"] == "devices"
    assert row["joules_per_image"] == pytest.approx(6 / 600)


def test_an_epoch_without_reading_makes_the_energy_unknown(tmp_path):
    row = energy_row(
        tmp_path,
        "a",
        epochs={
            "energy_joules": [[1, 1, 1], [1, np.nan, 1]],
            "host_energy_joules": [[2, 2, 2]] * 2,
        },
    )
    assert row["device_joules"] == "not readable"
    assert row["counted"] == "hosts"


def test_long_runs_have_few_dots_and_marks():
    epoch_marks = telemetry_figure.epoch_marks
    run = SimpleNamespace(epoch=np.repeat(np.arange(1, 1001), 3))
    marks, every = epoch_marks(run, np.arange(3000.0))
    assert (
        every == 17 and len(marks) <= telemetry_figure.MOST_EPOCHS and marks[0] == 2999
    )  # the last epoch
    assert marks[0] - marks[1] == 3 * 17
    assert epoch_marks(SimpleNamespace(epoch=np.array([1, 1, 2])), np.arange(3.0))[0].tolist() == [
        2,
        1,
    ]
    assert epoch_marks(run, np.zeros(0))[1] == 1
