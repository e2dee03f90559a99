"""The tables of a report: which columns, which formulas, which notes."""

from lockstep_report import metrics
from lockstep_report.points import (
    base_of, independent_of, setting_names, setting_of, strong_base_of)
from lockstep_report.tables import Column, Table

INDEPENDENT_NOTE = (
    '"independent replicas, no communication" (reducer none): every rank trains alone; the '
    "baseline of what communication costs, not a way to train one network"
)
SCALED_NOTE = "scaled from fewer steps to the whole epoch by images"
PLACE = [
    Column("setting", "Setting"),
    Column("batch_per_rank", "Batch per rank"),
    Column("ranks", "Ranks"),
    Column("mode", "Mode"),
]


def place(point, points):
    return {"setting": setting_names(p.setting for p in points)[point.setting] or None,
            "batch_per_rank": point.batch_per_rank or None, "ranks": point.ranks,
            "mode": point.mode}


def common_notes(points):
    notes = []
    if any(p.is_independent for p in points):
        notes.append(INDEPENDENT_NOTE)
    if any(p.scaled for p in points):
        notes.append("epoch times of " + ", ".join(p.source for p in points if p.scaled)
                     + f": {SCALED_NOTE}")
    if len({p.threads for p in points}) > 1:
        notes.append("the runs have different numbers of threads per rank: "
                     + ", ".join(f"{p.source} {p.threads}" for p in points))
    return notes


def several_settings(points):
    """Points of different models, devices, ... stay apart; say so."""
    if len({p.setting for p in points}) < 2:
        return []
    return ["rows are compared only within one setting: the same model, device, precision and data"]


def ladder_table(points, runs):
    """Batch size against epoch time on one device, until memory is full."""
    ladders = [run for run in runs if run.ladder]
    alone = [p for p in points if p.ranks == 1 and p.batch_per_rank]
    if ladders:
        names = setting_names(setting_of(run) for run in ladders)
        rows = [{"setting": names[setting_of(run)] or None, **ladder_row(run.ladder, i)}
                for run in ladders for i in range(len(run.ladder["batch_per_rank"]))]
    else:
        names = setting_names(p.setting for p in alone)
        rows = [
            {"setting": names[p.setting] or None, "batch_per_rank": p.batch_per_rank,
             "status": "ok", "epoch_seconds": p.epoch_seconds,
             "training_seconds": p.training_seconds, "images_per_second": p.images_per_second}
            for p in first_of_each_batch(alone)
        ]
    rows.sort(key=lambda row: (row["setting"] or "", row["batch_per_rank"]))
    full = any(row["status"] == "out of memory" for row in rows)
    return Table(
        "batch-ladder", "Batch ladder: one rank, batch size up to the memory's limit",
        [Column("setting", "Setting"), Column("batch_per_rank", "Batch"),
         Column("status", "Status"), Column("epoch_seconds", "Epoch (s)", 2),
         Column("training_seconds", "Training, without data wait (s)", 2),
         Column("images_per_second", "Images/s", 1),
         Column("predicted_mib", "Memory planned (MiB)", 0),
         Column("peak_mib", "Memory used at most (MiB)", 0)],
        rows,
        ["an out-of-memory row is the expected end of the ladder, not an error"] if full else [])


def first_of_each_batch(points):
    """One point for each setting and batch: several differ in options that are not the batch."""
    return {(p.setting, p.batch_per_rank): p for p in reversed(points)}.values()


def ladder_row(ladder, i):
    status = str(ladder["status"][i]).replace("_", " ")
    ok = status in ("ok", "complete")

    def value(name, scale=1.0):
        number = float(ladder[name][i]) if name in ladder else 0.0
        return number / scale if number > 0 else None  # NaN and 0: not measured

    return {
        "batch_per_rank": int(ladder["batch_per_rank"][i]),
        "status": "ok" if ok else status,
        "epoch_seconds": value("epoch_seconds") if ok else None,
        "training_seconds": value("training_seconds") if ok else None,
        "images_per_second": value("images_per_second") if ok else None,
        "predicted_mib": value("predicted_bytes", 2**20),
        "peak_mib": value("peak_bytes", 2**20),
    }


def time_table(points):
    """Table 1: time and speedup."""
    rows = []
    for p in points:
        base = base_of(p, points)
        t_1 = base.epoch_seconds if base else None
        interval = p.epoch_interval
        rows.append({
            **place(p, points), "global_batch": p.global_batch or None,
            "epoch_seconds": p.epoch_seconds,
            "epoch_low": interval and interval.low, "epoch_high": interval and interval.high,
            "training_seconds": p.training_seconds, "images_per_second": p.images_per_second,
            "speedup": t_1 and metrics.speedup(t_1, p.epoch_seconds),
            "scaled_speedup": t_1 and metrics.scaled_speedup(t_1, p.epoch_seconds, p.ranks),
            "joules_per_image": p.joules_per_image,
            "runs": p.repeats,
        })
    return Table(
        "table-1-time-speedup", "Table 1: time and speedup per epoch at fixed batch per rank",
        [*PLACE, Column("global_batch", "Global batch"), Column("epoch_seconds", "Epoch (s)", 2),
         Column("epoch_low", "95 % from (s)", 2), Column("epoch_high", "to (s)", 2),
         Column("training_seconds", "Training, without data wait (s)", 2),
         Column("images_per_second", "Images/s", 1),
         Column("speedup", "Epoch speedup T(1)/T(N)", 2),
         Column("scaled_speedup", "N·T(1)/T(N)", 2),
         Column("joules_per_image", "J per image", 4), Column("runs", "Runs")],
        rows,
        ["epoch speedup at fixed batch per rank: T(1)/T(N) compares the time of the same epoch; "
         "N·T(1)/T(N) also counts that N ranks take N times the batch in each step",
         *missing_bases(points, base_of, "batch per rank"), *common_notes(points),
         *several_settings(points)])


def missing_bases(points, lookup, what):
    lacking = sorted({p.batch_per_rank for p in points if lookup(p, points) is None})
    if not lacking:
        return []
    return [f"no 1-rank run with the same {what} for batch {', '.join(map(str, lacking))}: "
            "no speedup there"]


def weak_table(points):
    """Weak scaling: fixed batch per rank."""
    rows = []
    for p in points:
        if p.step_median is None:
            continue
        base, alone = base_of(p, points), independent_of(p, points)
        interval = p.step_interval
        rows.append({
            **place(p, points), "steps": p.steps, "step_ms": 1e3 * p.step_median,
            "step_low_ms": interval and 1e3 * interval.low,
            "step_high_ms": interval and 1e3 * interval.high,
            "images_per_second": p.images_per_second,
            "efficiency": base and metrics.weak_efficiency(mean_step(base), mean_step(p)),
            "efficiency_independent":
                alone and metrics.weak_efficiency(mean_step(alone), mean_step(p)),
        })
    return Table(
        "weak-scaling", "Weak scaling: fixed batch per rank",
        [*PLACE, Column("steps", "Steps per epoch"), Column("step_ms", "Median step (ms)", 2),
         Column("step_low_ms", "95 % from (ms)", 2), Column("step_high_ms", "to (ms)", 2),
         Column("images_per_second", "Images/s", 1),
         Column("efficiency", "Weak efficiency t(1)/t(N)", 3),
         Column("efficiency_independent", "Efficiency against independent replicas", 3)],
        rows,
        ["t is the mean step (seconds summed over steps); a step's time is the maximum over the "
         "ranks; the interval of the median step is rank-based, over the steps of one run",
         "the efficiency against as many independent replicas at the same batch per rank leaves "
         "out what the ranks cost each other without communicating (shared memory, clock rate)",
         *common_notes(points), *several_settings(points)])


def mean_step(point):
    return point.epoch_seconds / point.steps


def strong_table(points):
    """Strong scaling: fixed global batch."""
    rows = []
    for p in points:
        base = strong_base_of(p, points)
        group = [q for q in points if base and strong_base_of(q, points) is base]
        if len({q.ranks for q in group}) < 2:
            continue
        rows.append({
            "global_batch": p.global_batch, **place(p, points), "epoch_seconds": p.epoch_seconds,
            "speedup": metrics.speedup(base.epoch_seconds, p.epoch_seconds),
            "efficiency":
                metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks),
        })
    rows.sort(key=lambda row: (row["setting"] or "", row["global_batch"], row["ranks"],
                               row["mode"]))
    return Table(
        "strong-scaling", "Strong scaling: fixed global batch",
        [Column("global_batch", "Global batch"), *PLACE, Column("epoch_seconds", "Epoch (s)", 2),
         Column("speedup", "Speedup T(1)/T(N)", 2), Column("efficiency", "Efficiency", 3)],
        rows, [*common_notes(points), *several_settings(points)] if rows else [])


def split_table(points):
    """Table 2: compute and communication, measured and derived side by side."""
    rows = []
    for p in points:
        base = base_of(p, points)
        compute = communication = None
        if base and p.ranks > 1:
            compute, communication = metrics.derived_split(
                base.epoch_seconds, p.epoch_seconds, p.ranks)
        phases = p.phase_seconds or {}
        rows.append({
            **place(p, points), "epoch_seconds": p.epoch_seconds,
            "compute": p.compute_seconds, "exposed": p.exposed_seconds,
            "hidden": p.hidden_seconds, "allreduce": p.allreduce_seconds,
            "data_wait": phases.get("data_wait"), "imbalance": phases.get("imbalance"),
            "derived_compute": compute, "derived_communication": communication,
        })
    notes = ["measured: means over the ranks; compute = upload + forward + backward + update; "
             "exposed + hidden = all-reduce time, where hidden is what the backward pass covered",
             "compute + exposed + data wait + imbalance (the slowest rank's steps less the mean) "
             "= epoch",
             "derived: compute = T(1)/N, communication = T(N) − T(1)/N; everything that does not "
             "shrink with N is counted as communication there"]
    if any((row["derived_communication"] or 0) < 0 for row in rows):
        notes.append("a negative derived communication means that N ranks were more than N times "
                     "as fast as one")
    if all(p.phase_seconds is None for p in points):
        notes = notes[2:]
    return Table(
        "table-2-compute-communication", "Table 2: compute and communication per epoch",
        [*PLACE, Column("epoch_seconds", "Epoch (s)", 2),
         Column("compute", "Measured compute (s)", 2),
         Column("exposed", "Measured exposed communication (s)", 2),
         Column("hidden", "Measured hidden communication (s)", 2),
         Column("allreduce", "Measured all-reduce (s)", 2),
         Column("data_wait", "Data wait (s)", 2), Column("imbalance", "Imbalance (s)", 2),
         Column("derived_compute", "Derived compute T(1)/N (s)", 2),
         Column("derived_communication", "Derived communication T(N) − T(1)/N (s)", 2)],
        rows, [*notes, *common_notes(points), *several_settings(points)])


def bandwidth_table(points, link_gbit=None):
    """Table 3: bandwidth utilisation."""
    rows = []
    for p in points:
        if p.ranks < 2 or p.is_independent or not p.bytes_per_step or not p.steps:
            continue
        base = base_of(p, points)
        volume = p.bytes_per_step * p.steps
        derived_seconds = None
        if base:
            derived_seconds = metrics.derived_split(
                base.epoch_seconds, p.epoch_seconds, p.ranks)[1]
        measured = metrics.bus_bandwidth(volume, p.allreduce_seconds, p.ranks)
        derived = metrics.bus_bandwidth(volume, derived_seconds, p.ranks)
        rows.append({
            **place(p, points), "bytes": p.bytes_per_step, "steps": p.steps,
            "sent_gb": metrics.ring_bytes(volume, p.ranks) / 1e9,
            "allreduce_seconds": p.allreduce_seconds if measured else None,
            "measured_gb_s": measured and measured / 1e9,
            "measured_percent": percent(metrics.utilisation(measured, link_gbit)),
            "derived_seconds": derived_seconds, "derived_gb_s": derived and derived / 1e9,
            "derived_percent": percent(metrics.utilisation(derived, link_gbit)),
        })
    notes = ["bandwidth = 2(N−1)/N · M · steps / T, with M the bytes all-reduced per step, N the "
             "ranks and T the seconds of communication per epoch; GB = 1e9 bytes",
             "measured: T is the time in which an all-reduce was under way, waiting for slower "
             "ranks included; derived: T = T(N) − T(1)/N"]
    if any(max(row["measured_percent"] or 0, row["derived_percent"] or 0) > 100 for row in rows):
        notes.append("more than 100 %: the ranks did not all speak over this link (several on one "
                     "host), or the rate given is not the link's")
    if link_gbit:
        notes.append(f"per cent of a link of {link_gbit:g} Gbit/s = {link_gbit / 8:g} GB/s")
    return Table(
        "table-3-bandwidth", "Table 3: bandwidth utilisation of the all-reduce",
        [*PLACE, Column("bytes", "M (bytes)"), Column("steps", "Steps per epoch"),
         Column("sent_gb", "Sent per rank and epoch (GB)", 2),
         Column("allreduce_seconds", "Measured T (s)", 2),
         Column("measured_gb_s", "Measured (GB/s)", 3),
         Column("measured_percent", "of the link (%)", 1),
         Column("derived_seconds", "Derived T (s)", 2),
         Column("derived_gb_s", "Derived (GB/s)", 3),
         Column("derived_percent", "of the link, derived (%)", 1)],
        rows, notes if rows else [])


def percent(share):
    return None if share is None else 100 * share


def sweep_table(runs):
    """The all-reduce sweep over message sizes."""
    rows = []
    for run in runs:
        for i in range(len(run.allreduce.get("bytes", ()))):
            rows.append(sweep_row(run, i))
    return Table(
        "allreduce-sweep", "All-reduce over message sizes",
        [Column("source", "File"), Column("way", "Way"), Column("ranks", "Ranks"),
         Column("bytes", "Bytes"), Column("median_us", "Median time (µs)", 1),
         Column("low_us", "95 % from (µs)", 1), Column("high_us", "to (µs)", 1),
         Column("algbw", "algbw (GB/s)", 3), Column("busbw", "busbw (GB/s)", 3),
         Column("wrong", "#wrong"), Column("repeats", "Repeats")],
        rows,
        ["algbw = bytes / time; busbw = 2(N−1)/N · algbw; time is the median over the repeats of "
         "the slowest rank's time"] if rows else [])


def sweep_row(run, i):
    seconds = sorted(float(s) for s in run.allreduce["seconds"][i])
    middle = len(seconds) // 2
    median = seconds[middle] if len(seconds) % 2 else sum(seconds[middle - 1:middle + 1]) / 2
    interval = metrics.median_interval(seconds)
    size = int(run.allreduce["bytes"][i])
    bus = metrics.bus_bandwidth(size, median, run.rank_count)
    return {
        "source": run.path.name, "way": str(run.allreduce["way"][i]), "ranks": run.rank_count,
        "bytes": size, "median_us": 1e6 * median, "low_us": interval and 1e6 * interval.low,
        "high_us": interval and 1e6 * interval.high,
        "algbw": size / median / 1e9 if median > 0 else None, "busbw": bus and bus / 1e9,
        "wrong": int(run.allreduce["wrong"][i]), "repeats": len(seconds),
    }


def all_tables(points, runs, link_gbit=None):
    """Every table that has rows."""
    tables = [ladder_table(points, runs)]
    if points:
        tables += [time_table(points), split_table(points), bandwidth_table(points, link_gbit),
                   weak_table(points), strong_table(points)]
    tables.append(sweep_table(runs))
    return [table for table in tables if table.rows]
