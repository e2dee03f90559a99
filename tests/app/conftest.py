"""Divides the tests into shards, which CTest runs in parallel.

LOCKSTEP_TEST_SHARD=I/N selects every Nth test, beginning with the Ith.
"""

import os


def pytest_collection_modifyitems(config, items):
    number, count = map(int, os.environ.get("LOCKSTEP_TEST_SHARD", "1/1").split("/"))
    assert 1 <= number <= count
    deselected = [item for i, item in enumerate(items) if i % count != number - 1]
    items[:] = items[number - 1::count]
    config.hook.pytest_deselected(items=deselected)
