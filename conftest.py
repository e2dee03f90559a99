# SPDX-License-Identifier: BSD-3-Clause
"""Selects the Python tests that run.

Some tests need a program that the other tests do not need, for example Chromium. They have the
marker requires(NAME) and run only if LOCKSTEP_REQUIRE_NAME=1, as `jobs/check --all` sets it. What
is installed does not decide which tests run; a test that was requested fails if what it needs is
missing. Tests with the marker slow run only if LOCKSTEP_REQUIRE_SLOW=1: they take long, and faster
tests find the same faults in most cases.

LOCKSTEP_TEST_SHARD=I/N selects the Ith of N parts of the tests, which CTest runs in parallel.
"""

import os
import signal

import pytest

# A shell that starts the tests in the background ignores SIGINT, and the programs that the tests
# start would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that do not buffer their output report its errors earlier than those of users.
os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    names = [marker.args[0] for marker in item.iter_markers("requires")]
    for name in names + ["SLOW"] * (item.get_closest_marker("slow") is not None):
        variable = f"LOCKSTEP_REQUIRE_{name}"
        if os.environ.get(variable) != "1":
            pytest.skip(f"not requested: {variable} is not 1")


def pytest_collection_modifyitems(config, items):
    number, count = map(int, os.environ.get("LOCKSTEP_TEST_SHARD", "1/1").split("/"))
    assert 1 <= number <= count
    config.hook.pytest_deselected(
        items=[item for i, item in enumerate(items) if i % count != number - 1]
    )
    items[:] = items[number - 1 :: count]
