"""The acceptance run on a machine without a GPU: its dry run on stand-ins, and what it does where they misbehave.

`python test_acceptance_dry.py` and pytest need h5py and NumPy; the part with PyTorch is skipped where there is none.
"""

import importlib.util
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
import sample_order  # noqa: E402
from running import Runner  # noqa: E402

TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not TORCH, reason=f"{sys.executable} has no torch")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Files of CIFAR-10's sizes."""
    folder = tmp_path_factory.mktemp("cifar")
    for name in dry.DATA_FILES:
        with open(folder / name, "wb") as file:
            file.truncate(dry.RECORDS * dry.RECORD_BYTES)
    return folder


@pytest.fixture
def call(tmp_path, data):
    """The command and environment of a dry run; a shell script passes for lockstep."""
    program = tmp_path / "lockstep"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/stand_in.py" lockstep "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def make(*arguments, wrong="", hide=""):
        command = [sys.executable, "-B", str(HERE / "acceptance.py"), "--lockstep", str(program), "--data", str(data),
                   "--out", str(tmp_path / "out"), "--tests", str(program), "--mpirun", "sh", "--dry-run", "--batches",
                   "16", "--rounds", "1", *arguments]
        return command, os.environ | {"STAND_IN": wrong, "STAND_IN_HIDE": hide, "TMPDIR": str(tmp_path)}

    return make


@pytest.fixture
def run(call, tmp_path, monkeypatch):
    """Run it; returns (status, page, verdict of each part)."""
    def go(*arguments, wrong="", hide="", torch=False):
        command, environment = call(*arguments, wrong=wrong, hide=hide)
        if not torch:  # it takes minutes, and has a test of its own
            command[2:2] = ["-c", NO_TORCH]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        path = tmp_path / "out" / "acceptance.md"
        assert path.is_file(), result.stderr
        page = path.read_text()
        assert "Not complete" not in page
        assert not left_over(tmp_path)
        return result.returncode, page, verdicts(page)

    return go


# Runs the script named next with a Python that seems to have no PyTorch.
NO_TORCH = ("import importlib.util as u, runpy, sys; f = u.find_spec; "
            "u.find_spec = lambda name, *rest: None if name == 'torch' else f(name, *rest); "
            "sys.argv = sys.argv[1:]; sys.path.insert(0, __import__('os').path.dirname(sys.argv[0])); "
            "runpy.run_path(sys.argv[0], run_name='__main__')")


def verdicts(page):
    return {letter: verdict for letter, verdict in re.findall(r"^\| (\w) [^|]*\| ([^|]*?) \|", page, re.MULTILINE)}


def left_over(tmp_path):
    """Command lines of living processes that name the test's folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{tmp_path}/" in line:
                found.append(line)
    return found


# --- all is well ---------------------------------------------------------------------------------------------

def test_everything_is_exercised_and_nothing_measured(run, tmp_path):
    status, page, found = run()
    assert status == 0, page
    assert "**Dry run: nothing measured.**" in page.split("## Verdicts")[0]
    assert found == dict.fromkeys("0abfedcP", "PASS") | {"T": "NOT RUN"}
    assert "has no torch" in page
    for words in ("Lockstep bf16 device", "Lockstep fp16 host", "PyTorch compile_graph", "PyTorch host",
                  "share of the floor", "32768 | out_of_memory", "True limit", "racecheck", "one rank",
                  "Sanity bound", "PyTorch contiguous", "take their sums from the convolution", "fp16 device none",
                  "Sums of bf16 by nccl", "Sums of bf16 by staged"):
        assert words in page, words
    raw = json.loads((tmp_path / "out" / "acceptance.json").read_text())
    assert raw["dry_run"] is True
    assert all(one["status"] in (0, 4) for one in raw["commands"])


def test_parts_left_out_are_named(run):
    status, page, found = run("--parts", "e")
    assert status == 0
    assert found["e"] == "PASS"
    assert found["d"] == "NOT RUN"
    assert "not among --parts" in page


@needs_torch
def test_pytorch_code_on_the_cpu(run):
    status, page, found = run("--parts", "e", torch=True)
    assert found["T"] == "PASS", page
    assert status == 0


# --- something is missing or misbehaves ----------------------------------------------------------------------

@pytest.mark.parametrize("hide, words", [
    ("--data-residency", "--data-residency is not an option of train"),
    ("--write-device-description", "--write-device-description is not an option of info"),
])
def test_an_option_the_program_does_not_know(run, hide, words):
    status, page, found = run("--parts", "bd", hide=hide)
    assert (status, found["P"], found["b"]) == (1, "FAILED", "PASS")
    assert words in page


def test_a_program_and_images_that_are_not_there(run, tmp_path):
    status, page, found = run("--parts", "e", "--lockstep", str(tmp_path / "nothing"), "--data", str(tmp_path), "--tests",
                              str(tmp_path / "none_test"))
    assert (status, found["P"]) == (1, "FAILED")
    for words in ("nothing does not exist", "none_test: does not exist", "data_batch_1.bin: does not exist"):
        assert words in page


@pytest.mark.parametrize("wrong, part, words, others", [
    ("fail:ladder", "c", "exit status 70", "e"),
    ("fail:ladder", "c", "planted failure", "e"),
    ("garbage:ladder", "c", "printed no JSON object", "e"),
    ("memory:ladder", "c", "exit status 4", "e"),
    ("crash:--memory-limit", "c", "neither trains nor ends with status 4", "e"),
    ("memory:--batch-per-rank 27244", "c", "is predicted to fit", "e"),
    ("fail:c-after", "c", "smaller batch afterwards: exit status 70", "e"),
    ("drift:allreduce", "e", "e sums nccl: wrong sums", "c"),
    ("nan:--transport staged", "e", "a loss is not finite", "c"),
    ("drift:--transport nccl", "e", "step 2", "c"),
    ("garbage:--transport nccl", "e", "cannot be read", "c"),
    ("nan:--precision fp16", "b", "b fp16: a loss is not finite", "e"),
    ("drift:--precision bf16", "b", "below the sanity bound", "e"),
    ("fail:accuracy", "b", "b pytorch: exit status 70", "e"),
    ("drift:--init-from", "f", "outside", "e"),
    ("fail:losses", "f", "exit status 70", "e"),
    ("garbage:losses", "f", "printed no losses", "e"),
    ("fail:gtest", "a", "exit status 70", "e"),
    ("garbage:gtest", "a", "ran no test", "e"),
    ("fail:memcheck", "a", "a sanitizer memcheck: exit status 70", "e"),
    ("fail:plan", "d", "d floor 16 bf16: exit status 70", "e"),
    ("lax:--data-residency", "d", "the wall clock", "e"),
    ("fail:--data-residency host", "d", "d 16 bf16 host 1: exit status 70", "e"),
    ("fail:speed", "d", "nothing of PyTorch was measured", "e"),
    ("fail:info", "0", "head lockstep info: exit status 70", "e"),
])
def test_a_failure_is_reported_and_the_run_goes_on(run, wrong, part, words, others):
    status, page, found = run("--parts", "".join({"e", part} - {"0"} | {others}), wrong=wrong)
    assert status == 1
    assert found[part] == "FAILED", page
    assert words in page
    assert found[others] == "PASS", page


@pytest.mark.parametrize("wrong, part, words", [
    ("hang:--transport nccl", "e", "its limit"),
    ("hang:ladder", "c", "its limit"),
    ("hang:speed", "d", "not ready in time"),
    ("hang:losses", "f", "its limit"),
])
def test_what_hangs_is_ended_at_its_limit(run, wrong, part, words):
    began = time.monotonic()
    status, page, found = run("--parts", part, "--minutes", "1.3" if part == "d" else "0.45", wrong=wrong)
    assert time.monotonic() - began < 150
    assert (status, found[part]) == (1, "FAILED"), page
    assert words in page


def test_what_does_not_fit_into_the_time_is_cut_by_name(run):
    status, page, found = run("--parts", "d", "--minutes", "0.8", "--rounds", "9")
    assert "**CUT** d batch 16 Lockstep fp16 host" in page
    assert "cut: " in page


def test_a_signal_leaves_the_page_and_no_process(call, tmp_path):
    command, environment = call("--parts", "ec", wrong="hang:ladder")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "part c" in line:
            break
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    page = (tmp_path / "out" / "acceptance.md").read_text()
    assert "**Not complete:**" in page
    assert verdicts(page)["e"] == "PASS"
    assert not left_over(tmp_path)


# --- the pieces ----------------------------------------------------------------------------------------------

def test_a_command_that_ignores_sigterm_is_killed_with_its_children(tmp_path):
    script = tmp_path / "stubborn.sh"
    script.write_text("trap '' TERM\nif [ $# -eq 0 ]; then setsid sh \"$0\" child & fi\nsleep 300 & wait\n")
    runner = Runner(tmp_path, dict(os.environ))
    outcome = runner.run("stubborn", ["sh", str(script)], 1.0)
    assert outcome.timed_out and outcome.status is None
    assert not left_over(tmp_path)
    outcome = runner.run("none", [str(tmp_path / "none")], 1.0)
    assert "cannot be started" in outcome.why
    assert not runner.living


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-rs", *sys.argv[1:]]))
