# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the list of optional tests and the summary of skipped tests, which jobs/check uses."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = """\
SKIPPED [3] tests/x.py:3: no GPU
SKIPPED [2] tests/y.py:51: no GPU
gpu_test.cpp:7: Skipped
another reason
not requested: LOCKSTEP_REQUIRE_CLUSTER is not 1
SKIPPED is not at the start of a reason
"""


def test_list_has_the_names_that_tests_require():
    required = {"SLOW", "CLUSTER", "GPU"}  # also of tests in other languages
    for folder in ("tests", "analysis/tests"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            required |= set(re.findall(r'mark\.requires\("(\w+)"\)', text))
    listed = (ROOT / "tests" / "optional.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+) +(?:all|root|hand) ", listed, re.MULTILINE)) == required


def test_reasons_are_printed_with_the_number_of_tests(tmp_path):
    log = tmp_path / "LastTest.log"
    log.write_bytes(LOG.encode() + b"\xff\n")
    program = [sys.executable, ROOT / "tests" / "skipped_tests.py"]
    result = subprocess.run([*program, log], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        "   1  another reason",
        "   5  no GPU",
        "   1  not requested: LOCKSTEP_REQUIRE_CLUSTER is not 1",
    ]
    result = subprocess.run([*program, tmp_path / "none"], capture_output=True, text=True)
    assert result.returncode == 2 and "none" in result.stderr
