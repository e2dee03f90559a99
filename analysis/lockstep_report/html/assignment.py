# SPDX-License-Identifier: BSD-3-Clause
"""The questions of the usual course assignment on data-parallel training, with links to the tables that answer them."""

from lockstep_report.html.markup import element, join

# (question, beginnings of the names of tables, beginnings of the questions of the table "questions")
QUESTIONS = (
    ("Training time by batch, until memory is full", ("assignment-1", "batch-"), ()),
    ("Speedup; weak or strong scaling", ("assignment-1", "weak-scaling", "strong-scaling"), ("Which scaling", "Which speedup")),
    ("Compute and communication time", ("assignment-2", "table-2"), ("How wrong",)),
    ("Communication bandwidth utilisation", ("assignment-3", "table-3", "allreduce-sweep"), ()),
    ("Accuracy with a large batch, and how to improve it", ("accuracy", "learning-curves"), ("What does the large batch",)),
    ("What is communicated besides gradients", (), ("What is sent",)),
)


def question_list(tables):
    """Returns the list of the questions; nothing without tables of the assignment."""
    if not any(table.name.startswith("assignment") for table in tables):
        return []
    answers = [row for table in tables if table.name == "questions" for row in table.rows]
    return [element("ol", *(question_element(tables, answers, *question) for question in QUESTIONS))]


def question_element(tables, answers, title, names, questions):
    links = [element("a", table.title, href=f"#table-{table.name}") for name in names for table in tables if table.name.startswith(name)]
    texts = [element("p", row["text"]) for row in answers if row["question"].startswith(questions)] if questions else []
    return element("li", element("strong", title), ": ", join(links, "; ") if links or texts else "no run shows it", *texts)
