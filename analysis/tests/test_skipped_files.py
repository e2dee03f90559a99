# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a file or folder that cannot be used gives one line, the rest is reported, and the
command ends with the status of an input error."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from planted import write_sweep, write_training
from programs import run_report

COMMANDS = {
    "report": ["--out", "OUT"],
    "tables": ["--out", "OUT"],
    "figures": ["--out", "OUT"],
    "summary": [],
    "index": [],
    "explain": [],
    "export": ["--to", "csv", "--out", "OUT"],
    "predict": ["--ranks", "4", "--network", "SWEEP", "--algorithm", "ring", "--out", "OUT"],
}


@pytest.fixture
def study(tmp_path):
    """A folder with two good runs and bad files: cut off, no HDF5, a text instead of numbers, times
    that are not numbers, and numbers of ranks that contradict each other."""
    random, folder = np.random.default_rng(1), tmp_path / "study"
    folder.mkdir()
    good = [
        write_training(
            folder / f"good-{n}.h5", random, ranks=n, steps=8, sizes=(4e6,) if n > 1 else ()
        )
        for n in (1, 2)
    ]
    write_sweep(tmp_path / "sweep.h5", random, 2, 1e-4, 1e-9, [2**10, 2**16, 2**22])
    data = good[1].read_bytes()
    (folder / "cut.h5").write_bytes(data[: len(data) // 2])
    (folder / "text.h5").write_text("no HDF5 \x1b[31m")
    for name, change in (
        ("nan", lambda f: f["steps/phase_seconds"].__setitem__(Ellipsis, np.nan)),
        ("images", lambda f: f["steps/images"].__setitem__(Ellipsis, 0)),
        ("type", lambda f: replace(f, "steps/loss", np.array([b"x"] * 9))),
        ("ranks", lambda f: replace(f, "ranks/rank", np.arange(7))),
    ):
        path = folder / f"bad-{name}.h5"
        shutil.copy(good[1], path)
        with h5py.File(path, "r+") as file:
            change(file)
            file.attrs["run_id"] = name
    return folder


def replace(file, name, values):
    del file[name]
    file[name] = values


def arguments(command, folder, tmp_path):
    words = {"OUT": str(tmp_path / "out"), "SWEEP": str(tmp_path / "sweep.h5")}
    return [command, str(folder), *(words.get(word, word) for word in COMMANDS[command])]


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_files_give_one_line_each_and_the_rest_is_reported(command, study, tmp_path, capsys):
    assert main(arguments(command, study, tmp_path)) == 3
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if "note:" not in line]
    assert len(lines) == len(set(lines)) == (4 if command == "export" else 6), lines
    assert all(line.startswith("lockstep-report: ") and "\x1b" not in line for line in lines)
    for name in ("cut", "text", "bad-type", "bad-ranks"):
        assert sum(f"/{name}.h5: " in line for line in lines) == 1, lines
    assert printed.out  # export writes all values, also those that are no times
    if command == "report":
        page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
        assert page.count("Files: not used: ") == 6 and "good-2.h5" in page
        assert (tmp_path / "out" / "table-1-time-speedup.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_only_bad_files_are_an_input_error(command, study, tmp_path, capsys):
    folder = tmp_path / "bad"
    folder.mkdir()
    for name in ("cut", "text"):
        shutil.copy(study / f"{name}.h5", folder)
    assert main(arguments(command, folder, tmp_path)) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, lines
    assert not (tmp_path / "out").exists()


def test_compare_uses_the_good_files_of_both_sides(study, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(study / "good-2.h5", other)
    (other / "bad.h5").write_text("no HDF5")
    assert main(["compare", str(other), str(study), "--json"]) == 3
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["pairs"]) == 1
    assert sum("not an HDF5 file" in line for line in printed.err.splitlines()) == 2


def test_a_bad_csv_is_skipped(study, tmp_path, capsys):
    bad = tmp_path / "times.csv"
    bad.write_text("ranks,epoch_seconds\n1,many\n")
    good = str(study / "good-1.h5")
    assert main(["tables", good, "--csv", str(bad), "--out", str(tmp_path / "out")]) == 3
    assert 'epoch_seconds is "many"' in capsys.readouterr().err
    assert (tmp_path / "out" / "table-1-time-speedup.md").exists()
    assert main(["tables", "--csv", str(bad), "--out", str(tmp_path / "none")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- links and permissions
# -------------------------------------------------------------------------


@pytest.mark.parametrize("command", [*COMMANDS, "html"])
def test_a_link_to_itself_is_skipped(command, study, tmp_path, capsys):
    folder = tmp_path / "good"
    folder.mkdir()
    for name in ("good-1.h5", "good-2.h5"):
        shutil.copy(study / name, folder)
    (folder / "loop.h5").symlink_to("loop.h5")
    (folder / "folder.h5").mkdir()
    words = (
        ["html", str(folder), "-o", str(tmp_path / "page.html")]
        if command == "html"
        else arguments(command, folder, tmp_path)
    )
    assert main(words) == 3
    printed = capsys.readouterr()
    assert [line for line in printed.err.splitlines() if "note:" not in line] == [
        f"lockstep-report: {folder}/folder.h5: not a regular file; give a run file of lockstep",
        f"lockstep-report: {folder}/loop.h5: cannot be read (Too many levels of symbolic links)",
    ]
    assert printed.out


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "LOOP"],
        ["watch", "LOOP"],
        ["watch", "LOOP", "--once"],
        ["compare", "LOOP", "LOOP"],
    ],
)
def test_a_link_to_itself_is_an_input_error(words, tmp_path, capsys):
    loop = tmp_path / "loop.h5"
    loop.symlink_to(loop)
    assert main([str(loop) if word == "LOOP" else word for word in words]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("loop.h5: cannot be read (Too many levels of symbolic links)")


@pytest.fixture
def restricted(study):
    """Returns a function that gives a folder with two runs these permissions, and returns the
    folder. `tmp_path` is not accessible to other users."""
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        folder = Path(parent) / "runs"
        folder.mkdir()
        for name in ("good-1.h5", "good-2.h5"):
            shutil.copy(study / name, folder)
        (folder / "times.csv").write_text("ranks,epoch_seconds\n1,10\n")

        def restrict(mode):
            folder.chmod(mode)
            return folder

        yield restrict
        folder.chmod(0o755)


def run_restricted(*words):
    """Runs a command without privileges. Returns (status, stdout, the single line on stderr)."""
    done = run_report(*words, is_privileged=False)
    (line,) = done.stderr.splitlines()
    return done.returncode, done.stdout, line.removeprefix("lockstep-report: ")


def test_a_run_in_a_folder_that_cannot_be_listed_is_reported(restricted):
    folder = restricted(0o111)
    status, out, line = run_restricted("summary", folder / "good-1.h5")
    assert status == 3 and "An epoch takes" in out
    assert (
        line
        == f"{folder}: the folder cannot be listed (Permission denied); other parts of runs are "
        "found only if it can be"
    )


@pytest.mark.parametrize("command", ["summary", "index", "validate", "explain"])
@pytest.mark.parametrize("mode", [0o000, 0o111])
def test_a_folder_that_cannot_be_listed_is_an_input_error(command, mode, restricted):
    folder = restricted(mode)
    assert run_restricted(command, folder) == (
        3,
        "",
        f"{folder}: the folder cannot be listed (Permission denied); give run files",
    )


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("words", [["summary"], ["validate"], ["watch"], ["watch", "--once"]])
def test_a_file_in_a_folder_that_cannot_be_entered_is_an_input_error(mode, words, restricted):
    run = restricted(mode) / "good-1.h5"
    assert run_restricted(*words, run) == (3, "", f"{run}: cannot be read (Permission denied)")


def test_files_of_a_folder_that_cannot_be_entered_have_one_line_each(restricted):
    done = run_report("summary", restricted(0o444), is_privileged=False)
    assert done.returncode == 3 and done.stderr.count("cannot be read (Permission denied)\n") == 2
    assert len(done.stderr.splitlines()) == 2


def test_the_rest_is_reported_if_a_file_cannot_be_read(restricted):
    folder = restricted(0o755)
    (folder / "good-1.h5").chmod(0o000)
    status, out, line = run_restricted("summary", folder)
    assert status == 3 and "An epoch takes" in out
    assert line == f"{folder}/good-1.h5: cannot be read (Permission denied)"


def test_a_csv_in_a_folder_that_cannot_be_entered_is_an_input_error(restricted):
    times = restricted(0o444) / "times.csv"
    assert run_restricted("tables", "--csv", times, "--json") == (
        3,
        "",
        f"{times}: cannot be read (Permission denied)",
    )


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444, 0o555])
@pytest.mark.parametrize("option", ["-o", "--out"])
def test_an_output_in_a_folder_without_permission_is_an_output_error(mode, option, restricted):
    folder = restricted(mode)
    times = folder.parent / "times.csv"
    times.write_text("ranks,epoch_seconds\n1,10\n")
    status, out, line = run_restricted(
        "html" if option == "-o" else "tables", "--csv", times, option, folder / "new"
    )
    assert (status, out) == (
        6,
        "",
    ) and f"{folder}/new: cannot be written (Permission denied)" in line


def test_a_file_that_cannot_be_read_is_not_replaced(restricted):
    """It may be a run file."""
    target = restricted(0o777) / "good-1.h5"
    target.chmod(0o000)
    assert run_restricted("index", target.with_name("good-2.h5"), "--csv", target) == (
        6,
        "",
        f"{target}: cannot be written (Permission denied); give another file",
    )
