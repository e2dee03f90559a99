"""Results of the parts, and the Markdown page with all of them."""

import datetime
import pathlib
import shlex
from dataclasses import dataclass, field

DRY = ("**Dry run: nothing measured.** Every number below is synthetic: it comes from tests/gpu/stand_in.py, not from "
       "a GPU.")


def table(head, rows):
    """Returns the lines of a Markdown table."""
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [*lines, *("| " + " | ".join(row) + " |" for row in cells), ""]


@dataclass
class Report:
    """Results of one part. Failures, measurements cut for lack of time, and checks that were not run are separate."""

    letter: str
    title: str
    lines: list = field(default_factory=list)
    checks: int = 0
    failures: list = field(default_factory=list)
    cuts: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    headline: str = ""
    seconds: float = 0.0
    is_done: bool = False

    def say(self, *paragraphs):
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def table(self, head, rows):
        self.lines += table(head, rows)

    def check(self, holds, what):
        """Counts a check; records the failure `what` if `holds` is false. Returns `holds`."""
        self.checks += 1
        if not holds:
            self.fail(what)
        return holds

    def fail(self, why, tail=""):
        self.failures.append(why)
        self.lines += [f"**FAILED** {why}", ""]
        if tail:
            self.lines += ["```text", tail, "```", ""]

    def fail_outcome(self, outcome):
        self.fail(outcome.why, outcome.tail)

    def cut(self, what, why):
        self.cuts.append(what)
        self.lines += [f"**CUT** {what}: {why}", ""]

    def not_run(self, what, why):
        self.missing.append(what)
        self.lines += [f"**NOT RUN** {what}: {why}", ""]

    @property
    def verdict(self):
        if self.failures:
            return "FAILED"
        if not self.is_done:
            return "not begun"
        if self.checks:
            return "PASS"
        return "CUT" if self.cuts else "NOT RUN"

    @property
    def remarks(self):
        parts = [self.headline] if self.headline else []
        if self.failures:
            parts.append(f"{len(self.failures)} failed: {self.failures[0][:160]}")
        if self.cuts:
            parts.append("cut: " + ", ".join(self.cuts))
        if self.missing:
            parts.append("not run: " + ", ".join(self.missing))
        return "; ".join(parts)


class Page:
    """The Markdown page. It is rewritten after every part, so that a killed run leaves the results so far."""

    def __init__(self, path, command, is_dry):
        self.path, self.command, self.is_dry = pathlib.Path(path), command, is_dry
        self.head = []
        self.date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")

    def write(self, reports, seconds, is_complete):
        lines = ["# GPU acceptance run", ""]
        if self.is_dry:
            lines += [DRY, ""]
        if not is_complete:
            lines += ["**Not complete:** the run was still going, or was ended, when this was written.", ""]
        lines += table(["", ""], [["date", self.date], ["command", f"`{shlex.join(self.command)}`"],
                                  ["duration", f"{seconds:.0f} s"], *self.head])
        lines += ["## Verdicts", ""]
        lines += table(["part", "verdict", "checks", "seconds", ""],
                       [[f"{report.letter} {report.title}", report.verdict, report.checks, f"{report.seconds:.0f}",
                         report.remarks] for report in reports])
        lines += ["A part fails where one of its checks fails or a program it needs does. What a part cut for lack of "
                  "time, and what it did not run, stands in the last column and in the part.", ""]
        for report in reports:
            lines += [f"## {report.letter}. {report.title}", ""]
            lines += report.lines or ["Not begun.", ""]
        partial = self.path.with_suffix(".partial")
        partial.write_text("\n".join(lines))
        partial.replace(self.path)
