"""Figures of single layers and of the deepest stacks of layers."""

from lockstep_report.figure_layout import arrange, text_width
from lockstep_report.figure_style import SERIES, STYLE, light_grid, plt, short_number
from lockstep_report.layers import PASSES, layer_table, stack_table


def layer_figure(rows, title):
    """Returns a figure of the share of the measured rates that each layer reaches, forward and
    backward; None if no layer was measured."""
    names = list(dict.fromkeys(row["layer"] for row in rows if row.get("pass")))
    if not names:
        return None
    keys = [(key, heading) for key, heading in (
        ("copy_percent", "Share of the copy rate (%)"),
        ("product_percent", "Share of the product rate (%)"))
        if any(row.get(key) is not None for row in rows)]
    if not keys:
        return None
    with plt.rc_context(STYLE):
        label = max(text_width(name) for name in names)
        figure, panels = plt.subplots(1, len(keys), squeeze=False, sharey=True, figsize=(
            label + 3.4 * len(keys), 1.6 + 0.62 * len(names)))
        for axes, (key, heading) in zip(panels[0], keys):
            draw_shares(axes, rows, names, key)
            axes.set_title(heading)
        panels[0][0].set_yticks(range(len(names)), names)
        panels[0][0].invert_yaxis()
        panels[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), handlelength=1.0)
        arrange(figure, title)
        return figure


def draw_shares(axes, rows, names, key):
    largest = max(row.get(key) or 0 for row in rows)
    for offset, name in zip((-0.19, 0.19), PASSES):
        values = {row["layer"]: row for row in rows if row.get("pass") == name}
        shares = [values.get(layer, {}).get(key) or 0 for layer in names]
        places = [place + offset for place in range(len(names))]
        axes.barh(places, shares, height=0.36, color=SERIES[PASSES.index(name)], label=name)
        for layer, place, share in zip(names, places, shares):
            time = values.get(layer, {}).get("median_ms")
            if time is not None:
                axes.annotate(f"{share:.0f} % ({short_number(time)} ms)", (share, place),
                              va="center", xytext=(3, 0), textcoords="offset points",
                              bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.axvline(100, color="#777777", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.set_xlim(0, 1.65 * max(largest, 100))
    light_grid(axes, "x")


def stack_figure(rows, title):
    """Returns a figure of the deepest stack per layer and number of devices; None if there is none."""
    layers = [row["layer"] for row in rows]
    shown = sorted((row for row in rows if row["status"] == "fits"),
                   key=lambda row: (layers.index(row["layer"]), row["devices"]))
    if not shown:
        return None
    labels = [f"{row['layer']}\n{row['devices']} device{'s' if row['devices'] > 1 else ''}"
              for row in shown]
    with plt.rc_context(STYLE):
        unit = max(1.2, *(text_width(label) + 0.4 for label in labels))
        figure, axes = plt.subplots(figsize=(1.4 + unit * len(shown), 3.7))
        for place, row in enumerate(shown):
            axes.bar(place, row["depth"], width=0.6, color=SERIES[0])
            axes.plot([place - 0.36, place + 0.36], [row["estimated_depth"]] * 2,
                      color=SERIES[1], linewidth=1.6, label="estimate" if place == 0 else None)
            axes.annotate(str(row["depth"]), (place, max(row["depth"], row["estimated_depth"])),
                          ha="center", va="bottom", xytext=(0, 3), textcoords="offset points")
        axes.set_xticks(range(len(shown)), labels)
        axes.set_ylabel("layers")
        axes.set_ylim(0, 1.18 * max(row["depth"] for row in shown))
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        light_grid(axes)
        arrange(figure, title)
        return figure


def layer_figures(runs):
    """Returns {name: figure} of the figures that have data."""
    tables = ((layer_table(runs), layer_figure), (stack_table(runs), stack_figure))
    return {table.name: draw(table.rows, table.title) for table, draw in tables}
