# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `lockstep allreduce`, and of the bytes of buckets."""

import json
import re

import h5py
import pytest
from command_line import start, start_ranks, train


def test_allreduce_prints_the_columns_of_nccl_tests():
    result = start_ranks((2, ["allreduce", "-b", "4K", "-e", "16K", "-f", "2", "-n", "3"]))
    assert result.returncode == 0, result.stderr
    assert "algbw" in result.stdout and "#wrong" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if " direct " in line]
    assert [row[0] for row in rows] == ["4096", "8192", "16384"]
    assert all(
        float(row[-2]) <= float(row[6]) <= float(row[-1]) for row in rows
    )  # shortest, median and longest repeat
    average = re.search(r"# Avg bus bandwidth    : (\S+) GB/s \(direct\)", result.stdout)[1]
    assert float(average) == pytest.approx(sum(float(row[8]) for row in rows) / 3, abs=0.002)


def test_allreduce_with_one_rank_prints_no_bandwidth():
    result = start("allreduce", "--max-bytes", "16K", "--repeats", "3", "--link-gbit", "10")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if " mpi-blocking " in line]
    assert len(rows) == 3 and all(
        row[7:10] == ["-", "-", "0"] and row[-1] == "-" for row in rows
    ), result.stdout
    assert "With one rank nothing is communicated" in result.stdout
    found = json.loads(start("allreduce", "--max-bytes", "1K", "--repeats", "3", "--json").stdout)
    assert found["allreduce"][0]["busbw_bytes_per_second"] is None


def test_bucket_bytes_depend_on_the_communication_data_type(tmp_path):
    sums = {}
    for dtype in ("fp32", "bf16"):
        path = tmp_path / f"{dtype}.h5"
        assert (
            start_ranks(
                (2, train(output=path, all_reduce="direct", gradient_dtype=dtype))
            ).returncode
            == 0
        )
        with h5py.File(path) as file:
            sums[dtype] = int(file["buckets/bytes"][:].sum())
    assert 4 * 11173962 <= sums["fp32"] < 4 * 11174100  # the parameters plus padding
    assert sums["bf16"] == sums["fp32"] // 2
