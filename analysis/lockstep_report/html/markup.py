# SPDX-License-Identifier: BSD-3-Clause
"""Builds HTML elements. Every text that is not `Markup` is escaped, so a text of a run file
cannot become an element or an attribute."""

import html

from lockstep_report.escaping import one_line


class Markup(str):
    """Text that is HTML already."""


def escaped(text):
    """Returns a text as HTML that shows it literally, in elements and in quoted attributes."""
    return text if isinstance(text, Markup) else Markup(html.escape(one_line(str(text))))


def join(parts, separator=""):
    """Joins texts and elements; None is left out."""
    return Markup(separator.join(escaped(part) for part in parts if part is not None))


def element(tag, *children, **attributes):
    """Returns an element. `class_` is the attribute class, and `_` in other names stands for `-`.
    Attributes that are None are left out; those that are True have no value."""
    texts = [tag]
    for name, value in attributes.items():
        if value is None:
            continue
        name = name.rstrip("_").replace("_", "-")
        texts.append(name if value is True else f'{name}="{escaped(value)}"')
    opening = " ".join(texts)
    return Markup(f"<{opening}>" if tag == "meta" else f"<{opening}>{join(children)}</{tag}>")
