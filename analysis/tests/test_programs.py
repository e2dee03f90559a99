# SPDX-License-Identifier: BSD-3-Clause
"""Tests of reports on runs of two programs: they stand side by side, and neither is described by
the options of the other."""

import json

import numpy as np
import pytest
from lockstep_report.cli import main
from planted import write_training

LOCKSTEP = {
    "bucket-mib": "6",
    "bn": "broadcast",
    "swap-relu-pool": "false",
    "lr": "0.1",
    "label-smoothing": "0",
}
PYTORCH = {"bucket-mib": "25", "bn": "local", "parallelism": "DistributedDataParallel", "lr": "0.1"}
OTHER = {"program": "pytorch", "software_version": "2.4", "git_commit": "unknown"}
WRITTEN = {
    "lockstep": {"config": LOCKSTEP},
    "pytorch": {
        "config": PYTORCH,
        "attributes_of": OTHER,
        "environment": {"transport": "gloo", "device_library": "PyTorch 2.4"},
    },
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """{name: table} of a folder with runs of both programs on one and two ranks, with exposed
    buckets and slow input."""
    folder = tmp_path_factory.mktemp("runs")
    random = np.random.default_rng(1)
    for ranks in (1, 2):
        sizes = (4e6, 2e6) if ranks == 2 else ()
        for name, options in WRITTEN.items():
            write_training(
                folder / f"{name}-{ranks}.h5",
                random,
                ranks=ranks,
                sizes=sizes,
                beta=2e-8,
                batch=128 // ranks,
                **options,
            )
    return folder


def output(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_no_table_mixes_the_programs(tables, capsys):
    found = {table["name"]: table for table in output(capsys, "tables", tables, "--json")["tables"]}
    for name in (
        "table-1-time-speedup",
        "table-2-compute-communication",
        "table-3-bandwidth",
        "strong-scaling",
        "phases",
        "waiting-transfer",
        "efficiency-causes",
    ):
        rows = found[name]["rows"]
        assert {row["setting"] for row in rows} == {"lockstep", "pytorch"}, name
        assert all(row.get("repeats", 1) == 1 and "(" not in row["mode"] for row in rows), name
    for row in found["learning-curves"]["rows"]:
        assert not {"swap-relu-pool", "parallelism", "build", "device_library"} & set(
            row["recipe"].replace(",", "").split()
        )
        assert row["recipe"].endswith(f"program {row['source'].partition('-')[0]}")


def test_texts_name_only_what_the_program_has(tables, capsys):
    found = {table["name"]: table for table in output(capsys, "tables", tables, "--json")["tables"]}
    answers = [row for row in found["questions"]["rows"] if "besides gradients" in row["question"]]
    assert len(answers) == 1 and all("pytorch" not in row["source"] for row in answers)
    advice = {
        row["source"]: row["text"]
        for row in found["advice"]["rows"]
        if row["rule"] == "exposed-buckets"
    }
    assert "(--" in advice["lockstep-2.h5"] and "--" not in advice["pytorch-2.h5"]
    (pair,) = output(
        capsys, "compare", tables / "lockstep-2.h5", tables / "pytorch-2.h5", "--json"
    )["pairs"]
    names = {change["name"] for change in pair["changed_settings"]}
    assert {"program", "bn", "bucket-mib"} <= names and not {
        "swap-relu-pool",
        "parallelism",
    } & names
