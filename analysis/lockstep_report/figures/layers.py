# SPDX-License-Identifier: BSD-3-Clause
"""Figures of batch ladders, with epoch time and images/s for each batch, of single layers, and of
the deepest stacks."""

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import (
    bar_axes,
    chunks,
    legend_beside,
    panel_figure,
    text_above,
    text_width,
    wrap,
)
from lockstep_report.figures.style import IDEAL_LINE, SERIES, light_grid, short_number
from lockstep_report.runfile.settings import plural
from lockstep_report.tables.layers import PASSES


def ladder(rows, title):
    """Returns epoch time and images/s for each batch, or its status (out of memory); None if no row
    has a time."""
    keys = [
        (key, heading)
        for key, heading in (
            ("epoch_seconds", "Epoch time, seconds"),
            ("images_per_second", "Images per second"),
        )
        if any(row.get(key) for row in rows)
    ]
    if not any(row.get("epoch_seconds") for row in rows):
        return None
    texts = [*map(images_text, rows), *(drawn_text(row, key) for key, _ in keys for row in rows)]
    unit = max(length(0.75), *(text_width(text) + length(0.15) for text in texts))
    parts = chunks(rows, unit)
    panels = [(part, key, heading) for key, heading in keys for part in parts]
    figure = panel_figure(
        [unit * len(part) for part, _, _ in panels], 3.1, [heading for _, _, heading in panels]
    )
    for axes, (part, key, _) in zip(figure.axes, panels):
        bars = axes.bar(
            range(len(part)), [row.get(key) or 0 for row in part], color=SERIES[0], width=0.62
        )
        for row, text in zip(
            part, axes.bar_label(bars, [drawn_text(row, key) for row in part], padding=3)
        ):
            text.set_color("black" if row.get(key) else SERIES[1])
        bar_axes(axes, max(row.get(key) or 0 for row in rows), [images_text(row) for row in part])
        axes.set_xlabel("batch per rank")
    return arrange(figure, title)


def images_text(row):
    """Returns the batch, the file or mode if rows of one batch differ in it, and "extrapolated" if
    the times are."""
    texts = [
        f"{row['batch_per_rank']:,}",
        row.get("source"),
        row.get("mode"),
        "extrapolated" if row.get("is_extrapolated") else None,
    ]
    return "\n".join(text for text in texts if text)


def drawn_text(row, key):
    value = row.get(key)
    return short_number(value) if value else "\n".join(row["status"].rsplit(" ", 1))


def layer_figure(rows, title):
    """Returns the share of the measured rates that each layer reaches in both passes; None if no
    layer was measured."""
    names = list(dict.fromkeys(row["layer"] for row in rows if row.get("pass")))
    keys = [
        (key, heading)
        for key, heading in (
            ("copy_percent", "Share of the copy rate (%)"),
            ("product_percent", "Share of the product rate (%)"),
        )
        if any(row.get(key) is not None for row in rows)
    ]
    if not names or not keys:
        return None
    figure = panel_figure(
        [length(4.5)] * len(keys),
        1.2 + 0.62 * len(names),
        [heading for _, heading in keys],
        is_shared=True,
    )
    for axes, (key, _) in zip(figure.axes, keys):
        draw_shares(axes, rows, names, key)
    figure.axes[0].set_yticks(range(len(names)), [wrap(name, length(2.0)) for name in names])
    figure.axes[0].invert_yaxis()
    legend_beside(figure.axes, handlelength=1.0)
    return arrange(figure, title)


def draw_shares(axes, rows, names, key):
    largest = max(row.get(key) or 0 for row in rows)
    for offset, name in zip((-0.19, 0.19), PASSES):
        values = {row["layer"]: row for row in rows if row.get("pass") == name}
        shares = [values.get(layer, {}).get(key) or 0 for layer in names]
        times = [values.get(layer, {}).get("median_ms") for layer in names]
        bars = axes.barh(
            [place + offset for place in range(len(names))],
            shares,
            height=0.36,
            color=SERIES[PASSES.index(name)],
            label=name,
        )
        axes.bar_label(
            bars,
            [
                "" if time is None else f"{share:.0f} % ({short_number(time)} ms)"
                for share, time in zip(shares, times)
            ],
            padding=3,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    axes.axvline(100, zorder=0, **IDEAL_LINE)
    axes.set_xlim(0, 1.65 * max(largest, 100))
    light_grid(axes, "x")


def stack_figure(rows, title):
    layers = [row["layer"] for row in rows]
    shown = sorted(
        (row for row in rows if row["status"] == "fits"),
        key=lambda row: (layers.index(row["layer"]), row["devices"]),
    )
    if not shown:
        return None
    labels = [f"{row['layer']}\n{plural(row['devices'], 'device')}" for row in shown]
    unit = max(length(1.2), *(text_width(label) + length(0.4) for label in labels))
    parts = chunks(list(zip(shown, labels)), unit)
    figure = panel_figure([unit * len(part) for part in parts], 3.3, label="layers")
    for axes, part in zip(figure.axes, parts):
        for place, (row, _) in enumerate(part):
            axes.bar(place, row["depth"], width=0.6, color=SERIES[0])
            axes.plot(
                [place - 0.36, place + 0.36],
                [row["estimated_depth"]] * 2,
                color=SERIES[1],
                linewidth=1.6,
                label="estimate" if place == 0 else None,
            )
            text_above(axes, str(row["depth"]), place, max(row["depth"], row["estimated_depth"]))
        bar_axes(axes, max(row["depth"] for row in shown), [label for _, label in part])
    legend_beside(figure.axes)
    return arrange(figure, title)
