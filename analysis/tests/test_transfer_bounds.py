# SPDX-License-Identifier: BSD-3-Clause
"""Tests the bounds of the transfer with planted all-reduces whose transfer is known. The gradients
of 8 MB are reduced by two ranks, so that the bus bandwidth is 8 MB / transfer."""

import json

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.measure.points import from_run
from lockstep_report.measure.waiting import timed_run
from lockstep_report.models.causes import losses
from lockstep_report.models.fits import alpha_beta_fits
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.bandwidth import bandwidth_table
from lockstep_report.tables.communication import split_table
from lockstep_report.tables.summary import summary
from lockstep_report.tables.table import csv_text, markdown
from synthetic import phases, write_clocks, write_run

STEPS = 11  # of which the first two are not timed; all times are scaled to 11 steps
FORWARD, BACKWARD, UPDATE = 0.05, 0.15, 0.01
BYTES = 8_000_000


def write(path, start, end, calls=None, exposed=0.0, later=0.0, hosts=("a", "a"), **options):
    """Writes steps of two ranks with one all-reduce from `start` to `end` in each. The backward
    pass ends after 0.2 s, on rank 1 `later`."""
    ranks = [(0, 0, FORWARD, BACKWARD + slow, exposed - slow, UPDATE) for slow in (0.0, later)]
    write_run(
        path,
        phases(STEPS, *ranks),
        64,
        bucket_bytes=[BYTES],
        bucket_start=[start],
        bucket_end=[end],
        bucket_calls=calls,
        attributes={"part": 1, "first_step": 0},
        ranks_of={"hostname": list(hosts)},
        **options,
    )
    return write_clocks(path, np.arange(STEPS)[:, None] + np.zeros(2))


def table_3(path):
    table = bandwidth_table([from_run(read_run(path))])
    return table, table.rows[0]


# The all-reduce is started 100 ms before the end of the backward pass, progresses in calls between
# its operations, and ends with it. In shared memory the ranks work 10 ms in calls. Between hosts
# they copy for 10 ms, and the kernel transfers for 80 ms.
@pytest.mark.parametrize("truth, hosts", [(0.010, ("a", "a")), (0.080, ("a", "b"))])
def test_computation_between_calls_gives_a_range(tmp_path, truth, hosts):
    path = write(tmp_path / "a.h5", 0.1, 0.2, calls=0.010, hosts=hosts)
    table, row = table_3(path)
    assert row["transfer_seconds_low"] == pytest.approx(STEPS * 0.010)
    assert row["transfer_seconds_high"] == pytest.approx(STEPS * 0.100)
    assert row["measured_gb_s_low"] <= BYTES / truth / 1e9 <= row["measured_gb_s_high"] * (1 + 1e-9)
    assert "| 0.080 to 0.800 |" in markdown(table) and "| 0.11 to 1.10 |" in markdown(table)
    assert ",,0.08,0.8," in csv_text(table) and ",,0.11,1.1," in csv_text(table)
    note = next(note for note in table.footnotes if note.startswith("a range"))
    assert "--reducer allreduce" in note and "lockstep allreduce" in note


def test_hidden_communication_is_no_longer_than_the_calls(tmp_path):
    """Not the 100 ms, most of which are computation."""
    point = from_run(read_run(write(tmp_path / "a.h5", 0.1, 0.2, calls=0.010)))
    assert point.hidden_seconds == pytest.approx(STEPS * 0.010)
    table = split_table([point])
    assert table.rows[0]["hidden"] == pytest.approx(STEPS * 0.010)
    assert any(
        note.startswith("hidden: transfer during the backward pass, which would be exposed")
        for note in table.footnotes
    )


@pytest.mark.parametrize("device, calls", [("cpu", 0.010), ("cuda", None)])
def test_calls_in_the_backward_pass_are_no_slower_computation(tmp_path, device, calls):
    """On CPUs the calls are a part of the backward pass; GPUs communicate beside it."""
    config = {"device": device, "train-samples": "704"}
    one = write_run(
        tmp_path / "1.h5",
        phases(2 * STEPS, (0, 0, FORWARD, BACKWARD, 0, UPDATE)),
        32,
        config=config,
        attributes={"part": 1, "first_step": 0},
    )
    two = write(tmp_path / "2.h5", 0.1, 0.2, calls=calls, config=config)
    (loss,) = losses([from_run(read_run(path)) for path in (one, two)])
    assert loss.causes.get("calls", 0) == pytest.approx(STEPS * (calls or 0))
    assert sum(loss.causes.values()) == pytest.approx(loss.seconds)


def test_an_all_reduce_after_the_backward_pass_has_one_bandwidth(tmp_path):
    path = write(tmp_path / "a.h5", 0.2, 0.22, calls=0.0199, exposed=0.02, reducer="allreduce")
    table, row = table_3(path)
    assert row["transfer_seconds"].value == pytest.approx(STEPS * 0.02)
    assert row["measured_gb_s"].value == pytest.approx(BYTES / 0.02 / 1e9)
    assert not any(note.startswith("a range") for note in table.footnotes)
    assert from_run(read_run(path)).hidden_seconds == pytest.approx(0, abs=1e-9)


def test_a_gpu_transfers_from_the_start_to_the_end(tmp_path):
    """NCCL reduces from 0.1 s to 0.22 s beside the computation, 20 ms of which are exposed."""
    path = write(
        tmp_path / "a.h5",
        0.1,
        0.22,
        calls=None,
        exposed=0.02,
        config={"device": "cuda", "transport": "nccl"},
    )
    _, row = table_3(path)
    assert row["transfer_seconds"].value == pytest.approx(STEPS * 0.12)
    assert row["measured_gb_s"].value == pytest.approx(BYTES / 0.12 / 1e9)
    assert from_run(read_run(path)).hidden_seconds == pytest.approx(STEPS * 0.10)


@pytest.mark.parametrize("device, low", [("cpu", 0.01), ("cuda", 0.15)])
def test_waiting_for_the_calls_of_another_rank_is_no_certain_transfer(tmp_path, device, low):
    """Rank 1 ends its backward pass 50 ms later. Rank 0 waits for it in a call; a GPU transfers."""
    calls = [[0.06], [0.01]] if device == "cpu" else None
    path = write(
        tmp_path / "a.h5",
        0.1,
        0.25,
        calls=calls,
        exposed=0.05,
        later=0.05,
        config={"device": device},
    )
    bounds = from_run(read_run(path)).transfer
    assert bounds.low == pytest.approx(STEPS * low)
    assert bounds.high == pytest.approx(STEPS * 0.15)


def test_a_file_without_the_time_in_calls_has_no_lower_bound(tmp_path):
    path = write(tmp_path / "a.h5", 0.1, 0.2, calls="absent")
    table, row = table_3(path)
    assert row["transfer_seconds_low"] is None
    assert "| at least 0.080 |" in markdown(table) and "| at most 1.10 |" in markdown(table)
    assert any("lacks the time in calls" in note for note in table.footnotes)
    split = split_table([from_run(read_run(path))])
    assert split.rows[0]["hidden"] is None
    assert any("hidden communication is unknown" in note for note in split.footnotes)


def test_summary_has_the_range(tmp_path, capsys):
    path = write(tmp_path / "a.h5", 0.1, 0.2, calls=0.010)
    text = "\n".join(summary(read_run(path)))
    assert "0.11 s hidden by the backward pass" in text
    assert "bus bandwidth 0.08 GB/s to 0.80 GB/s" in text
    assert "0.11 s to 1.10 s of transfer; the rest may be computation" in text
    assert main(["summary", "--json", str(path)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["all_reduce_transfer_seconds"] is None
    assert values["all_reduce_transfer_seconds_low"] == pytest.approx(0.11)
    assert values["all_reduce_transfer_seconds_high"] == pytest.approx(1.1)


@pytest.mark.parametrize("calls, count", [(0.010, 0), (0.099, 1)])
def test_buckets_with_computation_are_not_fitted(tmp_path, calls, count):
    run = read_run(write(tmp_path / "a.h5", 0.1, 0.2, calls=calls))
    assert len(alpha_beta_fits([], [timed_run(run)])) == count
