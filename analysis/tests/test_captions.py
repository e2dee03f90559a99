# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the notes of figures and tables name the machine, the link and the number of runs, and
that strategies are in the order in which the program lists them."""

import numpy as np
from lockstep_report.cli import main
from lockstep_report.figures import phases as phase_figure, scaling as scaling_figure
from lockstep_report.figures.kinds import FigureKind
from lockstep_report.measure.choices import ALGORITHMS, REDUCERS, place_of
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.runfile.settings import measured_on, runs_text
from lockstep_report.tables.reducers import compared_points
from lockstep_report.tables.table import markdown
from lockstep_report.tables.times import time_table
from matplotlib.text import Text
from planted import write_sweep, write_training
from test_figures import point

MACHINE = (
    "resnet18-cifar",
    "cpu",
    "fp32",
    "synthetic",
    "AMD EPYC 9654",
    "lockstep",
    "4 threads per rank",
)


def study(**options):
    return [
        point(
            n,
            32,
            10.0 / n,
            setting=MACHINE,
            hosts=tuple(f"node{i}" for i in range(n)),
            link_gbit=25.0,
            repeats=3,
            **options,
        )
        for n in (1, 2)
    ]


def texts_of(figure):
    return " ".join(" ".join(t.get_text() for t in figure.findobj(Text)).split())


def test_a_caption_names_machine_link_and_runs():
    line = measured_on(study())
    assert (
        line == "Measured on cpu (AMD EPYC 9654), hosts node0, node1, link 25 Gbit/s; "
        "n = 3 runs per point"
    )
    unknown = [point(2, 32, hosts=("a", "b")), point(2, 32, hosts=("a", "b"), repeats=4)]
    assert measured_on(unknown).endswith("rate of the link not given; n = 1 to 4 runs per point")
    assert "link" not in measured_on([point(2, 32, hosts=("a",))])
    assert runs_text([1]) == "n = 1 run per point"


def test_a_caption_of_runs_and_a_csv_names_the_device():
    found = [*study(), point(4, 32, 2.0)]  # a point of a CSV has only the model in its setting
    for points in (found, found[::-1]):
        assert "cpu (AMD EPYC 9654)" in measured_on(points)


def test_every_figure_of_the_report_has_its_own_caption():
    captions = [kind.caption for kind in FigureKind]
    assert len(set(captions)) == len(captions) and all(map(str.strip, captions))


def test_figures_and_tables_have_the_caption():
    found = study()
    series = scaling_figure.weak_series(found)
    for figure in (
        phase_figure.phase_bars(found),
        scaling_figure.scaling(found, series, "Scaling", "Efficiency"),
    ):
        assert measured_on(found) in texts_of(figure)
    table = markdown(time_table(found))
    assert all(text in table for text in ("AMD EPYC 9654", "node0, node1", "link 25 Gbit/s"))


def test_reducers_have_one_natural_order():
    assert REDUCERS[0] == "overlap" and REDUCERS[-1] == "none" and len(REDUCERS) > 3
    order = [*REDUCERS, "other"]
    found = merge_repeats(
        [point(2, 32, 1.0, setting=MACHINE, reducer=name) for name in sorted(order)]
    )
    assert [p.reducer for p in found] == order
    (group,) = compared_points(found)
    assert [p.reducer for p in group] == order
    labels = [text.get_text() for text in phase_figure.phase_bars(found).axes[0].get_xticklabels()]
    assert [label.split("\n")[1] for label in labels[:2]] == ["overlap", "allreduce"]
    assert [row["mode"] for row in time_table(found).rows][0] == "overlap"
    names = sorted(("mpi", "ring (NCCL)", "direct"), key=lambda name: place_of(name, ALGORITHMS))
    assert names == ["direct", "ring (NCCL)", "mpi"]
    assert ALGORITHMS[-1] == "mpi"


def test_the_sweep_figure_has_machine_link_repeats_and_fit(tmp_path):
    random = np.random.default_rng(1)
    write_sweep(tmp_path / "sweep.h5", random, 2, 1e-4, 1e-9, [2**n for n in range(10, 26, 2)])
    write_training(tmp_path / "run.h5", random, ranks=2, steps=8)
    out = tmp_path / "out"
    assert main(["figures", str(tmp_path), "--link-gbit", "10", "--out", str(out)]) == 0
    text = " ".join((out / "allreduce-sweep.svg").read_text(encoding="utf-8").split())
    assert "node0, node1" in text and "10 Gbit/s" in text and "9 repeats per" in text
    assert "alpha + beta" in text
    assert (out / "allreduce-sweep.pdf").read_bytes().startswith(b"%PDF")
