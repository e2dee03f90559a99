# SPDX-License-Identifier: BSD-3-Clause
"""Dry runs of the GPU acceptance test, and tests of the rules that decide its verdicts."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
from types import SimpleNamespace

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import acceptance  # noqa: E402
import bisection  # noqa: E402
import call as call_module  # noqa: E402
import correctness  # noqa: E402
import dry_run  # noqa: E402
import losses  # noqa: E402
import report  # noqa: E402
from bisection import FAILED, HUNG, NOT_RUN, PASSED, SAME  # noqa: E402
from call import Call, Outcome  # noqa: E402


@pytest.mark.parametrize("call", dry_run.FAILURES)
def test_dry_run_passes(call):
    assert dry_run.run(call, None) == 0


def test_page_has_verdicts_ratios_and_what_was_not_run(tmp_path):
    dry_run.run_stubs("day", tmp_path)
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "acceptance.json",
        "acceptance.md",
        "logs.tar.gz",
        "cache.tar.gz",
    }
    first = json.loads((out / "acceptance.json").read_text())
    text = report.page([first])
    for part in (
        "Dry run: nothing was measured",
        "| 1 versions | correct | day |",
        "| PyTorch: nccl | [2, 28, 9] |",
        "acceptance.py day",
        "ratio to PyTorch compile_default",
        "1.80 (1.80 - 1.80)",
        "| one | 1 | 1.0 |",
        "Share of the roofline bound",
        "test accuracy 92.00%",
        "out_of_memory",
    ):
        assert part in text
    missing = first["steps"][1] | {"verdict": "not run", "not_run": ["steps: no time was left"]}
    calls = [first | {"steps": [missing]}, first | {"call": "again", "steps": [first["steps"][1]]}]
    assert "| 1 quick steps | not run | day |" in report.page(calls[:1])
    assert "| 1 quick steps | correct | again |" in report.page([*calls, calls[0]])


def test_selection_starts_again_without_the_engines_that_failed(tmp_path):
    steps = dry_run.run_stubs("day", tmp_path, ["faulty-engine:plan&--engine-seconds"])
    assert steps["engines"]["verdict"] == "correct"
    assert len(steps["engines"]["diagnoses"]) == 2
    assert "started again: exit status 70; lockstep: cuDNN's engine eng7" in str(steps["engines"])
    assert "quick" not in str(steps["throughput"])


def test_throughput_is_measured_with_quick_engines_if_the_selection_fails(tmp_path):
    steps = dry_run.run_stubs("day", tmp_path, ["fail:plan&--engine-seconds"])
    assert steps["engines"]["verdict"] == "wrong"
    for name in ("throughput", "roofline bound", "kernels", "accuracy"):
        assert steps[name]["verdict"] == "correct" and steps[name]["not_run"], name
    assert "bf16, quick engines, weight stream off, batch 512: 90,000" in str(steps["throughput"])
    assert "launches with quick engines" in str(steps["kernels"])


def test_archive_omits_the_largest_files(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "large").write_bytes(bytes(range(256)) * 20)
    (folder / "small").write_text("{}")
    assert report.pack(tmp_path / "logs.tar.gz", folder, limit=4000) == ["logs/large"]
    with tarfile.open(tmp_path / "logs.tar.gz") as tar:
        assert tar.getnames() == ["logs/small"]


def test_again_omits_steps_that_were_correct_and_complete():
    first = {
        "steps": [
            {"name": "versions", "verdict": "correct", "not_run": []},
            {"name": "engines", "verdict": "correct", "not_run": []},
            {"name": "losses", "verdict": "wrong", "not_run": []},
            {"name": "throughput", "verdict": "correct", "not_run": ["PyTorch graph"]},
        ]
    }
    names = [step.name for step in acceptance.steps_of("again", first)]
    assert names[:4] == ["versions", "quick steps", "losses", "throughput"]
    assert "engines" not in names and "throughput 128" in names
    assert acceptance.steps_of("again", None) == acceptance.DAY + acceptance.MORE


@pytest.mark.parametrize(
    "status, timed_out, is_cut_off, stderr, is_small, expected",
    [
        (70, False, False, "", True, FAILED),
        (-11, False, False, "", False, FAILED),
        (2, False, False, "", True, NOT_RUN),
        (None, False, False, "", True, NOT_RUN),
        (None, True, True, "", True, NOT_RUN),
        (None, True, False, "", False, NOT_RUN),
        (None, True, False, "", True, HUNG),
        (70, False, False, "watchdog timeout", False, HUNG),
    ],
)
def test_slow_program_is_not_wrong(status, timed_out, is_cut_off, stderr, is_small, expected):
    outcome = Outcome("a", [], status, 1.0, "", stderr, timed_out, is_cut_off)
    assert bisection.failure_of(outcome, is_small)[0] == expected


@pytest.mark.parametrize(
    "first, reruns, verdict, diagnosis",
    [
        (PASSED, {}, "correct", None),
        (NOT_RUN, {}, "not run", None),
        (FAILED, {SAME: [PASSED]}, "wrong", "not reproduced by a rerun"),
        (FAILED, {SAME: [NOT_RUN]}, "wrong", "no conclusion, because the rerun was not complete"),
        (
            FAILED,
            {SAME: [FAILED], "A=0": [PASSED] * 2, "--b off": [FAILED]},
            "wrong",
            "passes with A=0; fails with --b off",
        ),
        (
            FAILED,
            {SAME: [FAILED], "A=0": [PASSED, FAILED]},
            "wrong",
            "no change makes it pass: A=0",
        ),
        (
            HUNG,
            {SAME: [HUNG], "A=0": [PASSED] * 2},
            "wrong",
            "passes with A=0; fails with no other change",
        ),
        (
            HUNG,
            {SAME: [HUNG], "A=0": [HUNG]},
            "not run",
            "no rerun ended, so it hangs with every change, or the machine is slow",
        ),
        (HUNG, {SAME: [PASSED], "A=0": []}, "not run", "not reproduced by a rerun"),
    ],
)
def test_verdict_and_diagnosis_follow_from_the_reruns(first, reruns, verdict, diagnosis):
    result = report.Result("a", "")
    call = SimpleNamespace(deadline=0, end=0, result=result)
    found = reruns | {SAME: [first, *reruns.get(SAME, [])]}
    labels = [label for label in reruns if label != SAME] or ["not rerun"]
    bisection.conclude(call, "check", lambda name, label: (found[label].pop(0), ""), labels)
    assert result.verdict == verdict
    assert result.diagnoses == ([f"check: {diagnosis}"] if diagnosis else [])


def test_losses_must_be_within_the_band_of_the_curves():
    curves = [[2.0, 1.9, 1.8], [2.0, 1.91, 1.82]]
    assert not losses.deviations([2.0, 1.895, 1.83], curves, 0)
    assert len(losses.deviations([2.1, 1.9, 1.85], curves, 0)) == 2
    assert losses.deviations([2.0, 1.9, float("nan")], curves, 0.1)
    assert losses.deviations([2.0], curves, 0.1)
    bounds = [1e-5, 1e-2, 1e-2]  # with one curve, of the relative difference
    assert not losses.deviations([2.0, 1.905, 1.8], curves[:1], bounds)
    assert len(losses.deviations([2.01, 1.9, 1.82], curves[:1], bounds)) == 2


def test_tests_that_failed_or_crashed_are_found():
    output = (
        "[ RUN      ] A.F/bf16\n[       OK ] A.F/bf16 (5 ms)\n[ RUN      ] A.F/fp16\n"
        "[  FAILED  ] A.F/fp16, where GetParam() = (bn_1, cuda) (7 ms)\n[ RUN      ] A.F/fp32\n"
        "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.F/fp16, where\n"
    )
    assert correctness.failed_tests(output, timed_out=False) == ["A.F/fp16", "A.F/fp32"]
    assert correctness.failed_tests(output, timed_out=True) == ["A.F/fp16"]


def test_step_has_the_time_that_earlier_ones_did_not_use(tmp_path):
    call, result = (
        Call(SimpleNamespace(seconds=100, work=tmp_path, stub=False)),
        report.Result("a", ""),
    )
    assert call.begin(result, 30, later=40) and call.left == pytest.approx(60, abs=1)
    assert call.begin(result, 80, later=90) and call.left == pytest.approx(80, abs=1)
    assert not call.begin(result, 400, later=0)


def test_program_that_ignores_sigterm_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(call_module, "GRACE_SECONDS", 0.5)
    call = Call(SimpleNamespace(seconds=100, work=tmp_path, stub=False))
    call.begin(report.Result("a", ""), 100, later=0)
    script = "trap '' TERM; (trap '' TERM; sleep 300) & echo $$; sleep 300"
    outcome = call.run("a", ["sh", "-c", script], 0.5)
    assert outcome.timed_out and outcome.status is None and not outcome.is_cut_off
    assert not call_module.processes_of(int(outcome.stdout))


def test_call_that_is_cut_off_keeps_its_results(tmp_path):
    script = "import pathlib, dry_run; dry_run.run_stubs('day', pathlib.Path.cwd(), ['hang:plan'])"
    log = tmp_path / "lockstep-acceptance/logs/engines/engines-bf16-512.out"
    with subprocess.Popen(
        [sys.executable, "-B", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(HERE)},
    ):
        deadline = time.monotonic() + 30
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        table = subprocess.run(
            ["ps", "-eo", "pid,args", "-ww"], capture_output=True, text=True
        ).stdout
        for line in table.splitlines():
            if "acceptance.py day" in line and str(tmp_path) in line:
                os.kill(int(line.split()[0]), signal.SIGTERM)
    content = json.loads((tmp_path / "out/acceptance.json").read_text())
    assert not content["is_complete"] and content["steps"][1]["verdict"] == "correct"
    assert "Not complete" in (tmp_path / "out/acceptance.md").read_text()
