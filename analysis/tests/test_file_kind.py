# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a file of a wrong kind is named by its content, and that the advice of the error leads
on."""

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
from lockstep_report.models.prediction.network_file import read_network
from lockstep_report.runfile import file_kind
from lockstep_report.runfile.file_kind import HEAD, kind_of
from lockstep_report.runfile.read import read_run
from synthetic import phases, write_run

TIMES = "ranks,epoch_seconds\n1,10\n2,6\n"
NCCL_TEXT = (
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n 1048576 262144 float sum -1"
    " 100.1 10.48 10.48 0\n"
)


def zipped(data, name="inside"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, data)
    return content.getvalue()


def tarred(data):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        # HDF5 would read a run file behind one header of 512 bytes.
        for name in (
            "first",
            "inside",
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data if name == "inside" else bytes(len(data))))
    return content.getvalue()


def array():
    content = io.BytesIO()
    np.save(content, np.zeros(3))
    return content.getvalue()


KINDS = {
    "a ZIP archive": zipped(b"x"),
    "a gzip archive": gzip.compress(b"x"),
    "a bzip2 archive": bz2.compress(b"x"),
    "an xz archive": lzma.compress(b"x"),
    "a tar archive": tarred(b"x"),
    "a Python pickle": pickle.dumps({"a": 1}),
    "a Zstandard archive": b"\x28\xb5\x2f\xfd\x04",
    "a 7-Zip archive": b"7z\xbc\xaf\x27\x1c\0",
    "an LZ4 archive": b"\x04\x22\x4d\x18\x64",
    "a RAR archive": b"Rar!\x1a\x07\x01",
    "a ZIP archive of PyTorch": zipped(b"x", "archive/data.pkl"),
    "a ZIP archive of NumPy arrays (.npz)": zipped(array(), "a.npy"),
    "a NumPy array": array(),
    "a safetensors file": b"\x08" + bytes(7) + b'{"a":{}}',
    "an empty file": b"",
    "a file of zero bytes": bytes(5000),
    "an HTML page": b"\n<!DOCTYPE html><html>",
    "an HTML table": b"<table border='1' class='dataframe'>",
    "an XML text": b"<?xml version='1.0'?>",
    "a JSON text": b'\xef\xbb\xbf {"a": 1}',
    "a text": "Gr\u00fc\u00dfe\n".encode("latin-1"),
    "a CSV table": TIMES.replace(",", ";").encode("utf-16"),
    "an output of nccl-tests": NCCL_TEXT.encode(),
    "an output of the OSU benchmarks": (
        b"# OSU MPI Reduce Latency Test v7.3\n# Size  Avg Latency(us)\n"
    ),
    "an output of the Intel MPI benchmarks": (
        b"#----\n#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part\n"
    ),
    "a log of nvidia-smi": b"# gpu   pwr  temp\n# Idx     W     C\n    0   111    83\n",
    "a log of dstat, vmstat or sar": (
        b"----total-cpu-usage---- -dsk/total-\nusr sys idl wai stl| read  writ\n"
    ),
    "a TensorBoard event file": b"\x18" + bytes(11) + b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2",
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "a workbook or a document of an office program": zipped(b"x", "[Content_Types].xml"),
    "an SQLite database": b"SQLite format 3\0\x10",
    "a Parquet or Arrow file": b"PAR1\x15\4",
    "a netCDF-3 file": b"CDF\x01\0\0",
    "an HDF4 file": b"\x0e\x03\x13\x01\0",
    "a MATLAB file": b"MATLAB 5.0 MAT-file, Platform: GLNXA64",
    "a PDF document": b"%PDF-1.4",
    "a PostScript document": b"%!PS-Adobe-3.0\n",
    "a PNG image": b"\x89PNG\r\n\x1a\n",
    "a JPEG image": b"\xff\xd8\xff\xe0\0",
    "a GIF image": b"GIF89a\1\0",
    "a TIFF image": b"II*\0\x08",
    "a WebP image": b"RIFF\x24\0\0\0WEBPVP8 ",
    "an ELF program": b"\x7fELF\x02\1",
    "an AppleDouble file of macOS": b"\0\5\26\7\0\2\0\0",
    "a binary file of an unknown format": b"\x00\x01\x02",
}
SWEEPS = (
    "an output of nccl-tests",
    "an output of the OSU benchmarks",
    "an output of the Intel MPI benchmarks",
)
READERS = {  # command, and the kinds that it reads or reports otherwise
    "run": (["summary", "FILE"], "not an HDF5 file", SWEEPS),
    "csv": (["tables", "--csv", "FILE", "--json"], "not a CSV table", ("a CSV table", "a text")),
    "published": (["published", "FILE"], "not a CSV table", ("a CSV table", "a text")),
    "network": (
        ["predict", "RUN", "--ranks", "2", "--network", "FILE"],
        "not a (network description|sweep or a network description)",
        ("a JSON text", *SWEEPS),
    ),
}


@pytest.fixture
def run(tmp_path):
    return write_run(
        tmp_path / "run.h5", phases(20, (0.01, 0.01, 0.03, 0.04, 0.0, 0.01)), 10, epochs=2, batch=10
    )


def failure(capfd, command, *, file, run):
    """Runs a command that must fail with status 3; returns its only line."""
    assert main([{"FILE": str(file), "RUN": str(run)}.get(word, word) for word in command]) == 3
    [line] = capfd.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_recognised_also_if_the_end_is_missing(kind):
    assert kind_of(KINDS[kind]) == kind
    assert kind_of((KINDS["a text"] + "\u00fc".encode() * HEAD)[:HEAD]) == "a text"


def test_every_kind_of_the_list_is_tested():
    assert {row["kind"] for row in file_kind.KINDS} - {*KINDS} == {
        "a folder",
        "an HDF5 file",
        "a checkpoint of Lockstep",
    }


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"<style type='text/css'>", "an HTML table"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a workbook or a document of an office program"),
        (
            b"nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)\n",
            "an output of nccl-tests",
        ),
        (b"#  bytes  N  type  op  time  algbw  busbw  res\n", "an output of nccl-tests"),
        (b'{\n "version": 1, "nccl_version": 2}', "an output of nccl-tests"),
        (
            b'{"#wrong":"0","algBw":0.05,"busBw":0.08,"ranks":4,"redop":"sum"}\n',
            "an output of nccl-tests",
        ),
        (
            (
                b"# Benchmarking Allreduce \n# #processes = 2 \n       #bytes #repetitions "
                b" t_min[usec]\n"
            ),
            "an output of the Intel MPI benchmarks",
        ),
        (b"timestamp, name, utilization.gpu [%]\n2026, a, 3 %\n", "a log of nvidia-smi"),
        (b"{x", "a text"),
        (b"II*", "a text"),
    ],
)
def test_other_signs_of_kinds(content, kind):
    assert kind_of(content) == kind


def test_ini_files_are_no_json():
    assert {kind_of(text) for text in (b"[train]\nmomentum = 0.5\n", b"{x")} == {"a text"}
    assert {kind_of(text) for text in (b"[1]", b"{", b"[\n{}]", b"[true]", b"{ }")} == {
        "a JSON text"
    }


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_names_the_kind_of_a_wrong_file(reader, run, tmp_path, capfd):
    command, words, read = READERS[reader]
    for kind, content in KINDS.items():
        if kind in read:
            continue
        file = tmp_path / "given.json"
        file.write_bytes(content)
        line = failure(capfd, command, file=file, run=run)
        assert re.search(
            rf"{re.escape(str(file))}: {words}, but {re.escape(kind)}; ", line
        ) and not line.endswith("; ")


def test_checkpoint_is_named(tmp_path, capfd, run):
    file = tmp_path / "checkpoint.h5"
    with h5py.File(file, "w") as made:
        made.attrs["format"] = "lockstep-checkpoint"
    line = failure(capfd, ["summary", "FILE"], file=file, run=run)
    assert line.endswith(
        "not a run file, but a checkpoint of Lockstep; give the run file of the training (--output)"
    )


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"]
)
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
    assert "give run files without an option" in failure(
        capfd, ["tables", "--csv", "FILE", "--json"], file=run, run=run
    )
    assert main(["tables", str(run), "--json"]) == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_of_windows_is_read(encoding, tmp_path):
    """PowerShell redirects the output of a program to a file in UTF-16."""
    file = tmp_path / "network.json"
    file.write_text(
        '{"library": "MPI", "algorithm": "ring", "levels": [{"alpha": 1e-5, "beta": 1e-9}]}',
        encoding=encoding,
    )
    assert read_network(file).label == "MPI ring"
