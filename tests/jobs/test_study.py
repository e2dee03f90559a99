# SPDX-License-Identifier: BSD-3-Clause
"""Tests of jobs/study and of the tables in jobs/studies."""

import contextlib
import gzip
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import zipfile

import h5py
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDY = ROOT / "jobs" / "study"
TABLES = sorted((ROOT / "jobs" / "studies").glob("*.tsv"))

# Options that shrink every point of a table to a run of seconds.
TRAINING = [
    "--data",
    "synthetic:32",
    "--model",
    "vgg11",
    "--epochs",
    "1",
    "--evaluate-every",
    "never",
    "--threads",
    "1",
]
PER_RANK = [*TRAINING, "--batch-per-rank", "4"]
PROGRAMS = ["--data", "synthetic:32", "--model", "vgg11", "--epochs", "1", "--batch-per-rank", "4"]
TOY = {
    "accuracy-94": PROGRAMS,
    "against-pytorch": PROGRAMS,
    "bandwidth": ["--max-bytes", "4K", "--repeats", "2"],
    "homework": [*TRAINING, "--batch-per-rank", "4", "--max-bytes", "4K", "--repeats", "2"],
    "ladder": [
        "--data",
        "synthetic:64",
        "--model",
        "vgg11",
        "--memory-limit",
        "400MB",
        "--steps",
        "1",
    ],
    "large-batch": [*TRAINING, "--global-batch", "16", "--warmup-epochs", "0"],
    "large-batch-lars": [*TRAINING, "--global-batch", "16", "--warmup-epochs", "0"],
    "layers": ["--layer", "relu@2x4x8x8+linear:16-16@4"],
    "pipeline": [*TRAINING, "--batch-per-rank", "8"],
    "profile": [*PER_RANK, "--profile", "1"],
    "quickstart": PER_RANK,
    "reducers": PER_RANK,
    "stack": ["--layer", "linear:2048-2048@8", "--memory-limit", "400MB"],
    "strong": [*TRAINING, "--global-batch", "16"],
    "swap-relu-pool": PER_RANK,
    "telemetry": PER_RANK,
    "threads": [*TRAINING[:-2], "--batch-per-rank", "16"],
    "tutorial": [*TRAINING[2:], "--data", "synthetic:64", "--train-samples", "64"],
    "waiting": PER_RANK,
    "weak": PER_RANK,
}
MOST_RANKS = 2
MOST_THREADS = 2


def study(*arguments, **variables):
    """Runs jobs/study with additional environment variables, without lockstep unless LOCKSTEP_BIN
    is one of them."""
    environment = os.environ | {"LOCKSTEP_BIN": "/nowhere"} | variables
    return subprocess.run(
        [STUDY, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def commands_of(result):
    """Returns the commands that --dry-run printed."""
    return [line for line in result.stdout.splitlines() if line[0] != "#"]


@pytest.fixture
def program(tmp_path):
    """A function that writes a stub of lockstep, which appends its arguments to `calls`, creates
    its run file and exits with `status`; `experiment` is the command that runs for `help
    experiment`. Returns the environment variable that names it.
    """

    def make(status=0, experiment='echo "build=1"'):
        path = tmp_path / "lockstep"
        path.write_text(
            f'#!/bin/bash\n[ "$1" != help ] || {{ {experiment}; exit; }}\n'
            f'echo "$@" >>"{tmp_path}/calls"\ntouch "${{@: -1}}"\nexit {status}\n',
            encoding="utf-8",
        )
        path.chmod(0o755)
        return {"LOCKSTEP_BIN": str(path)}

    return make


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.tsv"
    path.write_text(
        "# name\tranks\tcommand\none\t1\ttrain --batch-per-rank 8 --epochs 2\ntwo\t2\tallreduce"
        " --max-bytes 1K\n",
        encoding="utf-8",
    )
    return path


def calls(tmp_path):
    """Returns the arguments of the stub, one list per call."""
    return [line.split() for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "settings",
    [
        "CDPATH=.:/",
        "GLOBIGNORE='*'",
        "IFS=/",
        "set -o noclobber",
        "set -o posix",
        "shopt -s failglob nullglob",
        "shopt -s expand_aliases; alias awk=false sed=false",
        "TMPDIR=/nowhere",
        "GREP_OPTIONS=-v",
        'cd() { builtin cd "$@" && ls; }',
    ],
)
def test_settings_of_the_shell_do_not_break_the_scripts(table, tmp_path, program, settings):
    """The first run creates the files, the second one overwrites them."""
    (tmp_path / "settings").write_text(
        f"{settings}; export CDPATH GLOBIGNORE IFS TMPDIR GREP_OPTIONS\n", encoding="utf-8"
    )
    for status in (5, 0):
        result = study(
            *RUN,
            "--dir",
            tmp_path / "out",
            table,
            **program(status),
            BASH_ENV=str(tmp_path / "settings"),
        )
        assert result.returncode == (1 if status else 0), result.stderr
    assert {path.name for path in (tmp_path / "out").glob("*.done")} == {
        "one-1.done",
        "two-1.done",
    }, result.stderr


@pytest.mark.parametrize("start", [[], ["sh"], ["bash", "--posix"]], ids=" ".join)
def test_scripts_start_through_links(tmp_path, start):
    for name in (
        "study",
        "setup",
        "check",
        "lint",
        "quickstart",
        "download-cifar10",
        "forward-signals",
        "slurm/submit",
        "slurm/status",
    ):
        link = tmp_path / os.path.basename(name)
        link.symlink_to(os.path.relpath(ROOT / "jobs" / name, tmp_path))
        result = subprocess.run([*start, link, "--help"], capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "") and len(result.stdout.splitlines()) > 5


@pytest.mark.parametrize(
    "folder, kept", [("{}", "{}"), ("/nowhere/job77", ""), ("{}/nowhere", ""), ("", ""), (None, "")]
)
def test_folder_for_temporary_files_exists(tmp_path, folder, kept):
    """Slurm sets TMPDIR to a folder that containers and other nodes do not have."""
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    variables |= {} if folder is None else {"TMPDIR": folder.format(tmp_path)}
    result = subprocess.run(
        ["bash", "-euc", f"source {ROOT}/jobs/lib.sh; printenv TMPDIR || true"],
        capture_output=True,
        text=True,
        env=variables,
    )
    assert (result.returncode, result.stdout.strip()) == (0, kept.format(tmp_path)), result.stderr


def test_decimal_numbers_do_not_follow_the_locale(tmp_path):
    """In some locales, awk reads 0.75 as 0 and prints a comma."""
    stub = tmp_path / "awk"
    stub.write_text('#!/bin/sh\necho "$LC_ALL"\n', encoding="utf-8")
    stub.chmod(0o755)
    result = subprocess.run(
        ["bash", "-euc", f"source {ROOT}/jobs/lib.sh; awk"],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C.UTF-8", "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert result.stdout == "C\n"


RUN = ["--launcher", "env RANKS_STARTED=RANKS", "--no-report"]


def test_points_run_in_turn_and_repeats_have_their_seed(table, tmp_path, program):
    result = study(*RUN, "--repeats", 2, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 0, result.stderr
    made = calls(tmp_path)
    assert [words[0] for words in made] == ["train", "allreduce", "train", "allreduce"]
    assert [words[words.index("--seed") + 1] for words in made[::2]] == ["1", "2"]
    assert made[0][-1] == f"{tmp_path}/out/one-1.0.h5"
    assert "--seed" not in made[1] and "--resume" not in made[1]
    marker = (tmp_path / "out" / "two-2.done").read_text(encoding="utf-8")
    assert marker == "two-2.0.h5\nlauncher=env RANKS_STARTED=RANKS\nbuild=1\n"


def test_complete_points_are_not_run_again(table, tmp_path, program):
    for _ in range(2):
        assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert len(calls(tmp_path)) == 2


def test_complete_run_keeps_only_its_last_checkpoint(table, tmp_path, program):
    folder = tmp_path / "out" / "checkpoints" / "one-1"
    folder.mkdir(parents=True)
    (tmp_path / "out" / "one-1.started").touch()
    for name in ("checkpoint-9.h5", "checkpoint-10.h5", "checkpoint-100.h5", ".lockstep-run"):
        (folder / name).touch()
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert {path.name for path in folder.iterdir()} == {"checkpoint-100.h5", ".lockstep-run"}


EXPERIMENT = "launcher=env RANKS_STARTED=RANKS\nbuild=1\n"  # of the stub


@pytest.mark.parametrize("name", ["out", "é [d] *"])
def test_run_that_was_killed_continues_in_another_file(table, tmp_path, program, name):
    """lockstep would not write to a file whose unfinished part remains."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "one-1.0.h5.partial").touch()
    (folder / "one-1.started").write_text(EXPERIMENT, encoding="utf-8")
    result = study(*RUN, "--dir", folder, table, **program(), LC_ALL="C")
    assert result.returncode == 0, result.stderr
    assert b"one-1.1.h5" in (tmp_path / "calls").read_bytes().splitlines()[0]
    assert (folder / "one-1.done").read_text(encoding="utf-8").startswith("one-1.1.h5\n")


@pytest.mark.parametrize("status", ["complete", "preempted"])
def test_run_that_ended_after_the_study_was_killed_is_complete(table, tmp_path, program, status):
    """lockstep would write no run file, because its checkpoint is that of the last step."""
    folder = tmp_path / "out"
    folder.mkdir()
    with h5py.File(folder / "one-1.0.h5", "w") as file:
        file.attrs["status"] = status
    (folder / "one-1.started").write_text(EXPERIMENT, encoding="utf-8")
    assert study(*RUN, "--dir", folder, table, **program()).returncode == 0
    is_run = any(words[0] == "train" for words in calls(tmp_path))
    assert is_run == (status != "complete")
    file = "one-1.1.h5" if is_run else "one-1.0.h5"
    assert (folder / "one-1.done").read_text(encoding="utf-8") == f"{file}\n{EXPERIMENT}"


def test_marker_that_cannot_be_written_fails_the_run(table, tmp_path, program):
    (tmp_path / "out" / "one-1.done.new").mkdir(parents=True)
    result = study(*RUN, "--dir", tmp_path / "out", table, **program())
    assert result.returncode == 1 and "failed runs: one-1 (status 1)" in result.stderr
    assert (tmp_path / "out" / "one-1.started").exists() and not (
        tmp_path / "out" / "one-1.done"
    ).exists()


def test_image_of_a_cluster_is_not_used(table):
    result = study("--dry-run", table, LOCKSTEP_BIN="", LOCKSTEP_IMAGE="/nowhere.sif")
    assert all("/lockstep " in line for line in commands_of(result)), result.stdout


def expect_refusal(result, change):
    assert result.returncode == 1 and "$" not in result.stdout, result.stdout
    [line] = result.stderr.splitlines()
    assert f"{change}; use another --dir, or delete the old run: rm -rf " in line


@pytest.mark.parametrize("options", [["--dry-run"], ["--help"], ["--version"]])
def test_command_that_writes_no_run_file_does_not_complete_a_point(table, tmp_path, options):
    real = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    table.write_text(
        "one\t1\ttrain --data synthetic:16@3x8x8/2 --batch-per-rank 8\n", encoding="utf-8"
    )
    result = study(*RUN, "--dir", tmp_path / "out", table, "--", *options, LOCKSTEP_BIN=real)
    assert result.returncode == 1 and "the command of one-1 wrote no run file" in result.stderr
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
        folder / ".study.lock",
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
    "command",
    [
        "train --batch-per-rank 8 --epochs 5",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("ladder", "allreduce", "layers", "stack")
        ),
    ],
)
def test_every_option_with_an_effect_is_compared(table, tmp_path, program, command):
    """Every option of the command in turn differs from the one of a complete point."""
    real = os.environ.get("LOCKSTEP_BIN") or pytest.skip(
        "LOCKSTEP_BIN is not set to the program; CTest sets it"
    )
    table.write_text(f"one\t1\t{command}\n", encoding="utf-8")
    stub = program(experiment=f'exec "{real}" "$@"')
    arguments = [*RUN, "--dry-run", "--dir", tmp_path / "out", table, "--"]
    assert study(*RUN, "--dir", tmp_path / "out", table, **stub).returncode == 0
    assert "one-1 is complete" in study(*arguments, **stub).stdout
    options = json.loads(
        subprocess.run([real, "help", "options-json"], capture_output=True, check=True).stdout
    )
    named = 0
    for option in options:
        if (
            not option["recorded"]
            or command.split()[0] not in option["commands"]
            or option["name"] in {"output", "seed", "checkpoint-dir", "resume"}
        ):  # the study gives these
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


def test_options_after_the_separator_replace_those_of_the_table(table, tmp_path, program):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --epochs=2 --nesterov --lr 0.1\n", encoding="utf-8"
    )
    assert (
        study(
            *RUN,
            "--dir",
            tmp_path / "out",
            table,
            "--",
            "--epochs",
            "5",
            "--batch-per-rank=4",
            **program(),
        ).returncode
        == 0
    )
    words = calls(tmp_path)[0]
    assert words[:7] == [
        "train",
        "--nesterov",
        "--lr",
        "0.1",
        "--epochs",
        "5",
        "--batch-per-rank=4",
    ]


def test_one_kind_of_batch_replaces_the_other(table, tmp_path, program):
    assert (
        study(
            *RUN, "--dir", tmp_path / "out", table, "--", "--global-batch", "4", **program()
        ).returncode
        == 0
    )
    assert "--batch-per-rank" not in calls(tmp_path)[0]


def test_dry_run_estimates_durations(table, tmp_path, program):
    """The stub trains 100 images per second; it is called once for the two points with 8
    threads."""
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8 --threads 8 --epochs 2\ntwo\t1\ttrain --global-batch 8"
        " --threads 8 --lr 1\nthree\t2\tallreduce\n",
        encoding="utf-8",
    )
    stub = program(
        experiment=f"""[ $2 != experiment ] || {{ printf '%s\\n' threads=8 batch-per-rank=8 global-batch=8 epochs=2 steps=0 \\
        evaluate-every=1; exit; }}; echo '{OPTIONS_OF_PROGRAMS}'"""
    )
    path = tmp_path / "lockstep"
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "touch",
            """printf '"train-samples": "30000",\\n"test-samples": "3000",\\n"images_per_second": 100.0,\\n'\n: """,
        ),
        encoding="utf-8",
    )
    result = study("--dry-run", "--dir", tmp_path / "out", "--repeats", 2, table, **stub)
    assert result.returncode == 0, result.stderr
    assert len(calls(tmp_path)) == 1, calls(tmp_path)
    slowdown = max(1, 8 / len(os.sched_getaffinity(0)))
    minutes = 2 * (30000 + 1000) / 100 * slowdown / 60
    durations = [line.rpartition(" # ")[2] for line in commands_of(result)]
    text = f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"
    assert durations == [text, text, "duration unknown"] * 2
    total = 4 * minutes
    text = f"about {total:.0f} min" if total < 90 else f"about {total / 60:.1f} h"
    assert result.stdout.splitlines()[-1] == f"# 6 runs: {text}, and 2 of unknown duration"


OPTIONS_OF_PROGRAMS = """
|option|default|commands|affects|description|
|`--batch-per-rank B`||train|both|one or two|
|`--epochs E`|2|train, ladder|results|-|
|`--nesterov`|off|train, ladder|results|-|
|`--quiet`|off|all||-|
|`-b`, `--min-bytes BYTES`|1K|allreduce|time|-|
"""


@pytest.mark.parametrize(
    "further, trained, reduced, ladder",
    [
        (
            ["--epochs", "5", "--nesterov"],
            "--batch-per-rank 8 --epochs 5 --nesterov",
            "--min-bytes 2K",
            "--epochs 5 --nesterov",
        ),
        (
            ["--nesterov", "--min-bytes=4K", "--quiet"],
            "--batch-per-rank 8 --nesterov --quiet",
            "--min-bytes=4K --quiet",
            "--epochs 3 --nesterov --quiet",
        ),
        (["-b", "4K"], "--batch-per-rank 8", "--min-bytes 4K", "--epochs 3"),
        (["-b4K"], "--batch-per-rank 8", "--min-bytes=4K", "--epochs 3"),
        (
            ["--batch-per-rank", "4", "--lr", "-1"],
            "--batch-per-rank 4 --lr -1",
            "--min-bytes 2K --lr -1",
            "--epochs 3 --lr -1",
        ),
    ],
    ids=range(5),
)
def test_options_go_to_the_commands_that_use_them(
    table, tmp_path, program, further, trained, reduced, ladder
):
    """`--lr` is an option of no command, so lockstep reports it."""
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\ntwo\t2\tallreduce -b 2K\nthree\t1\tladder --epochs 3\n",
        encoding="utf-8",
    )
    stub = program(experiment=f"[ $2 = experiment ] || echo '{OPTIONS_OF_PROGRAMS}'")
    assert study(*RUN, "--dir", tmp_path / "out", table, "--", *further, **stub).returncode == 0
    lines = [" ".join(words) for words in calls(tmp_path)]
    for line, command in zip(
        lines,
        (f"train {trained} --seed", f"allreduce {reduced} --output", f"ladder {ladder} --output"),
        strict=True,
    ):
        assert line.startswith(f"{command} "), line


def test_python_program_and_what_it_imports_are_compared(tmp_path):
    def experiment():
        script = (
            f"source {ROOT}/jobs/lib.sh; source {ROOT}/jobs/points.sh; recorded_python=python3;"
            " names=(one); ranks_of=(1);"
            f" arguments_of=({os.path.relpath(tmp_path / 'program.py', ROOT)}); point_experiment 0"
            " 1 mpirun"
        )
        return subprocess.run(
            ["bash", "-euc", script], capture_output=True, text=True, check=True
        ).stdout

    texts = set()
    for name in ("program.py", "imported.py"):
        (tmp_path / name).write_text("print('changed')\n", encoding="utf-8")
        texts.add(experiment())
    assert len(texts) == 2


def test_options_of_lockstep_are_not_those_of_a_python_program(tmp_path, program):
    path = tmp_path / "program.py"
    path.write_text(
        "import argparse\nparser ="
        " argparse.ArgumentParser()\nparser.add_argument('--epochs')\nparser.parse_args()\n",
        encoding="utf-8",
    )
    script = (
        f"source {ROOT}/jobs/lib.sh; source {ROOT}/jobs/points.sh;"
        f' recorded_python={sys.executable}; merge_options "$1 --epochs 1" --nesterov --epochs 3;'
        ' echo "${merged[@]:1}"'
    )
    result = subprocess.run(
        ["bash", "-euc", script, "bash", os.path.relpath(path, ROOT)],
        capture_output=True,
        text=True,
        env=os.environ | program(experiment=f"echo '{OPTIONS_OF_PROGRAMS}'"),
    )
    assert result.stdout == "--epochs 3\n", result.stderr


def test_option_that_no_point_uses_is_one_error(table, tmp_path, program):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\ntwo\t1\ttrain --batch-per-rank 4\n", encoding="utf-8"
    )
    stub = program(experiment=f"echo '{OPTIONS_OF_PROGRAMS}'")
    result = study(*RUN, "--dir", tmp_path / "out", table, "--", "--min-bytes", "4K", **stub)
    assert result.returncode == 1 and not (tmp_path / "calls").exists()
    assert result.stderr == f"study: no point of {table} uses --min-bytes; remove it\n"


def test_program_of_the_repository_is_a_point(table, tmp_path, program):
    """Its options are compared as text, and the study gives the seed and the output."""
    example = "analysis/examples/pytorch_dp.py"
    table.write_text(f"one\t2\t{example} --batch-per-rank 8 --epochs 2\n", encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/bash\n[ "$2" != --check ] || exit 0\n[ "${@: -1}" != --help ] || { echo " '
        f' --epochs E"; exit; }}\necho "$PYTHONPATH $@" >>"{tmp_path}/calls"\ntouch "${{@: -1}}"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    command = [*RUN, "--dir", tmp_path / "out", table, "--", "--epochs"]
    python_of = {"LOCKSTEP_PYTHON": str(python), "PYTHONPATH": "/mine"}
    result = study(*command, 3, **python_of)
    assert result.returncode == 0, result.stderr
    file = f"{tmp_path}/out/one-1.0.h5"
    assert calls(tmp_path) == [
        f"/mine {ROOT}/analysis/start.py {ROOT / example} --batch-per-rank 8 --epochs 3 --seed 1"
        f" --output {file}".split()
    ]
    assert "one-1 is complete" in study(*command, 3, **python_of).stdout
    expect_refusal(
        study(*command, 4, **python_of),
        f"options from '{example} --batch-per-rank 8 --epochs 3' to '{example} --batch-per-rank 8"
        " --epochs 4'",
    )


def test_failed_runs_are_listed_and_the_others_run(table, tmp_path, program):
    result = study(*RUN, "--dir", tmp_path / "out", table, **program(5))
    assert result.returncode == 1
    assert (
        result.stderr.splitlines()[-1] == "study: failed runs: one-1 (status 5), two-1 (status 5)"
    )
    assert len(calls(tmp_path)) == 2 and not list((tmp_path / "out").glob("*.done"))


def test_run_that_does_not_fit_in_memory_is_no_failure(table, tmp_path, program):
    command = [*RUN, "--dir", tmp_path / "out", table]
    result = study(*command, **program(4))
    assert result.returncode == 0, result.stderr
    assert "one-1 does not fit in memory" in result.stdout and len(calls(tmp_path)) == 2
    assert sorted(path.name for path in (tmp_path / "out").glob("*.memory")) == [
        "one-1.memory",
        "two-1.memory",
    ]
    assert study(*command, **program(3)).returncode == 1  # a later failure is not hidden
    assert not list((tmp_path / "out").glob("*.memory"))
    assert study(*command, **program()).returncode == 0 and len(calls(tmp_path)) == 6  # now it fits
    assert (
        not list((tmp_path / "out").glob("*.memory")) and (tmp_path / "out" / "one-1.done").exists()
    )


def test_report_names_points_that_do_not_fit_in_memory(tmp_path):
    for name in ("one-1.0.h5", "big-2.memory", "big-1.memory", "big-10-1.memory"):
        (tmp_path / name).touch()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$2" = --check ] || echo "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    script = f'source {ROOT}/jobs/lib.sh; write_report "$1"'
    result = subprocess.run(
        ["bash", "-euc", script, "bash", tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LOCKSTEP_PYTHON": str(python)},
    )
    lines = [line for line in result.stdout.splitlines() if " lockstep_report " in line]
    assert len(lines) == 2 and all(
        line.endswith(" --note points that do not fit in memory: big, big-10") for line in lines
    )


@pytest.mark.parametrize("status", [0, 5])
def test_report_that_fails_is_listed_after_the_failed_runs(table, tmp_path, program, status):
    """The stub writes empty files, which are no run files."""
    result = study(*RUN[:-1], "--dir", tmp_path / "out", table, **program(status))
    assert result.returncode == 1
    runs = "one-1 (status 5), two-1 (status 5), " if status else ""
    assert result.stderr.splitlines()[-1] == f"study: failed runs: {runs}the report"
    assert "not an HDF5 file" in result.stderr


def test_study_without_run_files_has_no_report(table, tmp_path):
    stub = tmp_path / "lockstep"
    stub.write_text("#!/bin/bash\nexit 6\n", encoding="utf-8")
    stub.chmod(0o755)
    result = study(*RUN[:-1], "--dir", tmp_path / "out", table, LOCKSTEP_BIN=str(stub))
    assert result.stderr.splitlines() == ["study: failed runs: one-1 (status 6), two-1 (status 6)"]
    assert "report" not in result.stdout and not (tmp_path / "out" / "report").exists()


def mpi_environment(ranks, **variables):
    """Returns the variables of Open MPI that the scripts set for `ranks` ranks, on two hardware
    threads of one core."""
    script = (
        f"source {ROOT}/jobs/lib.sh; nproc() {{ :; }}; physical_cores() {{ echo 1; }}; env() {{"
        f' echo "${{NPROC:-2}}"; }}\nmpi_environment {ranks}; unset -f env; env'
    )
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("OMPI_MCA_")
    }
    result = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | variables,
    )
    return dict(
        line.split("=", 1) for line in result.stdout.splitlines() if line.startswith("OMPI_MCA_")
    )


def test_ranks_may_use_all_hardware_threads():
    hardware_threads = "OMPI_MCA_hwloc_base_use_hwthreads_as_cpus"
    assert (
        hardware_threads not in mpi_environment(1) and mpi_environment(2)[hardware_threads] == "1"
    )


def test_ranks_yield_only_if_they_share_processors():
    """More ranks than slots are not more ranks than processors: an allocation may have one task
    with two processors."""
    oversubscribe, yields = "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"
    for ranks, expected in ((1, "0"), (2, "0"), (3, "1")):
        assert mpi_environment(ranks).items() >= {(oversubscribe, "1"), (yields, expected)}
    assert mpi_environment(2, **{yields: "1", oversubscribe: "0"}).items() >= {
        (oversubscribe, "0"),
        (yields, "1"),
    }


ONE_SLOT = {
    "SLURM_JOB_ID": "77",
    "SLURM_NNODES": "1",
    "SLURM_NTASKS": "1",
    "SLURM_TASKS_PER_NODE": "1",
    "SLURM_CPUS_PER_TASK": "2",
    "SLURM_JOB_NODELIST": socket.gethostname(),
    "SLURM_NODELIST": socket.gethostname(),
}  # salloc -n 1 -c 2


@pytest.mark.parametrize("slots", ["Slurm", "hostfile"])
def test_points_run_with_more_ranks_than_slots(table, tmp_path, slots):
    """mpirun itself starts the processes; without the settings of the script, it refuses them."""
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n", encoding="utf-8")
    stub = tmp_path / "lockstep"
    stub.write_text(
        f'#!/bin/bash\n[ "$1" != help ] || exit 0\necho >>"{tmp_path}/ranks"\ntouch "${{@: -1}}"\n',
        encoding="utf-8",
    )
    stub.chmod(0o755)
    table.write_text("two\t2\tallreduce\n", encoding="utf-8")
    variables = ONE_SLOT if slots == "Slurm" else {"OMPI_MCA_orte_default_hostfile": str(hosts)}
    result = study(
        "--no-report", "--dir", tmp_path / "out", table, LOCKSTEP_BIN=str(stub), **variables
    )
    assert result.returncode == 0, result.stderr
    assert len((tmp_path / "ranks").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "study: the program /nowhere was not found; build it"),
        (
            ["--launcher", "no-such-mpirun -n RANKS"],
            "study: the launcher no-such-mpirun was not found; load",
        ),
    ],
)
def test_missing_programs_are_one_error(table, tmp_path, options, message):
    result = study(*options, "--dir", tmp_path / "out", table)
    assert (
        result.returncode == 1
        and result.stderr.startswith(message)
        and len(result.stderr.splitlines()) == 1
    )


def test_number_of_processors_does_not_follow_openmp():
    for variables in ({}, {"OMP_NUM_THREADS": "100"}, {"OMP_THREAD_LIMIT": "1"}):
        result = subprocess.run(
            ["bash", "-c", f"source {ROOT}/jobs/lib.sh; cores"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | variables,
        )
        assert int(result.stdout) == len(os.sched_getaffinity(0))


def test_process_that_has_ended_before_the_wait_keeps_its_status():
    """A process that fails at once must not count as complete."""
    script = f"source '{ROOT}/jobs/lib.sh'; (exit 7) & sleep 0.3; wait_for_child $!; echo $status"
    assert subprocess.run(["bash", "-euc", script], capture_output=True, text=True).stdout == "7\n"


def test_interrupted_run_ends_the_study_and_is_continued(table, tmp_path, program):
    result = study(*RUN, "--dir", tmp_path / "out", table, **program(75))
    assert result.returncode == 1 and "run the same command again to continue" in result.stderr
    assert len(calls(tmp_path)) == 1
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0
    assert calls(tmp_path)[1][-1] == f"{tmp_path}/out/one-1.1.h5"  # a second part of the run


def accept_signals():
    """Bash cannot handle signals that are ignored when it starts, as in a job that nohup
    started."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("handles", [False, True])
def test_signals_reach_the_launcher_that_a_script_starts(tmp_path, handles):
    """mpirun of Intel MPI is a script that starts the launcher. A script that handles the signal
    itself receives it."""
    launcher, script, ready = tmp_path / "launcher", tmp_path / "mpirun", tmp_path / "ready"
    launcher.write_text(
        f"#!/bin/bash\ntrap 'exit 75' USR1\ntouch {ready}\nwhile sleep 0.05; do :; done\n",
        encoding="utf-8",
    )
    script.write_text(
        f"#!/bin/sh\n{'trap : USR1' if handles else ''}\n{launcher}"
        f" &\n{'wait; kill $!; exit 4' if handles else 'wait $!'}\n",
        encoding="utf-8",
    )
    for file in (launcher, script):
        file.chmod(0o755)
    process = subprocess.Popen(
        [ROOT / "jobs" / "forward-signals", script], preexec_fn=accept_signals
    )
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == (4 if handles else 75)
    finally:
        process.kill()


@contextlib.contextmanager
def running_study(table, tmp_path, status):
    """Starts a study in its own process group whose first run waits for SIGUSR1 and then exits with
    `status`."""
    program = tmp_path / "lockstep"
    program.write_text(
        f'#!/bin/bash\n[ "$1" != help ] || {{ echo "build=1"; exit; }}\ntrap "exit {status}"'
        f' USR1\ntouch "${{@: -1}}"\necho "$@" >>"{tmp_path}/calls"\nfor ((i = 0; i < 300; ++i));'
        " do sleep 0.1; done\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    process = subprocess.Popen(
        [STUDY, *RUN, "--dir", tmp_path / "out", table],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"LOCKSTEP_BIN": str(program)},
        preexec_fn=accept_signals,
    )
    try:
        while not (tmp_path / "calls").exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()


def group_of(process):
    return -os.getpgid(process.pid)


@pytest.mark.parametrize("status", [75, 138], ids=["training", "ladder"])
@pytest.mark.parametrize(
    "number, target",
    [
        (signal.SIGINT, group_of),
        (signal.SIGTERM, lambda process: process.pid),
        (signal.SIGHUP, group_of),
    ],
    ids=["Ctrl-C", "SIGTERM", "closed terminal"],
)
def test_signal_stops_the_run_and_the_study(table, tmp_path, status, number, target):
    with running_study(table, tmp_path, status) as process:
        os.kill(target(process), number)
        _, errors = process.communicate(timeout=1800)
    assert process.returncode == 1
    assert (
        errors == f"study: one-1 was interrupted (status {status}); run the same command again to"
        " continue\n"
    )
    assert len(calls(tmp_path)) == 1


def test_run_that_completes_after_the_signal_is_the_last(table, tmp_path):
    with running_study(table, tmp_path, 0) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=1800)
    assert process.returncode == 1 and errors.startswith(
        "study: stopped after one-1, which is complete"
    )
    assert len(calls(tmp_path)) == 1 and (tmp_path / "out" / "one-1.done").exists()


def test_second_study_with_the_same_folder_is_refused(table, tmp_path, program):
    with running_study(table, tmp_path, 75) as process:
        second = study(*RUN, "--dir", tmp_path / "out", table, **program())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=1800)
    assert second.returncode == 1 and f"another study uses {tmp_path}/out" in second.stderr
    assert len(calls(tmp_path)) == 1
    assert study(*RUN, "--dir", tmp_path / "out", table, **program()).returncode == 0


def test_folder_that_cannot_be_created_is_one_error(table, tmp_path):
    (tmp_path / "file").write_text("")
    result = study(*RUN, "--dir", tmp_path / "file", table)
    assert result.returncode == 1
    assert (
        result.stderr
        == f"study: cannot create the folder {tmp_path}/file; name another one with --dir\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "x y\t1\ttrain",
        "x\tmany\ttrain",
        "x\t1\t",
        "x\t1\t--batch-per-rank 8",
        "x\t0\ttrain",
        "x\t1\ttrain --batch-per-rank $(id)",
        "x\t1\tfly",
        "x\t1\tinfo",
        "x\t1\tplan --batch-per-rank 8",
        "x\t1\ttrain\tmore",
        "x\t1\tno-such-program.py",
        "x\t1\t--epochs.py",
        "x\t1\ttrain --output own.h5",
        "x\t99999999999999999999\ttrain",
        "é\t1\ttrain",
        f"{'x' * 101}\t1\ttrain",
        f"x\t1\ttrain {'x' * 4000}",
        "x\x1b[2J\t1\ttrain",
        "'x'\t1\ttrain",
        'x\t1\ttrain "a"',
        "x</script>\t1\ttrain",
        "x\t1\ttrain --data a;id",
        "x\t1\ttrain --lr `id`",
        "../x\t1\ttrain",
        "$(id)\t1\ttrain",
    ],
)
def test_invalid_line_of_the_table_is_an_error(table, line):
    table.write_text(f"# comment\n{line}\n", encoding="utf-8")
    result = study("--dry-run", table)
    assert result.returncode != 0 and f"{table}, line 2: " in result.stderr
    assert len(result.stderr.splitlines()) == 1 and "\x1b" not in result.stderr


def test_launcher_needs_the_number_of_ranks(table):
    result = study("--dry-run", "--launcher", "mpirun -n 2", table)
    assert result.returncode != 0 and "does not contain the word RANKS" in result.stderr


def test_table_of_the_repository_is_named_from_another_folder(tmp_path):
    result = subprocess.run(
        [STUDY, "--dry-run", "jobs/studies/weak.tsv"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert (
        result.stderr == f"study: cannot read jobs/studies/weak.tsv in {tmp_path}; use"
        f" {ROOT}/jobs/studies/weak.tsv\n"
    )


def test_directory_is_not_a_table(tmp_path):
    result = study("--dry-run", tmp_path)
    message = f"study: cannot read {tmp_path}; a table is a file such as jobs/studies/weak.tsv\n"
    assert result.returncode != 0 and result.stderr == message


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\t1\ttrain\nb\t1\ttrain\na\t2\ttrain\n", "two points are named 'a'"),
        ("a\t3\ttrain --global-batch 64\n", "not a multiple of its 3 ranks; use for example 66"),
        ("# only a comment\n", "has no points"),
        ("a\t1\ttrain\0\n", "contains NUL bytes"),
        ("a" * 1_000_001, "has 1000001 bytes; the limit of a table is 1000000 bytes"),
        ("".join(f"a{i}\t1\ttrain\n" for i in range(1001)), "has more than 1000 points"),
    ],
    ids=lambda text: text[:20] if text.isprintable() else "table",
)
def test_inconsistent_table_is_one_error(table, text, message):
    table.write_bytes(text.encode())
    result = study("--dry-run", table)
    assert result.returncode != 0 and result.stdout == ""
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "odd, words, replacement",
    [
        (
            "\N{NO-BREAK SPACE}",
            "a no-break space or another invisible character; replace it by a blank",
            " ",
        ),
        (
            "\N{ZERO WIDTH SPACE}",
            "a no-break space or another invisible character; replace it by a blank",
            " ",
        ),
        (
            " \N{EN DASH}epochs 2",
            "the dash of a word processor; replace it by - or --",
            " --epochs 2",
        ),
        (" --lr \N{MINUS SIGN}1", "the dash of a word processor", " --lr -1"),
        (
            " --data \N{LEFT DOUBLE QUOTATION MARK}a\N{RIGHT DOUBLE QUOTATION MARK}",
            "a quotation mark; remove it",
            " --data a",
        ),
        (" --data 'a'", "a quotation mark; remove it", " --data a"),
        (
            " --data binary:C:\\a",
            "write paths with '/', for example /mnt/c/data for C:\\data",
            " --data binary:/mnt/c/a",
        ),
        (
            " --data cifar10:~/a",
            "'~' is not expanded; write the whole path",
            " --data cifar10:/home/me/a",
        ),
        ("\t--epochs 2", "its command contains a tab; separate options by blanks", " --epochs 2"),
        (" --data caf\xe9", "it contains '\xe9'; use characters of ASCII", " --data cafe"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}", "another invisible character", ""),
        ("\x9b2J", "another invisible character", ""),
        (" # slow", "a comment behind the command; write it in a line of its own", "\n# slow"),
        (" --data a;b", "it contains the character ';'", " --data a-b"),
        (
            b" \x96epochs 2",
            "it is not encoded in UTF-8; save the table in this encoding",
            " --epochs 2",
        ),
    ],
    ids=repr,
)
def test_odd_character_is_named_and_the_advice_helps(table, odd, words, replacement):
    """Tables from word processors and spreadsheets; the advice of the message is applied in the
    second call."""
    line = b"a\t1\ttrain --batch-per-rank 8"
    table.write_bytes(
        b"# \xa0\n" + line + (odd if isinstance(odd, bytes) else odd.encode()) + b"\n"
    )
    result = study("--dry-run", table)
    assert (
        result.returncode == 1 and f"{table}, line 2: " in result.stderr and words in result.stderr
    )
    assert len(result.stderr.splitlines()) == 1
    table.write_bytes(line + replacement.encode() + b"\n")
    assert study("--dry-run", table).returncode == 0


@pytest.mark.parametrize(
    "content",
    [
        b"a\t1\ttrain --epochs 2 \n",
        b"a\t1\ttrain  --epochs  2\n",
        b"  a \t 1 \t train --epochs 2",
        b"a 1 train --epochs 2\n",
        b"a\t\t1\t\ttrain --epochs 2\t\t\t\n\t\t\n\n",
        b"\xef\xbb\xbfa\t1\ttrain --epochs 2\n",
        b"\xef\xbb\xbf# note\r\na\t1\ttrain --epochs 2\r\n",
        b"# note\ra\t1\ttrain --epochs 2\r",
        b'"# x, y"\r\n"a"\t"1"\t"train --epochs 2"\t\r\n',
        b"  # note\na\t1\ttrain --epochs 2",
    ],
    ids=repr,
)
def test_additions_of_editors_and_spreadsheets_are_ignored(table, content):
    table.write_bytes(content)
    result = study("--dry-run", table)
    assert result.returncode == 0 and " train --epochs 2 --seed 1 " in result.stdout, result.stderr
    assert "/a-1.0.h5 # duration unknown\n" in result.stdout and len(commands_of(result)) == 1


def test_table_that_is_no_plain_text_is_named(table):
    text = table.read_bytes()
    for content, words in (
        (
            zipped(text),
            "is a ZIP archive, for example a workbook (.xlsx, .ods); a table is plain text",
        ),
        (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"),
        (b"\xd0\xcf\x11\xe0", "a document of Microsoft Office"),
    ):
        table.write_bytes(content)
        result = study("--dry-run", table)
        assert (
            result.returncode == 1
            and words in result.stderr
            and len(result.stderr.splitlines()) == 1
        )
    result = study("--dry-run", "C:\\Users\\me\\weak.tsv")
    assert (
        result.returncode == 1
        and "write its path with '/', for example /mnt/c/Users for C:\\Users" in result.stderr
    )


def zipped(text):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("table", text)
    return content.getvalue()


@pytest.mark.parametrize(
    "encode", [gzip.compress, lambda text: text.decode().encode("utf-16")], ids=["gzip", "UTF-16"]
)
def test_command_in_the_message_converts_the_table(table, encode):
    odd = table.with_name("a table's.tsv")
    odd.write_bytes(encode(table.read_bytes()))
    result = study("--dry-run", odd)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    command = result.stderr.strip().partition(" it: ")[2]
    subprocess.run(["bash", "-c", command], check=True)
    assert len(commands_of(study("--dry-run", f"{odd}.txt"))) == 2


def test_path_with_control_characters_is_printed_in_one_line(tmp_path):
    odd = tmp_path / "a\nb\x1b[2J.tsv"
    odd.write_text("a\t0\ttrain\n")
    result = study("--dry-run", odd)
    assert (
        result.returncode == 1
        and len(result.stderr.splitlines()) == 1
        and "\x1b" not in result.stderr
    )


def test_huge_sparse_table_is_one_error(table):
    with table.open("ab") as file:
        file.truncate(1 << 40)
    result = study("--dry-run", table)
    assert (
        result.returncode != 0
        and f"has {1 << 40} bytes; the limit" in result.stderr
        and len(result.stderr.splitlines()) == 1
    )


def test_value_of_the_global_batch_is_not_evaluated(table, tmp_path):
    """Bash would evaluate the name of a variable or an assignment in an arithmetic expression."""
    table.write_text(
        "a\t2\ttrain --global-batch line\nb\t2\ttrain --global-batch ranks=1\n", encoding="utf-8"
    )
    result = study("--dry-run", "--dir", tmp_path, table)
    assert result.returncode == 0 and [line.split()[2] for line in commands_of(result)] == [
        "2",
        "2",
    ]


def test_last_line_without_newline_is_a_point(table):
    table.write_text("a\t1\ttrain\nb\t2\ttrain", encoding="utf-8")
    assert len(commands_of(study("--dry-run", table))) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--repeats", "0"],
        ["--repeats", "9" * 20],
        ["--unknown"],
        ["second.tsv"],
        ["/nowhere.tsv"],
        ["--repeats"],
        ["--dir"],
        ["--launcher"],
    ],
)
def test_invalid_options_are_errors(table, arguments):
    result = study(table, *arguments)
    assert (
        result.returncode != 0
        and result.stderr.startswith("study: ")
        and len(result.stderr.splitlines()) == 1
    )


def test_folder_may_start_with_a_dash(table, tmp_path):
    result = study("--dry-run", "--dir", "-odd", table)
    assert result.returncode == 0 and f"{os.getcwd()}/-odd/one-1.0.h5" in result.stdout


def test_batch_of_the_table_is_not_checked_if_it_is_replaced(table):
    table.write_text("a\t4\ttrain --global-batch 6\n", encoding="utf-8")
    assert study("--dry-run", table, "--", "--global-batch", "8").returncode == 0
    assert study("--dry-run", table, "--", "--batch-per-rank", "2").returncode == 0
    assert (
        "not a multiple of its 4 ranks"
        in study("--dry-run", table, "--", "--global-batch", "6").stderr
    )


def test_every_table_of_the_repository_has_toy_options():
    assert {path.stem for path in TABLES} == set(TOY)


WITH_PYTORCH = (pytest.mark.slow, pytest.mark.requires("PYTORCH"))
MARKS = {"quickstart": (), "accuracy-94": WITH_PYTORCH, "against-pytorch": WITH_PYTORCH}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, pytest.mark.slow))
        for path in TABLES
    ],
)
def test_table_runs_at_toy_size_and_is_reported(path, tmp_path):
    """Runs up to four points of a table, with few images, and makes the report."""
    if not os.environ.get("LOCKSTEP_BIN"):
        pytest.skip("LOCKSTEP_BIN is not set to the program; CTest sets it")
    rows = [
        line.split("\t")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line and line[0] != "#"
    ]
    kept = [row for row in rows if int(row[1]) <= MOST_RANKS and threads_of(row[2]) <= MOST_THREADS]
    assert kept
    kept = kept if len(kept) <= 4 else kept[:2] + kept[-2:]
    small = tmp_path / "a table.tsv"
    small.write_text("".join("\t".join(row) + "\n" for row in kept), encoding="utf-8")
    result = study(
        "--dir",
        tmp_path / "results of a study",
        small,
        "--",
        *TOY[path.stem],
        LOCKSTEP_BIN=os.environ["LOCKSTEP_BIN"],
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "results of a study" / "report" / "report.md").exists()
    assert (tmp_path / "results of a study" / "report.html").exists()


def threads_of(command):
    words = command.split()
    return int(words[words.index("--threads") + 1]) if "--threads" in words else 1
