# SPDX-License-Identifier: BSD-3-Clause
"""Notes about the machines of measurements apart from trainings, and the rows of their datasets."""

import numpy as np

from lockstep_report.measure.validity import warning_notes
from lockstep_report.runfile.settings import (
    difference_notes,
    list_hosts,
    setting_of,
    setting_texts,
    version_of,
)


def entries(columns):
    """Yields one {name: value} per row of the datasets of a group."""
    return (dict(zip(columns, values)) for values in zip(*columns.values()))


def machine_text(run):
    device = setting_texts(setting_of(run))[1]
    return ", ".join(filter(None, (device, list_hosts(run.host_names), version_of(run))))


def machine_notes(runs):
    return [
        *(f"{run.label}: {machine_text(run)}" for run in runs),
        *difference_notes(runs),
        *warning_notes(runs),
    ]


def finite_or_none(value):
    return float(value) if np.isfinite(value) else None
