# SPDX-License-Identifier: BSD-3-Clause
"""The setting of a run, which must be equal for runs to be comparable, and texts about it."""

import re
from typing import NamedTuple

from lockstep_report.groups import grouped
from lockstep_report.runfile.experiment import (
    LOCKSTEP,
    PROGRAM,
    build_of,
    distinguishing,
    is_used,
    program_of,
    results_of,
    variant_of,
)

MOST_NAMES = 8  # in a list of hosts or files


class Setting(NamedTuple):
    """What must be equal in runs that are compared, as texts."""

    model: str
    device: str
    precision: str
    data: str
    device_name: str
    program: str
    threads: str


SETTING_PARTS = tuple(name.replace("_", " ") for name in Setting._fields)


def data_of(run):
    """Returns source and number of the training images, for example "cifar10, 50,000 images"."""
    return data_with_images(run, run.number("train-samples") or run.integer("images_per_epoch"))


def data_with_images(run, images):
    """Returns the name of the dataset and the number of images, if it is known. The folder is not
    named: the same images may be elsewhere, such as on the local disk of a node."""
    return ", ".join(filter(None, (name_of_data(run), f"{images:,} images" if images else "")))


def name_of_data(run):
    """Returns the name of the dataset, with the name of the file of own images, and with the image
    shape and the classes of synthetic images if they are given; for example "cifar10", "own.h5" or
    "synthetic@3x224x224/1000".
    """
    data = run.option("data")
    if data.startswith("hdf5:"):
        return data.rpartition("/")[2].removeprefix("hdf5:")
    return (
        re.sub(r":\d+", "", data, count=1)
        if data.startswith("synthetic")
        else data.partition(":")[0]
    )


def setting_of(run):
    """Returns the `Setting` of a run."""
    threads = run.option("threads") if uses_threads(run) else ""
    return Setting(
        model=run.option("model"),
        device=run.option("device"),
        precision=run.option("precision"),
        data=data_of(run),
        device_name=" + ".join(run.device_names),
        program=program_of(run),
        threads=threads and plural(threads, "thread") + " per rank",
    )


def describe_run(run):
    """Returns one line about a run: model, device, precision, data, threads, hosts and version of
    the program."""
    return ", ".join(
        filter(None, (*setting_texts(setting_of(run)), list_hosts(run.host_names), version_of(run)))
    )


def describe_setting(points):
    """Returns one line about points of one setting, as `describe_run`."""
    hosts = set().union(*(p.hosts for p in points))
    versions = sorted({p.version for p in points if p.version})
    return ", ".join(
        filter(
            None,
            (
                *setting_texts(points[0].setting),
                list_hosts(hosts),
                " and ".join(versions),
                link_text(points, hosts),
            ),
        )
    )


def measured_on(points):
    """Returns one line for captions: device, hosts, link and number of runs of points."""
    devices = [setting_texts(p.setting)[1] for p in points if len(p.setting) == len(SETTING_PARTS)]
    hosts = set().union(*(p.hosts for p in points))
    machine = ", ".join(
        filter(
            None,
            (" and ".join(dict.fromkeys(devices)), list_hosts(hosts), link_text(points, hosts)),
        )
    )
    runs = runs_text([p.repeats for p in points])
    return f"Measured on {machine}; {runs}" if machine else runs


def link_text(points, hosts):
    """Returns the rate of the link between the ranks, if any."""
    rates = list(dict.fromkeys(p.link_rate() for p in points if p.ranks > 1 and p.link_rate()))
    if rates:
        return "link " + " and ".join(f"{rate:g} Gbit/s" for rate in rates)
    is_one_host = len(hosts) < 2 or all(p.ranks == 1 for p in points)
    return "" if is_one_host else "rate of the link not given"


def runs_text(counts, what="point"):
    low, high = min(counts), max(counts)
    number = str(low) if low == high else f"{low} to {high}"
    runs = "run" if high == 1 else "runs"
    return f"n = {number} {runs} per {what}"


def setting_texts(setting):
    """Returns the parts of a setting in display order, without the program if it is Lockstep. The
    setting of times from a CSV has other parts."""
    if len(setting) != len(SETTING_PARTS):
        return list(setting)
    own = Setting(*setting)
    device = f"{own.device} ({own.device_name})" if own.device_name else own.device
    program = "" if own.program == LOCKSTEP else own.program
    return [own.model, device, own.precision, own.data, program, own.threads]


def list_hosts(names):
    """Returns "host node1" or "hosts node1, node2, ...", with at most MOST_NAMES names."""
    names = sorted(names)
    if not names:
        return ""
    noun = "host" if len(names) == 1 else "hosts"
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{noun} {', '.join(names[:MOST_NAMES])}{more}"


def uses_threads(run):
    """Returns whether the CPU threads compute; on GPUs they only prepare batches."""
    return run.option("device") != "cuda"


def plural(count, noun):
    return f"{count} {noun}{'' if str(count) == '1' else 's'}"


def some_of(names, most=MOST_NAMES):
    """Returns the names as a list, for example "a.h5, b.h5 and 5 more", with at most `most`
    names."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def difference_notes(runs):
    """Yields one note per property in which runs differ that are shown by their names."""
    items = {
        run.label: (
            variant_of(run) | results_of(run) | {(PROGRAM, program_of(run))},
            run.rank_count,
        )
        for run in runs
    }
    for name in sorted(distinguishing(list(items.values()))):
        values = labels_by_value(items, name)
        yield f"the runs differ in {name}: " + "; ".join(
            f"{value} ({some_of(labels)})" for value, labels in values.items()
        )


def labels_by_value(items, name):
    """Returns {value of the property `name`: labels of the runs that use it}. `items`: label ->
    (properties, ranks)."""

    def value_of(label):
        properties, _ = items[label]
        return dict(properties).get(name, "not recorded") or "none"

    used = [label for label, (_, ranks) in items.items() if is_used(name, ranks)]
    return grouped(used, value_of)


def version_of(run):
    """Returns the version of the program, for example "lockstep 0.1.0, commit 80cb6ea18e"."""
    version = str(run.attributes.get("software_version", "")) or "of unknown version"
    commit = f", commit {build_of(run)}" if "git_commit" in run.attributes else ""
    return f"{program_of(run)} {version}{commit}"


def setting_names(settings):
    """Returns {setting: the parts that distinguish it from the others}; "" for a single setting."""
    settings = sorted(set(settings))
    return {
        setting: ", ".join(
            part
            for i, part in enumerate(setting)
            if part and any(other[i : i + 1] != (part,) for other in settings)
        )
        for setting in settings
    }


def file_ending(name):
    """Returns a suffix for file names of lower-case letters, digits and '-', such as
    "-resnet18-cifar"; "" without a name."""
    return re.sub("[^a-z0-9]+", "-", f"-{name}".lower()).rstrip("-") if name else ""


def file_endings(names):
    """Returns {key: suffix for file names} of {key: name}, with numbers if names have the same
    `file_ending`."""
    return dict(zip(names, distinct(map(file_ending, names.values()))))


def distinct(names):
    """Returns the names in their order; names that repeat have a number: ["a", "a-2"]."""
    found = []
    for name in names:
        own, number = name, 2
        while own in found:
            own, number = f"{name}-{number}", number + 1
        found.append(own)
    return found
