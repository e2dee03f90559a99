# SPDX-License-Identifier: BSD-3-Clause
"""Tests the text of tables, and the files in the directory --out."""

import os
import pathlib
import re
import stat
from dataclasses import replace

import pytest
from lockstep_report.cli import main
from lockstep_report.measure import points
from lockstep_report.output import MANIFEST
from lockstep_report.tables.registry import all_tables
from lockstep_report.tables.scaling import weak_table
from lockstep_report.tables.table import (
    Column,
    Note,
    Table,
    cell_texts,
    interval_columns,
    latex,
    markdown,
)
from programs import run_report
from synthetic import phases, write_ladder, write_run, write_sweep

STEP = (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)


def column_of(text, header):
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    place = rows[0].index(header)
    return [row[place] for row in rows[2:]]


def table_of(values, digits=None):
    return Table("t", "T", [Column("x", "X", digits)], [{"x": value} for value in values])


@pytest.mark.parametrize(
    "values, digits, texts",
    [
        ([1024, 16384], None, ["1,024", "16,384"]),
        ([32, 1024], None, ["32", "1024"]),
        ([1024, 16384, None], None, ["1,024", "16,384", "–"]),
        ([-0.001, 0.001, -1.0], 2, ["0.00", "0.00", "-1.00"]),
        ([-0.4, 1234.0], 0, ["0", "1,234"]),
    ],
)
def test_numbers_of_one_column_are_written_by_one_rule(values, digits, texts):
    assert column_of(markdown(table_of(values, digits)), "X") == texts


@pytest.mark.parametrize(
    "value, low, high, texts",
    [
        (12.3456, 12.3, 12.4, ("12.35", "12.30", "12.40")),
        (12.3456, 10.0, 15.0, ("12.3", "10.0", "15.0")),
        (1234.5, 1000.0, 1500.0, ("1,230", "1,000", "1,500")),
        (0.1, None, None, ("0.10", "–", "–")),
    ],
)
def test_an_interval_limits_the_digits(value, low, high, texts):
    """Two digits of its width; images/s are proportional to the value."""
    columns = [
        *interval_columns(Column("x", "X", 2), "low", "high"),
        Column("y", "Y", 2, interval=("low", "high", "x")),
    ]
    row = {"x": value, "low": low, "high": high, "y": 10 * value}
    assert tuple(cell_texts(column, [row])[0] for column in columns[:3]) == texts
    assert float(cell_texts(columns[3], [row])[0].replace(",", "")) == pytest.approx(
        10 * value, rel=0.01
    )


def test_a_note_is_printed_only_with_its_column():
    table = Table(
        "t",
        "T",
        [Column("x", "X"), Column("y", "Y")],
        [{"x": 1}],
        ["always", Note("about y", ("y",)), Note("about x or y", ("x", "y"))],
    )
    for text in (markdown(table), latex(table)):
        assert "always" in text and "about x or y" in text and "about y" not in text


def test_no_table_explains_a_column_that_it_does_not_have():
    """With one rank only, there is no speedup, no communication and no independent replica."""
    alone = points.Point("a.csv", 2, 32, 10.0)
    text = "".join(markdown(t) for t in all_tables([alone], []))
    assert "Epoch speedup" not in text and "epoch speedup" not in text
    assert "derived:" not in text
    table = weak_table([replace(alone, steps=10, step_median=1.0)])
    assert "independent replicas" not in markdown(table)


@pytest.mark.parametrize(
    "title, caption",
    [("Table 1: time and speedup", "Time and speedup"), ("Weak scaling", "Weak scaling")],
)
def test_latex_captions_have_no_number_of_their_own(title, caption):
    table = Table("t", title, [Column("x", "X")], [{"x": 1}])
    assert rf"\caption{{{caption}}}" in latex(table)


def test_the_latex_of_a_report_is_balanced(tmp_path):
    one = write_run(tmp_path / "one.h5", phases(20, STEP), 10, epochs=2, batch=10)
    two = write_run(tmp_path / "two.h5", phases(10, STEP, STEP), 20, epochs=2, batch=10)
    out = tmp_path / "out"
    assert (
        main(
            [
                "tables",
                str(one),
                str(two),
                str(write_ladder(tmp_path / "l.h5")),
                str(write_sweep(tmp_path / "s.h5")),
                "--out",
                str(out),
            ]
        )
        == 0
    )
    files = sorted(out.glob("*.tex"))
    assert len(files) > 4
    for path in files:
        text = path.read_text()
        assert not re.search(r"\\caption\{Table \d", text)
        assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
        plain = text.replace(r"\{", "").replace(r"\}", "")
        assert plain.count("{") == plain.count("}")
        columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text).group(1))
        body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)


# --- files of --out
# --------------------------------------------------------------------------------


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


# --- a single output file
# --------------------------------------------------------------------------

# Arguments that write one file, before its name.
ONE_FILE = {"html": ["-o"], "index": ["--csv"]}


def refused(capfd, *arguments):
    """Runs a command that must not write; returns the single line on stderr."""
    assert main(list(map(str, arguments))) == 6
    printed = capfd.readouterr()
    assert not printed.out
    (line,) = printed.err.splitlines()
    return line


@pytest.mark.parametrize("command", ONE_FILE)
def test_a_single_file_is_written_and_replaced(command, one, tmp_path):
    target = tmp_path / "target"
    for text in (None, "earlier"):
        if text:
            target.write_text(text)
        assert main([command, one, *ONE_FILE[command], str(target)]) == 0
        assert target.stat().st_size > 100
    assert names(tmp_path) == {"one.h5", "target"}


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("name", ["two.h5", "copy", "copy.partial"])
def test_a_run_file_is_not_replaced(command, name, one, pair, tmp_path, capfd):
    """A pattern such as *.h5 after an option gives it the first of the files."""
    target = tmp_path / name
    target.write_bytes(pathlib.Path(pair[1]).read_bytes())
    before = target.read_bytes()
    line = refused(capfd, command, one, *ONE_FILE[command], target)
    assert f"{target}: cannot be written (it is an HDF5 file); give another file" in line
    assert target.read_bytes() == before


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("by_folder", [False, True])
def test_a_damaged_run_file_is_not_replaced(command, by_folder, tmp_path, capfd):
    folder = tmp_path / "runs"
    folder.mkdir()
    bad = folder / "bad.h5"
    bad.write_text("no HDF5")
    line = refused(capfd, command, folder if by_folder else bad, *ONE_FILE[command], bad)
    assert "cannot be written (" in line and bad.read_text() == "no HDF5"


def test_an_input_with_another_name_is_not_replaced(tmp_path, capfd):
    times, link = tmp_path / "times.csv", tmp_path / "link.csv"
    times.write_text("ranks,epoch_seconds\n1,10\n2,6\n")
    link.hardlink_to(times)
    line = refused(capfd, "html", "--csv", times, "-o", link)
    assert "it is an input of the command" in line
    assert times.read_text().startswith("ranks,")


def special_file(kind, path):
    """Creates what no file may replace. The devices are copies and links in the folder of the test,
    because root can replace /dev/null."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.stat(os.devnull).st_rdev)
        except PermissionError:
            pytest.skip("device files can be created only by root")
    else:
        path.symlink_to({"link": "one.h5", "loop": path.name, "stdout": "/proc/self/fd/1"}[kind])


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "link", "loop", "stdout"])
def test_only_regular_files_are_replaced(command, kind, one, tmp_path, capfd):
    target = tmp_path / "target"
    special_file(kind, target)
    before = target.lstat()
    line = refused(capfd, command, one, *ONE_FILE[command], target)
    assert f"{target}: cannot be written (it is not a regular file); give another file" in line
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize(
    "place, words",
    [("none/target", "No such file or directory"), ("one.h5/target", "Not a directory")],
)
def test_a_file_in_no_folder_is_refused(command, place, words, one, tmp_path, capfd):
    assert words in refused(capfd, command, one, *ONE_FILE[command], tmp_path / place)


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize("name", ["new.h5", "new.H5", "new.h5.partial", "new.hdf5"])
def test_no_file_gets_the_name_of_a_run_file(command, name, one, tmp_path, capfd):
    target = tmp_path / name
    assert "its name is that of a run file" in refused(
        capfd, command, one, *ONE_FILE[command], target
    )
    assert "its name is that of a run file" in refused(capfd, "tables", one, "--out", target)
    assert not target.exists()


@pytest.mark.parametrize("command", ONE_FILE)
@pytest.mark.parametrize(
    "name, content, kind",
    [
        ("thesis.pdf", b"%PDF-1.4", "a PDF document"),
        ("notes.txt", b"mine", "a text"),
        ("model.pt", b"PK\x03\x04", "a ZIP archive"),
        ("a", bytes(9), "a file of zero bytes"),
        ("b", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    ],
)
def test_a_file_of_another_kind_is_not_replaced(command, name, content, kind, one, tmp_path, capfd):
    target = tmp_path / name
    target.write_bytes(content)
    assert f"(it is {kind})" in refused(capfd, command, one, *ONE_FILE[command], target)
    assert target.read_bytes() == content


@pytest.mark.parametrize("command", ONE_FILE)
def test_an_output_of_another_command_is_not_replaced(command, one, tmp_path, capfd):
    target, own = tmp_path / "target", ONE_FILE[command]
    for other in ONE_FILE:
        assert main([other, one, *ONE_FILE[other], str(target)]) == 0
        capfd.readouterr()
        if other != command:
            before = target.read_bytes()
            assert "(it is a" in refused(capfd, command, one, *own, target)
            assert target.read_bytes() == before
        target.unlink()


@pytest.mark.parametrize("command", ONE_FILE)
def test_write_protected_file_and_stdout_are_not_replaced(command, one, tmp_path, capfd):
    target = tmp_path / "target"
    with target.open("w", encoding="utf-8") as stdout:
        done = run_report(command, one, *ONE_FILE[command], target, stdout=stdout)
    assert done.returncode == 6 and "(it is stdout or stderr of the command)" in done.stderr
    target.chmod(0o444)
    assert "(it is write-protected)" in refused(capfd, command, one, *ONE_FILE[command], target)


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
