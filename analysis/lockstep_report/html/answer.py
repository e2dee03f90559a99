# SPDX-License-Identifier: BSD-3-Clause
"""The answer in a few sentences, with the texts of table cells: their numbers have the digits of
the tables."""

from collections import defaultdict
from dataclasses import dataclass

from lockstep_report.measure.contention import spoiled_text
from lockstep_report.measure.inference import difference
from lockstep_report.measure.validity import IMAGES_TOLERANCE, UNLIKE
from lockstep_report.models.causes import LABELS
from lockstep_report.runfile.settings import plural, some_of
from lockstep_report.tables.table import Table, cell_texts

COMMUNICATION = ("exposed-buckets", "no-overlap", "link-limit", "latency", "better-algorithm")
# cause of lost efficiency -> rules of the advice about it
RULES = {
    "imbalance": ("waiting-rank",),
    "waiting": ("waiting-rank", "waiting-in-turn"),
    "slow_rank": ("waiting-rank",),
    "transfer": COMMUNICATION,
    "communication": COMMUNICATION,
    "calls": ("better-algorithm",),
    "data_wait": ("input-wait",),
    "upload": ("input-wait",),
    "smaller_batch": ("small-batch",),
    "computation": ("small-batch",),
    "slower_compute": ("slower-compute",),
}
MOST_CAUSES = 3  # that the answer names
RESTRICTED = " This value has restrictions: see Assumptions and warnings."


def answer(tables, points=()):
    """Returns the texts: speedup and efficiency at the largest number of ranks with the largest
    cause of lost efficiency; a text about runs whose ranks lacked processors; the shortest epoch
    and the best batch; the first advice. Without several rank counts, the shortest epoch is first.
    All numbers are cells of the tables.
    """
    book = defaultdict(
        list,
        {table.name: [Row(table, place) for place in range(len(table.rows))] for table in tables},
    )
    chosen = scaled_rows(book)
    cause, advice = cause_sentences(book, chosen)
    if chosen:
        texts = [
            f"{scaling_sentence(chosen)} {cause}",
            spoiled_text(points),
            time_sentence(book),
            advice,
        ]
    else:
        unlike = next(
            (f" There is {note}." for p in points for note in p.notes if note.startswith(UNLIKE)),
            "",
        )
        missing = (
            "The files do not show how the training scales: this needs a run with 1 rank and one"
            " with several ranks, with the same settings and the same batch per rank or global"
            f" batch.{unlike}"
        )
        texts = [time_sentence(book), spoiled_text(points), f"{missing} {cause}", advice]
    return list(filter(None, texts))


def time_sentence(book):
    """Returns a text about the shortest epoch: of the rows whose epoch has most images, because
    epochs of fewer images are shorter for another reason."""
    rows = [
        row
        for row in book["table-1-time-speedup"]
        if row["epoch_seconds"] and not row["point"].is_independent
    ]
    texts = []
    if rows:
        most = max(row["images"] or 0 for row in rows)
        row, *others = sorted(
            (row for row in rows if (row["images"] or 0) >= (1 - IMAGES_TOLERANCE) * most),
            key=lambda row: row["epoch_seconds"],
        )
        spread = row.interval("epoch_low", "epoch_high", " s") or (
            " (one run; another one may differ)" if row["point"].repeats == 1 else ""
        )
        rate = (
            f", which is {row.text('images_per_second')} images/s for its {row.text('images')}"
            " images"
            if row["images_per_second"] and row["images"]
            else ""
        )
        kind = " that was measured" if len(rows) > 1 else ""
        texts.append(
            f"The shortest epoch{kind} takes {row.text('epoch_seconds')} s{spread}{rate}: "
            f"{place_text(row)}.{tie_text(row, others)}{RESTRICTED if row['validity'] else ''}"
        )
    texts.append(ladder_text(book))
    return " ".join(filter(None, texts)) or (
        "No training run is among the files, so there is no epoch time; lockstep train makes one."
    )


def tie_text(row, others):
    """Returns a text if the next shortest epoch may be as short; "" otherwise."""
    if (
        not others
        or difference(row["point"].epoch_repeats, others[0]["point"].epoch_repeats).is_shown
    ):
        return ""
    return (
        f" The next one ({others[0].text('epoch_seconds')} s: {place_text(others[0])}) differs by"
        " no more than runs may differ."
    )


def ladder_text(book):
    """Returns a text about the fastest batch of the first ladder, which is timed apart from
    trainings; "" without one."""
    for name in (name for name in book if name.startswith("batch-ladder")):
        rows = [row for row in book[name] if row["epoch_seconds"] and row["status"] == "complete"]
        if len(rows) > 1:
            row = min(rows, key=lambda row: row["epoch_seconds"])
            measured = f", {row['measured']}" if row["measured"] else ""
            title = row.table.title
            return (
                f"A separate measurement, the {title[:1].lower()}{title[1:]}, has its shortest"
                f" epoch, {row.text('epoch_seconds')} s{measured}, at batch"
                f" {row.text('batch_per_rank')} per rank."
            )
    return ""


def scaled_rows(book):
    """Returns [(row, kind of scaling, efficiency)] on the most ranks; nothing if no run has a base
    case."""
    weak, strong = (
        [
            row
            for row in book[name]
            if row["ranks"] > 1 and row["speedup"] is not None and not row["point"].is_independent
        ]
        for name in ("table-1-time-speedup", "strong-scaling")
    )
    efficiencies = {
        id(row["point"]): row.text("efficiency")
        for row in book["weak-scaling"]
        if row["efficiency"] is not None
    }
    most = max((row["ranks"] for row in (*strong, *weak)), default=0)
    return [
        *((row, "batch per rank", efficiencies.get(id(row["point"]))) for row in best(weak, most)),
        *((row, "global batch", row.text("efficiency")) for row in best(strong, most)),
    ]


def scaling_sentence(chosen):
    texts = []
    for row, kind, efficiency in chosen:
        spread = (
            row.interval("speedup_low", "speedup_high")
            or " (no interval: fewer than 6 repeated runs)"
        )
        batch = (
            batch_text(row)
            if kind == "batch per rank"
            else f"global batch {row.text('global_batch')}"
        )
        texts.append(
            f"an epoch takes {row.text('epoch_seconds')} s, {row.text('speedup')} times as fast as"
            f" on 1 rank at fixed {kind}{spread}"
            + (f" and the efficiency is {efficiency}" if efficiency else "")
            + f" ({', '.join(filter(None, (row['setting'], batch, row['mode'])))})"
        )
    return f"On {chosen[0][0].text('ranks')} ranks, {'; '.join(texts)}." + (
        RESTRICTED if any(row["validity"] for row, _, _ in chosen) else ""
    )


def best(rows, ranks):
    """Returns the row with the shortest epoch on this number of ranks, in a list. The largest
    speedup may be that of a slow setting."""
    rows = [row for row in rows if row["ranks"] == ranks]
    return [min(rows, key=lambda row: row["epoch_seconds"])] if rows else []


def cause_sentences(book, chosen):
    """Returns two texts: the largest causes of lost efficiency on the most ranks, and the first
    advice about the largest one; "" without advice. `chosen`: the rows of the sentence before."""
    causes, most, sources = [], 0, ()
    rows = [row for row in book["efficiency-causes"] if row["ranks"] > 1]
    if rows:
        most = max(row["ranks"] for row in rows)
        row = best(rows, most)[0]
        sources = row["source"].split(", ")
        is_named = [(one["point"], f"fixed {kind}") for one, kind, _ in chosen] == [
            (row["point"], row["scaling"])
        ]
        case = "" if is_named else f" ({place_text(row)}, {row['scaling']})"
        causes = sorted(
            (
                name
                for name in row["shown"]
                if name != "remainder" and (row[f"{name}_percent"] or 0) > 0
            ),
            key=lambda name: -row[f"{name}_percent"],
        )[:MOST_CAUSES]
        if row["lacking_percent"] is not None:
            text = (
                f"The causes of lost efficiency{case} cannot be told apart, because ranks lacked"
                " processors."
            )
        elif causes:
            shares = [f"“{LABELS[name]}” ({row.text(f'{name}_percent')} %)" for name in causes]
            names = " and ".join(filter(None, (", ".join(shares[:-1]), shares[-1])))
            text = (
                f"The largest {'causes' if shares[1:] else 'cause'} of lost efficiency{case}, in"
                f" per cent of the epoch, {'are' if shares[1:] else 'is'} {names}."
            )
        else:
            text = f"No cause of lost efficiency is larger than the difference between runs{case}."
    elif any(row["ranks"] > 1 for row in book["table-1-time-speedup"]):
        text = (
            "The causes of lost efficiency are unknown without the phases of a 1-rank run with the"
            " same setting and batch."
        )
    else:
        text = "Causes of lost efficiency need a run with several ranks and one with 1 rank."
    advice = book["advice"]
    if not advice:
        return text, ""
    ranks = {row["source"]: row["ranks"] for row in book["stragglers"]}
    chosen = min(
        advice,
        key=lambda a: (
            a["rule"] not in RULES.get(causes[0] if causes else None, ()),
            a["source"] not in (*sources, ", ".join(sources)),
            ranks.get(a["source"]) != most,
        ),
    )
    return text, f"Advice ({some_of(chosen['source'].split(', '), 1)}): {chosen['text']}"


def place_text(row):
    texts = [
        row["setting"],
        plural(row.text("ranks"), "rank"),
        batch_text(row),
        "" if row["mode"] == "1 rank" else row["mode"],
    ]
    return ", ".join(filter(None, texts))


@dataclass(frozen=True)
class Row:
    """A row of a table. `row[key]`: the value; `row.text(key)`: its printed text."""

    table: Table
    place: int

    def __getitem__(self, key):
        return self.table.rows[self.place].get(key)

    def text(self, key):
        column = next(column for column in self.table.columns if column.key == key)
        return cell_texts(column, self.table.rows)[self.place]

    def interval(self, low, high, unit=""):
        """Returns " (95 % 1.20 to 1.30)", or "" if the row has no interval."""
        if self[low] is None or self[high] is None:
            return ""
        return f" (95 % interval {self.text(low)} to {self.text(high)}{unit})"


def batch_text(row):
    return f"batch {row.text('batch_per_rank')} per rank" if row["batch_per_rank"] else "as given"
