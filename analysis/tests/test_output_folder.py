# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the files in the directory --out."""

import pathlib
import re

import pytest
from commands import refused
from lockstep_report.cli import main
from lockstep_report.output import MANIFEST


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_second_report_leaves_no_file_of_the_first(one, pair, tmp_path):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    for runs, folder in ((pair, out), ([one], out), ([one], fresh)):
        assert main(["report", *runs, "--out", str(folder)]) == 0
    assert names(out) == names(fresh)
    assert "table-3-bandwidth.md" not in names(out)


def test_files_that_the_report_did_not_write_stay(one, pair, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert main(["report", *pair, "--out", str(out)]) == 0
    (out / "table-3-bandwidth.md").write_text("edited by hand")
    assert main(["report", one, "--out", str(out)]) == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "table-3-bandwidth.md").read_text() == "edited by hand"
    assert not (out / "table-3-bandwidth.csv").exists()


def test_no_file_is_written_through_a_link(one, tmp_path, monkeypatch):
    """Others may be able to create links in the folder, for example in /tmp."""
    out, precious = tmp_path / "out", tmp_path / "precious"
    out.mkdir()
    precious.write_text("kept")
    for name in ("report.md", ".report.md.partial", ".0123456789abcdef.partial"):
        (out / name).symlink_to(precious)
    assert main(["report", one, "--out", str(out)]) == 0
    assert precious.read_text() == "kept" and not (out / "report.md").is_symlink()
    monkeypatch.setattr("secrets.token_hex", lambda count: "0123456789abcdef")  # a correct guess
    assert main(["report", one, "--out", str(out)]) == 6
    assert precious.read_text() == "kept"


def test_temporary_files_have_names_that_cannot_be_predicted(one, tmp_path, monkeypatch):
    seen = []
    replace_file = pathlib.Path.replace
    monkeypatch.setattr(
        pathlib.Path,
        "replace",
        lambda path, to: (seen.append(path.name), replace_file(path, to))[1],
    )
    assert main(["report", one, "--out", str(tmp_path / "out")]) == 0
    assert len(seen) == len(set(seen)) > 4
    assert all(re.fullmatch(r"\.[0-9a-f]{16}\.partial", name) for name in seen)


def test_tables_and_figures_share_a_folder(pair, tmp_path):
    out = tmp_path / "out"
    assert main(["figures", *pair, "--out", str(out)]) == 0
    assert main(["tables", *pair, "--out", str(out)]) == 0
    assert {"phases.png", "table-1-time-speedup.md"} <= names(out)


def test_a_failed_report_removes_nothing(pair, tmp_path):
    out = tmp_path / "out"
    assert main(["report", *pair, "--out", str(out)]) == 0
    before = names(out)
    assert main(["report", str(tmp_path / "none.h5"), "--out", str(out)]) == 3
    assert names(out) == before


@pytest.mark.parametrize(
    "text",
    [
        "not JSON",
        "[]",
        '{"files": {"../precious": {"kind": "table", "sha256": "x"}}}',
        '{"files": {"a": 1}}',
    ],
)
def test_a_damaged_list_of_files_removes_nothing(one, tmp_path, text):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("kept")
    (out / MANIFEST).write_text(text)
    assert main(["report", one, "--out", str(out)]) == 0
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_file_of_the_user_in_the_folder_is_not_replaced(one, tmp_path, capfd):
    """The advice of the message is to delete it."""
    out = tmp_path / "out"
    out.mkdir()
    page = out / "report.md"
    page.write_text("mine", encoding="utf-8")
    line = refused(capfd, "report", one, "--out", out)
    assert (
        f"{page}: cannot be written (it is not in the list {MANIFEST} of written files; delete it)"
        in line
    )
    assert page.read_text(encoding="utf-8") == "mine"
    page.unlink()
    assert main(["report", one, "--out", str(out)]) == 0


def test_a_report_that_was_killed_can_be_repeated(one, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr("lockstep_report.output.Folder.finish", lambda folder: None)
    assert main(["tables", one, "--out", str(out)]) == 0
    monkeypatch.undo()
    assert main(["tables", one, "--out", str(out)]) == 0


def test_two_outputs_never_have_the_same_name(tmp_path, capfd):
    paths = [tmp_path / folder / "times.csv" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(
            "ranks,epoch_seconds,published_speedup\n1,10,1\n2,6,1.67\n", encoding="utf-8"
        )
    line = refused(capfd, "published", *paths, "--out", tmp_path / "out")
    assert "another output has this name; rename one of the inputs" in line
    assert (
        main(
            [
                "published",
                str(paths[0]),
                str(paths[1].rename(tmp_path / "more.csv")),
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )


def test_a_table_does_not_replace_the_csv_that_it_is_made_from(tmp_path, capfd):
    times = tmp_path / "table-1-time-speedup.csv"
    times.write_text("ranks,epoch_seconds\n1,10\n2,6\n")
    for command in ("tables", "report"):
        line = refused(capfd, command, "--csv", times, "--out", tmp_path)
        assert "it is an input of the command" in line
        assert times.read_text().startswith("ranks,")
