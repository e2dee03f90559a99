"""One screen of text about one run: how long is an epoch, img/s, what part is communication."""

import numpy as np

from lockstep_report import metrics
from lockstep_report.points import IMBALANCE, epoch_images, from_run

PHASE_WORDS = {
    "data_wait": "waiting for data",
    "upload": "upload",
    "forward": "forward",
    "backward": "backward",
    "exposed_communication": "exposed communication",
    "update": "update",
    IMBALANCE: "imbalance (slowest rank less the mean)",
}


def summary(run):
    """The text; lines of at most 100 characters."""
    if not run.has_steps:
        return head(run) + ["No steps were recorded."]
    point = from_run(run)
    window = metrics.report_window(run.epoch)
    images, _ = epoch_images(run, window.epoch)
    per_rank = point.images_per_second / point.ranks
    lines = head(run) + [
        "",
        f"An epoch takes {seconds(point.epoch_seconds)} ({images:,} images in {point.steps} steps)"
        + (", scaled from a shorter run by images." if point.scaled else "."),
        f"Speed: {point.images_per_second:,.1f} img/s"
        + (f", {per_rank:,.1f} per rank." if point.ranks > 1 else "."),
        f"Without waiting for data: {seconds(point.training_seconds)} per epoch.",
        communication_line(point),
        "",
        "Where the time of an epoch goes (mean over the ranks):",
    ]
    for name, value in point.phase_seconds.items():
        if name == IMBALANCE and point.ranks == 1:
            continue
        share = value / point.epoch_seconds
        lines.append(f"  {PHASE_WORDS.get(name, name):<40}{value:>10.3f} s{share:>8.1%}")
    lines += ["", *step_lines(run, point, window), *device_lines(run, point, window),
              *accuracy_lines(run)]
    return [line for line in lines if line is not None]


def head(run):
    hosts = len(set(run.ranks.get("hostname", ())))
    count = run.rank_count
    what = " ".join(filter(None, (run.option("model"), run.option("precision"))))
    batch = run.option("batch-per-rank")
    parts = [f"{what or 'a network'} on {count} rank{'s' * (count != 1)} "
             f"({run.option('device', 'device unknown')}, {hosts} host{'s' * (hosts != 1)})"]
    if batch and batch != "0":
        parts.append(f"batch {batch} per rank")
    if count > 1:
        reducer = run.option("reducer", "unknown")
        parts.append("independent replicas, no communication" if reducer == "none"
                     else f"reducer {reducer}")
    lines = [f"{run.path.name}: {run.status}", ", ".join(parts)]
    failure = run.attributes.get("failure")
    return lines + ([f"It failed: {failure}"] if failure else [])


def seconds(value):
    if value >= 100:
        return f"{value:,.1f} s"
    if value >= 0.1:
        return f"{value:.2f} s"
    return f"{1e3 * value:.2f} ms"


def communication_line(point):
    if point.ranks == 1:
        return "Communication: none (1 rank)."
    if point.is_independent:
        return "Communication: none (independent replicas)."
    exposed = point.exposed_seconds
    text = (f"Communication: {seconds(exposed)} exposed = {exposed / point.epoch_seconds:.1%} of "
            f"the epoch")
    if point.allreduce_seconds:
        hidden = point.hidden_seconds
        text += (f"; {seconds(hidden)} hidden = {hidden / point.allreduce_seconds:.0%} of the "
                 "all-reduce")
        bandwidth = point.bytes_per_step and metrics.bus_bandwidth(
            point.bytes_per_step * point.steps, point.allreduce_seconds, point.ranks)
        if bandwidth:
            text += (f".\nAll-reduce: {point.bytes_per_step / 1e6:.1f} MB per step, bus bandwidth "
                     f"{bandwidth / 1e9:.2f} GB/s ({8 * bandwidth / 1e9:.1f} Gbit/s)")
    return text + "."


def step_lines(run, point, window):
    step = metrics.step_seconds(run.phase_seconds[window.steps], run.phases)
    text = f"Step: median {1e3 * point.step_median:.2f} ms"
    interval = point.step_interval
    if interval:
        text += (f" [{1e3 * interval.low:.2f}, {1e3 * interval.high:.2f}] "
                 f"({interval.coverage:.0%}, rank-based, n = {interval.count})")
    text += f", longest {1e3 * step.max():.2f} ms."
    lines = [text, f"Reported: {window.rule}."]
    if point.ranks > 1:
        work = metrics.rank_seconds(
            run.phase_seconds[window.steps], run.phases,
            without=("exposed_communication",)).sum(axis=0)
        slowest = int(np.argmax(work))
        host = run.ranks["hostname"][slowest] if "hostname" in run.ranks else "unknown host"
        excess = work[slowest] / np.median(work) - 1
        lines.append(f"Slowest rank: {slowest} on {host}, {excess:.1%} more work than the median "
                     "rank (communication not counted).")
    return lines


def device_lines(run, point, window):
    """What the devices said of themselves; nothing of CPUs."""
    row = window.epoch - int(run.epoch[0]) + 1
    joules, busy, memory = (metrics.epoch_reading(run.epochs, name, row)
                            for name in ("energy_joules", "utilisation", "memory_used_bytes"))
    parts = []
    if joules is not None:
        watts = joules / run.epochs["seconds"][row - 1]
        parts.append(f"{point.joules_per_image:.3g} J per image, {watts.mean():,.0f} W per device")
    if busy is not None:
        parts.append(f"busy {busy.mean():.0%} of the time by its own account")
    if memory is not None:
        parts.append(f"{memory.max() / 1e9:.2f} GB of its memory in use")
    return [f"Device: {', '.join(parts)}."] if parts else []


def accuracy_lines(run):
    accuracy = np.asarray(run.epochs.get("test_accuracy", ()), dtype=float)
    known = np.flatnonzero(~np.isnan(accuracy))
    if len(known) == 0:
        return []
    last, best = known[-1], known[np.argmax(accuracy[known])]
    return [f"Test accuracy: {accuracy[last]:.2%} after epoch {last + 1}, "
            f"best {accuracy[best]:.2%} after epoch {best + 1}."]
