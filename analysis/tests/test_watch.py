# SPDX-License-Identifier: BSD-3-Clause
"""lockstep-report watch."""

import io
import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import ReportError
from lockstep_report.watch import Output, Watch
from synthetic import phases, write_ladder, write_run

RANK_0 = (0.0, 0.0, 0.010, 0.020, 0.010, 0.0)  # seconds of each phase
RANK_1 = (0.0, 0.0, 0.020, 0.020, 0.000, 0.0)


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, is_terminal=False):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal

    def fileno(self):
        return 1


def write_epochs(path, epochs, status="running", run_id="r", **others):
    return write_run(
        path,
        phases(10 * epochs, RANK_0, RANK_1),
        64,
        epochs=epochs,
        status=status,
        config={"epochs": "3"},
        attributes={
            "run_id": run_id,
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": 10,
            "images_per_epoch": 640,
        },
        **others,
    )


class Job:
    """Takes the place of `time.sleep`: each call writes what a job would have written next."""

    def __init__(self, *actions):
        self.actions = list(actions)
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds
        if not self.actions:
            raise AssertionError("watch waits although the run has ended")
        self.actions.pop(0)()

    def clock(self):
        return self.now


def follow(path, job, stream=None, is_json=False, **options):
    stream = stream or Stream()
    output = Output(stream, is_json)
    status = Watch(path, output, sleep=job.sleep, clock=job.clock, **options).follow()
    output.clear()
    return status, stream.getvalue()


def finish(path, partial, epochs, **others):
    write_epochs(path, epochs, **others)
    partial.unlink()


@pytest.fixture
def names(tmp_path):
    return tmp_path / "run.h5", tmp_path / "run.h5.partial"


def test_prints_each_epoch_once_until_the_run_ends(names):
    path, partial = names
    job = Job(
        lambda: None,
        lambda: write_epochs(partial, 1),
        lambda: None,
        lambda: write_epochs(partial, 2),
        lambda: finish(path, partial, 3, status="complete"),
    )
    status, text = follow(path, job)
    lines = text.splitlines()
    assert status == 0 and len(lines) == 5 and "\r" not in text and "\x1b" not in text
    assert lines[0].startswith("run.h5: 2 ranks, resnet18-cifar")
    # 10 steps of 40 ms; rank 0 waits 10 ms of them, so the mean over the ranks is 12.5 %.
    assert (
        lines[1] == "epoch 1/3  0.40 s  1,600.0 images/s  loss 0.5000  train 50.00%  test "
        "50.00%  exposed communication 12.5%  slowest rank 1 (node1)"
    )
    assert [line.split()[1] for line in lines[1:4]] == ["1/3", "2/3", "3/3"]
    assert lines[4] == "run.h5: complete"


@pytest.mark.parametrize("columns, most", [(40, 39), (0, 79)])  # 0: the size is not known
def test_terminal_shows_what_it_waits_for_and_removes_it(names, monkeypatch, columns, most):
    size = os.terminal_size((columns, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: size)
    path, partial = names
    job = Job(lambda: write_epochs(partial, 1), lambda: finish(path, partial, 1, status="complete"))
    status, text = follow(path, job, Stream(is_terminal=True))
    assert "waiting for run.h5.partial" in text and "waiting for 2" in text
    shown = [line.rsplit("\r\x1b[K", 1)[-1] for line in text.split("\n")]
    assert not any("waiting" in line for line in shown) and text.endswith("complete\n")
    waiting = re.findall(r"waiting for [^\r\n]*", text)
    assert len(waiting) > 1 and max(map(len, waiting)) <= most


def test_json_lines_have_typed_values(names):
    path, partial = names
    job = Job(lambda: finish(path, partial, 2, status="failed", failure="disk full"))
    write_epochs(partial, 1)
    status, text = follow(path, job, is_json=True)
    events = [json.loads(line) for line in text.splitlines()]
    assert [event["event"] for event in events] == ["run", "epoch", "epoch", "end"]
    assert events[1]["images_per_second"] == pytest.approx(1600.0)
    assert events[1]["slowest_rank"] == 1 and events[1]["epoch"] == 1
    assert events[3] == {"event": "end", "status": "failed", "failure": "disk full"}
    assert status == 3


def test_a_quiet_run_is_reported_once(names):
    path, partial = names
    write_epochs(partial, 1)
    nothing = [lambda: None] * 100
    status, text = follow(path, Job(*nothing, lambda: finish(path, partial, 1, status="complete")))
    assert status == 0 and text.count("no change for") == 1


def test_a_damaged_file_is_read_again_before_it_is_an_error(names):
    path, partial = names
    partial.write_bytes(b"half a file")
    job = Job(lambda: None, lambda: finish(path, partial, 1, status="complete"))
    assert follow(path, job)[0] == 0
    path.unlink()
    partial.write_bytes(b"half a file")
    with pytest.raises(ReportError, match="not an HDF5 file"):
        follow(path, Job(*[lambda: os.utime(partial)] * 10))


def test_another_run_with_the_name_is_an_error(names):
    path, partial = names
    write_epochs(partial, 1)
    job = Job(lambda: write_epochs(partial, 2, run_id="other"))
    with pytest.raises(ReportError, match="another run replaced"):
        follow(path, job)


def test_ladder_points(tmp_path, capsys):
    path = write_ladder(tmp_path / "ladder.h5")
    assert main(["watch", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "batch 32  complete  epoch 40.00 s  1,250.0 images/s"
    assert lines[3] == "batch 512  out_of_memory" and lines[4] == "ladder.h5: complete"


def test_control_characters_of_a_file_do_not_reach_the_terminal(names):
    path, _ = names
    write_epochs(
        path, 1, status="failed", failure="bad\x1b[2J\nline", ranks_of={"hostname": "a\x1b]0;x\x07"}
    )
    status, text = follow(path, Job())
    assert status == 3 and "\x1b" not in text and "\x07" not in text
    assert len(text.splitlines()) == 3


def test_once(names, capsys):
    path, partial = names
    assert main(["watch", str(path), "--once"]) == 3
    assert "no such file" in capsys.readouterr().err
    write_epochs(partial, 2)
    assert main(["watch", str(path), "--once", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["run", "epoch", "epoch"]


def test_an_epoch_without_recorded_times_has_no_rate(names):
    path, _ = names
    write_run(path, np.zeros((10, 2, 6)), 64, epochs=1)
    _, text = follow(path, Job(), once=True)
    assert "epoch 1  0.00 s" in text and "images/s" not in text


def test_rows_of_an_unfinished_epoch_are_not_shown(names):
    path, partial = names
    write_run(
        partial,
        phases(25, RANK_0, RANK_1),
        64,
        status="running",
        epoch_of_step=np.repeat([1, 2, 3], [10, 10, 5]),
        attributes={
            "run_id": "r",
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": 10,
            "images_per_epoch": 640,
        },
    )
    with h5py.File(partial, "r+") as file:
        numbers = file["epoch"][:2]
        del file["epoch"]
        file["epoch"] = numbers
    _, text = follow(path, Job(), once=True)
    assert text.count("epoch ") == 2
