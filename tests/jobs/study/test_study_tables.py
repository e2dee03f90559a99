# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tables with errors and with the additions of editors and spreadsheets."""

import gzip
import io
import subprocess
import zipfile

import pytest
from study_command import ROOT, commands_of, study


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


def test_table_of_the_repository_is_named_from_another_folder(tmp_path):
    result = study("--dry-run", "jobs/studies/weak.tsv", folder=tmp_path)
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
        (
            "a\t3\ttrain --pipeline-stages 2\n",
            "ranks of 'a', 3, are not a multiple of its 2 pipeline stages; use for example 2",
        ),
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
