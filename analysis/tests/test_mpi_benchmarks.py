# SPDX-License-Identifier: BSD-3-Clause
"""Tests that outputs of the OSU and Intel MPI benchmarks are read as sweeps and as networks."""

import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.models.prediction.sweep_fit import network_of_sweeps
from lockstep_report.runfile.input_files import load_runs
from nccl_outputs import ALPHA, BETA, SIZES, microseconds

HEADERS = {
    5: "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
    2: "# Size       Avg Latency(us)",
}


def osu(ranks=4, columns=5, name="Allreduce", library="MPI", first="# ranks: 4"):
    lines = [
        first,
        "",
        f"# OSU {library} {name} Latency Test v7.3",
        "# Datatype: MPI_FLOAT.",
        HEADERS[columns],
    ]
    for size in SIZES:
        time = microseconds(ranks, size)
        others = f"{0.5 * time:18.3f}{time:18.3f}{100:10}" if columns > 2 else ""
        lines.append(f"{size:<10}{time if columns == 2 else 0.9 * time:18.3f}{others}")
    return "\n".join([*lines, ""])


def imb(*counts, name="Allreduce"):
    lines = [
        "#" + "-" * 60,
        "#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part",
        "#" + "-" * 60,
        "# MPI_Datatype for reductions    :   MPI_FLOAT",
    ]
    for ranks in counts:
        lines += [
            "#" + "-" * 40,
            f"# Benchmarking {name} ",
            f"# #processes = {ranks} ",
            "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]",
            f"{0:13} {1000:12} 0.04 0.05 0.05",
        ]
        for size in SIZES:
            time = microseconds(ranks, size)
            lines.append(f"{size:13} {640:12} {0.5 * time:12.3f} {time:12.3f} {0.8 * time:12.3f}")
    return "\n".join([*lines, "", "# All processes entering MPI_Finalize", ""])


def runs_of(tmp_path, content):
    path = tmp_path / "output.txt"
    path.write_text(content, encoding="utf-8")
    return load_runs([path]).runs


@pytest.mark.parametrize(
    "content, ranks",
    [
        (osu(), [4]),
        (osu(columns=2), [4]),
        (osu(first="+ mpirun -np 4 --bind-to core ./osu_allreduce -f"), [4]),
        (osu(first="$ srun --ntasks=4 osu_allreduce"), [4]),
        (
            osu() + "4096  16..228  9.0\n99999999999999999999 1.0 1.0 1.0 1\n",
            [4],
        ),  # mixed with others
        (imb(2), [2]),
        (imb(2, 4), [2, 4]),
        (imb(4, name="Reduce") + imb(4), [4]),
    ],
)
def test_outputs_give_the_times_of_the_slowest_rank(tmp_path, content, ranks):
    runs = runs_of(tmp_path, content)
    assert [run.rank_count for run in runs] == ranks and all(run.host_count == 0 for run in runs)
    found = network_of_sweeps(runs, "ring")
    [level] = found.levels
    assert found.label == "MPI ring"
    middle = [(ends.low + ends.high) / 2 for ends in (level.alpha, level.beta)]
    assert middle == pytest.approx([ALPHA, BETA], rel=1e-2)
    assert any("does not state the all-reduce algorithms" in note for note in found.notes)


@pytest.mark.parametrize(
    "content, words",
    [
        (
            osu(first=""),
            (
                "the OSU benchmarks cannot be used (it does not state the number of ranks; "
                'add the line "# ranks: N")'
            ),
        ),
        (osu(name="Bcast"), "it measures Bcast; give that of all-reduces"),
        (imb(2, name="PingPong"), "it measures PingPong; give that of all-reduces"),
        (imb(1), "it measures one rank; give that of at least two"),
        (imb(), "it measures nothing; give that of all-reduces"),
    ],
)
def test_outputs_that_are_no_sweeps_give_one_line(tmp_path, content, words):
    with pytest.raises(ReportError, match="cannot be used") as caught:
        runs_of(tmp_path, content)
    assert words in str(caught.value) and caught.value.status == INPUT


def test_report_and_summary_show_the_program(tmp_path, capsys):
    path = tmp_path / "imb.txt"
    path.write_text(imb(2, 4), encoding="utf-8")
    assert main(["summary", str(path)]) == 0
    output = capsys.readouterr().out
    assert "imb.txt (2 ranks)" in output and "Intel MPI benchmarks 2021.3" in output
    assert main(["tables", str(path), "--json"]) == 0
