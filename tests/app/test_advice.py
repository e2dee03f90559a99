# SPDX-License-Identifier: BSD-3-Clause
"""Tests that errors about inputs lead on: the test does what the message advises, and the error is
gone."""

import os
import pathlib
import pickle
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command_line import expect_failure, start, start_ranks, train
from test_own_images import convert, write_version_for_python

sys.path += [
    str(pathlib.Path(__file__).resolve().parents[2] / folder)
    for folder in ("analysis", "analysis/tests")
]
from test_file_kind import KINDS  # noqa: E402

SMALL = "synthetic:24@3x8x8/10"


def write_images(folder, names=("data_batch_1.bin", "test_batch.bin")):
    folder.mkdir(parents=True, exist_ok=True)
    records = np.zeros((12, 3073), np.uint8)
    records[:, 0] = np.arange(12) % 10
    for name in names:
        records.tofile(folder / name)


def advised(line, pattern):
    found = re.search(pattern, line)
    assert found, line
    return found[1]


def dry_run(source):
    return start(*train("--dry-run", data=source))


# --- datasets
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, status, pattern",
    [
        ("CIFAR10:{}/images", 2, r"did you mean --data (\S+)\?"),
        ("cifar-10:{}/images", 2, r"did you mean --data (\S+)\?"),
        ("{}/images", 2, r"did you mean --data (\S+)\?"),
        ("cifar10:{}", 3, r"use --data (\S+)"),
        ("cifar10:{}/images/data_batch_1.bin", 3, r"use --data (\S+)"),
    ],
)
def test_the_advised_source_is_read(source, status, pattern, tmp_path):
    write_images(tmp_path / "images")
    line = expect_failure(dry_run(source.format(tmp_path)), status)
    assert dry_run(advised(line, pattern)).returncode == 0


def test_program_and_report_name_the_same_kinds(tmp_path):
    file = tmp_path / "file"
    for kind, content in list(KINDS.items())[
        ::5
    ]:  # both read the same list; unit tests have all kinds
        file.write_bytes(content)
        # The report tells tables from other texts.
        named = "a text" if kind == "a CSV table" else kind
        assert f"is {named}, not a folder of CIFAR-10 files" in expect_failure(
            dry_run(f"cifar10:{file}"), 3
        )


@pytest.mark.parametrize("is_named", [False, True])
def test_the_advised_command_unpacks_an_archive(is_named, tmp_path):
    write_images(tmp_path / "cifar-10-batches-bin")
    archive = tmp_path / "data" / "cifar-10-binary.tar.gz"
    archive.parent.mkdir()
    subprocess.run(["tar", "czf", archive, "-C", tmp_path, "cifar-10-batches-bin"], check=True)
    line = expect_failure(dry_run(f"cifar10:{archive if is_named else archive.parent}"), 3)
    subprocess.run(advised(line, r"unpack it: (tar -xf \S+ -C \S+);"), shell=True, check=True)
    assert dry_run(advised(line, r"then use --data (\S+)$")).returncode == 0


@pytest.mark.parametrize("form", ["cifar-10-batches-py", ".", "cifar-10-python.tar.gz"])
def test_the_advised_command_converts_the_version_for_python(form, tmp_path):
    write_version_for_python(
        tmp_path / "cifar-10-batches-py", np.zeros((12, 3072), np.uint8), np.arange(12) % 10
    )
    subprocess.run(
        ["tar", "czf", tmp_path / "cifar-10-python.tar.gz", "-C", tmp_path, "cifar-10-batches-py"],
        check=True,
    )
    line = expect_failure(dry_run(f"cifar10:{tmp_path / form}"), 3)
    command = advised(line, r"convert it with lockstep-data (.*), and use").split()
    assert convert(*command, cwd=tmp_path).returncode == 0
    assert (
        start(
            *train("--dry-run", data=advised(line, r"use --data (\S+)$")), cwd=tmp_path
        ).returncode
        == 0
    )


def test_only_the_folder_of_the_version_for_python_is_converted(tmp_path):
    (tmp_path / "other.pkl").write_bytes(pickle.dumps({}, 2))
    line = expect_failure(dry_run(f"cifar10:{tmp_path}/other.pkl"), 3)
    assert (
        "is a Python pickle" in line and "lockstep-data" not in line and "download-cifar10" in line
    )
    assert "lockstep-data" not in expect_failure(dry_run(f"cifar10:{tmp_path}"), 3)
    write_version_for_python(tmp_path / "py", np.zeros((12, 3072), np.uint8), np.arange(12) % 10)
    line = expect_failure(dry_run(f"cifar10:{tmp_path}/py/test_batch"), 3)
    assert f"lockstep-data cifar-python {tmp_path}/py -o" in line


# A ZIP archive of weights contains no images.
def test_weights_are_not_unpacked(tmp_path):
    np.savez(tmp_path / "weights.npz", np.zeros(3))
    line = expect_failure(dry_run(f"cifar10:{tmp_path}/weights.npz"), 3)
    assert "NumPy" in line and "unpack it" not in line


# The advice about own images is the format of their records, not a download.
@pytest.mark.parametrize(
    "content, kind",
    [
        (b"<html>login</html>", "an HTML page"),
        (b"", ".bin: the file is empty; write records"),
        (bytes(3072), "not a multiple"),
        (b"PK\x03\x04", "a ZIP archive"),
    ],
)
def test_files_without_records_are_named(content, kind, tmp_path):
    write_images(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    line = expect_failure(dry_run(f"cifar10:{tmp_path}"), 3)
    assert kind in line and "1 label byte(s) and 3072 pixel bytes" in line
    write_images(tmp_path)
    assert dry_run(f"cifar10:{tmp_path}").returncode == 0


@pytest.mark.parametrize(
    "create, kind", [(os.mkdir, "it is a folder"), (os.mkfifo, "it is no regular file")]
)
def test_places_of_files_that_cannot_be_read_are_named(create, kind, tmp_path):
    write_images(tmp_path, ["test_batch.bin"])
    create(tmp_path / "data_batch_1.bin")
    assert f"data_batch_1.bin: cannot be read ({kind}); write records" in expect_failure(
        dry_run(f"cifar10:{tmp_path}"), 3
    )


# --- output
# --------------------------------------------------------------------------------------------------


def test_the_advised_directory_of_the_output_is_created(tmp_path):
    def run():
        return start(*train("--dry-run", output="runs/day/run.h5", data=SMALL), cwd=tmp_path)

    line = expect_failure(run(), 6)
    assert "cannot write runs/day/run.h5 (there is no directory runs/day)" in line
    subprocess.run(
        advised(line, r"create it with (mkdir -p \S+)$"), shell=True, check=True, cwd=tmp_path
    )
    assert run().returncode == 0


# --- options
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        "batch-size=2",
        "learning-rate=0.1",
        "num-epochs=1",
        "workers=1",
        "data-path=synthetic:24",
        "wd=0",
        "arch=vgg11",
        "checkpoint=k",
        "out=r.h5",
    ],
)
def test_the_advised_option_is_accepted(wrong, tmp_path):
    name, value = wrong.split("=")
    right = advised(
        expect_failure(start("train", f"--{name}", value), 2), r"did you mean '([a-z-]+)'"
    )
    batch = [] if right == "batch-per-rank" else ["--batch-per-rank=2"]
    result = start("train", f"--{right}", value, *batch, "--dry-run", "--threads=1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_paths_that_the_shell_does_not_expand(tmp_path):
    result = start(
        *train("--checkpoint-dir=~/saved", "--output=$HOME/run.h5", data=SMALL),
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
    )
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.h5", "saved"]


# --- weights
# -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a checkpoint and a run file."""
    folder = tmp_path_factory.mktemp("trained")
    assert (
        start(
            *train("--output=run.h5", "--checkpoint-dir=saved", data=SMALL, batch_per_rank=4),
            cwd=folder,
        ).returncode
        == 0
    )
    return folder


def evaluate(weights, *options, source=SMALL):
    return start("evaluate", f"--data={source}", f"--init-from={weights}", "--threads=1", *options)


def rewritten(trained, path, name="state/{}", dtype=np.float32):
    with h5py.File(trained / "saved" / "checkpoint-2.h5") as file, h5py.File(path, "w") as new:
        for key, tensor in file["state"].items():
            new[name.format(key)] = np.asarray(tensor[()], dtype if tensor.ndim else None)
    return path


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("state/{}", np.float16),
        ("{}", np.float64),
        ("state/module.{}", np.float32),
        ("module._orig_mod.{}", np.float32),
    ],
)
def test_weights_of_pytorch_are_read(name, dtype, trained, tmp_path):
    assert evaluate(rewritten(trained, tmp_path / "weights.h5", name, dtype)).returncode == 0


def test_the_advised_names_of_tensors_are_read(trained, tmp_path):
    line = expect_failure(
        evaluate(rewritten(trained, tmp_path / "weights.h5", "state/model.{}")), 3
    )
    prefix = advised(line, r"it has /state/(model\.)\S+ instead: remove the prefix")
    with h5py.File(tmp_path / "weights.h5", "r+") as file:
        for name in list(file["state"]):
            file.move(f"state/{name}", f"state/{name.removeprefix(prefix)}")
    assert evaluate(tmp_path / "weights.h5").returncode == 0


def test_the_advised_number_of_classes_is_read(trained, tmp_path):
    weights = rewritten(trained, tmp_path / "weights.h5")
    fewer = SMALL.replace("/10", "/7")
    line = expect_failure(evaluate(weights, source=fewer), 3)
    assert (
        evaluate(
            weights, advised(line, r"use (--classes \d+)").replace(" ", "="), source=fewer
        ).returncode
        == 0
    )


def test_a_run_file_is_no_checkpoint(trained):
    for result in (
        evaluate(trained / "run.h5"),
        start(*train(f"--resume={trained}/run.h5", data=SMALL, batch_per_rank=4)),
    ):
        line = expect_failure(result, 3)
        assert "it is a run file" in line and "checkpoint-STEP.h5" in line
    assert evaluate(trained / "saved" / "checkpoint-2.h5").returncode == 0


def test_the_advised_conversion_is_read(trained, tmp_path):
    with h5py.File(trained / "saved" / "checkpoint-2.h5") as file:
        np.savez(
            tmp_path / "weights.npz", **{name: tensor[()] for name, tensor in file["state"].items()}
        )
    line = expect_failure(evaluate(tmp_path / "weights.npz"), 3)
    assert "a ZIP archive of NumPy arrays" in line
    command = advised(line, r"convert it: lockstep-weights (.*)").split()
    subprocess.run(
        [sys.executable, "-B", "-m", "lockstep_weights", *command], cwd=tmp_path, check=True
    )
    assert evaluate(tmp_path / "weights.h5").returncode == 0


@pytest.mark.slow
def test_the_advised_global_batch_resumes_on_another_number_of_ranks(trained):
    checkpoint = trained / "saved" / "checkpoint-2.h5"
    options = {"data": SMALL, "resume": checkpoint, "steps": 3}
    line = expect_failure(start_ranks((2, train(batch_per_rank=4, **options))), 2)
    batch = advised(line, r"use --global-batch (\d+)")
    assert (
        start_ranks(
            (2, train(f"--global-batch={batch}", batch_per_rank=None, **options))
        ).returncode
        == 0
    )
