# SPDX-License-Identifier: BSD-3-Clause
"""Tests the command `predict` and its figure."""

import json

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT, USAGE
from lockstep_report.figures.arrange import text_boxes
from lockstep_report.figures.scaling import prediction_figure
from lockstep_report.models.prediction.network_file import EXAMPLE
from lockstep_report.runfile.read import read_run
from planted import write_sweep, write_training
from predictions import predicted, ring_network
from synthetic import dataset


def run_command(capsys, *arguments):
    status = main(["predict", *map(str, arguments)])
    return status, capsys.readouterr()


def files_of(tmp_path):
    random = np.random.default_rng(7)
    net = tmp_path / "net.json"
    net.write_text(
        json.dumps(
            {
                "name": "a|b",
                "library": "MPI",
                "algorithm": "ring",
                "levels": [{"alpha": 1e-5, "beta": [1e-9, 2e-9]}],
            }
        )
    )
    return [write_training(tmp_path / f"{n}.h5", random, ranks=n) for n in (2, 4)], net


def test_command_prints_a_table_and_writes_a_figure(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    out = tmp_path / "out"
    status, printed = run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--out", out)
    assert status == 0
    assert "MPI ring (predicted)" in printed.out
    assert "| 64 \\* |" in printed.out
    assert {path.suffix for path in out.glob("predicted-step.*")} == {
        ".md",
        ".csv",
        ".tex",
        ".svg",
        ".png",
        ".pdf",
    }
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--out", out)
    assert first == {path.name: path.read_bytes() for path in out.iterdir()}


def test_files_of_the_report_in_the_same_folder_remain(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    out = tmp_path / "out"
    assert main(["tables", *map(str, runs), "--out", str(out)]) == 0
    before = {path.name for path in out.iterdir()}
    run_command(capsys, *runs, "--ranks", "8", "--network", net, "--out", out)
    after = {path.name for path in out.iterdir()}
    assert before < after
    assert main(["tables", *map(str, runs), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == after


def test_command_prints_json(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    status, printed = run_command(
        capsys, *runs, "--ranks", "2,64", "--network", net, "--json", "--bucket-mib", "1"
    )
    values = json.loads(printed.out)
    assert status == 0
    assert values["is_predicted"] is True
    first = values["predicted"][0]
    assert (first["ranks"], first["model"], first["basis"]) == (2, "MPI ring", "4.h5")
    low, high = first["predicted_step_seconds"]["interval"]
    assert low <= first["predicted_step_seconds"]["value"] <= high
    assert first["measured_step_seconds"] is None  # other buckets than measured


def test_measured_steps_are_beside_the_predicted_ones(tmp_path, capsys):
    runs, net = files_of(tmp_path)
    _, printed = run_command(capsys, *runs, "--ranks", "2,64", "--network", net, "--json")
    two, many = json.loads(printed.out)["predicted"]
    assert two["measured_run"] == "2.h5"
    assert two["measured_step_seconds"] == pytest.approx(0.053, abs=0.02)
    assert many["measured_step_seconds"] is None


def test_repeated_runs_count_with_their_median(tmp_path):
    random = np.random.default_rng(3)
    paths = [
        write_training(tmp_path / f"{ranks}-{work}.h5", random, ranks=ranks, work=work)
        for ranks in (1, 2)
        for work in (0.09, 0.05, 0.06)
    ]
    (row,) = predicted([read_run(path) for path in paths], ring_network(), [2])
    assert row.predicted.basis.source == "2-0.06.h5"
    assert row.source == "2-0.09.h5, 2-0.05.h5, 2-0.06.h5"
    assert row.base == pytest.approx(0.06, rel=0.2)
    assert row.measured == pytest.approx(row.predicted.basis.measured_step)


@pytest.mark.parametrize(
    "arguments, status, text",
    [
        (("--network", "RUN"), INPUT, "not a sweep"),
        (("--network", "NET", "NET"), USAGE, "one description"),
        (("--network", "NET", "--algorithm", "ring"), USAGE, "only for sweeps"),
        (("--network", "none.json"), INPUT, "cannot be read"),
        (("--network", "none.h5"), INPUT, "no such file"),
    ],
)
def test_errors_have_one_line(tmp_path, capsys, arguments, status, text):
    runs, net = files_of(tmp_path)
    names = {"RUN": runs[0], "NET": net}
    found, printed = run_command(
        capsys, *runs, "--ranks", "8", *(names.get(a, a) for a in arguments)
    )
    assert found == status
    assert text in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("ranks", ["0", "a", "2000000", ""])
def test_wrong_rank_lists_are_refused(capsys, ranks):
    with pytest.raises(SystemExit) as stop:
        run_command(capsys, "a.h5", "--ranks", ranks, "--network", "net.json")
    assert stop.value.code == USAGE


@pytest.mark.parametrize(
    "counts",
    [
        [8],
        *(
            pytest.param(counts, marks=pytest.mark.slow)
            for counts in ([2, 64], [2**k for k in range(1, 8)], list(range(2, 82, 2)))
        ),
    ],
)
def test_texts_of_the_figure_fit(tmp_path, counts):
    runs, _ = files_of(tmp_path)
    figure = prediction_figure(predicted(list(map(read_run, runs)), ring_network(), counts))
    boxes = text_boxes(figure)
    canvas = figure.bbox
    assert all(box.x0 >= canvas.x0 and box.x1 <= canvas.x1 for box in boxes)
    assert all(box.y0 >= canvas.y0 and box.y1 <= canvas.y1 for box in boxes)


def training(path, ranks=2, lacking=False, algorithm="ring", hosts=("node0",), **options):
    """Writes a run on hosts in turn; `lacking`: its ranks lacked processors for half of the
    epoch."""
    environment = {"all_reduce": algorithm}
    write_training(
        path, np.random.default_rng(ranks), ranks=ranks, environment=environment, **options
    )
    with h5py.File(path, "r+") as file:
        places = np.arange(ranks) % len(hosts)
        file["ranks/host"][...] = places
        file["ranks/hostname"][...] = np.array(hosts, dtype=object)[places]
        if lacking:
            seconds = file["epochs/seconds"][...]
            dataset(file, "/epochs/run_delay_seconds", np.outer(seconds, [0.5] * ranks))
    return path


def sweep(path, algorithms=("ring",), ranks=2, hosts=("node0",)):
    """Writes a sweep of algorithms, each 10 % slower than the one before it."""
    sizes = 4096 * 4 ** np.arange(6)
    write_sweep(
        path,
        np.random.default_rng(1),
        ranks,
        1e-4,
        1e-9,
        np.tile(sizes, len(algorithms)),
        hosts=[hosts[rank % len(hosts)] for rank in range(ranks)],
    )
    with h5py.File(path, "r+") as file:
        factors = 1.1 ** np.arange(len(algorithms))
        file["allreduce/seconds"][...] *= np.repeat(factors, len(sizes))[:, None]
        file["allreduce/algorithm"][...] = np.repeat(algorithms, len(sizes)).astype(object)
    return path


def values_of(capsys, *arguments):
    status, printed = run_command(capsys, *arguments, "--json")
    assert status == 0, printed.err
    return json.loads(printed.out)


def network_in(folder):
    path = folder / "net.json"
    path.write_text(EXAMPLE)
    return path


def test_basis_is_the_undisturbed_run_with_the_most_ranks(tmp_path, capsys):
    runs = [training(tmp_path / f"{n}.h5", n, lacking=n == 4) for n in (2, 3, 4)]
    arguments = (*runs, "--ranks", "2", "--network", network_in(tmp_path))
    assert values_of(capsys, *arguments)["predicted"][0]["basis"] == "3.h5"
    _, printed = run_command(capsys, *arguments)
    assert "no basis, because their ranks lacked processors: 4.h5" in printed.out


def test_without_an_undisturbed_run_nothing_is_predicted(tmp_path, capsys):
    runs = [training(tmp_path / f"{n}.h5", n, lacking=True) for n in (2, 4)]
    status, printed = run_command(capsys, *runs, "--ranks", "8", "--network", network_in(tmp_path))
    assert (status, printed.err.count("\n")) == (INPUT, 1)
    assert "4.h5" in printed.err and "ranks lacked a processor for up to 50 %" in printed.err
    assert "repeat the run on processors that nothing else uses" in printed.err


def test_disturbed_measurements_are_no_test_of_the_prediction(tmp_path, capsys):
    runs = [
        training(tmp_path / "1.h5", 1, lacking=True, sizes=(), reducer="none", work=0.2),
        training(tmp_path / "2.h5", 2),
        training(tmp_path / "4.h5", 4, lacking=True, work=0.2),
    ]
    found = values_of(capsys, *runs, "--ranks", "4", "--network", network_in(tmp_path))
    (row,) = found["predicted"]
    assert row["measured_run"] == "4.h5"
    assert "is that of ranks that lacked processors, so it tests neither" in row["warnings"][0]
    assert not row["is_base_measured"]


def test_network_is_fitted_to_the_sweep_of_the_same_host(tmp_path, capsys):
    runs = [
        training(tmp_path / "2.h5"),
        sweep(tmp_path / "sweep.h5"),
        sweep(tmp_path / "other.h5", hosts=("node7",)),
        sweep(tmp_path / "hosts.h5", hosts=("node0", "node1")),
    ]
    found = values_of(capsys, *runs, "--ranks", "2,8")
    assert found["network"]["name"] == "fit to sweep.h5"
    assert found["network"]["model"] == "MPI ring"
    _, printed = run_command(capsys, *runs, "--ranks", "2,8")
    assert "ranks of one host, which share its processors, caches and memory" in printed.out
    same = values_of(capsys, runs[0], "--ranks", "2,8", "--network", runs[1])
    assert same["predicted"] == found["predicted"]


def test_network_is_fitted_to_the_sweep_between_the_hosts_of_the_runs(tmp_path, capsys):
    hosts = ("node0", "node1")
    runs = [
        training(tmp_path / "2.h5", hosts=hosts),
        sweep(tmp_path / "sweep.h5"),
        sweep(tmp_path / "hosts.h5", hosts=hosts),
    ]
    assert values_of(capsys, *runs, "--ranks", "8")["network"]["name"] == "fit to hosts.h5"
    _, printed = run_command(capsys, *runs, "--ranks", "8")
    assert "one host" not in printed.out


def test_sweep_whose_ranks_lacked_processors_is_not_used(tmp_path, capsys):
    runs = [training(tmp_path / "2.h5"), sweep(tmp_path / "sweep.h5", ranks=4)]
    with h5py.File(runs[1], "r+") as file:
        file.create_group("results").attrs["lacking_processor_share"] = 0.5
    status, printed = run_command(capsys, *runs, "--ranks", "8")
    assert (status, printed.err.count("\n")) == (INPUT, 1)
    assert "the ranks of the sweeps (sweep.h5) lacked processors" in printed.err


@pytest.mark.parametrize(
    "files, reason",
    [
        ((), "the given files have no sweep of `lockstep allreduce`"),
        (("node7",), "the sweeps (sweep.h5) have other hosts or another library than the runs"),
    ],
)
def test_without_a_network_both_ways_to_one_are_named(tmp_path, capsys, files, reason):
    runs = [training(tmp_path / "2.h5")]
    if files:
        runs.append(sweep(tmp_path / "sweep.h5", hosts=files))
    status, printed = run_command(capsys, *runs, "--ranks", "8")
    assert (status, printed.err.count("\n")) == (INPUT, 1)
    assert reason in printed.err
    assert "mpirun -n 2 lockstep allreduce --output sweep.h5" in printed.err
    assert f"--network FILE.json, for example {EXAMPLE}" in printed.err


@pytest.mark.parametrize("is_given", [False, True])
def test_algorithm_without_a_model_is_replaced_by_name(tmp_path, capsys, is_given):
    measured = ("direct", "ring", "shared-memory", "gather-scatter", "hierarchical")
    run = training(tmp_path / "2.h5", algorithm="shared-memory")
    own = sweep(tmp_path / "sweep.h5", measured)
    arguments = [run, "--network", own] if is_given else [run, own]
    status, printed = run_command(capsys, *arguments, "--ranks", "2,8")
    assert (status, printed.err.count("\n")) == (INPUT, 1)
    assert "no model for shared-memory, the all-reduce algorithm of the runs" in printed.err
    assert "the sweep has direct, gather-scatter, hierarchical, ring, shared-memory" in printed.err
    assert "there is a model for ring, direct;" in printed.err
    command = printed.err.rpartition("those of shared-memory: lockstep-report predict ")[2].split()
    assert "--algorithm ring" in " ".join(command)
    status, printed = run_command(capsys, *command)
    assert status == 0 and "MPI ring (predicted)" in printed.out
    assert "measured with shared-memory (MPI), the all-reduce is modelled as ring (MPI)" in (
        printed.out
    )


def test_ranks_without_a_processor_each_have_a_warning(tmp_path, capsys):
    run = training(tmp_path / "2.h5")
    with h5py.File(run, "r+") as file:
        file["ranks/cpu_list"][...] = np.array(["0", "1"], dtype=object)
    found = values_of(capsys, run, sweep(tmp_path / "sweep.h5"), "--ranks", "2,8")
    two, eight = found["predicted"]
    assert not any("processor" in text for text in two["warnings"])
    assert "8 ranks need 8 processors, and the ranks of 2.h5 had 2" in eight["warnings"][0]
