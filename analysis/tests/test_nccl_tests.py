"""Tests that outputs of nccl-tests, in the formats of its versions, are read as networks."""

import json

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.runfile.nccl_tests import network_of_nccl_tests
from planted import write_training

ALPHA, BETA = 3e-6, 5e-12  # s per message, s per byte
SIZES = [2**k for k in range(10, 28, 2)]


def microseconds(ranks, size):
    """A ring: 2(n-1) messages of 1/n of the array."""
    return 1e6 * 2 * (ranks - 1) * (ALPHA + size / ranks * BETA)


def bandwidths(ranks, size, factor=None):
    algorithm = 1e-3 * size / microseconds(ranks, size)
    return algorithm, algorithm * (2 * (ranks - 1) / ranks if factor is None else factor)


def text(ranks=8, hosts=1, root=True, devices=True, time="time", wrong="#wrong", sizes=SIZES, factor=None, prefix=""):
    """The text with values that follow from ALPHA and BETA. Old versions have no column `root`."""
    lines = ["# nccl-tests version 2.19.6 nccl-headers=22807 nccl-library=22807", "# Using devices"] if devices else []
    lines += [f"#  Rank {rank:2} Group  0 Pid   {70 + rank} on    node-{rank * hosts // ranks} device {rank:2} [0000:0{rank}:00] NVIDIA H100"
              for rank in range(ranks) if devices]
    names = ["size", "count", "type", "redop", *(["root"] if root else []), *[time, "algbw", "busbw", wrong] * 2]
    lines += ["#", "#   out-of-place   in-place", "#  " + "   ".join(names), "#   (B)    (elements)   (us)  (GB/s)  (GB/s)"]
    for size in sizes:
        algorithm, bus = bandwidths(ranks, size, factor)
        measured = f"{microseconds(ranks, size):7.2f}  {algorithm:6.2f}  {bus:6.2f}      0"
        lines.append(f"  {size:12}  {size // 4:12}     float     sum  {'    -1' if root else ''}  {measured}  999.99  1.00  1.00  N/A")
    lines += ["node-0:70:81 [0] NCCL INFO comm 0x5 rank 0 nranks 8", "  1048576  262", "2 of 8 ranks", "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 41.3"]
    return "".join(f"{prefix}{line}\n" for line in lines)


def json_text(ranks=8, name="time"):
    rows = [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
             "out_of_place": {name: microseconds(ranks, size), "alg_bw": bandwidths(ranks, size)[0],
                              "bus_bw": bandwidths(ranks, size)[1], "nwrong": 0.0},
             "in_place": {name: 999.99, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": None}} for size in SIZES]
    return json.dumps({"version": 1, "start_time": "2026-01-01", "args": ["all_reduce_perf"], "env": ["A=b"], "nccl_version": 22807,
                       "config": {"devices": [{"rank": rank, "hostname": "node-0"} for rank in range(ranks)]},
                       "results": [*rows, {"size": 8, "out_of_place": None}]})


def json_line(ranks=8):
    """The output with --json (pull request 318), after a line of a library."""
    sizes = {str(size): {"count": size // 4, "type": "float", "redop": "sum", "root": "-1", "oop_time": round(microseconds(ranks, size), 6),
                         **{f"oop_{name}": round(value, 6) for name, value in zip(("algbw", "busbw"), bandwidths(ranks, size))},
                         "oop_error": 0.0, "ip_time": 999.99, "ip_algbw": 1.0, "ip_busbw": 1.0, "ip_error": "N/A"} for size in SIZES}
    return "NCCL version 2.26.6+cuda12.8\n" + json.dumps(
        {"identifier": "nccl-tests structured output", "version": "2.26.6", "benchmark": [sizes]}) + "\n# done\n"


def per_iteration(content):
    """The text with the columns of the option -I."""
    header = content.replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
    return header.replace("      0  999.99  1.00  1.00  N/A", "      0  1.0  9.0  8.0  2.5  999.99  1.00  1.00  N/A  1.0  9.0  8.0  2.5")


def network(tmp_path, *contents, algorithm="ring"):
    paths = [tmp_path / f"output-{number}" for number in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_text(content, encoding="utf-8")
    return network_of_nccl_tests(paths, algorithm)


@pytest.mark.parametrize("contents", [
    [text()], [text(root=False, wrong="error")], [text(devices=False)], [text(prefix="[1,0]<stdout>:")], [text(prefix="0: ")],
    [json_text()], [json_line()], [per_iteration(text())], [text(ranks=2), json_text(ranks=4)], [text(ranks=4, hosts=4).replace("Group  0 ", "")], [text() + text(ranks=4)]],
    ids=["text", "old text", "no devices", "mpirun", "srun", "JSON", "JSON line", "per iteration", "two files", "hosts", "two tables"])
def test_outputs_give_the_times_that_they_contain(tmp_path, contents):
    found = network(tmp_path, *contents)
    [level] = found.levels
    assert found.label == "NCCL ring"
    middle = [(ends.low + ends.high) / 2 for ends in (level.alpha, level.beta)]
    assert middle == pytest.approx([ALPHA, BETA], rel=1e-3)
    for ranks in (2, 8, 64):
        assert 1e6 * found.seconds(ranks, 2**20, [middle]) == pytest.approx(microseconds(ranks, 2**20), rel=1e-3)


@pytest.mark.parametrize("content, words", [
    (text(factor=7 / 8), "busbw / algbw is 0.875, which is that of no all-reduce on the 8 ranks that it lists"),
    (text(ranks=2, hosts=2, factor=0), "each process ran alone: build nccl-tests with MPI=1"),
    (text(time="cputime"), "CPU times (option -C)"), (json_text(name="cpu_time"), "CPU times (option -C)"),
    (text(ranks=8, hosts=2), "several ranks on several hosts"), (text(sizes=SIZES[-2:]), "fewer than 3 measured sizes"),
    (text(sizes=[]), "it has no bandwidths out of place"), (text(sizes=[1024], devices=False), "number of ranks is unknown"),
    ('{"version": 1, "nccl_version": 2, "results": 5}', "this output of nccl-tests cannot be used"),
    ('{"version": 1, "nccl_version": 2, "config": {}}', "results is missing"), (json_text()[:-30], "this output of nccl-tests cannot be used")])
def test_outputs_that_determine_no_network_are_named(tmp_path, content, words):
    with pytest.raises(ReportError) as caught:
        network(tmp_path, content)
    assert words in str(caught.value) and "; give " in str(caught.value) and caught.value.status == INPUT


def test_command_predicts_with_outputs(tmp_path, capsys):
    run = write_training(tmp_path / "run.h5", np.random.default_rng(1), ranks=2)
    for name, content in (("text", text()), ("output.json", json_text())):
        (tmp_path / name).write_text(content, encoding="utf-8")
    command = ["predict", str(run), "--ranks", "2,4", "--network", str(tmp_path / "text"), str(tmp_path / "output.json")]
    assert main(command) == 0
    assert "NCCL ring (predicted)" in capsys.readouterr().out
    assert main([*command, "--algorithm", "tree"]) == 0
    assert main([*command, "--algorithm", "direct"]) == USAGE
    assert "ring and tree of NCCL" in capsys.readouterr().err
    assert main([*command[:-2], str(run), str(tmp_path / "text")]) == INPUT  # a run file is not of this kind
