# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a file of a wrong kind is named by its content, and that the advice of the error leads on."""

import bz2
import gzip
import io
import lzma
import pickle
import re
import subprocess
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.models.prediction.network import read_network
from lockstep_report.runfile.file_kind import HEAD, kind_of
from lockstep_report.runfile.read import read_run
from synthetic import phases, write_run

TIMES = "ranks,epoch_seconds\n1,10\n2,6\n"
NCCL_TEXT = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n 1048576 262144 float sum -1 100.1 10.48 10.48 0\n"


def zipped(data, name="inside"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, data)
    return content.getvalue()


def tarred(data):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in ("first", "inside"):  # HDF5 would read a run file behind one header of 512 bytes
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data if name == "inside" else bytes(len(data))))
    return content.getvalue()


def array():
    content = io.BytesIO()
    np.save(content, np.zeros(3))
    return content.getvalue()


KINDS = {
    "a ZIP archive": zipped(b"x"), "a gzip archive": gzip.compress(b"x"), "a bzip2 archive": bz2.compress(b"x"),
    "an xz archive": lzma.compress(b"x"), "a tar archive": tarred(b"x"), "a Python pickle": pickle.dumps({"a": 1}),
    "a ZIP archive of PyTorch": zipped(b"x", "archive/data.pkl"), "a ZIP archive of NumPy arrays (.npz)": zipped(array(), "a.npy"),
    "a safetensors file": b'\x08' + bytes(7) + b'{"a":{}}',
    "an empty file": b"", "an HTML page": b"\n<!DOCTYPE html><html>",
    "a JSON text": b'\xef\xbb\xbf {"a": 1}', "a text": "Gr\u00fc\u00dfe\n".encode("latin-1"), "a CSV table": TIMES.replace(",", ";").encode("utf-16"),
    "an output of nccl-tests": NCCL_TEXT.encode(),
    "a PDF document": b"%PDF-1.4", "a binary file of an unknown format": b"\x00\x01\x02",
}
READERS = {  # command, and the kinds that it reads or reports otherwise
    "run": (["summary", "FILE"], "not an HDF5 file", ("an output of nccl-tests",)),
    "csv": (["tables", "--csv", "FILE", "--json"], "not a CSV table", ("a CSV table", "a text")),
    "published": (["published", "FILE"], "not a CSV table", ("a CSV table", "a text")),
    "network": (["predict", "RUN", "--ranks", "2", "--network", "FILE"], "not a network description", ("a JSON text", "an output of nccl-tests")),
}


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2, batch=10)


def failure(capfd, command, *, file, run):
    """Runs a command that must fail with status 3; returns its only line."""
    assert main([{"FILE": str(file), "RUN": str(run)}.get(word, word) for word in command]) == 3
    [line] = capfd.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_recognised_also_if_the_end_is_missing(kind):
    assert kind_of(KINDS[kind]) == kind
    assert kind_of((KINDS["a text"] + "\u00fc".encode() * HEAD)[:HEAD]) == "a text"


def test_ini_files_are_no_json():
    assert {kind_of(text) for text in (b"[train]\nmomentum = 0.5\n", b"{x")} == {"a text"}
    assert {kind_of(text) for text in (b"[1]", b"{", b"[\n{}]", b"[true]", b"{ }")} == {"a JSON text"}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_names_the_kind_of_a_wrong_file(reader, run, tmp_path, capfd):
    command, words, read = READERS[reader]
    for kind, content in KINDS.items():
        if kind in read:
            continue
        file = tmp_path / "given.json"
        file.write_bytes(content)
        line = failure(capfd, command, file=file, run=run)
        assert f"{file}: {words}, but {kind}; " in line and not line.endswith("; ")


def test_checkpoint_is_named(tmp_path, capfd, run):
    file = tmp_path / "checkpoint.h5"
    with h5py.File(file, "w") as made:
        made.attrs["format"] = "lockstep-checkpoint"
    line = failure(capfd, ["summary", "FILE"], file=file, run=run)
    assert line.endswith("not a run file, but a checkpoint of Lockstep; give the run file of the training (--output)")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("reader", ["run", "csv"])
def test_command_in_the_message_unpacks_the_file(reader, compress, run, tmp_path, capfd):
    file = tmp_path / "it's packed.h5"
    file.write_bytes(compress(run.read_bytes() if reader == "run" else TIMES.encode()))
    command, _, _ = READERS[reader]
    line = failure(capfd, command, file=file, run=run)
    subprocess.run(["bash", "-c", line.partition("unpack it: ")[2]], check=True)
    assert main([word.replace("FILE", f"{file}.unpacked") for word in command]) == 0


@pytest.mark.parametrize("pack", [tarred, zipped])
def test_command_in_the_message_unpacks_an_archive(pack, run, tmp_path, capfd):
    file = tmp_path / "my runs"
    file.write_bytes(pack(run.read_bytes()))
    line = failure(capfd, ["summary", "FILE"], file=file, run=run)
    subprocess.run(["bash", "-c", line.partition("unpack it: ")[2]], check=True, cwd=tmp_path)
    assert read_run(tmp_path / "inside").status == "complete"


def test_option_in_the_message_reads_the_file(run, tmp_path, capfd):
    """A table of times given as a run file, and a run file given as a table."""
    times = tmp_path / "times.csv"
    times.write_text(TIMES, encoding="utf-8")
    line = failure(capfd, ["tables", "FILE", "--json"], file=times, run=run)
    option = re.search("epoch times are given with (--[a-z]+)", line)[1]
    assert main(["tables", option, str(times), "--json"]) == 0
    assert "give run files without an option" in failure(capfd, ["tables", "--csv", "FILE", "--json"], file=run, run=run)
    assert main(["tables", str(run), "--json"]) == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_of_windows_is_read(encoding, tmp_path):
    """PowerShell redirects the output of a program to a file in UTF-16."""
    file = tmp_path / "network.json"
    file.write_text('{"library": "MPI", "algorithm": "ring", "levels": [{"alpha": 1e-5, "beta": 1e-9}]}', encoding=encoding)
    assert read_network(file).label == "MPI ring"
