"""The report: all tables and figures in one Markdown page, with a method box."""

from urllib.parse import quote

from lockstep_report.escaping import markdown_escape
from lockstep_report.measure.comparison import base_of
from lockstep_report.runfile.settings import describe_setting, some_of
from lockstep_report.tables.table import markdown

MOST_BASES = 8  # that the method lists

CAPTIONS = {
    "phases": "The time of an epoch by phase, mean over the ranks. The height of a bar is the "
              "epoch time (a step's time is the maximum over the ranks). Letters refer to the "
              "notes of the tables.",
    "scaling": "Fixed batch per rank: epoch speedup and efficiency. The dashed line is the ideal; "
               "the lines join measured points and have no meaning between them. Vertical lines: "
               "95 % interval of the speedup over runs.",
    "strong-scaling": "Fixed global batch: speedup, with its 95 % interval over runs, and efficiency. "
                      "The dashed line is the ideal.",
    "efficiency-causes": "Efficiency T(1)/(N·T(N)) and the causes of the rest, in per cent of the "
                         "epoch. Bars below 0 are gains.",
    "scaling-laws": "Speedups and the fitted laws of Amdahl (fixed global batch) and Gustafson "
                    "(fixed batch per rank) with the serial fraction s and its 95 % interval; "
                    "dashed beyond the data.",
    "alpha-beta": "Time of the all-reduce over its size and the fits alpha + beta · bytes; dashed "
                  "beyond the data.",
    "thread-scaling": "Speedup of an epoch and of the passes of a step over the threads per rank. "
                      "The dashed line is the ideal; the dotted line is the number of processors.",
    "learning-curves": "Test accuracy over epochs and over training time; the band spans the runs "
                       "with different seeds.",
    "allreduce-sweep": "Bus bandwidth of the all-reduce over the message size, for each algorithm.",
    "waiting": "The time of each rank in the all-reduces of an epoch: waiting until the last rank "
               "has started the same bucket, and the transfer after that, which on CPUs may contain "
               "computation. A slow rank waits least.",
    "work": "Work of each rank in each step, of the runs with a significantly slow rank, or of the "
            "run with the most ranks if there are none.",
    "telemetry": "Use of processors, memory, network and devices over time, below the durations of "
                 "the steps on the same axis.",
    "profile": "Time of a training step by operation. In the roofline model, a point on the line "
               "reaches the highest rate that its arithmetic intensity permits.",
    "reducers": "Gradient reducers: the phases of a step, mean over the ranks, and the bytes that "
                "the rank with the most messages sends in a step.",
    "pipeline-stages": "Share of the time that each pipeline stage computes, copies messages and is "
                       "idle. The dashed line is the busy share of equal stages without "
                       "communication time, M / (M + N - 1).",
    "layers": "Share of the measured rates of a memory copy and of a matrix product that single "
              "layers reach; in parentheses the median time of a pass.",
    "stack": "Largest number of equal layers whose training fits in the memory limit. The line is "
             "the estimate from shapes.",
    "batch-sizes": "Training runs on 1 rank with several batch sizes.",
    "batch-ladder": "Growing batch per rank at a fixed number of ranks.",
}


# Beginnings of the names of the tables with the values of a figure, unless its kind is such a beginning.
TABLES = {"scaling": ("table-1", "weak-scaling"), "waiting": ("waiting-transfer",), "work": ("stragglers",)}


def kind_of(name):
    """Returns the kind of the figure `name`, a key of CAPTIONS."""
    return max((kind for kind in CAPTIONS if name.startswith(kind)), key=len)


def caption(name):
    return CAPTIONS[kind_of(name)]


def tables_of(name, tables):
    """Returns the tables with the values of the figure `name`: that of the same name, or those of its kind."""
    kind = kind_of(name)
    return [table for table in tables if table.name == name] or [
        table for table in tables if table.name.startswith(TABLES.get(kind, (kind,)))]


def method_lines(points, runs, file_notes=()):
    """Returns the lines that describe the method: setting, base case, clock, timed steps and number
    of runs."""
    lines = [*setting_lines(points), *base_lines(points)]
    if points and runs:
        lines.append("Clock: each rank reads its monotonic clock once after each phase; the "
                     "time of a step is the maximum over the ranks; throughput is images summed "
                     "over seconds summed")
        lines += clock_lines(points)
        lines.append("Warm-up: the earliest complete epoch in which no process started is "
                     "timed; without one, the first 10 % of the steps (at least 1) are excluded")
    for rule in dict.fromkeys(p.rule for p in points):
        sources = dict.fromkeys(name for p in points if p.rule == rule for name in p.sources)
        lines.append(f"Timed: {rule} ({some_of(list(sources))})")
    lines += [f"{text}" for text in dict.fromkeys(repeats_line(p) for p in points)]
    for run in runs:
        if run.status != "complete":
            lines.append(f"{run.label}: the run did not finish (status {run.status})")
    return lines + [f"Files: {note}" for note in file_notes]


def method_box(points, runs, file_notes=()):
    """Returns the lines that describe the method as a box."""
    lines = method_lines(points, runs, file_notes)
    if not lines:
        return ""
    return "\n".join(["> **Method**", *(f"> - {markdown_escape(line)}" for line in lines)]) + "\n"


def setting_lines(points):
    groups = {}
    for p in points:
        groups.setdefault(p.setting, []).append(p)
    return [f"Setting: {describe_setting(group)}" for group in groups.values()]


def clock_lines(points):
    """Returns a line about the clocks that are compared to split the all-reduces, if any."""
    errors = [p.split.clock_error for p in points if p.split]
    if not errors:
        return []
    return ["Waiting and transfer: the clocks of the ranks are compared with offsets that were "
            "measured before and after each epoch; error of a difference at most "
            f"{1e6 * max(errors):.3g} µs"]


def base_lines(points):
    """Returns lines about the base cases of speedups and the baselines without communication."""
    lines = []
    bases = {id(b): b for b in (base_of(p, points) for p in points) if b}
    for base in list(bases.values())[:MOST_BASES]:
        batch = f", batch {base.batch_per_rank}" if base.batch_per_rank else ""
        threads = base.setting[-1] if len(base.setting) > 1 else ""
        lines.append(f"Base case T(1): 1 rank{batch}{', ' + threads if threads else ''}, "
                     f"{base.epoch_seconds:.4g} s per epoch ({some_of(base.sources)})")
    if len(bases) > MOST_BASES:
        lines.append(f"Base case T(1): {len(bases) - MOST_BASES} more, each for the rows with the same "
                     "setting and batch and the most options in common")
    if points and not bases:
        lines.append("Base case: none of the runs has 1 rank, so there are no speedups")
    for p in points:
        if p.is_independent:
            lines.append(
                f"Baseline without communication: {p.ranks} independent replicas, batch "
                f"{p.batch_per_rank}, {p.epoch_seconds:.4g} s per epoch ({some_of(p.sources)})")
    return lines


def repeats_line(point):
    if point.repeats == 1:
        return "n = 1 run per point unless the tables say otherwise: no interval over runs"
    spread = "no interval (fewer than 6)" if point.epoch_interval is None else (
        f"rank-based interval of the median, {point.epoch_interval.coverage:.1%}")
    return f"n = {point.repeats} runs of {some_of(point.sources)}: medians, {spread}"


def report_markdown(points, runs, tables, figure_names, extra=(), file_notes=()):
    parts = ["# Lockstep report\n", method_box(points, runs, file_notes)]
    for name in figure_names:
        parts.append(f"![{markdown_escape(name)}]({quote(name)}.svg)\n\n*{caption(name)}*\n")
    parts += [markdown(table) for table in (*tables, *extra)]
    return "\n".join(part for part in parts if part)
