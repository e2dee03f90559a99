# SPDX-License-Identifier: BSD-3-Clause
"""The table of single layers."""

import numpy as np

from lockstep_report.tables.machines import entries, finite_or_none, machine_notes
from lockstep_report.tables.table import Column, Table

PASSES = ("forward", "backward")


COLUMNS = (
    Column("source", "File"),
    Column("layer", "Layer"),
    Column("pass", "Pass"),
    Column("status", "Status"),
    Column("median_ms", "Median time (ms)", 3),
    Column("mb", "MB", 1),
    Column("gflop", "GFLOP", 2),
    Column("copy_percent", "of the copy rate (%)", 0),
    Column("product_percent", "of the product rate (%)", 0),
    Column("estimated_mb", "Estimated memory (MB)", 1),
    Column("peak_mb", "Peak memory (MB)", 1),
    Column("power_watts", "Power (W)", 1),
    Column("energy_joules", "Energy, both passes (J)", 3),
)
DEFINITION_NOTE = (
    "times are medians over the repeats; MB count each feature map and parameter once per pass "
    "over it; the shares are those of the measured rates of a memory copy and a matrix product"
)
ABOVE_NOTE = (
    "above 100 % of the copy rate, data stayed in a cache; above 100 % of the product, the "
    "algorithm (Winograd's) multiplies less than a direct convolution"
)
MEMORY_NOTE = "out of memory: the layer does not fit in the memory limit; not an error"


def layer_table(runs):
    measured = [run for run in runs if run.layers]
    rows = [row for run in measured for row in rows_of_run(run, len(measured) > 1)]
    exceeds_memory = any(row["status"] == "out of memory" for row in rows)
    without_power = [
        run.label for run in measured if not np.isfinite(run.layers["power_watts"]).any()
    ]
    return Table(
        "layers",
        "Single layers",
        COLUMNS,
        rows,
        [
            DEFINITION_NOTE,
            ABOVE_NOTE,
            exceeds_memory and MEMORY_NOTE,
            *(
                f"{name}: power and energy are not readable on this device"
                for name in without_power
            ),
            *machine_notes(measured),
        ],
    )


def rows_of_run(run, is_named):
    """Returns the rows of a run, with the name of its file if `is_named`."""
    source = run.file_name if is_named else None
    return [{"source": source, **row} for layer in entries(run.layers) for row in layer_rows(layer)]


def layer_rows(layer):
    """Returns the rows of a layer: one per pass, or one if it was not measured."""
    common = {"layer": str(layer["description"]), "status": str(layer["status"]).replace("_", " ")}
    estimated = float(layer["estimated_bytes"]) / 1e6
    if layer["status"] != "complete":
        return [{**common, "estimated_mb": estimated}]
    rows = []
    for name in PASSES:
        seconds = float(np.median(layer[f"{name}_seconds"]))
        size, work = float(layer[f"{name}_bytes"]), float(layer[f"{name}_flops"])
        rows.append(
            {
                **common,
                "pass": name,
                "median_ms": 1e3 * seconds,
                "mb": size / 1e6,
                "gflop": work / 1e9,
                "copy_percent": percent_of(size / seconds, layer["copy_bytes_per_second"]),
                "product_percent": percent_of(work / seconds, layer["product_flops_per_second"]),
            }
        )
    rows[0] |= {
        "estimated_mb": estimated,
        "peak_mb": float(layer["peak_bytes"]) / 1e6,
        "power_watts": finite_or_none(layer["power_watts"]),
        "energy_joules": finite_or_none(layer["energy_joules"]),
    }
    return rows


def percent_of(rate, ceiling):
    return 100 * rate / float(ceiling) if ceiling > 0 else None
