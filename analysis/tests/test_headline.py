# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the headline of a report is a valid number: its ranks had processors, and its speedup
compares the same number of images; and that every copy of a table marks the other numbers."""

import copy
import csv
import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lockstep_report.measure.contention import Lack, LackCause
from lockstep_report.measure.inference import Interval
from lockstep_report.measure.metrics import Bounds
from lockstep_report.measure.notes import NoteKind, PointNote
from lockstep_report.measure.points import Point, from_times
from lockstep_report.measure.speedup import speedup_of
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.answers.answer import AnswerKind
from lockstep_report.models.explanation import explain
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.registry import all_tables
from lockstep_report.tables.scaling import strong_table
from lockstep_report.tables.table import csv_text, latex, markdown

SETTING = ("resnet18", "cpu", "fp32", "cifar10", "cpu x", "lockstep", "1 thread per rank")
OTHERS_RAN, SHARED = LackCause.OTHER_PROCESSES, LackCause.OWN_THREADS


def point(ranks, batch, seconds, images=1024, lack=None, **options):
    source = f"{ranks}x{batch}.h5"
    lacks = {source: Lack(0.5, 0, lack)} if lack else {}
    options = {"setting": SETTING, "reducer": "overlap", **options}
    return Point(
        source,
        ranks,
        batch,
        seconds,
        images=images,
        images_per_second=images / seconds,
        lacks=lacks,
        **options,
    )


def answers_of(*points):
    points = add_comparison_notes(list(points))
    return {answer.kind: answer for answer in explain(points, []).answers}


def test_speedup_compares_the_same_number_of_images():
    """1,536 images in 6.39 s against 1,024 in 2.114 s: 484.4 against 240.4 images/s."""
    found = speedup_of(point(1, 512, 6.39, images=1536), point(2, 512, 2.114, images=1024))
    assert found.value == pytest.approx((1024 / 2.114) / (1536 / 6.39))
    assert found.efficiency == pytest.approx(found.value / 2)
    assert found.scaled == pytest.approx(found.value * 2)


def test_interval_of_the_speedup_is_that_of_the_same_images():
    one = replace(point(1, 32, 4.0), epoch_interval=Interval(3.0, 5.0, 0.97, 6))
    two = replace(point(2, 32, 1.0, images=512), epoch_interval=Interval(0.5, 2.0, 0.97, 6))
    found = speedup_of(one, two)
    assert (found.low, found.value, found.high) == (0.5 * 1.5, 0.5 * 4, 0.5 * 10)


def test_headline_is_on_the_most_ranks_that_had_processors():
    found = answers_of(point(1, 32, 14.01), point(2, 32, 7.13), point(4, 32, 8.04, lack=SHARED))
    scaling = found[AnswerKind.SCALING]
    assert scaling.text.startswith(
        "On 2 ranks, an epoch takes 7.13 s, 1.96 times as fast as on 1 rank at fixed batch per rank"
    )
    assert "and the efficiency is 0.98 (" in scaling.text
    assert (
        "Not the headline: 1.74 times as fast with 4 ranks, batch 32 per rank, overlap, because"
        " ranks lacked processors." in scaling.text
    )
    assert scaling.values["weak_efficiency"] == pytest.approx(14.01 / (2 * 7.13))
    assert found[AnswerKind.THROUGHPUT].text.startswith("The highest throughput is 143.6 images/s")


def test_headline_has_the_images_of_its_base_case():
    scaling = answers_of(point(1, 32, 14.0), point(2, 32, 7.0), point(4, 32, 2.0, images=512))[
        AnswerKind.SCALING
    ]
    assert scaling.text.startswith("On 2 ranks,")
    assert (
        "Not the headline: 3.50 times as fast with 4 ranks, batch 32 per rank, overlap, because"
        " the epochs have other numbers of images than the base case." in scaling.text
    )


def test_headline_without_a_valid_point_names_the_restriction_in_the_sentence():
    scaling = answers_of(point(1, 32, 14.0), point(2, 32, 3.0, images=512))[AnswerKind.SCALING]
    assert scaling.text.startswith("On 2 ranks, an epoch takes 3.00 s, 2.33 times as fast")
    assert "; restricted: an epoch of this point trains on 512 images" in scaling.text


def test_one_sentence_per_cause_of_lacking_processors():
    text = answers_of(
        point(1, 32, 14.0), point(2, 32, 7.0, lack=OTHERS_RAN), point(4, 32, 8.0, lack=SHARED)
    )[AnswerKind.DISTURBED].text
    for source, cause in (("2x32.h5", OTHERS_RAN), ("4x32.h5", SHARED)):
        assert (
            f"In 1 run ({source}), ranks lacked a processor for up to 50 % of the epoch, because"
            f" {cause.value}." in text
        )


def test_the_remedy_for_lacking_processors_is_given_once():
    """It is in the sentence about the disturbed runs, so the advice is about another run."""
    base, fast = with_phases(1, 14.0, 0.0, 9.0), with_phases(2, 8.0, 0.5, 5.0)
    crowded = point(4, 32, 9.0, lack=SHARED)
    found = answers_of(base, fast, crowded)
    assert "use fewer ranks" in found[AnswerKind.DISTURBED].text
    advice = [a.rule for a in explain([base, fast, crowded], []).advice]
    assert "lacking-processors" in advice
    assert "lacked a processor" not in getattr(found.get(AnswerKind.ADVICE), "text", "")


def test_all_efficiencies_of_a_point_are_equal():
    points = add_comparison_notes(
        [
            point(1, 32, 14.0, images=1920, step_median=0.1),
            point(2, 32, 7.0, images=1536, step_median=0.1),
        ]
    )
    explanation = explain(points, [])
    tables = {table.kind: table for table in all_tables(points, [], None, explanation)}
    expected = 14.0 / (2 * 7.0) * 1536 / 1920
    weak = [row for row in tables[TableKind.WEAK_SCALING].rows if row["ranks"] == 2]
    assert weak[0]["efficiency"] == pytest.approx(expected)
    values = {answer.kind: answer.values for answer in explanation.answers}
    assert values[AnswerKind.SCALING]["weak_efficiency"] == pytest.approx(expected)
    assert values[AnswerKind.WHICH_SCALING]["weak_efficiency"] == pytest.approx(expected)


def test_every_copy_of_an_assignment_table_has_the_mark_of_other_images():
    points = add_comparison_notes(
        [
            point(1, 32, 14.0),
            point(1, 512, 6.39, images=1536),
            point(2, 32, 7.0),
            point(2, 512, 2.114),
        ]
    )
    (table,) = (t for t in all_tables(points, []) if t.kind is TableKind.ASSIGNMENT_TIMES)
    note = "(a) an epoch of this point trains on 1,024 images, an epoch of the base case"
    assert "| 2.11 (a) | 2.02 (a) |" in markdown(table) and note in markdown(table).replace(
        "\\", ""
    )
    assert "2.11 (a) & 2.02 (a)" in latex(table) and note in latex(table)
    rows = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert rows[1]["restrictions_512"].startswith("an epoch of this point trains on 1,024 images")
    assert rows[1]["restrictions_32"] == "" and float(rows[1]["speedup_512"]) == pytest.approx(
        2.015, abs=0.001
    )


def test_bandwidth_of_an_assignment_has_its_bounds_in_the_csv():
    split = SplitStub()
    points = add_comparison_notes(
        [
            point(1, 32, 14.0),
            point(1, 128, 13.0),
            *(
                point(2, batch, 7.0, bytes_per_step=10**9, steps=4, split=split)
                for batch in (32, 128)
            ),
        ]
    )
    (table,) = (t for t in all_tables(points, []) if t.kind is TableKind.ASSIGNMENT_BANDWIDTH)
    row = next(csv.DictReader(io.StringIO(csv_text(table))))
    assert row["measured_gb_s_32"] == ""
    assert float(row["measured_gb_s_low_32"]) == pytest.approx(2.0)
    assert float(row["measured_gb_s_high_32"]) == pytest.approx(4.0)
    text = explain(points, []).answers
    bandwidth = next(a for a in text if a.kind is AnswerKind.BANDWIDTH)
    assert "the all-reduces reach at least 2.000 GB/s of bus bandwidth" in bandwidth.text
    assert "a run with --reducer allreduce measures the bandwidth" in bandwidth.text


class SplitStub:
    """A transfer of 1 to 2 s per epoch, and nothing else."""

    transfer_bounds = Bounds(1.0, 2.0)
    waiting_seconds = all_reduce_seconds = clock_error = 0.0
    waiting = last_share = (0.0,)
    divides_exposed = False

    def mean(self, name):
        return 0.0


def test_ratio_of_two_programs():
    setting = (*SETTING[:5], "pytorch", SETTING[6])
    found = answers_of(
        point(1, 32, 14.0), point(1, 32, 39.5, setting=setting, program="pytorch", reducer="")
    )[AnswerKind.PROGRAMS]
    assert found.text.startswith(
        "Lockstep trains 2.82 times as many images per second as PyTorch on 1 rank with batch 32"
        " per rank: 73.1 and 25.9 images/s"
    )
    assert found.values == {"throughput_ratio": pytest.approx(39.5 / 14.0)}


def test_programs_with_one_model_each_may_name_it_differently():
    other = ("net", *SETTING[1:5], "pytorch", SETTING[6])
    pytorch = {"setting": other, "program": "pytorch", "reducer": ""}
    found = answers_of(point(1, 32, 14.0), point(2, 32, 7.0), point(1, 32, 39.5, **pytorch))[
        AnswerKind.PROGRAMS
    ]
    assert "2.82 times as many images per second as PyTorch on 1 rank" in found.text
    assert found.text.endswith("The runs differ in: net against resnet18.")
    several = answers_of(
        point(1, 32, 14.0),
        point(1, 32, 9.0, setting=("vgg11", *SETTING[1:])),
        point(1, 32, 39.5, **pytorch),
    )
    assert AnswerKind.PROGRAMS not in several


def test_no_percentage_of_almost_no_communication():
    """A derived time of 3 s is not "30000 %" of 10 ms of communication."""
    phases = dict.fromkeys(("data_wait", "upload", "update", "imbalance"), 0.0)
    one, two = (
        point(
            n,
            32,
            s,
            phase_seconds={
                **phases,
                "forward": s / 2,
                "backward": s / 2 - c,
                "exposed_communication": c,
            },
            threads=1,
        )
        for n, s, c in ((1, 14.0, 0.0), (2, 10.0, 0.01))
    )
    derived = answers_of(one, two)[AnswerKind.DERIVED].text
    assert (
        "the exposed communication is 0.01 s. The derived time is 2.99 s too large, because"
        in derived
    )


def with_phases(ranks, seconds, exposed, backward, **options):
    """Returns a point whose epoch consists of the forward pass, `backward` and `exposed`."""
    phases = dict.fromkeys(("data_wait", "upload", "update", "imbalance"), 0.0)
    phases |= {
        "forward": seconds - backward - exposed,
        "backward": backward,
        "exposed_communication": exposed,
    }
    return point(ranks, 32, seconds, phase_seconds=phases, **options)


def test_share_of_communication():
    """0.5 s of 8 s are exposed."""
    one = with_phases(1, 14.0, 0.0, 9.0)
    found = answers_of(one, with_phases(2, 8.0, 0.5, 5.0))[AnswerKind.COMMUNICATION]
    assert found.text == (
        "With 2 ranks, batch 32 per rank, overlap, exposed communication takes 6.2 % of the epoch "
        "(0.50 s)."
    )
    assert found.values["batch_32_ranks_2_exposed_seconds"] == 0.5
    assert AnswerKind.COMMUNICATION not in answers_of(point(1, 32, 14.0), point(2, 32, 8.0))
    alone = answers_of(with_phases(2, 8.0, 0.5, 5.0))  # without a base case
    assert alone[AnswerKind.COMMUNICATION].text == found.text
    server = with_phases(2, 8.0, 0.5, 5.0, reducer="parameter-server")
    assert AnswerKind.COMMUNICATION not in answers_of(one, server)


def test_gains_stand_beside_the_causes_that_they_offset():
    """Two ranks compute 1 s faster than half of one, and communicate for 2 s."""
    one, two = with_phases(1, 12.0, 0.0, 8.0), with_phases(2, 7.0, 2.0, 3.0)
    scaling = answers_of(one, two)[AnswerKind.SCALING].text
    assert "(28.6 %). Gains offset a part of them: “slower computation" in scaling
    assert scaling.endswith("(-14.3 %).")


def test_an_interval_that_contains_the_ideal_says_so():
    one = replace(point(1, 32, 4.0), epoch_interval=Interval(3.6, 4.4, 0.97, 6))
    two = replace(point(2, 32, 2.1), epoch_interval=Interval(1.9, 2.3, 0.97, 6))
    assert "which contains the ideal 2)" in answers_of(one, two)[AnswerKind.SCALING].text
    slow = replace(two, epoch_seconds=3.0, epoch_interval=Interval(2.9, 3.1, 0.97, 6))
    assert "the ideal" not in answers_of(one, slow)[AnswerKind.SCALING].text


def test_choices_for_other_points_restrict_only_the_speedup():
    """Whether another point used another algorithm does not change the time of this one."""
    points = [
        point(1, 32, 14.0),
        point(2, 32, 8.0, algorithm="ring (MPI)", host_count=1),
        point(2, 64, 7.0, algorithm="direct (MPI)", host_count=1),
    ]
    found = answers_of(*points)
    assert "different all-reduce algorithms" in found[AnswerKind.SCALING].text
    assert "different all-reduce algorithms" not in found[AnswerKind.THROUGHPUT].text


def test_an_unfinished_base_case_restricts_the_speedup():
    notes = (
        PointNote(NoteKind.SCALED, "scaled from 9 of 160 steps"),
        PointNote(NoteKind.INFORMATION, "the runs differ in seed"),
    )
    base = point(1, 32, 14.0, notes=notes)
    scaling = answers_of(base, point(2, 32, 7.0))[AnswerKind.SCALING]
    assert "; restricted: the base case 1x32.h5: scaled from 9 of 160 steps." in scaling.text
    throughput = answers_of(base, point(2, 32, 7.0))[AnswerKind.THROUGHPUT]
    assert "restricted" not in throughput.text  # of the point on 2 ranks, whose time is complete


def test_which_runs_count_is_no_restriction():
    notes = (PointNote(NoteKind.INFORMATION, "b.h5 did not finish and is not counted"),)
    scaling = answers_of(point(1, 32, 14.0), point(2, 32, 7.0, notes=notes))[AnswerKind.SCALING]
    assert "restricted" not in scaling.text


def test_which_speedup_is_that_of_a_valid_comparison():
    found = answers_of(
        point(1, 32, 14.0),
        point(2, 32, 7.2),
        point(1, 64, 13.0),
        point(8, 64, 1.7, lack=SHARED),
    )[AnswerKind.WHICH_SPEEDUP]
    assert found.values["ranks"] == 2 and found.values["speedup"] == pytest.approx(14 / 7.2)


def test_most_ranks_without_a_base_case_are_named():
    scaling = answers_of(point(1, 32, 14.0), point(2, 32, 7.0), point(8, 64, 1.7))
    assert (
        "Without a speedup: 8 ranks, batch 64 per rank, overlap, because no 1-rank run has the same"
        " setting and batch." in scaling[AnswerKind.SCALING].text
    )


def test_other_settings_have_a_sentence():
    other = ("vgg11", *SETTING[1:])
    scaling = answers_of(
        point(1, 32, 14.0),
        point(4, 32, 4.0),
        point(1, 32, 9.0, setting=other),
        point(2, 32, 5.0, setting=other),
    )[AnswerKind.SCALING]
    assert scaling.text.startswith("On 4 ranks, an epoch takes 4.00 s")
    assert (
        "vgg11, 2 ranks, batch 32 per rank, overlap: 1.80 times as fast as on 1 rank at fixed batch"
        " per rank, efficiency 0.90." in scaling.text
    )


def test_times_of_a_csv_are_of_no_program():
    row = SimpleNamespace(source="t.csv", ranks=1, batch_per_rank=32, seconds=10.0, series=())
    published = from_times(row, train_samples=1024)
    pytorch = point(1, 32, 39.5, setting=("resnet18",), program="pytorch", reducer="")
    assert AnswerKind.PROGRAMS not in answers_of(published, pytorch)


def test_strong_scaling_needs_batches_and_synchronous_ranks():
    alone = {"reducer": "none"}
    assert strong_table([point(1, 0, 10.0), point(2, 0, 6.0)]).rows == []
    assert strong_table([point(1, 32, 10.0), point(2, 16, 6.0, **alone)]).rows == []


def test_bound_of_the_bandwidth_names_a_remedy_only_if_there_is_one():
    options = {"bytes_per_step": 10**9, "steps": 4, "split": SplitStub()}
    found = answers_of(point(1, 32, 14.0), point(2, 32, 7.0, **options, reducer="allreduce"))
    assert "This is a bound" not in found[AnswerKind.BANDWIDTH].text
    options["split"], options["allreduce_seconds"] = None, 2.0
    found = answers_of(point(1, 32, 14.0), point(2, 32, 7.0, **options))
    assert "because the run file lacks the clocks" in found[AnswerKind.BANDWIDTH].text


def test_pipelines_have_no_causes_of_data_parallelism():
    phases = dict.fromkeys(
        ("data_wait", "upload", "forward", "backward", "exposed_communication", "update"), 1.0
    )
    one, two = (
        point(n, 32, 6.0, phase_seconds={**phases, "imbalance": 0.0}, variant=variant)
        for n, variant in ((1, frozenset()), (2, frozenset({("pipeline-stages", "2")})))
    )
    assert explain([one, two], []).losses == []


def test_notes_can_be_copied():
    note = copy.deepcopy(PointNote(NoteKind.LACKING, "text"))
    assert (note, note.kind) == ("text", NoteKind.LACKING)
