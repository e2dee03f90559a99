"""Tests of the acceptance test on a machine without a GPU: dry runs with stubs of all programs, and injected faults.

Needs pytest, h5py and NumPy. The tests do not depend on the installed PyTorch. LOCKSTEP_TEST_PYTORCH=1 adds a test that
runs tests/bench/pytorch_gpu.py with the installed PyTorch on the CPU (takes minutes; PyTorch 2.3 or newer).

Runs in which a program hangs until its time limit start at the beginning and run in the background
(`background_runs`); the tests at the end of this file check their results.
"""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import time
import types

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import dry_run  # noqa: E402
import measures  # noqa: E402
import part_throughput  # noqa: E402
import running  # noqa: E402
import sample_order  # noqa: E402
from running import Runner  # noqa: E402

# Contents of modules named torch that replace the installed PyTorch.
NO_TORCH = "raise ModuleNotFoundError('No module named torch')\n"
DAMAGED_TORCH = "raise OSError('libtorch.so: cannot open shared object file')\n"
OLD_TORCH = """
__version__ = "1.13.1"
class optim:
    class SGD:
        def __init__(self, params, lr, momentum=0, foreach=None): pass
"""

# Each entry is one run: (parts, injected faults, {part: text that its section of the report must contain}). A part that
# runs and is not in the dictionary must pass.
FAULTY_RUNS = [
    ("abce", ["fail:info", "fail:gtest", "nan:--precision fp16", "garbage:ladder", "wrong:allreduce"],
     {"0": "head lockstep info: exit status 70", "a": "exit status 70", "b": "b fp16: a loss is not finite",
      "c": "printed no JSON object", "e": "e all-reduce nccl: a sum is wrong"}),
    ("abcdef", ["garbage:gtest", "wrong:b-bf16.h5", "crash:--memory-limit", "fail:plan", "nan:--transport staged",
                "wrong:--init-from"],
     {"a": "ran no test", "b": "is below the minimum", "c": "expected status 0 or 4",
      "d": "d roofline bound 16 bf16: exit status 70", "e": "a loss is not finite", "f": "outside"}),
    ("abcdef", ["fail:memcheck", "fail:accuracy", "out-of-memory:ladder", "short-phases:--data-residency", "wrong:--transport nccl",
                "garbage:losses"],
     {"a": "a sanitizer memcheck: exit status 70", "b": "b pytorch: exit status 70", "c": "exit status 4",
      "d": "the wall clock", "e": "step 2", "f": "printed no losses"}),
    ("abcdef", ["out-of-memory:--batch-per-rank 27244", "fail:--data-residency host", "garbage:--transport nccl",
                "fail:losses"],
     {"c": "is predicted to fit", "d": "d 16 bf16 host 1: exit status 70", "e": "cannot be read",
      "f": "exit status 70"}),
    ("cde", ["fail:ladder", "fail:speed"], {"c": "injected failure", "d": "no PyTorch configuration was measured"}),
    ("cf", ["fail:c-after"], {"c": "smaller batch afterwards: exit status 70"}),
]
# Runs in which a program hangs until its time limit: {name: (parts, minutes, fault, text in the report)}.
HANGING_RUNS = {
    "two ranks": ("e", "0.45", "hang:--transport nccl", "reached its time limit"),
    "ladder": ("c", "0.45", "hang:ladder", "reached its time limit"),
    "PyTorch throughput": ("d", "0.6", "hang:speed", "not ready in time"),
    "PyTorch losses": ("f", "0.45", "hang:losses", "reached its time limit"),
}
TOO_MANY_ROUNDS = "too many rounds"


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with files that have the names and sizes of the CIFAR-10 files."""
    folder = tmp_path_factory.mktemp("cifar")
    for name in dry_run.DATA_FILES:
        with open(folder / name, "wb") as file:
            file.truncate(dry_run.RECORDS * dry_run.RECORD_BYTES)
    return folder


@pytest.fixture(scope="session")
def command_in(data, tmp_path_factory):
    """A function that returns the command and environment of a dry run in `folder`. A shell script that starts the stub
    replaces lockstep."""
    cache = tmp_path_factory.mktemp("cache")

    def make(folder, *arguments, faults="", hidden=""):
        program = folder / "lockstep"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/stub.py" lockstep "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        command = [sys.executable, "-B", str(HERE / "acceptance.py"), "--lockstep", str(program), "--data", str(data),
                   "--out", str(folder / "out"), "--tests", str(program), "--mpirun", "sh", "--dry-run", "--batches",
                   "16", "--rounds", "1", *arguments]
        return command, os.environ | {"STUB_FAULTS": faults, "STUB_HIDDEN_OPTIONS": hidden, "STUB_CACHE": str(cache),
                                      "TMPDIR": str(folder)}

    return make


@pytest.fixture(scope="session", autouse=True)
def background_runs(command_in, tmp_path_factory):
    """Starts the runs that wait for a time limit; yields {name: (process, folder)}."""
    runs = {}

    def start(name, *arguments, faults=""):
        folder = tmp_path_factory.mktemp("background")
        command, environment = command_in(folder, "--skip-torch", *arguments, faults=faults)
        runs[name] = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL), folder

    for name, (parts, minutes, faults, _) in HANGING_RUNS.items():
        start(name, "--parts", parts, "--minutes", minutes, faults=faults)
    start(TOO_MANY_ROUNDS, "--parts", "d", "--minutes", "0.6", "--rounds", "5")
    yield runs
    for process, _ in runs.values():
        if process.poll() is None:
            running.stop_tree(process)


@pytest.fixture
def run(command_in, tmp_path):
    """A function that runs the command and returns (exit status, report, {part: verdict}). `torch` is None to omit the
    PyTorch code, the contents of a module that replaces PyTorch, or empty for the installed PyTorch."""
    def run_command(*arguments, faults="", hidden="", torch=None):
        command, environment = command_in(tmp_path, *arguments, faults=faults, hidden=hidden)
        if torch is None:
            command.append("--skip-torch")
        elif torch:
            module = tmp_path / "modules" / "torch.py"
            module.parent.mkdir()
            module.write_text(torch)
            environment["PYTHONPATH"] = str(module.parent)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        return result.returncode, *report_of(tmp_path, result.stderr)

    return run_command


def report_of(folder, errors=""):
    """Returns (report, {part: verdict}) of a complete run and checks that all of its processes have ended."""
    path = folder / "out" / "acceptance.md"
    assert path.is_file(), errors
    report = path.read_text()
    assert "Not complete" not in report
    assert not running_processes(folder)
    return report, verdicts(report)


def verdicts(report):
    return dict(re.findall(r"^\| (\w) [^|]*\| ([^|]*?) \|", report, re.MULTILINE))


def section(report, letter):
    return re.search(rf"^## {letter}\. .*?(?=^## |\Z)", report, re.MULTILINE | re.DOTALL).group()


def running_processes(folder):
    """Returns the command lines of the running processes that contain the path of `folder`."""
    commands = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/" in line:
                commands.append(line)
    return commands


# --- dry runs without faults ---------------------------------------------------------------------------------

def test_dry_run_runs_every_part(run, tmp_path):
    status, report, verdict_of = run()
    assert status == 0, report
    assert "**Dry run: nothing was measured.**" in report.split("## Verdicts")[0]
    assert verdict_of == dict.fromkeys("0abfedcP", "PASS") | {"T": "NOT RUN"}
    for text in ("Lockstep bf16 device", "Lockstep fp16 host", "PyTorch compile_graph", "PyTorch host",
                 "share of the roofline bound", "32768 | out_of_memory", "Measured limit", "racecheck", "one rank",
                 "minimum test accuracy", "PyTorch contiguous", "computes the statistics of 1 of 1 batch norms",
                 "fp16 device none", "bf16 gradients with transport nccl", "bf16 gradients with transport staged"):
        assert text in report, text
    raw = json.loads((tmp_path / "out" / "acceptance.json").read_text())
    assert raw["dry_run"] is True
    assert all(command["status"] in (0, 4) for command in raw["commands"])


def test_report_lists_the_parts_that_are_not_selected(run):
    status, report, verdict_of = run("--parts", "b")
    assert status == 0
    assert verdict_of["b"] == "PASS"
    assert verdict_of["d"] == "NOT RUN"
    assert "--parts does not select it" in report


@pytest.mark.parametrize("torch, expected", [
    (NO_TORCH, ("PyTorch (none)",)),
    (DAMAGED_TORCH, ("cannot open shared object file",)),
    (OLD_TORCH, ("PyTorch 1.13.1", "torch.compile", "SGD(fused=True)")),
])
def test_unusable_pytorch_is_reported_and_not_run(run, torch, expected):
    status, report, verdict_of = run("--parts", "b", torch=torch)
    assert (status, verdict_of["T"]) == (0, "NOT RUN"), report
    for text in expected:
        assert text in section(report, "T")


@pytest.mark.skipif(os.environ.get("LOCKSTEP_TEST_PYTORCH") != "1", reason="LOCKSTEP_TEST_PYTORCH is not 1")
def test_pytorch_code_runs_on_the_cpu(run):
    status, report, verdict_of = run("--parts", "b", torch="")
    assert verdict_of["T"] == "PASS", report
    assert status == 0


# --- missing programs and injected faults --------------------------------------------------------------------

def test_unknown_options_are_reported(run):
    status, report, verdict_of = run("--parts", "bc", hidden="--data-residency,--write-device-description")
    assert (status, verdict_of["P"], verdict_of["b"]) == (1, "FAILED", "PASS")
    assert "--data-residency is not an option of train" in report
    assert "--write-device-description is not an option of info" in report


def test_option_mistakes_are_unknown_options_and_values():
    descriptions = dry_run.parse_help("Group:\n  --device WHICH  device of\n         a rank: cpu, cuda [cpu]\n  --json  JSON\n")
    assert not dry_run.option_mistakes(["train", "--device", "cuda", "--json"], descriptions)
    assert dry_run.option_mistakes(["train", "--device", "gpu"], descriptions) == ["--device gpu: the values are cpu, cuda"]
    assert dry_run.option_mistakes(["train", "--jsn"], descriptions) == ["--jsn is not an option of train"]


def test_missing_programs_and_images_are_reported(run, tmp_path):
    status, report, verdict_of = run("--parts", "b", "--lockstep", str(tmp_path / "nothing"), "--data", str(tmp_path),
                              "--tests", str(tmp_path / "none_test"))
    assert (status, verdict_of["P"]) == (1, "FAILED")
    for text in ("nothing does not exist", "none_test: the program does not exist", "data_batch_1.bin does not exist"):
        assert text in report


@pytest.mark.parametrize("parts, faults, expected", FAULTY_RUNS, ids=range(1, len(FAULTY_RUNS) + 1))
def test_injected_faults_fail_only_their_parts(run, parts, faults, expected):
    status, report, verdict_of = run("--parts", parts, faults=",".join(faults))
    assert status == 1
    for part, text in expected.items():
        assert verdict_of[part] == "FAILED", section(report, part)
        assert text in section(report, part)
    for part in {"0", *parts} - set(expected):
        assert verdict_of[part] == "PASS", section(report, part)


def test_sigterm_ends_all_programs_and_writes_the_report(command_in, tmp_path):
    command, environment = command_in(tmp_path, "--skip-torch", "--parts", "bc", faults="hang:ladder")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "part c" in line:
            break
    while not any("stub.py lockstep ladder" in line for line in running_processes(tmp_path)):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    report = (tmp_path / "out" / "acceptance.md").read_text()
    assert "**Not complete:**" in report
    assert verdicts(report)["b"] == "PASS"
    assert not running_processes(tmp_path)


# --- functions -----------------------------------------------------------------------------------------------

def test_command_that_ignores_sigterm_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GRACE_SECONDS", 1.0)
    script = tmp_path / "ignores-sigterm.sh"
    script.write_text("trap '' TERM\nif [ $# -eq 0 ]; then setsid sh \"$0\" child & fi\nsleep 300 & wait\n")
    runner = Runner(tmp_path, dict(os.environ))
    outcome = runner.run("ignores-sigterm", ["sh", str(script)], 1.0)
    assert outcome.timed_out and outcome.status is None
    assert not running_processes(tmp_path)
    assert not runner.running


def test_command_that_does_not_exist_is_a_failure(tmp_path):
    runner = Runner(tmp_path, dict(os.environ))
    assert "cannot be started" in runner.run("none", [str(tmp_path / "none")], 1.0).failure
    assert not runner.running


def test_unrecorded_process_is_killed(tmp_path):
    """Simulates a signal that interrupts `Runner.start` before it records the process. The test uses a separate Python
    process, because `stop_all` ends all descendants of its process."""
    script = (f"import os, sys; sys.path.insert(0, {str(HERE)!r}); from running import Runner; "
              f"runner = Runner({str(tmp_path)!r}, dict(os.environ)); "
              "process = runner.start('unrecorded', ['sleep', '300']); "
              "runner.running.clear(); runner.stop_all(); print(process.wait(10))")
    result = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == f"{-signal.SIGKILL}\n", result.stderr


def test_variant_that_is_not_ready_in_time_is_abandoned(tmp_path):
    program = """
import signal, time
def abandon(*_):
    raise TimeoutError
signal.signal(signal.SIGUSR1, abandon)
print('{"ready": "graph"}', flush=True)
try:
    time.sleep(300)
except TimeoutError:
    print('{"failed": "eager", "error": "abandoned"}', flush=True)
print('{"ready": "host"}', flush=True)
print('{"all_ready": ["graph", "host"]}', flush=True)
time.sleep(300)
"""
    runner = Runner(tmp_path, dict(os.environ))
    context = types.SimpleNamespace(runner=runner, args=types.SimpleNamespace(data=""),
                                    torch=lambda *_: [sys.executable, "-c", program])
    process = part_throughput.PytorchProcess(context, 16, ("graph", "eager", "host"))
    process.wait_for_warm_up(time.monotonic() + 5)
    assert process.ready == ["graph", "host"]
    assert process.errors == {"eager": part_throughput.NOT_READY}
    process.stop()
    assert not runner.running


def test_philox_returns_the_published_numbers():
    zeros = sample_order.philox(np.zeros((1, 4), np.uint64), (0, 0))
    assert zeros.tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]
    ones = sample_order.philox(np.full((1, 4), 0xFFFFFFFF, np.uint64), (0xFFFFFFFF, 0xFFFFFFFF))
    assert ones.tolist() == [[0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]]


def test_epoch_order_is_a_permutation_that_depends_on_seed_and_epoch():
    order = sample_order.epoch_order(2560, 7)
    assert sorted(order.tolist()) == list(range(2560))
    assert order.tolist() != sample_order.epoch_order(2560, 8).tolist()
    assert order.tolist() != sample_order.epoch_order(2560, 7, epoch=1).tolist()


def test_losses_deviate_if_they_exceed_the_bound_of_their_step():
    losses = [2.0, 1.9, 1.8]
    assert not measures.loss_deviations(losses, losses, ((1, 0), (3, 0)))
    assert measures.loss_deviations([2.0, 1.9, float("nan")], losses, ((1, 1e-5), (3, 1e-2)))
    assert measures.loss_deviations([2.01, 1.9, 1.8], losses, ((1, 1e-5), (3, 1e-2)))
    assert not measures.loss_deviations([2.0, 1.905, 1.8], losses, ((1, 1e-5), (3, 1e-2)))
    assert measures.loss_deviations([2.0], losses, ((3, 1e-2),))


def test_losses_deviate_if_they_are_outside_the_band_by_more_than_the_spread():
    band = measures.loss_band([[2.0, 1.9, 1.8], [2.0, 1.91, 1.82]], tolerance=0.0)
    assert not band.deviations([2.0, 1.895, 1.83])
    assert len(band.deviations([2.1, 1.9, 1.85])) == 2
    assert band.deviations([2.0, 1.9, float("nan")])
    assert band.deviations([2.0])


# --- runs in the background: their tests are last, because the runs take longest -----------------------------

@pytest.mark.parametrize("name", HANGING_RUNS)
def test_hanging_program_is_ended_at_its_time_limit(background_runs, name):
    process, folder = background_runs[name]
    part, _, _, text = HANGING_RUNS[name]
    assert process.wait(150) == 1
    report, verdict_of = report_of(folder)
    assert verdict_of[part] == "FAILED", report
    assert text in report


def test_measurements_that_exceed_the_time_are_skipped(background_runs):
    process, folder = background_runs[TOO_MANY_ROUNDS]
    process.wait(150)
    report, _ = report_of(folder)
    assert "**SKIPPED** d batch 16 Lockstep fp16 host" in report
    assert "skipped: " in report

