# SPDX-License-Identifier: BSD-3-Clause
"""Tests that jobs/study compares complete and interrupted runs with the present command."""

import json
import os
import subprocess

import pytest
from study_command import RUN, calls, expect_refusal, study

WROTE_NONE = "the command of one-1 wrote no run file"


@pytest.mark.parametrize(
    "option, message",
    [
        ("--dry-run", "give --dry-run before --"),  # the study checks with it
        ("--help", WROTE_NONE),
        ("--version", WROTE_NONE),
    ],
)
def test_command_that_writes_no_run_file_does_not_complete_a_point(
    table, tmp_path, option, message
):
    real = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    table.write_text(
        "one\t1\ttrain --data synthetic:16@3x8x8/2 --batch-per-rank 8\n", encoding="utf-8"
    )
    result = study(*RUN, "--dir", tmp_path / "out", table, "--", option, LOCKSTEP_BIN=real)
    assert result.returncode == 1 and message in result.stderr
    assert not list((tmp_path / "out").glob("*.done"))


@pytest.mark.parametrize("marker", ["", "\n", "one-1.0.h5", "other.h5\nbuild=1\n", "/\n"])
def test_marker_without_its_run_file_is_refused(table, tmp_path, program, marker):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one-1.done").write_text(marker, encoding="utf-8")
    expect_refusal(
        study(*RUN, "--dir", tmp_path / "out", table, **program()), "which does not exist"
    )


@pytest.mark.parametrize(
    "trace", ["one-1.0.h5", "one-1.0.h5.partial", "checkpoints/one-1/checkpoint-8.h5"]
)
def test_interrupted_point_of_another_experiment_is_refused(table, tmp_path, program, trace):
    """The run would otherwise continue from the checkpoint, or its parts would be one run of the
    report."""
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program(75)).returncode == 1
    (tmp_path / "out" / "one-1.0.h5").unlink()
    (tmp_path / "out" / trace).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "out" / trace).touch()
    expect_refusal(
        study(*command, **program(experiment='echo "build=2"')),
        "one-1 is interrupted, but the present command changes build from '1' to '2'",
    )
    result = study(*command, **program())
    assert result.returncode == 0 and result.stderr == ""
    assert not list((tmp_path / "out").glob("*.started"))


def test_run_that_left_no_files_may_change(table, tmp_path, program):
    """A run that failed before its first step, for example because of its data, is corrected and
    repeated."""
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program(3)).returncode == 1
    for name in ("one", "two"):
        (tmp_path / "out" / f"{name}-1.0.h5").unlink()
    assert study(*command, **program(experiment='echo "build=2"')).returncode == 0


def test_complete_point_of_another_build_or_launcher_is_refused(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program()).returncode == 0
    for name in ("one-1.done", "one-1.0.h5"):  # would be the first run
        (tmp_path / "out" / name).unlink()
    expect_refusal(study(*command, **program(experiment='echo "build=2"')), "build from '1' to '2'")
    expect_refusal(
        study("--launcher", "env RANKS", *command[2:], **program()),
        "launcher from 'env RANKS_STARTED=RANKS' to 'env RANKS'",
    )
    assert len(calls(tmp_path)) == 2


def test_remedy_of_the_refusal_deletes_the_old_run_only(table, tmp_path, program):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\none-1.5\t1\ttrain --batch-per-rank 8\n", encoding="utf-8"
    )
    folder = tmp_path / "a folder"
    command = [*RUN, "--dir", folder, table]
    assert study(*command, **program()).returncode == 0
    (folder / "checkpoints" / "one-1").mkdir(parents=True)
    (folder / "checkpoints" / "one-1" / "checkpoint-1.h5").touch()
    kept = {
        folder / "one-1.5-1.done",
        folder / "one-1.5-1.0.h5",
        folder / "checkpoints",
        *(folder / name for name in (".study.lock", "logs", "repeats", "table.tsv")),
    }
    result = study(*command, **program(experiment='echo "build=2"'))
    subprocess.run(result.stderr.rpartition("delete the old run: ")[2], shell=True, check=True)
    assert set(folder.iterdir()) == kept


def test_marker_without_an_experiment_is_not_accepted_silently(table, tmp_path, program):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one-1.0.h5").touch()
    (tmp_path / "out" / "one-1.done").write_text("one-1.0.h5\n", encoding="utf-8")
    result = study(*RUN, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 0 and len(calls(tmp_path)) == 1
    assert "one-1.done does not contain the options and the build of the run" in result.stderr


def test_marker_that_cannot_be_compared_is_an_error(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program()).returncode == 0
    result = study(*command, **program(experiment="echo no such option >&2; false"))
    assert (
        result.returncode == 1
        and "one-1.done was not compared with the present options: no such option" in result.stderr
    )
    assert len(calls(tmp_path)) == 2


def test_points_that_were_removed_from_the_table_are_named(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    assert study(*command, **program()).stderr == ""
    table.write_text("two\t2\tallreduce --max-bytes 1K\n", encoding="utf-8")
    result = study(*command, **program())
    assert result.returncode == 0
    assert (
        f"the report will include points that are not in the table: one (in {tmp_path}/out)"
        in result.stderr
    )


def other_value(option):
    """Returns arguments that give the option another value than its default."""
    if option["type"] == "flag":
        return [f"--{option['name']}"]
    names = [value["name"] for value in option["values"] if value["name"] != option["default"]]
    values = names or {
        "integer": ["2", "3"],
        "number": ["0.5", "2"],
        "bytes": ["4K"],
        "interval": ["7-steps"],
        "list": ["crash:0:1"],
    }.get(option["type"], ["other"])
    return [f"--{option['name']}", next(value for value in values if value != option["default"])]


@pytest.mark.parametrize(
    "ranks, command",
    [
        (2, "train --batch-per-rank 8 --epochs 5"),  # two, for --pipeline-stages 2
        *(
            pytest.param(1, name, marks=pytest.mark.slow)
            for name in ("ladder", "allreduce", "layers", "stack")
        ),
    ],
)
def test_every_option_with_an_effect_is_compared(table, tmp_path, program, ranks, command):
    """Every option of the command in turn differs from the one of a complete point."""
    real = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    table.write_text(f"one\t{ranks}\t{command}\n", encoding="utf-8")
    stub = program(experiment=f'exec "{real}" "$@"')
    arguments = [*RUN, "--dry-run", "--dir", tmp_path / "out", table, "--"]
    assert study(*RUN, "--dir", tmp_path / "out", table, **stub).returncode == 0
    assert "one-1 is complete" in study(*arguments, **stub).stdout
    options = json.loads(
        subprocess.run([real, "help", "options-json"], capture_output=True, check=True).stdout
    )
    named = 0
    for option in options:
        # The study gives these, or refuses them.
        if (
            not option["recorded"]
            or command.split()[0] not in option["commands"]
            or option["name"] in {"output", "seed", "checkpoint-dir", "resume", "dry-run"}
        ):
            continue
        result = study(*arguments, *other_value(option), **stub)
        if result.returncode == 1 and "one-1.done was not compared" in result.stderr:
            continue  # the program requires another option with this one
        is_refused = result.returncode == 1 and f" {option['name']} from '" in result.stderr
        assert is_refused == (option["effect"] != "neither"), (option["name"], result.stderr)
        assert is_refused != ("one-1 is complete" in result.stdout)
        named += is_refused
    assert named >= 5


def test_options_of_the_environment_and_of_files_are_compared(table, tmp_path, program):
    real = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    command = [*RUN, "--dir", tmp_path / "out", table]
    stub = program(experiment=f'exec "{real}" "$@"')
    assert study(*command, **stub, LOCKSTEP_LR="0.1").returncode == 0
    assert study(*command, **stub, LOCKSTEP_WATCHDOG="7").returncode == 0
    expect_refusal(study(*command, **stub, LOCKSTEP_LR="0.2"), "lr from '0.1' to '0.2'")
    (tmp_path / "a.ini").write_text("momentum = 0.5\n", encoding="utf-8")
    expect_refusal(
        study(*command, **stub, LOCKSTEP_CONFIG=str(tmp_path / "a.ini")),
        "momentum from '0.9' to '0.5'",
    )
    table.write_text(
        table.read_text(encoding="utf-8").replace("one\t1", "one\t2"), encoding="utf-8"
    )
    expect_refusal(study(*command, **stub), "global-batch from '8' to '16', ranks from '1' to '2'")
