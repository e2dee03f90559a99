# SPDX-License-Identifier: BSD-3-Clause
"""Groups of items."""


def grouped(items, key, value=lambda item: item):
    """Returns {key(item): [value(item), ...]} in the order of the items."""
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(value(item))
    return groups


def equal_parts(items, most):
    """Divides a list into parts of at most `most` items and about equal length; an empty list is
    one part."""
    count = max(1, -(-len(items) // most))
    length = max(1, -(-len(items) // count))
    return [items[first : first + length] for first in range(0, max(1, len(items)), length)]
