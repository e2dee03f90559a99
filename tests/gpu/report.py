# SPDX-License-Identifier: BSD-3-Clause
"""Results of steps, the Markdown page that is made from them, and the files that a call writes."""

import dataclasses
import json
import tarfile
from dataclasses import dataclass, field

ARCHIVE_BYTES = 15 * 2**20  # of each archive: a machine may return only small files
SYNTHETIC = "**Dry run: nothing was measured.** Every number comes from stubs, not from a GPU."


@dataclass
class Result:
    """Result of one step."""

    name: str
    proves: str
    seconds: float = 0.0
    checks: int = 0
    wrong: list = field(default_factory=list)  # one text per wrong result or failed program
    not_run: list = field(default_factory=list)  # one text per measurement that is missing
    diagnoses: list = field(default_factory=list)  # conclusions of the reruns (bisection.py)
    summary: list = field(default_factory=list)  # the most important numbers
    notes: list = field(default_factory=list)  # paragraphs
    tables: list = field(default_factory=list)  # [title, head, rows]
    numbers: dict = field(default_factory=dict)  # raw results
    outcomes: list = field(default_factory=list)  # of the programs

    @property
    def verdict(self):
        if self.wrong:
            return "wrong"
        return "correct" if self.checks else "not run"

    def check(self, is_right, failure):
        """Counts a check, and records `failure` unless `is_right`."""
        self.checks += 1
        self.wrong += [] if is_right else [failure]

    def skip(self, name, reason):
        """Records a measurement that was not run or not complete."""
        self.not_run.append(f"{name}: {reason}")

    def add_table(self, title, head, rows):
        self.tables += [[title, head, rows]] if rows else []

    def to_json(self):
        """Returns a dictionary for the JSON file. The output of the programs is in the archive."""
        outcomes = [dataclasses.asdict(one) | {"stdout": "", "stderr": ""} for one in self.outcomes]
        return vars(self) | {"verdict": self.verdict, "outcomes": outcomes}


def markdown_table(head, rows):
    lines = []
    for cells in (head, ["---"] * len(head), *rows):
        texts = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
        lines.append(f"| {' | '.join(texts)} |")
    return [*lines, ""]


def step_section(number, call, step):
    """Returns the lines of the section of one step."""
    paragraphs = [
        f"## {number}. {step['name']}: {step['verdict']}",
        f"Call `{call}`. {step['proves']}",
    ]
    for title, texts in (
        ("WRONG", step["wrong"]),
        ("NOT RUN", step["not_run"]),
        ("DIAGNOSIS", step["diagnoses"]),
    ):
        paragraphs += [f"**{title}** {text}" for text in texts]
    lines = [line for text in paragraphs + step["notes"] for line in (text, "")]
    for title, head, rows in step["tables"]:
        lines += [f"{title}:", "", *markdown_table(head, rows)]
    return lines


def step_row(number, call, step):
    """Returns the row of a step in the table of verdicts."""
    remarks = [
        *step["summary"],
        *step["wrong"][:1],
        *step["diagnoses"],
        *(f"not run: {text}" for text in step["not_run"][:2]),
    ]
    return [
        f"{number} {step['name']}",
        step["verdict"],
        call,
        f"{step['seconds']:.0f}",
        "; ".join(text[:250] for text in remarks),
    ]


def page(calls):
    """Returns the Markdown page of the JSON objects of one or more calls. Of each step, it has the
    last result that is not "not run"."""
    lines, latest = [f"# {calls[0]['date'][:10]}, GPU acceptance", ""], {}
    for call in calls:
        lines += [SYNTHETIC, ""] if call["is_synthetic"] else []
        end = "" if call["is_complete"] else " **Not complete:** it was running or was cut off."
        lines += [
            (
                f"**Call `{call['call']}`**, {call['date']}, {call['seconds']:.0f} s: "
                f"`{call['command']}`.{end}"
            ),
            "",
        ]
        for step in call["steps"]:
            if step["name"] not in latest or step["verdict"] != "not run":
                latest[step["name"]] = call["call"], step
    properties = []
    for pair in (pair for call in calls for pair in call["properties"]):
        if pair not in properties:
            properties.append(pair)
    rows, sections = [], []
    for number, (call, step) in enumerate(latest.values(), 1):
        rows.append(step_row(number, call, step))
        sections += step_section(number, call, step)
    return "\n".join(
        [
            *lines,
            "## Machine and versions",
            "",
            *markdown_table(["property", "value"], properties),
            "## Verdicts",
            "",
            *markdown_table(["step", "verdict", "call", "s", "result"], rows),
            "[How to read this page](README.md#gpu-acceptance).",
            "",
            *sections,
        ]
    )


def save(folder, content):
    """Writes the report and the JSON file of a call; they are never incomplete."""
    for name, text in (
        ("acceptance.json", json.dumps(content, indent=1, default=str)),
        ("acceptance.md", page([content])),
    ):
        (folder / "partial").write_text(text)
        (folder / "partial").replace(folder / name)


def pack(archive, folder, limit=ARCHIVE_BYTES):
    """Writes the files in `folder` to `archive`, small files first. Omits, and returns, the names
    of those with which the archive could exceed `limit` bytes."""
    files = sorted((path.stat().st_size, path) for path in folder.rglob("*") if path.is_file())
    omitted = []
    with open(archive, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
        for size, path in files:
            # The compressed size is not known in advance; the size is an upper bound.
            if raw.tell() + size > limit:
                omitted.append(str(path.relative_to(folder.parent)))
            else:
                tar.add(path, path.relative_to(folder.parent))
    return omitted
