# SPDX-License-Identifier: BSD-3-Clause
"""Tests of commands as text."""

import os
import subprocess

import pytest
from lockstep_study.shell import command_line, quoted


@pytest.mark.parametrize(
    "word, text",
    [
        ("a_B=1:2.3,/%@+-", "a_B=1:2.3,/%@+-"),
        ("", "''"),
        ("a b", "a\\ b"),
        ("$(x)`'\"\\", "\\$\\(x\\)\\`\\'\\\"\\\\"),
        ("é b", "'é b'"),
        ("é'b", "'é'\"'\"'b'"),
        ("a\nb\x1b[2J", "$'a\\x0ab\\x1b[2J'"),
        ("a'\\\n0", "$'a\\x27\\x5c\\x0a0'"),
        ("a\u2028", "$'a\\xe2\\x80\\xa8'"),
        (os.fsdecode(b"a\xff"), "$'a\\xff'"),
    ],
)
def test_word_is_one_line_that_bash_reads_back(word, text):
    assert quoted(word) == text
    ended = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
    assert ended.stdout == os.fsencode(word)


def test_words_of_a_command_are_separated_by_blanks(tmp_path):
    assert command_line(["rm", "-rf", tmp_path / "a b"]) == f"rm -rf {tmp_path}/a\\ b"
