# SPDX-License-Identifier: BSD-3-Clause
"""Runs a small part of the campaigns in tests/campaign about files: flipped bits, fuzzing, failed
calls, failed allocations and kills.

LOCKSTEP_BUILD is the build folder.
"""

import os
import pathlib
import subprocess
import sys

import pytest

CAMPAIGN = pathlib.Path(__file__).resolve().parents[1] / "campaign"
BUILD = os.environ["LOCKSTEP_BUILD"]
sys.path.insert(0, str(CAMPAIGN))
from bounds import upper_bound  # noqa: E402
from run_files import is_equal, values_of  # noqa: E402


def run(program, *arguments):
    """Runs a campaign, which must find no failure; returns its output."""
    result = subprocess.run(
        [sys.executable, CAMPAIGN / program, *map(str, arguments)], text=True, capture_output=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_flipped_bits_in_run_files_are_detected_or_harmless():
    output = run("bit_flips", "--sample", f"{BUILD}/tests/record/record_sample", "--count", 100)
    assert "accepted        0" in output and "crash           0" in output


@pytest.mark.parametrize("work, stride", [("checkpoints", 67), ("run", 97)])
def test_failed_calls_on_files_lose_nothing(work, stride):
    assert "failures 0" in run("failed_calls", "--build", BUILD, "--work", work, "--stride", stride)


@pytest.mark.parametrize("work", ["checkpoints", "run"])
def test_failed_allocations_end_with_one_line(work):
    assert "failures 0" in run(
        "failed_calls", "--build", BUILD, "--work", work, "--allocations", "program", "--random", 20
    )


def test_kills_lose_no_saved_checkpoint():
    output = run("killed_saves", "--build", BUILD, "--count", 20)
    assert "lost           0" in output and "unreadable     0" in output


def test_mutated_run_files_are_read_or_rejected():
    assert "failures 0" in run("fuzz_run_files", "--build", BUILD, "--count", 150)


def test_mutated_tables_of_studies_are_read_or_rejected():
    assert "failures 0" in run("fuzz_tables", "--count", 80)


def test_a_flip_that_changes_a_value_counts_as_accepted(tmp_path):
    """The comparison of bit_flips must notice a different value."""
    subprocess.run([f"{BUILD}/tests/record/record_sample", tmp_path], check=True)
    values = values_of(tmp_path / "run.h5")
    assert is_equal(values, values_of(tmp_path / "run.h5"))
    values["ranks"] = values["ranks"] | {"hostname": values["ranks"]["hostname"][::-1]}
    assert not is_equal(values, values_of(tmp_path / "run.h5"))


def test_bound_without_failures():
    assert upper_bound(0, 3000) == pytest.approx(1 - 0.05 ** (1 / 3000), rel=1e-6)
