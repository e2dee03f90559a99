"""Tests of the acceptance test on a machine without a GPU: the scenarios of the dry run, and the
functions that decide. Needs pytest, h5py and NumPy, but no PyTorch. LOCKSTEP_REQUIRE_PYTORCH=1 adds a
test that runs tests/bench/pytorch_gpu.py with the installed PyTorch on the CPU (takes minutes)."""

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import acceptance  # noqa: E402
import diagnosis  # noqa: E402
import dry_run  # noqa: E402
import environment  # noqa: E402
import part_operations  # noqa: E402
import part_ranks  # noqa: E402
import part_speed  # noqa: E402
import results  # noqa: E402
import schedule  # noqa: E402
from clock import Clock  # noqa: E402
from reports import Report  # noqa: E402
from running import Outcome  # noqa: E402
from scenarios import SCENARIOS, Scenario  # noqa: E402
from small_runs import SmallRun  # noqa: E402
from test_running import running_processes  # noqa: E402


# --- scenarios -----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def scenario_results(tmp_path_factory):
    """Starts all scenarios, some at the same time; {(call, name): future of (mistakes, folder)}."""
    parent = tmp_path_factory.mktemp("scenarios")

    def run(number, scenario):
        folder = parent / str(number)
        folder.mkdir()
        return dry_run.run_scenario(scenario, folder)[0], folder

    with concurrent.futures.ThreadPoolExecutor(dry_run.PARALLEL) as pool:
        yield {(one.call, one.name): pool.submit(run, i, one)
               for i, one in enumerate(SCENARIOS)}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.call}: {one.name}")
def test_scenario_ends_with_the_expected_verdicts_and_no_processes(scenario_results, scenario):
    mistakes, folder = scenario_results[scenario.call, scenario.name].result()
    assert not mistakes
    assert not running_processes(folder)


def test_dry_run_detects_other_verdicts_and_missing_texts(tmp_path):
    scenario = Scenario("none", "measure", verdicts={1: "wrong"}, texts={1: ("this text",)})
    (tmp_path / "one").mkdir()
    mistakes, _ = dry_run.run_scenario(scenario, tmp_path / "one")
    assert mistakes == ["exit status 0", "part 1 is correct instead of wrong",
                        "part 1 lacks: this text"]


def test_second_call_restores_the_engines_of_the_first(scenario_results, tmp_path):
    _, folder = scenario_results["first-contact", "success"].result()
    count = results.restore_cache(folder / "out", tmp_path)
    assert count >= 3
    assert (tmp_path / "engines.json").is_file()
    assert sorted(path.name for path in (tmp_path / "plans").iterdir()) == ["bf16-512", "fp16-512"]


def test_sigterm_ends_all_programs_and_keeps_the_results(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    command, variables = dry_run.command_of(
        Scenario("", "first-contact", faults=("hang:--engine-log",), seconds=300), folder)
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any("--engine-log" in line for line in running_processes(folder)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    report = (folder / "out" / "acceptance.md").read_text()
    assert "**Not complete:**" in report
    content = json.loads((folder / "out" / "acceptance.json").read_text())
    assert content["is_complete"] is False
    assert content["parts"]["1"]["verdict"] == "correct"
    with tarfile.open(folder / "out" / "part-1.tar.gz") as tar:
        assert "part-1/steps-fp32-32.h5" in tar.getnames()
    assert not running_processes(folder)


@pytest.mark.requires("PYTORCH")
def test_pytorch_code_runs_on_the_cpu(tmp_path):
    assert dry_run.check_pytorch(tmp_path) == ([], "")


@pytest.mark.parametrize("module, expected", [
    ("raise ModuleNotFoundError('No module named torch')\n", (None, ["PyTorch"])),
    ("raise OSError('libtorch.so: cannot open')\n",
     (None, ["a PyTorch that can be imported (libtorch.so: cannot open)"])),
])
def test_unusable_pytorch_is_described(tmp_path, module, expected):
    (tmp_path / "torch.py").write_text(module)
    result = subprocess.run([sys.executable, "-B", str(dry_run.BENCH / "pytorch_features.py")],
                            env=os.environ | {"PYTHONPATH": str(tmp_path)}, text=True,
                            capture_output=True, timeout=60)
    found = json.loads(result.stdout)
    assert (found["torch"], found["missing"]) == expected


# --- schedule and clock --------------------------------------------------------------------------

@pytest.mark.parametrize("call", schedule.CALLS)
def test_parts_fill_the_call_and_their_files_come_back(call):
    parts = schedule.CALLS[call]
    assert sum(schedule.weights(call).values()) == schedule.SECONDS
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    assert len(parts) <= results.MAX_PARTS
    assert results.MAX_PARTS + 2 <= 8  # the report and the JSON file
    assert results.MAX_PARTS * results.ARCHIVE_BYTES < 64 * 2**20


def test_pytorch_does_not_start_before_engines_are_selected():
    steps = [step for part in schedule.FIRST_CONTACT for _, step in part.steps]
    assert steps.index(part_speed.pytorch_512) > steps.index(part_speed.speed_512)


def test_time_that_a_step_did_not_use_is_distributed_over_later_steps(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("clock.time.monotonic", lambda: now[0])
    clock = Clock(60, {1: 10, 2: 20, 3: 30})
    clock.begin(1)
    assert clock.left == pytest.approx(10)
    now[0] += 5
    clock.begin(2)
    assert clock.left == pytest.approx(22)  # 55 s in the ratio 20 : 30
    clock.extend(40)
    assert clock.left == pytest.approx(40)
    clock.extend(1000)
    assert clock.left == pytest.approx(55)  # not beyond the end of the call


# --- results -------------------------------------------------------------------------------------

def test_archive_has_the_part_and_its_new_engines_only(tmp_path):
    out, cache, folder = (tmp_path / name for name in ("out", "cache", "part-2"))
    for path in (out, cache, folder):
        path.mkdir()
    (cache / "old").write_text("old")
    one = results.Results(out, cache)
    one.begin_part()
    (cache / "engines.json").write_text("{}")
    (folder / "run.h5").write_text("run")
    one.save(2, folder, {"verdict": "correct"})
    with tarfile.open(out / "part-2.tar.gz") as tar:
        assert tar.getnames() == ["part-2/part-2.json", "part-2/run.h5", "cache/engines.json"]
    assert json.loads((out / "acceptance.json").read_text())["parts"]["2"]["left_out"] == []
    assert sorted(path.name for path in out.iterdir()) == ["acceptance.json", "part-2.tar.gz"]


def test_archive_leaves_out_files_that_exceed_its_limit(tmp_path):
    (tmp_path / "small").write_bytes(os.urandom(1000))
    (tmp_path / "large").write_bytes(os.urandom(5000))
    files = {"large": tmp_path / "large", "small": tmp_path / "small", "gone": tmp_path / "gone"}
    assert results.pack(tmp_path / "a.tar.gz", files, limit=4000) == ["large", "gone"]
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        assert tar.getnames() == ["small"]


def test_long_logs_keep_their_end(tmp_path):
    (tmp_path / "a.log").write_text("begin" + "x" * 100 + "end")
    (tmp_path / "a.h5").write_text("y" * 100)
    for path in tmp_path.iterdir():
        results.shorten(path, 10)
    assert (tmp_path / "a.log").read_text().endswith("xxxxxxxend")
    assert len((tmp_path / "a.h5").read_text()) == 100


def test_cache_is_not_restored_from_damaged_archives_or_to_other_folders(tmp_path):
    (tmp_path / "part-1.tar.gz").write_text("not an archive")
    with pytest.raises(OSError):
        results.restore_cache(tmp_path, tmp_path / "cache")
    with pytest.raises(OSError):
        results.restore_cache(tmp_path / "none.tar.gz", tmp_path / "cache")
    (tmp_path / "file").write_text("x")
    with tarfile.open(tmp_path / "part-1.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "file", "cache/../../outside")
        tar.add(tmp_path / "file", "part-1/run.h5")
    assert results.restore_cache(tmp_path / "part-1.tar.gz", tmp_path / "inner" / "cache") == 0
    assert not (tmp_path / "outside").exists()


# --- verdicts of parts and reruns ----------------------------------------------------------------

def test_verdict_is_wrong_only_after_a_failure():
    report = Report(1, "title")
    assert report.verdict == "not run"
    report.not_run("speed", "no time")
    assert report.verdict == "not run"
    report.check(True, "")
    assert report.verdict == "correct"
    assert not report.add_outcome(Outcome("a", [], None, 1.0, timed_out=True, is_cut_off=True))
    assert report.verdict == "correct"
    assert report.add_outcome(Outcome("a", [], None, 1.0, timed_out=True))
    assert report.verdict == "wrong"
    assert report.add_outcome(Outcome("a", [], 70, 1.0))
    assert not report.add_outcome(Outcome("a", [], 2, 1.0))  # a rerun does not explain a usage error
    assert len(report.failures) == 3


P, F, N, H = diagnosis.PASSED, diagnosis.FAILED, diagnosis.NOT_RUN, diagnosis.HUNG
OTHERS = (diagnosis.BLOCKING, diagnosis.EAGER, diagnosis.NO_FUSION, diagnosis.FP32, diagnosis.QUICK)


@pytest.mark.parametrize("changed, expected", [
    ({diagnosis.REPEAT: P}, "not reproduced by three steps"),
    ({diagnosis.REPEAT: N}, "no conclusion"),
    ({}, "none of graph capture, fusion and precision alone"),
    ({diagnosis.EAGER: P}, "cause: CUDA graph capture"),
    ({diagnosis.NO_FUSION: P, diagnosis.FP32: P}, "cause: batch-norm fusion"),
    ({diagnosis.EAGER: P, diagnosis.NO_FUSION: P},
     "cause: CUDA graph capture together with batch-norm fusion"),
    ({diagnosis.QUICK: P, diagnosis.FP32: P}, "cause: a selected engine"),
    ({diagnosis.FP32: P}, "cause: precision bf16"),
    ({diagnosis.BLOCKING: P}, "an order between streams is missing"),
    ({diagnosis.REPEAT: H, diagnosis.EAGER: P}, "cause: CUDA graph capture"),
    (dict.fromkeys((diagnosis.REPEAT, *OTHERS), H), "no rerun ended within its time limit"),
])
def test_conclusion_names_the_cause(changed, expected):
    one = {diagnosis.REPEAT: F} | dict.fromkeys(OTHERS, F) | changed
    line = diagnosis.conclusion(SmallRun("bf16", 512, "timed"), one)
    assert expected in line and "\n" not in line


def test_conclusion_has_the_first_error_of_memcheck():
    text = ("========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 16 bytes\n"
            "=========     at run_kernel\n========= Invalid __shared__ read of size 4 bytes\n")
    error = diagnosis.first_error(text)
    assert error == "Invalid __global__ write of size 16 bytes"
    assert error in diagnosis.conclusion(SmallRun("fp32"), {diagnosis.REPEAT: F}, error)
    assert diagnosis.first_error("========= ERROR SUMMARY: 0 errors") == ""


@pytest.mark.parametrize("outcomes, expected", [
    ({"staged": "correct", "nccl": "correct"}, ""),
    ({"staged": "wrong", "nccl": "correct"}, "the cause is not NCCL"),
    ({"staged": "failed", "nccl": "hang"}, "a cause that both share"),
    ({"staged": "correct", "nccl": "hang"}, "the cause is NCCL or its capture"),
    ({"staged": "correct", "nccl": "wrong", "no overlap": "correct"}, "the overlap is the cause"),
    ({"staged": "correct", "nccl": "wrong", "no overlap": "hang"}, "--reducer allreduce is hang"),
    ({"nccl": "not run"}, ""),
])
def test_conclusion_of_two_ranks(outcomes, expected):
    line = part_ranks.conclusion(outcomes)
    assert expected in line if expected else line == ""


# --- agreement tests -----------------------------------------------------------------------------

GTEST_OUTPUT = """\
[ RUN      ] A.Forward/bn_1_cuda_bf16
[       OK ] A.Forward/bn_1_cuda_bf16 (5 ms)
[ RUN      ] A.Forward/bn_1_cuda_fp16_fusion_sums
[  FAILED  ] A.Forward/bn_1_cuda_fp16_fusion_sums, where GetParam() = (bn_1, cuda) (7 ms)
[ RUN      ] A.Skipped
[  SKIPPED ] A.Skipped (0 ms)
[ RUN      ] A.Forward/block_cuda_fp32
"""


def test_results_of_tests_are_read_from_incomplete_output():
    assert part_operations.read_tests(GTEST_OUTPUT) == {
        "A.Forward/bn_1_cuda_bf16": "OK", "A.Forward/bn_1_cuda_fp16_fusion_sums": "FAILED",
        "A.Skipped": "SKIPPED", "A.Forward/block_cuda_fp32": "RUN"}
    summary = "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.Forward/bn_1_cuda_fp16_fusion_sums, w\n"
    assert part_operations.read_tests(GTEST_OUTPUT + summary) == \
        part_operations.read_tests(GTEST_OUTPUT)


def test_failed_tests_are_described_by_what_they_have_in_common():
    line = part_operations.pattern_of(
        ["A/bn_1_cuda_bf16_fusion_sums", "A/block_cuda_bf16_fusion_sums"],
        ["A/bn_1_cuda_bf16", "A/conv_cuda_bf16_fusion_sums", "A/bn_1_cuda_fp32"])
    assert "bf16 fusion sums: 2 of 3 failed" in line
    assert "only precision bf16 and fusion sums" in line
    assert "no failure in bf16 fusion auto, fp32 fusion auto" in line


# --- environment and arguments -------------------------------------------------------------------

def test_variables_of_the_script_reach_the_programs_but_not_this_process(tmp_path):
    (tmp_path / ".gpu").mkdir()
    script = tmp_path / ".gpu" / "env.sh"
    script.write_text('echo noise\nexport LD_LIBRARY_PATH=$PWD/.gpu/lib OPAL_PREFIX=/x\n')
    found = environment.program_variables(str(script), ["/own"])
    assert found["LD_LIBRARY_PATH"] == f"/own:{tmp_path}/.gpu/lib"
    assert found["OPAL_PREFIX"] == "/x"
    assert "OPAL_PREFIX" not in os.environ
    script.write_text("exit 3\n")
    with pytest.raises(OSError, match="exit status 3"):
        environment.program_variables(str(script), [])


def commands_of(scenario_results, call, name):
    """Returns {name: command line} of all programs of a scenario."""
    _, folder = scenario_results[call, name].result()
    content = json.loads((folder / "out" / "acceptance.json").read_text())
    return {one["name"]: one["command"] for part in content["parts"].values()
            for one in part["commands"]}


def test_failures_leave_evidence_and_do_not_change_the_engines(scenario_results):
    commands = commands_of(scenario_results, "first-contact", "stream order, slow ladder")
    reruns = [line for name, line in commands.items() if name.startswith("rerun ")]
    timed = [line for line in reruns if "--engines timed" in line]
    assert len(timed) >= 4
    assert all("CUDNN_LOGLEVEL_DBG=1" in line for line in reruns)
    assert all("/cache-copy " in line for line in timed)
    assert any("CUDA_LAUNCH_BLOCKING=1" in line for line in timed)
    assert any("--tool memcheck" in line for line in timed)
    assert "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1" in commands["steps bf16 32"]
    assert "NCCL_DEBUG=INFO" in commands["two ranks nccl"]


def test_only_programs_under_test_are_wrapped(scenario_results):
    commands = commands_of(scenario_results, "first-contact", "success").values()
    assert all(line.startswith("env ") for line in commands if "stub.py lockstep" in line)
    assert not any(line.startswith("env ") for line in commands if "stub.py torch" in line)
    quick = [line for line in commands if "--engines quick" in line]
    assert quick and all("LOCKSTEP_CACHE_DIR=" in line and "/cache " not in line for line in quick)
    assert all("CUDA_ENABLE_COREDUMP" not in line for line in commands if "--engines timed" in line)


def test_missing_arguments_and_programs_end_the_call_at_once(tmp_path):
    with pytest.raises(SystemExit) as error:
        acceptance.parse_arguments(["measure", "--data", str(tmp_path)])
    assert error.value.code == 2
    args = types.SimpleNamespace(lockstep=str(tmp_path / "none"), tests=[], data=tmp_path)
    with pytest.raises(SystemExit, match="does not exist"):
        acceptance.check_inputs(args, Report(1, ""))
    report = Report(1, "")
    args.lockstep, args.tests = sys.executable, [str(tmp_path / "test")]
    acceptance.check_inputs(args, report)
    assert len(report.failures) == 2


def test_option_mistakes_are_unknown_options_and_values(tmp_path):
    descriptions = dry_run.parse_help("Group:\n  --device WHICH  device of\n         a rank: cpu, "
                                      "cuda [cpu]\n  --json  JSON\n")
    mistakes = dry_run.option_mistakes
    assert not mistakes(["train", "--device", "cuda", "--json"], descriptions)
    assert mistakes(["train", "--device", "gpu"], descriptions) == \
        ["--device gpu: the values are cpu, cuda"]
    assert mistakes(["train", "--jsn"], descriptions) == ["--jsn is not an option of train"]
    program = tmp_path / "lockstep"
    program.write_text("#!/bin/sh\necho '  --json  JSON'\n")
    program.chmod(0o755)
    assert dry_run.check_options(str(program), [["plan", "--json"], ["plan", "--other", "1"]]) == \
        ["--other is not an option of plan"]
