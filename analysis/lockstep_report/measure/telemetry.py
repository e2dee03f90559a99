"""The telemetry of runs: what each process, its host and its device did over time.

The run file has cumulative counters (processor time, context switches, bytes, energy), from which
rates over any interval follow exactly, and current values (memory, utilisation, power).
"""

from dataclasses import dataclass

import numpy as np

from lockstep_report.tables.table import Column, Note, Table

MIB = 2**20


@dataclass(frozen=True)
class Samples:
    """The samples of one rank. `columns`: name -> (sample) or (sample, interface)."""

    rank: int
    interfaces: tuple  # names; those of a rank with fewer interfaces end with empty texts
    columns: dict

    @property
    def seconds(self):
        return self.columns["seconds"]

    def rate(self, name):
        """Returns the mean rate of a cumulative counter over all samples; None if unknown."""
        return mean_rate(self.seconds, self.columns[name])

    def mean(self, name):
        """Returns the mean of a current value over time (trapezoidal rule); None if unknown."""
        seconds, values = finite(self.seconds, self.columns[name])
        if len(values) < 2 or seconds[-1] <= seconds[0]:
            return None
        areas = np.diff(seconds) * (values[1:] + values[:-1]) / 2
        return float(areas.sum() / (seconds[-1] - seconds[0]))

    def maximum(self, name):
        values = finite(self.seconds, self.columns[name])[1]
        return float(values.max()) if len(values) else None

    def traffic(self, direction):
        """Returns {interface: cumulative bytes (sample)} of "received" or "sent"."""
        table = self.columns[f"{direction}_bytes"]
        return {name: table[:, i] for i, name in enumerate(self.interfaces) if name}


def finite(seconds, values):
    """Returns both arrays without the samples whose value is NaN."""
    known = np.isfinite(values)
    return seconds[known], values[known]


def mean_rate(seconds, counter):
    seconds, counter = finite(seconds, counter)
    if len(counter) < 2 or seconds[-1] <= seconds[0]:
        return None
    return float((counter[-1] - counter[0]) / (seconds[-1] - seconds[0]))


def samples_of(run):
    """Returns the samples of each rank of one run file; empty without telemetry."""
    if not run.telemetry:
        return []
    columns = {name: values for name, values in run.telemetry.items()
               if name not in ("rank", "interface_name")}
    names = run.telemetry["interface_name"]
    found = []
    for rank in np.unique(run.telemetry["rank"]):
        chosen = run.telemetry["rank"] == rank
        found.append(Samples(int(rank), tuple(map(str, names[rank])),
                             {name: values[chosen] for name, values in columns.items()}))
    return found


def files_of(runs):
    """Returns the single files of the runs: each part of a run has its own clock."""
    return [part for run in runs for part in (run.parts or (run,)) if part.telemetry]


def first_ranks(run, samples):
    """Returns the samples of the lowest rank of each host: (host, samples)."""
    hosts = np.asarray(run.ranks.get("host", np.zeros(run.rank_count)), dtype=int)
    names = run.ranks.get("hostname", [""] * run.rank_count)
    found = {}
    for of_rank in sorted(samples, key=lambda s: s.rank):
        found.setdefault(hosts[of_rank.rank], of_rank)
    return [(str(names[s.rank]), s) for s in found.values()]


def telemetry_table(runs):
    """Returns the table of the resources that each rank used."""
    rows = [{"source": run.file_name, **rank_row(s)} for run in files_of(runs)
            for s in samples_of(run)]
    return Table(
        "telemetry", "Telemetry: resources of each rank",
        [Column("source", "File"), Column("rank", "Rank"), Column("samples", "Samples"),
         Column("seconds", "Time (s)", 1), Column("user_processors", "User (processors)", 3),
         Column("system_processors", "System (processors)", 3),
         Column("resident_mib", "Peak resident memory (MiB)", 0),
         Column("voluntary_per_second", "Voluntary switches (1/s)", 0),
         Column("involuntary_per_second", "Involuntary switches (1/s)", 0),
         Column("device_percent", "GPU utilisation (%)", 1),
         Column("device_mib", "Peak GPU memory (MiB)", 0),
         Column("device_watts", "GPU power (W)", 1),
         Column("sampler_percent", "Sampling (% of one processor)", 3)],
        rows,
        ["means over the time of the samples, which includes evaluations; processors: processor "
         "time per time, so 1 is one processor that is always busy",
         "peak memory: maximum of the samples; shorter peaks are missed",
         Note("GPU power: energy per time if the device counts energy, otherwise the mean of the "
              "power that it reports", ("device_watts",)),
         Note("sampling: processor time of the thread that takes the samples",
              ("sampler_percent",))] if rows else [])


def rank_row(samples):
    def scaled(value, factor):
        return None if value is None else value * factor

    watts = samples.rate("device_energy_joules")
    return {
        "rank": samples.rank, "samples": len(samples.seconds),
        "seconds": float(samples.seconds[-1] - samples.seconds[0]),
        "user_processors": samples.rate("user_cpu_seconds"),
        "system_processors": samples.rate("system_cpu_seconds"),
        "resident_mib": scaled(samples.maximum("resident_memory_bytes"), 1 / MIB),
        "voluntary_per_second": samples.rate("voluntary_context_switches"),
        "involuntary_per_second": samples.rate("involuntary_context_switches"),
        "device_percent": scaled(samples.mean("device_utilisation"), 100),
        "device_mib": scaled(samples.maximum("device_memory_bytes"), 1 / MIB),
        "device_watts": samples.mean("device_power_watts") if watts is None else watts,
        "sampler_percent": scaled(samples.rate("sampler_cpu_seconds"), 100),
    }


def network_table(runs):
    """Returns the table of the bytes that passed each network interface of each host."""
    rows = [row for run in files_of(runs) for host, samples in first_ranks(run, samples_of(run))
            for row in interface_rows(run, host, samples)]
    return Table(
        "telemetry-network", "Telemetry: network interfaces",
        [Column("source", "File"), Column("host", "Host"), Column("interface", "Interface"),
         Column("received_mb", "Received (MB)", 2), Column("sent_mb", "Sent (MB)", 2),
         Column("received_mb_s", "Received (MB/s)", 3), Column("sent_mb_s", "Sent (MB/s)", 3)],
        rows,
        ["all processes of the host; MB = 1e6 bytes; interfaces without traffic are omitted",
         "messages in shared memory pass no interface; names such as mlx5_0:1 are InfiniBand "
         "ports, whose RDMA traffic no other interface counts"] if rows else [])


def interface_rows(run, host, samples):
    rows = []
    received, sent = samples.traffic("received"), samples.traffic("sent")
    for name in received:
        row = {"source": run.file_name, "host": host, "interface": name}
        for direction, counter in (("received", received[name]), ("sent", sent[name])):
            values = finite(samples.seconds, counter)[1]
            row[f"{direction}_mb"] = float(values[-1] - values[0]) / 1e6 if len(values) else None
            rate = mean_rate(samples.seconds, counter)
            row[f"{direction}_mb_s"] = None if rate is None else rate / 1e6
        if row["received_mb"] or row["sent_mb"]:
            rows.append(row)
    return rows
