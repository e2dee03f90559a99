# SPDX-License-Identifier: BSD-3-Clause
"""Runs commands of lockstep-report that fail, in this process."""

from lockstep_report.cli import main


def refused(capfd, *arguments):
    """Runs a command that must not write; returns the single line on stderr."""
    assert main(list(map(str, arguments))) == 6
    printed = capfd.readouterr()
    assert not printed.out
    (line,) = printed.err.splitlines()
    return line


def failure(capfd, *arguments):
    """Runs a command that must fail; returns (exit status, the single line on stderr)."""
    status = main(list(map(str, arguments)))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return status, lines[0]
