"""The report: every table and figure in one Markdown page with a method box."""

from lockstep_report.points import base_of
from lockstep_report.tables import markdown

CAPTIONS = {
    "phases": "Stacked: where the time of an epoch goes, mean over the ranks; the bar's height is "
              "the epoch (a step's time is the maximum over the ranks).",
    "scaling": "Fixed batch per rank: epoch speedup and efficiency. The broken line is the ideal; "
               "lines join what was measured and mean nothing between.",
    "strong-scaling": "Fixed global batch: speedup and efficiency. The broken line is the ideal.",
    "batch-ladder": "One rank, growing batch.",
}


def caption(name):
    return next(text for kind, text in CAPTIONS.items() if name.startswith(kind))


def method_box(points, runs, link_gbit=None):
    """How the numbers were made: base case, clock, warm-up, n."""
    lines = ["> **Method**"]
    bases = {id(b): b for b in (base_of(p, points) for p in points) if b}
    for base in bases.values():
        batch = f", batch {base.batch_per_rank}" if base.batch_per_rank else ""
        lines.append(f"> - Base case T(1): 1 rank{batch}, {base.epoch_seconds:.4g} s per epoch "
                     f"({base.source})")
    if not bases:
        lines.append("> - Base case: none of the runs has 1 rank; no speedups")
    alone = [p for p in points if p.is_independent]
    for p in alone:
        lines.append(f"> - No-communication baseline: {p.ranks} independent replicas, batch "
                     f"{p.batch_per_rank}, {p.epoch_seconds:.4g} s per epoch ({p.source})")
    if runs:
        lines.append("> - Clock: each rank's monotonic clock, read once after each phase; a "
                     "step's time is the maximum over the ranks; throughput is images summed over "
                     "seconds summed")
        lines.append("> - Warm-up: epoch 2 is reported where there are two or more; otherwise the "
                     "steps after the first 10 % (at least 1)")
    for rule in dict.fromkeys(p.rule for p in points):
        sources = [p.source for p in points if p.rule == rule]
        lines.append(f"> - Steps: {rule} ({', '.join(dict.fromkeys(sources))})")
    lines += [f"> - {text}" for text in dict.fromkeys(repeats_line(p) for p in points)]
    for run in runs:
        if run.status != "complete":
            lines.append(f"> - {run.path.name}: status {run.status}, not complete")
    if link_gbit:
        lines.append(f"> - Link: {link_gbit:g} Gbit/s, as given")
    return "\n".join(lines) + "\n"


def repeats_line(point):
    if point.repeats == 1:
        return "n = 1 run per point unless the tables say otherwise: no interval over runs"
    spread = "no interval (fewer than 6)" if point.epoch_interval is None else (
        f"rank-based interval of the median, {point.epoch_interval.coverage:.1%}")
    return f"n = {point.repeats} runs of {point.source}: medians, {spread}"


def report_markdown(points, runs, tables, figure_names, extra=(), link_gbit=None):
    parts = ["# Lockstep report\n", method_box(points, runs, link_gbit)]
    for name in figure_names:
        parts.append(f"![{name}]({name}.svg)\n\n*{caption(name)}*\n")
    parts += [markdown(table) for table in (*tables, *extra)]
    return "\n".join(parts)
