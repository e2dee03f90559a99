# SPDX-License-Identifier: BSD-3-Clause
"""The tables of resources: telemetry of each rank, network interfaces, and energy per epoch, image
and percentage point of test accuracy."""

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.telemetry import files_of, finite, first_ranks, mean_rate, samples_of
from lockstep_report.runfile.settings import some_of
from lockstep_report.tables.table import CSV_ONLY, Column, Note, Table, percent, rows_of, scaled

MIB = 2**20
NOT_READABLE, NOT_MEASURED, NOTHING = "not readable", "not measured", "nothing"


def device_watts(samples):
    watts = samples.rate("device_energy_joules")
    return samples.mean("device_power_watts") if watts is None else watts


OF_RANK = (  # columns of the samples of a rank
    Column("rank", "Rank"),
    Column("samples", "Samples", value=lambda s: len(s.seconds)),
    Column("seconds", "Time (s)", 1, value=lambda s: float(s.seconds[-1] - s.seconds[0])),
    Column("user_processors", "User (processors)", 3, value=lambda s: s.rate("user_cpu_seconds")),
    Column(
        "system_processors", "System (processors)", 3, value=lambda s: s.rate("system_cpu_seconds")
    ),
    Column(
        "resident_mib",
        "Peak resident memory (MiB)",
        0,
        value=lambda s: scaled(s.maximum("resident_memory_bytes"), divisor=MIB),
    ),
    Column(
        "voluntary_per_second",
        "Voluntary switches (1/s)",
        0,
        value=lambda s: s.rate("voluntary_context_switches"),
    ),
    Column(
        "involuntary_per_second",
        "Involuntary switches (1/s)",
        0,
        value=lambda s: s.rate("involuntary_context_switches"),
    ),
    Column(
        "device_percent",
        "GPU utilisation (%)",
        1,
        value=lambda s: percent(s.mean("device_utilisation")),
    ),
    Column(
        "device_mib",
        "Peak GPU memory (MiB)",
        0,
        value=lambda s: scaled(s.maximum("device_memory_bytes"), divisor=MIB),
    ),
    Column("device_watts", "GPU power (W)", 1, value=device_watts),
    Column(
        "sampler_percent",
        "Sampling (% of one processor)",
        3,
        value=lambda s: percent(s.rate("sampler_cpu_seconds")),
    ),
)


def telemetry_table(runs):
    return Table(
        "telemetry",
        "Telemetry: resources of each rank",
        [Column("source", "File"), *OF_RANK],
        [
            {"source": run.file_name, **row}
            for run in files_of(runs)
            for row in rows_of(OF_RANK, samples_of(run))
        ],
        [
            (
                "means over the time of the samples, which includes evaluations; processors:"
                " processor time per time, so 1 is one processor that is always busy"
            ),
            "peak memory: maximum of the samples; shorter peaks are missed",
            Note(
                "GPU power: energy per time if the device counts energy, otherwise the mean of the "
                "power that it reports",
                ("device_watts",),
            ),
            Note(
                "sampling: processor time of the thread that takes the samples",
                ("sampler_percent",),
            ),
        ],
    )


def interface_rows(run):
    return [
        {
            "source": run.file_name,
            "host": host,
            "interface": name,
            **traffic_values(samples, name, "received"),
            **traffic_values(samples, name, "sent"),
        }
        for host, samples in first_ranks(run, samples_of(run))
        for name in samples.traffic("received")
    ]


def network_table(runs):
    rows = [row for run in files_of(runs) for row in interface_rows(run)]
    return Table(
        "telemetry-network",
        "Telemetry: network interfaces",
        [
            Column("source", "File"),
            Column("host", "Host"),
            Column("interface", "Interface"),
            Column("received_mb", "Received (MB)", 2),
            Column("sent_mb", "Sent (MB)", 2),
            Column("received_mb_s", "Received (MB/s)", 3),
            Column("sent_mb_s", "Sent (MB/s)", 3),
        ],
        [row for row in rows if row["received_mb"] or row["sent_mb"]],
        [
            "all processes of the host; MB = 1e6 bytes; interfaces without traffic are omitted",
            (
                "messages in shared memory pass no interface; names such as mlx5_0:1 are InfiniBand"
                " ports, whose RDMA traffic no other interface counts"
            ),
        ],
    )


def traffic_values(samples, interface, direction):
    counter = samples.traffic(direction)[interface]
    values = finite(samples.seconds, counter)[1]
    return {
        f"{direction}_mb": float(values[-1] - values[0]) / 1e6 if len(values) else None,
        f"{direction}_mb_s": scaled(mean_rate(samples.seconds, counter), divisor=1e6),
    }


ENERGY_TITLE = "Energy of the training"
ENERGY = [
    Column("source", "File"),
    Column("ranks", "Ranks"),
    Column("epochs", "Epochs"),
    Column("device_joules", "Devices (J per epoch)", 1),
    Column("host_joules", "Hosts (J per epoch)", 1),
    Column("counted", "Counted"),
    Column("joules_per_image", "J per image", 4),
    Column("test_accuracy_percent", "Test accuracy (%)", 2),
    Column("joules_per_point", "J per accuracy point", 1),
]


def energy_table(runs):
    """Returns one row per run with columns for the energy of an epoch; a value that was not
    measured is a text."""
    measured = [
        run for run in runs if "host_energy_joules" in run.epochs and len(run.epoch_numbers)
    ]
    rows = list(map(energy_row, measured))
    if all(row["counted"] == NOTHING for row in rows):
        return unreadable_table(rows, measured)
    return Table(
        "energy",
        ENERGY_TITLE,
        ENERGY,
        rows,
        [
            (
                "mean over the epochs; devices: sum of the GPUs (NVML); hosts: sum of the"
                " processors and memory of all hosts (RAPL), which includes other processes;"
                " evaluations are not included"
            ),
            Note(
                "J per image: of what is counted, over the images of the epochs",
                ("joules_per_image",),
            ),
            Note(
                "J per accuracy point: energy of all epochs / test accuracy in per cent after the "
                "last of them",
                ("joules_per_point",),
            ),
            *(
                f"{some_of(labels, 3)}: host energy: {text}"
                for text, labels in host_texts(measured).items()
            ),
        ],
    )


def unreadable_table(rows, runs):
    """Returns the table of runs without any energy: one note, and the rows in the CSV only."""
    reasons = "; ".join(host_texts(runs))
    return Table(
        "energy",
        ENERGY_TITLE,
        ENERGY,
        [row | {CSV_ONLY: True} for row in rows],
        [f"energy is not readable on these devices and hosts; host energy: {reasons}"],
    )


def host_texts(runs):
    """Returns {what the runs state about the energy of the hosts: their names}."""
    groups = grouped(runs, lambda run: str(run.environment.get("host_energy", NOT_READABLE)))
    return {text: [run.label for run in group] for text, group in groups.items()}


def energy_row(run):
    # All ranks of a host read the same counters.
    _, lowest_ranks = np.unique(run.ranks["host"], return_index=True)
    device = joules_of(run, "energy_joules", range(run.rank_count))
    host = joules_of(run, "host_energy_joules", lowest_ranks)
    known = {
        name: float(values.sum())
        for name, values in (("devices", device), ("hosts", host))
        if values is not None
    }
    total, accuracy = sum(known.values()), accuracy_after_last_epoch(run)
    per_image, per_point = None, None
    if known:
        per_image = total / float(run.images.sum())
    if known and accuracy:
        per_point = total / (100 * accuracy)
    return {
        "source": run.label,
        "ranks": run.rank_count,
        "epochs": len(run.epoch_numbers),
        "device_joules": joules_or_reason(device, NOT_READABLE),
        "host_joules": joules_or_reason(host, reason_without_host_energy(run)),
        "counted": " + ".join(known) or NOTHING,
        "test_accuracy_percent": percent(accuracy),
        "joules_per_image": per_image,
        "joules_per_point": per_point,
    }


def joules_or_reason(joules, reason):
    """Returns the mean over the epochs; why there is none if `joules` is None."""
    return reason if joules is None else float(joules.mean())


def reason_without_host_energy(run):
    is_off = run.environment.get("host_energy") == NOT_MEASURED
    return NOT_MEASURED if is_off else NOT_READABLE


def joules_of(run, name, ranks):
    """Returns (epoch): the sum over `ranks`; None if a value of an epoch is missing."""
    values = np.asarray(run.epochs.get(name, np.full((1, run.rank_count), np.nan)))[:, list(ranks)]
    return values.sum(axis=1) if np.all(np.isfinite(values)) else None


def accuracy_after_last_epoch(run):
    """Returns the test accuracy after the last epoch; None if that epoch, whose energy is counted
    too, was not evaluated."""
    values = np.asarray(run.epochs.get("test_accuracy", ()), dtype=float)
    return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None
