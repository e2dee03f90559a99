# SPDX-License-Identifier: BSD-3-Clause
"""The table of the deepest stacks of layers."""

import numpy as np

from lockstep_report.tables.machines import entries, finite_or_none, machine_notes
from lockstep_report.tables.table import Column, Table, rows_of

STACK_STATUS = {"complete": "fits", "out_of_memory": "out of memory"}
OF_STACK = (  # columns of the `entries` of a stack
    Column("layer", "Layer", value=lambda v: str(v["layer"])),
    Column("devices", "Devices", value=lambda v: int(v["stages"])),
    Column("depth", "Depth", value=lambda v: int(v["depth"])),
    Column("estimated_depth", "Estimated depth", value=lambda v: int(v["estimated_depth"])),
    Column(
        "status", "Status", value=lambda v: STACK_STATUS.get(str(v["status"]), str(v["status"]))
    ),
    Column("limit_mb", "Memory limit (MB)", 0, value=lambda v: float(v["limit_bytes"]) / 1e6),
    Column(
        "estimated_mb",
        "Estimated memory (MB)",
        0,
        value=lambda v: float(v["estimated_bytes"]) / 1e6,
    ),
    Column("peak_mb", "Peak memory (MB)", 0, value=lambda v: float(v["peak_bytes"]) / 1e6 or None),
    Column(
        "forward_ms",
        "Forward pass (ms)",
        1,
        value=lambda v: finite_or_none(1e3 * np.median(v["forward_seconds"])),
    ),
)

FITS_NOTE = (
    "a stack fits if a forward and a backward pass run within the memory limit; the "
    "estimated depth follows from shapes; times are medians of the forward pass"
)
DEVICES_NOTE = (
    "several devices: the layers are divided equally, up to a difference of one; memory is that of "
    "the device that needs most, and a forward pass goes through all of them"
)


def stack_table(runs):
    measured = [run for run in runs if run.stack]
    rows = [
        {"source": run.file_name if len(measured) > 1 else None, **row}
        for run in measured
        for row in rows_of(OF_STACK, entries(run.stack))
    ]
    has_several_devices = any(row["devices"] > 1 for row in rows)
    return Table(
        "stack",
        "Deepest stack of layers",
        [Column("source", "File"), *OF_STACK],
        rows,
        [FITS_NOTE, has_several_devices and DEVICES_NOTE, *machine_notes(measured)],
    )
