# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the rules that decide verdicts, diagnoses and comparisons."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import acceptance  # noqa: E402
import bisection  # noqa: E402
import measures  # noqa: E402
import part_memory  # noqa: E402
import part_operations  # noqa: E402
import results  # noqa: E402
import turns  # noqa: E402
from bisection import FAILED, HUNG, NOT_RUN, PASSED, REPEAT  # noqa: E402
from clock import Clock  # noqa: E402
from context import Context, Training  # noqa: E402
from diagnosis import first_error  # noqa: E402
from reports import Report  # noqa: E402
from running import Outcome, Runner  # noqa: E402


def test_verdict_is_wrong_only_after_a_failure():
    report = Report(1, "title")
    assert report.verdict == "not run"
    report.not_run("speed", "no time")
    assert report.verdict == "not run"
    report.check(True, "")
    assert report.verdict == "correct"
    report.add_outcome(Outcome("a", [], None, 1.0, timed_out=True, is_cut_off=True))
    assert report.verdict == "correct"
    report.add_outcome(Outcome("a", [], None, 1.0, timed_out=True))
    assert report.verdict == "wrong"


@pytest.mark.parametrize("status, is_cut_off, expected", [
    (70, False, True), (2, False, False), (None, False, True), (None, True, False)])
def test_reruns_do_not_explain_usage_errors_and_missing_time(status, is_cut_off, expected):
    outcome = Outcome("a", [], status, 1.0, timed_out=status is None, is_cut_off=is_cut_off)
    assert Training(outcome, None, "reason").can_be_rerun == expected


@pytest.mark.parametrize("found, expected", [
    ({REPEAT: PASSED}, "not reproduced"),
    ({REPEAT: NOT_RUN}, "no conclusion"),
    ({REPEAT: FAILED, "A=0": PASSED, "--b off": FAILED}, "passes with A=0; fails with --b off"),
    ({REPEAT: HUNG, "A=0": PASSED, "B=0": PASSED}, "passes with A=0 or B=0"),
    ({REPEAT: FAILED, "A=0": FAILED, "B=0": NOT_RUN}, "no change makes it pass: A=0"),
    ({REPEAT: HUNG, "A=0": HUNG}, "no rerun ended within its time limit"),
])
def test_conclusion_names_the_changes_that_make_a_check_pass(found, expected):
    line = bisection.conclusion("check", found)
    assert line.startswith("check: ") and expected in line and "\n" not in line


def test_change_that_makes_only_one_of_two_reruns_pass_is_no_cause(tmp_path):
    context, report = Context(None, None, Clock(60, {0: 1}), None, tmp_path), Report(1, "title")
    found = {REPEAT: [FAILED], "A=0": [PASSED, FAILED], "B=0": [PASSED, PASSED]}
    bisection.bisect(context, report, "check", lambda name, label: (found[label].pop(0), ""),
                     ("A=0", "B=0"), 60)
    assert report.diagnoses == ["check: passes with B=0; fails with A=0"]


def test_change_replaces_or_adds_options_or_sets_a_variable():
    arguments = ["train", "--engines", "timed"]
    assert bisection.changed(arguments, "--cuda-graph off --engines quick") == \
        ["train", "--engines", "quick", "--cuda-graph", "off"]
    assert bisection.changed(arguments, "A=0") == bisection.changed(arguments, REPEAT) == arguments
    assert bisection.variables_of("A=0") == {"A": "0"}
    assert bisection.variables_of("--cuda-graph off") == bisection.variables_of(REPEAT) == {}


def test_first_error_of_the_sanitizer_is_found():
    text = ("========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 16 bytes\n"
            "=========     at run_kernel\n========= Invalid __shared__ read of size 4 bytes\n")
    assert first_error(text) == "Invalid __global__ write of size 16 bytes"
    assert first_error("========= ERROR SUMMARY: 0 errors") == ""


def test_results_of_tests_are_read_from_incomplete_output():
    output = ("[ RUN      ] A.F/bf16\n[       OK ] A.F/bf16 (5 ms)\n[ RUN      ] A.F/fp16\n"
              "[  FAILED  ] A.F/fp16, where GetParam() = (bn_1, cuda) (7 ms)\n[ RUN      ] A.S\n"
              "[  SKIPPED ] A.S (0 ms)\n[ RUN      ] A.F/fp32\n")
    expected = {"A.F/bf16": "OK", "A.F/fp16": "FAILED", "A.S": "SKIPPED", "A.F/fp32": "RUN"}
    assert part_operations.read_tests(output) == expected
    summary = "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.F/fp16, where\n"
    assert part_operations.read_tests(output + summary) == expected


def test_failed_tests_are_described_by_their_precision_and_fusion():
    line = part_operations.pattern_of(
        ["A/bn_1_cuda_bf16_fusion_sums", "A/block_cuda_bf16_fusion_sums"],
        ["A/bn_1_cuda_bf16", "A/conv_cuda_bf16_fusion_sums", "A/bn_1_cuda_fp32"])
    assert "bf16 fusion sums: 2 of 3 failed" in line
    assert "no failure in bf16 fusion auto, fp32 fusion auto" in line


def test_losses_deviate_if_they_exceed_the_bound_of_their_step():
    losses = [2.0, 1.9, 1.8]
    assert not measures.loss_deviations(losses, losses, ((1, 0), (3, 0)))
    assert measures.loss_deviations([2.0, 1.9, float("nan")], losses, ((1, 1e-5), (3, 1e-2)))
    assert measures.loss_deviations([2.01, 1.9, 1.8], losses, ((1, 1e-5), (3, 1e-2)))
    assert not measures.loss_deviations([2.0, 1.905, 1.8], losses, ((1, 1e-5), (3, 1e-2)))
    assert measures.loss_deviations([2.0], losses, ((3, 1e-2),))


def test_losses_deviate_if_they_are_outside_the_band_by_more_than_the_spread():
    curves = [[2.0, 1.9, 1.8], [2.0, 1.91, 1.82]]
    assert not measures.band_deviations([2.0, 1.895, 1.83], curves, tolerance=0)
    assert len(measures.band_deviations([2.1, 1.9, 1.85], curves, tolerance=0)) == 2
    assert measures.band_deviations([2.0, 1.9, float("nan")], curves)
    assert measures.band_deviations([2.0], curves)


def test_slow_result_is_correct_and_its_ratio_uses_the_fastest_pytorch_of_each_round():
    ours = turns.Configuration(512, "bf16 device", rounds=[[20.0], [30.0]], wall_rounds=[[20.0], [30.0]])
    theirs = [turns.Configuration(512, "graph", object(), rounds=[[100.0], [100.0]]),
              turns.Configuration(512, "compile", object(), rounds=[[80.0], [150.0]])]
    assert ours.ratios(turns.fastest_pytorch([ours, *theirs])) == [0.2, 0.2]
    assert turns.fastest_pytorch([ours]) == {}
    report = Report(4, "speed")
    turns.report_turns(report, 512, [ours, *theirs])
    assert report.verdict == "correct" and "ratio to PyTorch 0.20" in report.remarks


def test_memory_limit_is_extrapolated_from_the_last_two_points():
    points = [{"batch_per_rank": batch, "predicted_bytes": 100 + 10 * batch} for batch in (1, 4, 16)]
    assert part_memory.predicted_limit(points, 1100) == 100
    assert part_memory.predicted_limit(points[:1], 1100) is None


def test_time_that_a_step_did_not_use_is_distributed_over_later_steps(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("clock.time.monotonic", lambda: now[0])
    clock = Clock(60, {1: 10, 2: 20, 3: 30})
    clock.begin(1)
    assert clock.left == pytest.approx(10)
    now[0] += 5
    clock.begin(2)
    assert clock.left == pytest.approx(22)  # 55 s in the ratio 20 : 30
    clock.extend(1000)
    assert clock.left == pytest.approx(55)  # not beyond the end of the call


@pytest.mark.parametrize("module, expected", [
    ("raise ModuleNotFoundError('No module named torch')\n", ["PyTorch"]),
    ("raise OSError('libtorch.so: cannot open')\n",
     ["a PyTorch that can be imported (libtorch.so: cannot open)"])])
def test_unusable_pytorch_is_described(tmp_path, module, expected):
    (tmp_path / "torch.py").write_text(module)
    command = [sys.executable, "-B", str(acceptance.BENCH / "pytorch_features.py")]
    result = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, text=True,
                            capture_output=True, timeout=60)
    assert json.loads(result.stdout)["missing"] == expected


def test_command_is_cut_off_at_the_end_of_its_step(tmp_path):
    context = Context(None, Runner(tmp_path, dict(os.environ)), Clock(0.6, {0: 1}), None, tmp_path)
    outcome = context.run("a", ["sleep", "60"], 30)
    assert outcome.is_cut_off and "when the time of the step ended" in outcome.reason
    assert context.run("b", ["true"], 30).is_cut_off  # no time is left
    report = Report(1, "title")
    assert not context.has_time(report, "c", 1) and report.not_measured == ["c"]


def test_call_uses_the_environment_and_the_engines_that_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("lockstep", "data_batch_1.bin"):
        (tmp_path / name).write_text("")
    (tmp_path / "env.sh").write_text("echo noise; export VALUE=$PWD\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "engines.json").write_text("{}")
    results.pack(tmp_path / "cache.tar.gz", [tmp_path / "cache"])
    words = ["measure", "--data", ".", "--out", "out", "--work", "work", "--cache", "cache.tar.gz",
             "--environment", "env.sh", "--lockstep"]
    context = acceptance.make_context(acceptance.parse_arguments([*words, "lockstep"]))
    assert (context.cache / "engines.json").is_file()
    command = context.program(["sh", "-c", "echo $VALUE $OTHER"], OTHER="other")
    assert context.run("a", command, 30).stdout == f"{tmp_path} other\n"
    with pytest.raises(SystemExit):
        acceptance.parse_arguments([*words, "none"])


def test_archive_leaves_out_the_largest_files(tmp_path):
    folder = tmp_path / "part-1"
    folder.mkdir()
    (folder / "large").write_bytes(bytes(range(256)) * 20)
    (folder / "small").write_text(json.dumps({}))
    assert results.pack(tmp_path / "logs.tar.gz", [folder], limit=4000) == ["part-1/large"]
    with tarfile.open(tmp_path / "logs.tar.gz") as tar:
        assert tar.getnames() == ["part-1/small"]
