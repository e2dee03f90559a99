# SPDX-License-Identifier: BSD-3-Clause
"""Tables of single layers and of the deepest stacks of layers."""

import numpy as np

from lockstep_report.tables.sweep import machine_notes
from lockstep_report.tables.table import Column, Table

PASSES = ("forward", "backward")
STACK_STATUS = {"complete": "fits", "out_of_memory": "out of memory"}


def layer_table(runs):
    """Returns the table of single layers; one row per layer and pass."""
    measured = [run for run in runs if run.layers]
    rows = [{"source": run.file_name if len(measured) > 1 else None, **row}
            for run in measured for i in range(len(run.layers["description"])) for row in layer_rows(run, i)]
    notes = [
        "times are medians over the repeats; MB count each feature map and parameter once per pass "
        "over it; the shares are those of the measured rates of a memory copy and a matrix product",
        "above 100 % of the copy rate, data stayed in a cache; above 100 % of the product, the "
        "algorithm (Winograd's) multiplies less than a direct convolution"]
    if any(row["status"] == "out of memory" for row in rows):
        notes.append("out of memory: the layer does not fit in the memory limit; not an error")
    notes += [f"{run.label}: power and energy are not readable on this device"
              for run in measured if not np.isfinite(run.layers["power_watts"]).any()]
    notes += machine_notes(measured)
    return Table(
        "layers", "Single layers",
        [Column("source", "File"), Column("layer", "Layer"), Column("pass", "Pass"),
         Column("status", "Status"), Column("median_ms", "Median time (ms)", 3),
         Column("mb", "MB", 1), Column("gflop", "GFLOP", 2),
         Column("copy_percent", "of the copy rate (%)", 0),
         Column("product_percent", "of the product rate (%)", 0),
         Column("estimated_mb", "Estimated memory (MB)", 1),
         Column("peak_mb", "Peak memory (MB)", 1),
         Column("power_watts", "Power (W)", 1),
         Column("energy_joules", "Energy, both passes (J)", 3)],
        rows, notes if rows else [])


def layer_rows(run, i):
    """Returns the rows of layer `i`: one per pass, or one if it was not measured."""
    values = {name: column[i] for name, column in run.layers.items()}
    common = {"layer": str(values["description"]), "status": str(values["status"]).replace("_", " ")}
    estimated = float(values["estimated_bytes"]) / 1e6
    if values["status"] != "complete":
        return [{**common, "estimated_mb": estimated}]
    rows = []
    for name in PASSES:
        seconds = float(np.median(values[f"{name}_seconds"]))
        size, work = float(values[f"{name}_bytes"]), float(values[f"{name}_flops"])
        rows.append({
            **common, "pass": name, "median_ms": 1e3 * seconds, "mb": size / 1e6,
            "gflop": work / 1e9,
            "copy_percent": percent_of(size / seconds, values["copy_bytes_per_second"]),
            "product_percent": percent_of(work / seconds, values["product_flops_per_second"])})
    rows[0] |= {"estimated_mb": estimated, "peak_mb": float(values["peak_bytes"]) / 1e6,
                "power_watts": finite(values["power_watts"]),
                "energy_joules": finite(values["energy_joules"])}
    return rows


def percent_of(rate, ceiling):
    return 100 * rate / float(ceiling) if ceiling > 0 else None


def finite(value):
    return float(value) if np.isfinite(value) else None


def stack_table(runs):
    """Returns the table of the deepest stacks; one row per depth that was tried."""
    measured = [run for run in runs if run.stack]
    rows = [{"source": run.file_name if len(measured) > 1 else None, **stack_row(run, i)}
            for run in measured for i in range(len(run.stack["layer"]))]
    notes = ["a stack fits if a forward and a backward pass run within the memory limit; the "
             "estimated depth follows from shapes; times are medians of the forward pass"]
    if any(row["devices"] > 1 for row in rows):
        notes.append("several devices: the layers are divided equally, up to a difference of one; memory is that of "
                     "the device that needs most, and a forward pass goes through all of them")
    notes += machine_notes(measured)
    return Table(
        "stack", "Deepest stack of layers",
        [Column("source", "File"), Column("layer", "Layer"), Column("devices", "Devices"),
         Column("depth", "Depth"), Column("estimated_depth", "Estimated depth"),
         Column("status", "Status"), Column("limit_mb", "Memory limit (MB)", 0),
         Column("estimated_mb", "Estimated memory (MB)", 0),
         Column("peak_mb", "Peak memory (MB)", 0),
         Column("forward_ms", "Forward pass (ms)", 1)],
        rows, notes if rows else [])


def stack_row(run, i):
    values = {name: column[i] for name, column in run.stack.items()}
    seconds = np.asarray(values["forward_seconds"], dtype=float)
    peak = float(values["peak_bytes"])
    return {
        "layer": str(values["layer"]), "devices": int(values["stages"]),
        "depth": int(values["depth"]), "estimated_depth": int(values["estimated_depth"]),
        "status": STACK_STATUS.get(str(values["status"]), str(values["status"])),
        "limit_mb": float(values["limit_bytes"]) / 1e6,
        "estimated_mb": float(values["estimated_bytes"]) / 1e6,
        "peak_mb": peak / 1e6 if peak else None,
        "forward_ms": 1e3 * float(np.median(seconds)) if np.isfinite(seconds).all() else None,
    }
