"""Division of rows and bars that do not fit in one place."""


def equal_parts(items, most):
    """Divides a list into parts of at most `most` items and of about the same length; an empty list is
    one part."""
    count = max(1, -(-len(items) // most))
    length = max(1, -(-len(items) // count))
    return [items[first:first + length] for first in range(0, max(1, len(items)), length)]
