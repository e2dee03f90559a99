# SPDX-License-Identifier: BSD-3-Clause
"""The table of energy: joules per epoch, per image and per percentage point of test accuracy."""

import numpy as np

from lockstep_report.tables.table import Column, Note, Table

NOT_READABLE = "not readable"


def energy_table(runs):
    """Returns the table of runs whose files have columns for the energy of an epoch. A value that
    was not measured is a text, never zero."""
    measured = [run for run in runs if "host_energy_joules" in run.epochs and len(run.epoch_numbers)]
    return Table(
        "energy", "Energy of the training",
        [Column("source", "File"), Column("ranks", "Ranks"), Column("epochs", "Epochs"),
         Column("device_joules", "Devices (J per epoch)", 1),
         Column("host_joules", "Hosts (J per epoch)", 1), Column("counted", "Counted"),
         Column("joules_per_image", "J per image", 4),
         Column("test_accuracy_percent", "Test accuracy (%)", 2),
         Column("joules_per_point", "J per accuracy point", 1)],
        list(map(energy_row, measured)),
        ["mean over the epochs; devices: sum of the GPUs (NVML); hosts: sum of the processors and "
         "memory of all hosts (RAPL), which includes other processes; evaluations are not included",
         Note("J per image: of what is counted, over the images of the epochs",
              ("joules_per_image",)),
         Note("J per accuracy point: energy of all epochs / test accuracy in per cent after the "
              "last of them", ("joules_per_point",)),
         *(f"{run.label}: host energy: {run.environment.get('host_energy', NOT_READABLE)}" for run in measured)])


def energy_row(run):
    device = joules_of(run, "energy_joules", range(run.rank_count))
    host = joules_of(run, "host_energy_joules", lowest_ranks(run))
    known = {name: values for name, values in (("devices", device), ("hosts", host))
             if values is not None}
    accuracy = last_accuracy(run)
    row = {"source": run.label, "ranks": run.rank_count, "epochs": len(run.epoch_numbers),
           "device_joules": cell(device), "host_joules": cell(host, host_reason(run)),
           "counted": " + ".join(known) or "nothing",
           "test_accuracy_percent": None if accuracy is None else 100 * accuracy}
    if known:
        total = float(sum(values.sum() for values in known.values()))
        row["joules_per_image"] = total / float(run.images.sum())
        row["joules_per_point"] = total / (100 * accuracy) if accuracy else None
    return row


def joules_of(run, name, ranks):
    """Returns (epoch): the sum over `ranks`; None if a value of an epoch is missing."""
    values = np.asarray(run.epochs.get(name, np.full((1, run.rank_count), np.nan)))[:, list(ranks)]
    return values.sum(axis=1) if np.all(np.isfinite(values)) else None


def lowest_ranks(run):
    """Returns the lowest rank of each host; all ranks of a host read the same counters."""
    hosts = run.ranks["host"]
    return [int(np.flatnonzero(hosts == host)[0]) for host in np.unique(hosts)]


def cell(joules, reason=NOT_READABLE):
    return reason if joules is None else float(joules.mean())


def host_reason(run):
    measured = str(run.environment.get("host_energy", ""))
    return "not measured" if measured == "not measured" else NOT_READABLE


def last_accuracy(run):
    """Returns the test accuracy after the last epoch that was evaluated; None without one, and None
    if later epochs were trained, whose energy would be counted too."""
    values = np.asarray(run.epochs.get("test_accuracy", ()), dtype=float)
    return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None
