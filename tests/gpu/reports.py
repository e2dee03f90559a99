# SPDX-License-Identifier: BSD-3-Clause
"""The results of the parts, and the Markdown report that lists them."""

import shlex
from dataclasses import dataclass, field

STUB_NOTE = ("**Dry run: nothing was measured.** Every number in this report is synthetic: it comes "
             "from tests/gpu/stub.py, not from a GPU.")
LEGEND = (
    "**correct**: every check of the part that ran has passed. **wrong**: a check failed, or a "
    "program failed or did not end. **not run**: no check ran. A part with the verdict correct can "
    "still lack measurements, which the remarks list. Throughput has no verdict.")


def markdown_table(head, rows):
    """Returns the lines of a Markdown table."""
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [*lines, *("| " + " | ".join(row) + " |" for row in cells), ""]


@dataclass
class Report:
    """Results of one part: text, checks, and what was not measured."""

    number: int
    title: str
    lines: list = field(default_factory=list)
    checks: int = 0
    failures: list = field(default_factory=list)
    not_measured: list = field(default_factory=list)
    diagnoses: list = field(default_factory=list)  # one line per failed configuration
    headlines: list = field(default_factory=list)
    numbers: dict = field(default_factory=dict)  # raw results
    seconds: float = 0.0

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
        """Records a wrong result or a failed program, with the relevant output of the program."""
        self.failures.append(failure)
        self.add_text(f"**WRONG** {failure}")
        self.add_output(output)

    def add_output(self, text):
        """Appends lines that a program printed."""
        if text:
            self.add_text(f"```text\n{text}\n```")

    def not_run(self, name, reason):
        """Records a measurement that did not run or is not complete."""
        self.not_measured.append(name)
        self.add_text(f"**NOT RUN** {name}: {reason}")

    def add_outcome(self, outcome):
        """Records a command that did not succeed: as not run if the time of the step ended before
        the command did, otherwise as a failure."""
        if outcome.is_cut_off:
            self.not_run(outcome.name, outcome.reason)
        else:
            self.fail(f"{outcome.name}: {outcome.reason}", outcome.tail)

    def add_diagnosis(self, line):
        """Records the conclusion from the automatic reruns of a failed command."""
        self.diagnoses.append(line)
        self.add_text(f"**DIAGNOSIS** {line}")

    @property
    def verdict(self):
        if self.failures:
            return "wrong"
        return "correct" if self.checks else "not run"

    @property
    def remarks(self):
        parts = list(self.headlines)
        if self.failures:
            parts.append(f"{len(self.failures)} wrong: {self.failures[0][:200]}")
        parts += self.diagnoses
        if self.not_measured:
            parts.append("not run: " + ", ".join(self.not_measured))
        return "; ".join(parts)

    def to_json(self, outcomes):
        """Returns the results with the outcomes of the commands as a JSON object."""
        commands = [{"name": one.name, "command": shlex.join(one.command), "status": one.status,
                     "seconds": round(one.seconds, 3), "timed_out": one.timed_out} for one in outcomes]
        return {"title": self.title, "verdict": self.verdict, "seconds": self.seconds,
                "checks": self.checks, "failures": self.failures, "not_run": self.not_measured,
                "diagnoses": self.diagnoses, "headlines": self.headlines, "numbers": self.numbers,
                "commands": commands}


def verdict_table(reports):
    """Returns the lines of the table of verdicts."""
    rows = [[f"{report.number} {report.title}", report.verdict, report.checks,
             f"{report.seconds:.0f}", report.remarks] for report in reports]
    return markdown_table(["part", "verdict", "checks", "seconds", "remarks"], rows)


def page(title, properties, reports, is_complete, has_stubs):
    """Returns the text of the Markdown file of one call. `properties`: rows of the table at the top."""
    lines = [f"# GPU acceptance test: {title}", ""]
    if has_stubs:
        lines += [STUB_NOTE, ""]
    if not is_complete:
        lines += ["**Not complete:** the test was running or was interrupted when this report was "
                  "written.", ""]
    lines += markdown_table(["property", "value"], properties)
    lines += ["## Verdicts", "", *verdict_table(reports), LEGEND, ""]
    for report in reports:
        lines += [f"## {report.number}. {report.title}", "", *(report.lines or ["Not started.", ""])]
    return "\n".join(lines)
