"""Summary of the candidates that `--engine-log` lists: one JSON object per candidate, with graph,
engine, build_seconds, seconds (null if not timed), workspace_bytes, refusal and chosen."""

import json
import pathlib


def read_candidates(path):
    """Returns the candidates in a log, without lines that are not JSON objects (the last line of a
    program that was ended can be incomplete)."""
    candidates = []
    try:
        lines = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            candidates.append(value)
    return candidates


def number_of(candidate, key):
    value = candidate.get(key)
    return value if isinstance(value, int | float) else 0.0


def summary(candidates):
    """Returns the numbers of graphs and candidates, and seconds of building and of the steps."""
    graphs = {}
    for candidate in candidates:
        graphs.setdefault(candidate.get("graph"), []).append(candidate)
    timed = [one for one in candidates if isinstance(one.get("seconds"), int | float)]
    first, chosen = 0.0, 0.0
    for ones in graphs.values():
        times = [one["seconds"] for one in ones if isinstance(one.get("seconds"), int | float)]
        best = [one["seconds"] for one in ones if one.get("chosen") and one in timed]
        if times and best:
            first, chosen = first + times[0], chosen + best[0]
    return {"graphs": len(graphs), "candidates": len(candidates), "timed": len(timed),
            "refused": sum(bool(one.get("refusal")) for one in candidates),
            "build_seconds": sum(number_of(one, "build_seconds") for one in candidates),
            "largest_workspace_bytes": max((number_of(one, "workspace_bytes")
                                            for one in candidates), default=0),
            "first_candidate_seconds": first, "chosen_seconds": chosen}


def report_candidates(report, precision, batch, path):
    """Adds the summary of a log to the report. Without candidates, for example because the cache
    has all engines, adds nothing."""
    values = summary(read_candidates(path))
    if not values["candidates"]:
        return
    report.numbers[f"candidates {precision} {batch}"] = values
    report.add_text(
        f"Engines for {precision} at batch {batch}: {values['graphs']} graphs, "
        f"{values['candidates']} candidates, of which {values['timed']} were timed and "
        f"{values['refused']} refused; {values['build_seconds']:.1f} s of building. The selected "
        f"engines take {values['chosen_seconds'] * 1e3:.2f} ms in total, the first candidates of "
        f"cuDNN's heuristics {values['first_candidate_seconds'] * 1e3:.2f} ms.")
