"""Divides the tests into shards, which CTest runs in parallel, and has the fixtures of several files.

LOCKSTEP_TEST_SHARD=I/N selects every Nth test, beginning with the Ith.
"""

import math
import os
import time

import pytest


def pytest_collection_modifyitems(config, items):
    number, count = map(int, os.environ.get("LOCKSTEP_TEST_SHARD", "1/1").split("/"))
    assert 1 <= number <= count
    deselected = [item for i, item in enumerate(items) if i % count != number - 1]
    items[:] = items[number - 1::count]
    config.hook.pytest_deselected(items=deselected)


@pytest.fixture(scope="module")
def limit():
    """A watchdog limit that a run without errors does not reach: its total duration in seconds, at least 3."""
    from test_cli import start_ranks, train  # imported here, so that pytest can rewrite the assertions of the file

    begin = time.monotonic()
    assert start_ranks((2, train())).returncode == 0
    return max(3, math.ceil(time.monotonic() - begin))
