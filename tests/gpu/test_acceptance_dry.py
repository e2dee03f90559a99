"""Tests of the acceptance run on a machine without a GPU: its dry run with simulated programs, and injected faults.

`python test_acceptance_dry.py` and pytest need h5py and NumPy. No test depends on the installed PyTorch, because it is
simulated too. LOCKSTEP_TEST_PYTORCH=1 adds a test that runs tests/bench/pytorch_gpu.py with the installed PyTorch on
the CPU (takes minutes; PyTorch 2.3 or newer).

Runs that wait for a time limit start together at the beginning (`waiting_runs`); their tests read the results at the
end.
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

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import dry  # noqa: E402
import measures  # noqa: E402
import running  # noqa: E402
import sample_order  # noqa: E402
from running import Runner  # noqa: E402

# Modules named torch that replace the installed one.
NO_TORCH = "raise ModuleNotFoundError('No module named torch')\n"
DAMAGED_TORCH = "raise OSError('libtorch.so: cannot open shared object file')\n"
OLD_TORCH = """
__version__ = "1.13.1"
class optim:
    class SGD:
        def __init__(self, params, lr, momentum=0, foreach=None): pass
"""

# Each entry is one run: (parts, injected faults, {part: text that its section of the page must contain}). A part that
# runs and is not in the dictionary must pass.
ROUNDS = [
    ("abce", ["fail:info", "fail:gtest", "nan:--precision fp16", "garbage:ladder", "drift:allreduce"],
     {"0": "head lockstep info: exit status 70", "a": "exit status 70", "b": "b fp16: a loss is not finite",
      "c": "printed no JSON object", "e": "e sums nccl: wrong sums"}),
    ("abcdef", ["garbage:gtest", "drift:b-bf16.h5", "crash:--memory-limit", "fail:plan", "nan:--transport staged",
                "drift:--init-from"],
     {"a": "ran no test", "b": "below the sanity bound", "c": "neither trains nor ends with status 4",
      "d": "d floor 16 bf16: exit status 70", "e": "a loss is not finite", "f": "outside"}),
    ("abcdef", ["fail:memcheck", "fail:accuracy", "memory:ladder", "lax:--data-residency", "drift:--transport nccl",
                "garbage:losses"],
     {"a": "a sanitizer memcheck: exit status 70", "b": "b pytorch: exit status 70", "c": "exit status 4",
      "d": "the wall clock", "e": "step 2", "f": "printed no losses"}),
    ("abcdef", ["memory:--batch-per-rank 27244", "fail:--data-residency host", "garbage:--transport nccl", "fail:losses"],
     {"c": "is predicted to fit", "d": "d 16 bf16 host 1: exit status 70", "e": "cannot be read", "f": "exit status 70"}),
    ("cde", ["fail:ladder", "fail:speed"], {"c": "planted failure", "d": "nothing of PyTorch was measured"}),
    ("cf", ["fail:c-after"], {"c": "smaller batch afterwards: exit status 70"}),
]
# Runs in which a program hangs until its time limit: (parts, minutes, fault, text on the page).
WAITING = {
    "two ranks hang": ("e", "0.45", "hang:--transport nccl", "its limit"),
    "the ladder hangs": ("c", "0.45", "hang:ladder", "its limit"),
    "PyTorch hangs": ("d", "0.6", "hang:speed", "not ready in time"),
    "losses hang": ("f", "0.45", "hang:losses", "its limit"),
}
TOO_MUCH = "more rounds than fit"


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with files of the same names and sizes as those of CIFAR-10."""
    folder = tmp_path_factory.mktemp("cifar")
    for name in dry.DATA_FILES:
        with open(folder / name, "wb") as file:
            file.truncate(dry.RECORDS * dry.RECORD_BYTES)
    return folder


@pytest.fixture(scope="session")
def command_in(data, tmp_path_factory):
    """A function that returns the command and environment of a dry run in `folder`; a shell script replaces
    lockstep."""
    cache = tmp_path_factory.mktemp("cache")

    def make(folder, *arguments, wrong="", hide=""):
        program = folder / "lockstep"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/stand_in.py" lockstep "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        command = [sys.executable, "-B", str(HERE / "acceptance.py"), "--lockstep", str(program), "--data", str(data),
                   "--out", str(folder / "out"), "--tests", str(program), "--mpirun", "sh", "--dry-run", "--batches",
                   "16", "--rounds", "1", *arguments]
        return command, os.environ | {"STAND_IN": wrong, "STAND_IN_HIDE": hide, "STAND_IN_CACHE": str(cache),
                                      "TMPDIR": str(folder)}

    return make


@pytest.fixture(scope="session", autouse=True)
def waiting_runs(command_in, tmp_path_factory):
    """Starts the runs that wait for a time limit; yields {name: (process, folder)}."""
    found = {}

    def start(name, *arguments, wrong=""):
        folder = tmp_path_factory.mktemp("waiting")
        command, environment = command_in(folder, "--skip-torch", *arguments, wrong=wrong)
        found[name] = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL), folder

    for name, (parts, minutes, wrong, _) in WAITING.items():
        start(name, "--parts", parts, "--minutes", minutes, wrong=wrong)
    start(TOO_MUCH, "--parts", "d", "--minutes", "0.6", "--rounds", "5")
    yield found
    for process, _ in found.values():
        if process.poll() is None:
            running.stop_tree(process)


@pytest.fixture
def run(command_in, tmp_path):
    """A function that runs the command and returns (exit status, page, {part: verdict})."""
    def go(*arguments, wrong="", hide="", torch=None):
        command, environment = command_in(tmp_path, *arguments, wrong=wrong, hide=hide)
        if torch is None:
            command.append("--skip-torch")
        elif torch:
            module = tmp_path / "modules" / "torch.py"
            module.parent.mkdir()
            module.write_text(torch)
            environment["PYTHONPATH"] = str(module.parent)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        return result.returncode, *page_of(tmp_path, result.stderr)

    return go


def page_of(folder, errors=""):
    """Returns (page, {part: verdict}) of a finished run and checks that all of its processes have ended."""
    path = folder / "out" / "acceptance.md"
    assert path.is_file(), errors
    page = path.read_text()
    assert "Not complete" not in page
    assert not left_over(folder)
    return page, verdicts(page)


def verdicts(page):
    return {letter: verdict for letter, verdict in re.findall(r"^\| (\w) [^|]*\| ([^|]*?) \|", page, re.MULTILINE)}


def section(page, letter):
    return re.search(rf"^## {letter}\. .*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL).group()


def left_over(folder):
    """Returns the command lines of running processes that contain the path of `folder`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/" in line:
                found.append(line)
    return found


# --- without faults ------------------------------------------------------------------------------------------

def test_everything_is_exercised_and_nothing_measured(run, tmp_path):
    status, page, found = run()
    assert status == 0, page
    assert "**Dry run: nothing measured.**" in page.split("## Verdicts")[0]
    assert found == dict.fromkeys("0abfedcP", "PASS") | {"T": "NOT RUN"}
    for words in ("Lockstep bf16 device", "Lockstep fp16 host", "PyTorch compile_graph", "PyTorch host",
                  "share of the floor", "32768 | out_of_memory", "True limit", "racecheck", "one rank",
                  "Sanity bound", "PyTorch contiguous", "take their sums from the convolution", "fp16 device none",
                  "Sums of bf16 by nccl", "Sums of bf16 by staged"):
        assert words in page, words
    raw = json.loads((tmp_path / "out" / "acceptance.json").read_text())
    assert raw["dry_run"] is True
    assert all(one["status"] in (0, 4) for one in raw["commands"])


def test_parts_left_out_are_named(run):
    status, page, found = run("--parts", "b")
    assert status == 0
    assert found["b"] == "PASS"
    assert found["d"] == "NOT RUN"
    assert "not among --parts" in page


@pytest.mark.parametrize("torch, words", [
    (NO_TORCH, ("PyTorch (none)",)),
    (DAMAGED_TORCH, ("cannot open shared object file",)),
    (OLD_TORCH, ("PyTorch 1.13.1", "torch.compile", "SGD(fused=True)")),
])
def test_a_pytorch_that_cannot_be_used_is_named_and_not_run(run, torch, words):
    status, page, found = run("--parts", "b", torch=torch)
    assert (status, found["T"]) == (0, "NOT RUN"), page
    for one in words:
        assert one in section(page, "T")


@pytest.mark.skipif(os.environ.get("LOCKSTEP_TEST_PYTORCH") != "1", reason="LOCKSTEP_TEST_PYTORCH is not 1")
def test_pytorch_code_on_the_cpu(run):
    status, page, found = run("--parts", "b", torch="")
    assert found["T"] == "PASS", page
    assert status == 0


# --- missing programs and injected faults --------------------------------------------------------------------

def test_options_the_program_does_not_know(run):
    status, page, found = run("--parts", "bc", hide="--data-residency,--write-device-description")
    assert (status, found["P"], found["b"]) == (1, "FAILED", "PASS")
    assert "--data-residency is not an option of train" in page
    assert "--write-device-description is not an option of info" in page


def test_a_program_and_images_that_are_not_there(run, tmp_path):
    status, page, found = run("--parts", "b", "--lockstep", str(tmp_path / "nothing"), "--data", str(tmp_path), "--tests",
                              str(tmp_path / "none_test"))
    assert (status, found["P"]) == (1, "FAILED")
    for words in ("nothing does not exist", "none_test: does not exist", "data_batch_1.bin: does not exist"):
        assert words in page


@pytest.mark.parametrize("parts, wrong, expected", ROUNDS, ids=range(1, len(ROUNDS) + 1))
def test_faults_are_reported_and_the_run_goes_on(run, parts, wrong, expected):
    status, page, found = run("--parts", parts, wrong=",".join(wrong))
    assert status == 1
    for part, words in expected.items():
        assert found[part] == "FAILED", section(page, part)
        assert words in section(page, part)
    for part in {"0", *parts} - set(expected):
        assert found[part] == "PASS", section(page, part)


def test_a_signal_leaves_the_page_and_no_process(command_in, tmp_path):
    command, environment = command_in(tmp_path, "--skip-torch", "--parts", "bc", wrong="hang:ladder")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "part c" in line:
            break
    while not any("stand_in.py lockstep ladder" in line for line in left_over(tmp_path)):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    page = (tmp_path / "out" / "acceptance.md").read_text()
    assert "**Not complete:**" in page
    assert verdicts(page)["b"] == "PASS"
    assert not left_over(tmp_path)


# --- single functions ----------------------------------------------------------------------------------------

def test_a_command_that_ignores_sigterm_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GRACE_SECONDS", 1.0)
    script = tmp_path / "stubborn.sh"
    script.write_text("trap '' TERM\nif [ $# -eq 0 ]; then setsid sh \"$0\" child & fi\nsleep 300 & wait\n")
    runner = Runner(tmp_path, dict(os.environ))
    outcome = runner.run("stubborn", ["sh", str(script)], 1.0)
    assert outcome.timed_out and outcome.status is None
    assert not left_over(tmp_path)
    outcome = runner.run("none", [str(tmp_path / "none")], 1.0)
    assert "cannot be started" in outcome.why
    assert not runner.living


def test_a_process_that_was_not_remembered_is_ended_too(tmp_path):
    """Simulates a signal that interrupts `start` before it records the process. The test uses a separate Python
    process, because `stop_all` ends all descendants of its process."""
    script = (f"import os, sys; sys.path.insert(0, {str(HERE)!r}); from running import Runner; "
              f"runner = Runner({str(tmp_path)!r}, dict(os.environ)); "
              "process = runner.start('forgotten', ['sleep', '300']); "
              "runner.living.clear(); runner.stop_all(); print(process.wait(10))")
    result = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == f"{-signal.SIGKILL}\n", result.stderr


def test_philox_gives_the_published_numbers():
    zeros = sample_order.philox(np.zeros((1, 4), np.uint64), (0, 0))
    assert zeros.tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]
    ones = sample_order.philox(np.full((1, 4), 0xFFFFFFFF, np.uint64), (0xFFFFFFFF, 0xFFFFFFFF))
    assert ones.tolist() == [[0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]]


def test_an_order_is_a_permutation():
    order = sample_order.epoch_order(2560, 7)
    assert sorted(order.tolist()) == list(range(2560))
    assert order.tolist() != sample_order.epoch_order(2560, 8).tolist()
    assert order.tolist() != sample_order.epoch_order(2560, 7, epoch=1).tolist()


def test_losses_agree_by_their_bounds():
    ours = [2.0, 1.9, 1.8]
    assert not measures.losses_agree(ours, ours, ((1, 0), (3, 0)))
    assert measures.losses_agree([2.0, 1.9, float("nan")], ours, ((1, 1e-5), (3, 1e-2)))
    assert measures.losses_agree([2.01, 1.9, 1.8], ours, ((1, 1e-5), (3, 1e-2)))
    assert not measures.losses_agree([2.0, 1.905, 1.8], ours, ((1, 1e-5), (3, 1e-2)))
    assert measures.losses_agree([2.0], ours, ((3, 1e-2),))


def test_a_band_holds_what_lies_within_the_spread():
    band = measures.band_of([[2.0, 1.9, 1.8], [2.0, 1.91, 1.82]], floor=0.0)
    assert not band.faults([2.0, 1.895, 1.83])
    assert len(band.faults([2.1, 1.9, 1.85])) == 2
    assert band.faults([2.0, 1.9, float("nan")])
    assert band.faults([2.0])


# --- last: runs that wait for a time limit since the start ----------------------------------------------------

@pytest.mark.parametrize("name", WAITING)
def test_what_hangs_is_ended_at_its_limit(waiting_runs, name):
    process, folder = waiting_runs[name]
    part, _, _, words = WAITING[name]
    assert process.wait(150) == 1
    page, found = page_of(folder)
    assert found[part] == "FAILED", page
    assert words in page


def test_what_does_not_fit_into_the_time_is_cut_by_name(waiting_runs):
    process, folder = waiting_runs[TOO_MUCH]
    process.wait(150)
    page, _ = page_of(folder)
    assert "**CUT** d batch 16 Lockstep fp16 host" in page
    assert "cut: " in page


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-rs", *sys.argv[1:]]))
