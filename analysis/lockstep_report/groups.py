# SPDX-License-Identifier: BSD-3-Clause
"""Groups of items."""


def grouped(items, key, value=lambda item: item):
    """Returns {key(item): [value(item), ...]} in the order of the items."""
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(value(item))
    return groups
