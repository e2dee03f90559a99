# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the tables contain notes on restrictions to the validity of a point."""

import csv

import pytest
from lockstep_report.cli import main
from lockstep_report.measure import validity
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.bandwidth import bandwidth_table
from synthetic import phases, write_run

TWO_HOSTS = {"hostname": ["node1", "node2"]}


def point(path, ranks=1, seconds=0.1, steps=None, **options):
    return from_run(
        read_run(
            write_run(
                path,
                phases(steps or 20 // ranks, *[(0, 0, seconds, 0, 0, 0)] * ranks),
                10 * ranks,
                epochs=2,
                batch=10,
                **options,
            )
        )
    )


def notes_of(*points, link=None):
    """Returns the notes of the point with the most ranks."""
    found = validity.add_comparison_notes(merge_repeats(points), link)
    return max(found, key=lambda p: p.ranks).notes


def test_equal_conditions_have_no_notes(tmp_path):
    assert notes_of(point(tmp_path / "a.h5"), point(tmp_path / "b.h5", 2)) == ()


def test_warnings_of_the_program(tmp_path):
    environment = {"warnings": "4 threads share 2 processors\nranks share a GPU\n"}
    assert notes_of(point(tmp_path / "a.h5", environment=environment)) == (
        "warning: 4 threads share 2 processors",
        "warning: ranks share a GPU",
    )


def test_other_hosts_builds_and_options_of_the_base_case(tmp_path):
    base = point(tmp_path / "a.h5", config={"conv-algorithm": "direct"})
    other = point(
        tmp_path / "b.h5",
        2,
        config={"conv-algorithm": "winograd"},
        attributes={"git_commit": "def"},
        ranks_of={"hostname": ["node2", "node3"]},
    )
    assert notes_of(base, other) == (
        "the base case a.h5 ran on another host (node1) than this point (node2, node3)",
        "the base case a.h5 has build abc, this point def",
        "the base case a.h5 has conv-algorithm direct, this point winograd",
    )


def test_the_base_case_may_run_on_one_of_the_hosts(tmp_path):
    assert notes_of(point(tmp_path / "a.h5"), point(tmp_path / "b.h5", 2, ranks_of=TWO_HOSTS)) == ()


def test_other_kernels_than_in_the_base_case(tmp_path):
    base = point(
        tmp_path / "a.h5",
        environment={"kernels": "conv1 forward: jit; conv1 backward: winograd 4x4 (8 lanes)"},
    )
    other = point(
        tmp_path / "b.h5", 2, environment={"kernels": "conv1 forward: jit; conv1 backward: jit"}
    )
    assert notes_of(base, other) == (
        "1 of 2 convolution passes use another kernel than in the base case a.h5",
    )


def test_speedup_above_the_number_of_ranks(tmp_path):
    (note,) = notes_of(point(tmp_path / "a.h5"), point(tmp_path / "b.h5", 2, seconds=0.08))
    assert note.startswith("speedup 2.50 is above the number of ranks (2)")


def test_epochs_of_other_sizes(tmp_path):
    """With 119 images and batch 10, 1 rank drops the last 9 images and 2 ranks the last 19."""

    def write(name, ranks, steps):
        size = {
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": steps,
            "images_per_epoch": steps * ranks * 10,
        }
        config = {"data": "synthetic:119", "train-samples": "119"}
        return point(tmp_path / name, ranks, steps=2 * steps, config=config, attributes=size)

    (note,) = notes_of(write("a.h5", 1, 11), write("b.h5", 2, 5))
    assert "trains on 100 images" in note and "on 110" in note
    assert note.endswith(
        "speedup, efficiency and derived times are those for the same number of images"
    )


def test_bandwidth_above_the_link(tmp_path):
    """The bus bandwidth is 2*(2-1)/2 * 1e9 bytes in 0.05 s = 160 Gbit/s."""

    def write(name, ranks, **options):
        return point(
            tmp_path / name,
            ranks,
            bucket_bytes=[10**9],
            bucket_start=[0.0],
            bucket_end=[0.05],
            ranks_of=TWO_HOSTS,
            environment={"all_reduce": "ring"},
            **options,
        )

    (note,) = notes_of(write("a.h5", 2), link=100)
    assert note.startswith("the all-reduces use at least 160% of the link of 100 Gbit/s")
    (note,) = notes_of(write("b.h5", 2, config={"link-gbit": "80"}))
    assert note.startswith("the all-reduces use at least 200% of the link of 80 Gbit/s")
    assert notes_of(write("c.h5", 2), link=200) == ()


def test_a_link_that_no_message_uses(tmp_path):
    config = {"link-gbit": "25"}
    (note,) = notes_of(point(tmp_path / "a.h5", 2, config=config))
    assert note.startswith("a rate of the link was given, but all ranks are on one host")
    assert notes_of(point(tmp_path / "a.h5", 2), link=25) == (note,)
    assert notes_of(point(tmp_path / "b.h5", 2, config=config, ranks_of=TWO_HOSTS)) == ()


def test_ranks_of_one_host_have_no_utilisation_of_the_link(tmp_path):
    found = [
        point(
            tmp_path / f"{n}.h5",
            2,
            config={"link-gbit": "25"},
            ranks_of=ranks_of,
            environment={"all_reduce": "ring"},
            bucket_bytes=[10**9],
            bucket_start=[0.0],
            bucket_end=[0.05],
        )
        for n, ranks_of in ((1, {}), (2, TWO_HOSTS))
    ]
    for given in (None, 10):
        one, two = (bandwidth_table([p], given).rows[0] for p in found)
        assert one["measured_percent"] is one["link_gbit"] is None
        assert one["measured_gb_s"] == two["measured_gb_s"]
        assert two["measured_percent_low"] > 0 and two["link_gbit"] == (given or 25)


def test_a_base_case_with_other_threads_is_named_with_the_remedy(tmp_path):
    one = point(tmp_path / "1.h5", config={"threads": "2"})
    two = point(tmp_path / "2.h5", 2, config={"threads": "1"})
    (note,) = notes_of(one, two)
    assert note.startswith(
        "no speedup, because the 1-rank run 1.h5 has 2 threads per rank instead of "
        "1 thread per rank; for a comparison, run both with the same --threads"
    )
    assert notes_of(one, two, point(tmp_path / "3.h5", config={"threads": "1"})) == ()


def test_all_differences_of_the_nearest_base_case_are_named(tmp_path):
    (note,) = notes_of(
        point(tmp_path / "1.h5", config={"threads": "2", "precision": "bf16"}),
        point(tmp_path / "far.h5", config={"threads": "2", "precision": "bf16", "model": "vgg11"}),
        point(tmp_path / "2.h5", 2, config={"precision": "fp32"}),
    )
    assert "1.h5 has bf16 instead of fp32, 2 threads per rank instead of 1 thread" in note
    assert note.endswith("divide the cores among them)") and "the same --precision and " in note


def test_repeats_that_chose_other_algorithms_and_kernels_are_named(tmp_path):
    def chosen(name, algorithm, kernel):
        return point(
            tmp_path / name,
            2,
            environment={
                "all_reduce": f"{algorithm}: 4.19 MB in 0.16 ms (mpi 9 ms)",
                "kernels": f"conv1 forward: {kernel}; conv2 forward: direct",
            },
        )

    same = [chosen(f"{n}.h5", "ring", "winograd") for n in range(2)]
    assert notes_of(*same) == ()
    notes = notes_of(*same, chosen("c.h5", "direct", "jit"))
    assert notes == (
        (
            "the program chose different all-reduce algorithms in the repeats (ring (MPI): 0.h5,"
            " 1.h5; direct (MPI): c.h5); select one with --all-reduce"
        ),
        (
            "1 of 2 convolution passes use different kernels in the repeats (conv1 forward:"
            " winograd: 0.h5, 1.h5; jit: c.h5); select one with --conv-algorithm"
        ),
    )


def test_points_of_a_series_that_chose_other_algorithms_are_named(tmp_path):
    found = [
        point(tmp_path / f"{n}.h5", n, environment={"all_reduce": f"{name}: 1 MB in 1 ms"})
        for n, name in ((2, "ring"), (4, "direct"))
    ]
    (note,) = notes_of(*found)
    assert "(ring (MPI): 2 ranks, batch 10; direct (MPI): 4 ranks, batch 10)" in note


def test_each_row_uses_the_rate_of_its_own_link(tmp_path):
    out = tmp_path / "out"
    paths = []
    for name, rate in (("a.h5", "80"), ("b.h5", "160")):
        point(
            tmp_path / name,
            2,
            bucket_bytes=[10**8],
            bucket_start=[0.0],
            bucket_end=[0.05],
            ranks_of=TWO_HOSTS,
            config={"link-gbit": rate},
            environment={"all_reduce": "ring"},
        )
        paths.append(str(tmp_path / name))
    assert main(["tables", *paths, "--out", str(out)]) == 0
    with (out / "table-3-bandwidth.csv").open() as file:
        rows = {
            float(r["link_gbit"]): float(r["measured_percent_low"]) for r in csv.DictReader(file)
        }
    assert rows == {80: pytest.approx(20), 160: pytest.approx(10)}  # 1e8 bytes in 0.05 s: 16 Gbit/s


def test_a_note_that_holds_for_some_repeats_names_them(tmp_path):
    (merged,) = merge_repeats(
        [point(tmp_path / "a.h5"), point(tmp_path / "b.h5", environment={"warnings": "hot"})]
    )
    assert merged.notes == ("warning: hot (b.h5)",)


def test_letters_lead_from_the_row_to_the_note(tmp_path):
    out = tmp_path / "out"
    for name, ranks, warnings in (("a.h5", 1, "one"), ("b.h5", 2, "one\ntwo")):
        point(tmp_path / name, ranks, environment={"warnings": warnings})
    paths = [str(tmp_path / name) for name in ("a.h5", "b.h5")]
    assert main(["tables", *paths, "--out", str(out)]) == 0
    for name in ("table-1-time-speedup", "table-2-compute-communication", "weak-scaling"):
        text = (out / f"{name}.md").read_text()
        assert "- (a) warning: one\n- (b) warning: two" in text
        assert [
            line.rsplit("|", 2)[1].strip()
            for line in text.splitlines()
            if line.startswith("| 10 |")
        ] == ["a", "a, b"]
        with (out / f"{name}.csv").open() as file:
            assert [row["validity"] for row in csv.DictReader(file)] == [
                "warning: one",
                "warning: one; warning: two",
            ]


@pytest.mark.parametrize(
    "arguments, notes",
    [
        ((), ["50,000 images", "11,173,962 parameters"]),
        (("--train-samples", "50000"), ["11,173,962 parameters"]),
        (("--parameters", "1000"), ["50,000 images"]),
        (("--parameters", "1000", "--train-samples", "50000"), []),
    ],
)
def test_defaults_for_a_csv_are_marked(tmp_path, arguments, notes):
    path, out = tmp_path / "t.csv", tmp_path / "out"
    path.write_text("ranks,batch_per_rank,epoch_seconds\n1,100,40\n2,100,25\n")
    assert main(["tables", "--csv", str(path), *arguments, "--out", str(out)]) == 0
    text = (out / "table-1-time-speedup.md").read_text()
    found = [line for line in text.splitlines() if "default" in line]
    assert len(found) == len(notes)
    assert all(note in line for note, line in zip(notes, found))


def test_letters_go_on_after_z():
    assert [validity.letter(i) for i in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]
