"""The results of the parts, and the Markdown report that lists them."""

import datetime
import pathlib
import shlex
from dataclasses import dataclass, field

NO_TIME = "the time was not sufficient"
DRY_RUN_NOTE = ("**Dry run: nothing was measured.** Every number in this report is synthetic: it comes from "
                "tests/gpu/stub.py, not from a GPU.")


def markdown_table(head, rows):
    """Returns the lines of a Markdown table."""
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [*lines, *("| " + " | ".join(row) + " |" for row in cells), ""]


@dataclass
class Report:
    """Results of one part of the acceptance test.

    Besides failures, it lists measurements that were skipped for lack of time, and measurements that were not run
    because they were not selected or a requirement is missing."""

    letter: str
    title: str
    lines: list = field(default_factory=list)
    checks: int = 0
    failures: list = field(default_factory=list)
    skipped: list = field(default_factory=list)
    unavailable: list = field(default_factory=list)
    headline: str = ""
    seconds: float = 0.0
    is_done: bool = False

    def add_text(self, *paragraphs):
        """Appends Markdown paragraphs."""
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def add_table(self, head, rows):
        """Appends a Markdown table."""
        self.lines += markdown_table(head, rows)

    def check(self, condition, failure):
        """Counts a check and records `failure` if `condition` is false. Returns `condition`."""
        self.checks += 1
        if not condition:
            self.fail(failure)
        return condition

    def fail(self, failure, output=""):
        """Records a failure with the relevant output of the program."""
        self.failures.append(failure)
        self.lines += [f"**FAILED** {failure}", ""]
        if output:
            self.lines += ["```text", output, "```", ""]

    def fail_outcome(self, outcome):
        """Records the failure of a command."""
        self.fail(outcome.failure, outcome.tail)

    def skip(self, name, reason):
        """Records a measurement that was skipped or ended for lack of time."""
        self.skipped.append(name)
        self.lines += [f"**SKIPPED** {name}: {reason}", ""]

    def not_run(self, name, reason):
        """Records a measurement that was not selected, or for which a requirement is missing."""
        self.unavailable.append(name)
        self.lines += [f"**NOT RUN** {name}: {reason}", ""]

    @property
    def verdict(self):
        if self.failures:
            return "FAILED"
        if not self.is_done:
            return "NOT STARTED"
        if self.checks:
            return "PASS"
        return "SKIPPED" if self.skipped else "NOT RUN"

    @property
    def remarks(self):
        parts = [self.headline] if self.headline else []
        if self.failures:
            parts.append(f"{len(self.failures)} failed: {self.failures[0][:160]}")
        if self.skipped:
            parts.append("skipped: " + ", ".join(self.skipped))
        if self.unavailable:
            parts.append("not run: " + ", ".join(self.unavailable))
        return "; ".join(parts)


class Page:
    """The Markdown file. It is rewritten after every part, so that a test that is killed leaves the completed parts."""

    def __init__(self, path, command, is_dry):
        self.path, self.command, self.is_dry = pathlib.Path(path), command, is_dry
        self.head = []
        self.date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")

    def write(self, reports, seconds, is_complete):
        lines = ["# GPU acceptance test", ""]
        if self.is_dry:
            lines += [DRY_RUN_NOTE, ""]
        if not is_complete:
            lines += ["**Not complete:** the test was running or was interrupted when this report was written.", ""]
        lines += markdown_table(["property", "value"],
                                [["date", self.date], ["command", f"`{shlex.join(self.command)}`"],
                                 ["duration", f"{seconds:.0f} s"], *self.head])
        lines += ["## Verdicts", ""]
        lines += markdown_table(["part", "verdict", "checks", "seconds", "remarks"],
                                [[f"{report.letter} {report.title}", report.verdict, report.checks,
                                  f"{report.seconds:.0f}", report.remarks] for report in reports])
        lines += ["A part fails if one of its checks or one of its programs fails. SKIPPED: the time was not sufficient. "
                  "NOT RUN: the measurement was not selected, or a requirement is missing.", ""]
        for report in reports:
            lines += [f"## {report.letter}. {report.title}", ""]
            lines += report.lines or ["Not started.", ""]
        partial = self.path.with_suffix(".partial")
        partial.write_text("\n".join(lines))
        partial.replace(self.path)
