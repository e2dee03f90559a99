"""Charts of stacked bars: phases of an epoch, and causes of lost efficiency."""

from lockstep_report.html.bar_chart import Bar, Part, bar_charts
from lockstep_report.html.cells import batch_text, ranks_text, rows_of
from lockstep_report.html.figure import figure_element, fill_entry
from lockstep_report.models.causes import CAUSES, LABELS, SMALLEST_DRAWN
from lockstep_report.phases import PHASES, phase_name



def phase_figure(book, measured):
    """Returns the figure of the phases for each point; None without phases."""
    rows = rows_of(book, "phases")
    if not rows:
        return None
    bars = {}
    for row in rows:
        parts = tuple(
            Part(phase, row[phase],
                 f"{label_of(row)}, {phase_name(phase).lower()}: {row.text(phase)} s")
            for phase in PHASES if row[phase] is not None)
        bars.setdefault(row["setting"], []).append(
            Bar(f"{label_of(row)}, {batch_text(row)}", parts, f"{row.text('epoch_seconds')} s"))
    charts = [chart for setting, group in bars.items() for chart in bar_charts(
        setting or "All runs", "seconds per epoch, mean over the ranks", group)]
    used = [p for p in PHASES if any((row[p] or 0) > 0 for row in rows)]
    return figure_element(
        "phases", "Time of an epoch by phase",
        [c.panel() for c in charts],
        [fill_entry(p, phase_name(p).lower()) for p in used],
        "The length of a bar is the sum of the phases, in the order of the legend; the number above it "
        "is the time of the epoch.", [("phases", "phases of an epoch")], measured)


def label_of(row):
    mode = "" if row["ranks"] == 1 and row["mode"] == "1 rank" else row["mode"]
    if row.is_independent:
        mode = "no communication" + mode.partition("no communication")[2]
    text = ranks_text(row.text("ranks"))
    return mode if mode.startswith(text) else ", ".join(filter(None, (text, mode)))


def cause_figure(book, measured):
    """Returns the figure of the causes of lost efficiency; None without losses."""
    rows = rows_of(book, "efficiency-causes")
    if not rows:
        return None
    used = [name for name, _ in CAUSES
            if any(abs(row[f"{name}_percent"] or 0) > 100 * SMALLEST_DRAWN for row in rows)]
    groups = {}
    for row in rows:
        batch = batch_text(row)
        label = label_of(row)
        parts = [Part("efficiency", row["efficiency_percent"],
                      f"{label}, efficiency: {row.text('efficiency_percent')} %")]
        parts += [Part(name, row[f"{name}_percent"],
                       f"{label}, {LABELS[name]}: {row.text(f'{name}_percent')} %")
                  for name in used if row[f"{name}_percent"] is not None]
        key = (row["setting"], row["scaling"], "" if "global" in row["scaling"] else batch)
        if "global" in row["scaling"]:
            label = f"{label}, {batch}"
        groups.setdefault(key, []).append(
            Bar(label, tuple(parts), f"{row.text('efficiency_percent')} %"))
    charts = [chart for key, group in groups.items() for chart in bar_charts(
        ", ".join(filter(None, key)), "per cent of the epoch", group, 100.0)]
    entries = [fill_entry("efficiency", "efficiency"),
               *(fill_entry(name, LABELS[name]) for name in used)]
    return figure_element(
        "efficiency-causes", "Causes of lost efficiency",
        [c.panel() for c in charts], entries,
        "Efficiency and the causes of the rest, in per cent of the epoch; the order in a bar is "
        "that of the legend. Parts to the left of 0 are gains.",
        [("efficiency-causes", "causes of lost efficiency")], measured)
