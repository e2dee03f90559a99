# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the writer of run files for programs in Python."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from lockstep_recorder.run_file import RunFileWriter
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.schema import PHASES

RANK = {
    "rank": [0],
    "host": [0],
    "local_rank": [0],
    "hostname": ["näme"],
    "cpu_list": ["0-3"],
    "device_name": ["CPU"],
    "device_uuid": [""],
    "pci_bus_id": [""],
    "memory_bytes": [2**34],
}


def created(path, **options):
    """Returns a writer for one rank and two steps of four images per epoch."""
    writer = RunFileWriter(path, **options)
    attributes = {
        "program": "pytorch",
        "software_version": "2.4",
        "git_commit": "unknown",
        "git_dirty": 0,
        "date_utc": "",
        "command_line": "train.py",
        "run_id": str(path),
        "steps_per_epoch": 2,
        "images_per_epoch": 8,
    }
    columns = {"/rank": [0], "/phase": PHASES} | {
        f"/ranks/{name}": values for name, values in RANK.items()
    }
    writer.create(
        attributes,
        {"/config": {"model": "net", "threads": "1"}},
        columns,
        {"/steps/start_seconds"},
        2,
    )
    return writer


def epoch(number, seconds=0.5):
    phases = np.zeros((2, 1, len(PHASES)))
    phases[..., PHASES.index("forward")] = seconds
    return {
        "/step": 2 * number + np.arange(-1, 1),
        "/epoch": [number],
        "/steps/epoch": [number] * 2,
        "/steps/images": [4, 4],
        "/steps/loss": [0.5, 0.25],
        "/steps/phase_seconds": phases,
        "/steps/start_seconds": [[0.0], [seconds]],
        "/epochs/train_loss": [0.3],
        "/epochs/seconds": [2 * seconds],
    }


def test_file_is_valid_and_has_the_epochs(tmp_path, capsys):
    writer = created(tmp_path / "a.h5")
    writer.append(epoch(1))
    writer.append(epoch(2, 0.25))
    writer.replace_last({"/epochs/test_accuracy": 0.75})
    writer.close(status="complete")
    assert main(["validate", str(tmp_path / "a.h5")]) == 0, capsys.readouterr().out
    run = read_run(tmp_path / "a.h5")
    assert (
        os.listdir(tmp_path) == ["a.h5"]
        and run.status == "complete"
        and run.host_names == ("näme",)
    )
    assert run.phase_seconds.sum(axis=(1, 2)).tolist() == [0.5, 0.5, 0.25, 0.25]
    assert np.isnan(run.epochs["test_accuracy"][0]) and run.epochs["test_accuracy"][1] == 0.75
    with h5py.File(tmp_path / "a.h5") as file:
        assert (
            file["steps/phase_seconds"].chunks[0] == 2
            and "peak_resident_memory_bytes" not in file["epochs"]
        )


def test_complete_epochs_remain_if_the_process_is_killed(tmp_path):
    """The process is killed in the second epoch, after the columns of steps have grown."""
    code = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]; import h5py; from test_write import"
        " created, epoch\nwriter = created(sys.argv[1]); writer.append(epoch(1))\nflush ="
        " h5py.Dataset.flush\ndef kill(self):\n    flush(self)\n    if self.name =="
        " '/steps/phase_seconds': os.kill(os.getpid(), signal.SIGKILL)\nh5py.Dataset.flush = kill;"
        " writer.append(epoch(2))\n"
    )
    tests = Path(__file__).parent
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "a.h5", tests, tests.parent])
    run = read_run(tmp_path / "a.h5.partial")
    assert found.returncode == -9 and run.epoch.tolist() == [1, 1] and run.status == "running"
    RunFileWriter(tmp_path / "a.h5").close(status="complete")
    assert os.listdir(tmp_path) == ["a.h5.partial.1"]


def test_existing_file_and_active_run_are_not_overwritten(tmp_path):
    first = created(tmp_path / "a.h5")
    with pytest.raises(FileExistsError, match="an active run writes it"):
        RunFileWriter(tmp_path / "a.h5")
    first.append(epoch(1))
    first.close(status="complete")
    with pytest.raises(FileExistsError, match="a.h5 exists"):
        RunFileWriter(tmp_path / "a.h5")
    second = created(tmp_path / "a.h5", overwrite=True)
    second.append(epoch(1))
    assert read_run(tmp_path / "a.h5").status == "complete"
    second.close(status="failed", failure="the loss is not finite")
    assert read_run(tmp_path / "a.h5").status == "failed"


def test_writer_needs_no_pytorch():
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1]); import"
        " lockstep_recorder.run_file"
    )
    subprocess.run([sys.executable, "-c", code, Path(__file__).parents[1]], check=True)
