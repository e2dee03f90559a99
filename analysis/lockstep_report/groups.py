"""Groups of items."""


def grouped(items, key):
    """Returns {key(item): [item, ...]} in the order of the items."""
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
