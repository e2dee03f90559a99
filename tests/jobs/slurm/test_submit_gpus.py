# SPDX-License-Identifier: BSD-3-Clause
"""Tests of requests for GPUs."""

import re

import pytest
from slurm_scripts import ROOT, options, submit


@pytest.mark.parametrize(
    "site, gpu, per_node, wanted",
    [
        ("generic", "a40", 4, {"--gres": "gpu:a40:%d"}),
        ("greene", "rtx8000", 4, {"--gres": "gpu:rtx8000:%d"}),
        ("greene", "a100", 4, {"--gres": "gpu:a100:%d"}),
        ("torch", "h200", 8, {"--gres": "gpu:%d", "--constraint": "h200"}),
        ("torch", "l40s", 4, {"--gres": "gpu:%d", "--constraint": "l40s"}),
    ],
)
def test_gpus_are_requested_per_node(table, tmp_path, site, gpu, per_node, wanted):
    table.write_text(
        "one\t1\ttrain --batch-per-rank 8\nlast\t8\ttrain --batch-per-rank 8\n", encoding="utf-8"
    )
    result = submit(
        "--site",
        site,
        "--gpu",
        gpu,
        "--account",
        "a",
        "--repeats",
        1,
        "--dir",
        tmp_path / "out",
        table,
        LOCKSTEP_IMAGE=str(table),
    )
    assert result.returncode == 0, result.stderr
    assert "were not checked" in result.stderr and len(result.stderr.splitlines()) == 1
    lines = result.stdout.splitlines()
    for line, ranks in zip(lines, (1, 8)):
        array, tasks = options(line), min(ranks, per_node)
        assert {name: array[name] for name in wanted} == {
            name: text.replace("%d", str(tasks)) for name, text in wanted.items()
        }
        assert (array["--nodes"], array["--ntasks-per-node"]) == (str(ranks // tasks), str(tasks))
        assert "--gpus-per-task" not in array and "--partition" not in array
        assert " --device cuda # per task: duration unknown" in line and f" {site} {gpu} " in line
    assert not {"--gres", "--constraint"} & set(options(lines[-1]))  # the report


@pytest.mark.parametrize(
    "answer, status, message",
    [
        (
            "  cuda  this build of Lockstep has no CUDA backend",
            0,
            "lockstep was built without CUDA; set LOCKSTEP_IMAGE to",
        ),
        (
            "lockstep: libcudnn.so.9: cannot open shared object file",
            127,
            "runs here (lockstep: libcudnn.so.9: cannot open shared object file); set",
        ),
        ("  cuda  NVIDIA", 0, None),
    ],
)
def test_gpus_need_a_program_with_cuda(table, tmp_path, program, answer, status, message):
    result = submit("--gpu", "a100", "--dir", tmp_path / "out", table, **program(status, answer))
    assert (result.returncode == 0) == (message is None), result.stderr
    if message:
        assert (
            message in result.stderr
            and result.stdout == ""
            and len(result.stderr.splitlines()) == 1
        )


@pytest.mark.parametrize(
    "variables, message",
    [
        ({}, "(/nowhere: No such file or directory)"),
        ({"LOCKSTEP_IMAGE": "/no.sif"}, "LOCKSTEP_IMAGE: cannot read /no.sif"),
    ],
)
def test_gpus_without_a_program_are_one_error(table, variables, message):
    result = submit("--gpu", "a100", table, **variables)
    assert (
        result.returncode == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1
    )


@pytest.mark.parametrize("site", ["greene", "torch", "generic"])
def test_ranks_on_cpus_request_no_gpus(table, tmp_path, site):
    for line in submit(
        "--site", site, "--account", "a", "--dir", tmp_path / "out", table
    ).stdout.splitlines():
        assert (
            not {"--gres", "--constraint", "--gpus"} & set(options(line)) and "--device" not in line
        )


@pytest.mark.parametrize(
    "site, gpu", [("greene", "h200"), ("torch", "rtx8000"), ("generic", "a100:2;x")]
)
def test_unknown_gpu_is_one_error(table, site, gpu):
    result = submit("--site", site, "--gpu", gpu, "--account", "a", table)
    assert result.returncode != 0 and result.stdout == "" and gpu in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("site", ["greene", "generic"])
@pytest.mark.parametrize(
    "gpu",
    [
        "v100",
        "V100-32GB",
        "tesla_v100s",
        "p100",
        "P4",
        "k80",
        "quadro_p6000",
        "gtx1080ti",
        "gtx_980",
        "1080ti",
        "titan_x",
        "titanv",
        "gp100",
    ],
)
def test_gpu_that_the_program_refuses_is_one_error(table, site, gpu):
    result = submit("--site", site, "--gpu", gpu, table)
    assert result.returncode != 0 and result.stdout == ""
    assert (
        f"--gpu {gpu}: " in result.stderr
        and "compute capability 7.5" in result.stderr
        and len(result.stderr.splitlines()) == 1
    )


@pytest.mark.parametrize(
    "gpu",
    [
        "t4",
        "rtx8000",
        "2080ti",
        "gtx1660",
        "titan_rtx",
        "a100-pcie",
        "a100_3g",
        "l40s",
        "gh200",
        "mi250",
    ],
)
def test_newer_gpus_are_not_refused(table, tmp_path, gpu):
    assert (
        submit("--gpu", gpu, "--dir", tmp_path / "out", table, LOCKSTEP_IMAGE=str(table)).returncode
        == 0
    )


def test_sites_have_gpus_that_the_program_supports():
    header = (ROOT / "src/backend/cuda/device/device.hpp").read_text(encoding="utf-8")
    oldest = int(re.search(r"oldest_compute_capability = (\d+);", header)[1])
    assert f"compute capability {oldest / 10}" in (
        ROOT / "analysis/lockstep_study/site.py"
    ).read_text(encoding="utf-8")
    capability = {"rtx8000": 75, "a100": 80, "l40s": 89, "h100": 90, "h200": 90}
    help_text = re.sub(r"\s+", " ", submit("--help").stdout)
    for site in ("greene", "torch"):
        text = (ROOT / f"jobs/slurm/sites/{site}.sh").read_text(encoding="utf-8")
        words = (
            " ".join(re.findall(r"^  ([\w'| ]+)\) ", text, re.MULTILINE)).replace("|", " ").split()
        )
        types = {word for word in words if word != "''"}
        assert types and [gpu for gpu in types if capability[gpu] < oldest] == []
        refusal = re.search(r"; use ([\w, ]+)\"", text)[1]
        offered = re.search(rf"\b{site}: ([\w, ]+);", help_text)[1]
        for listed in (refusal, offered):
            assert set(re.findall(r"\w+", listed.replace(" or ", " "))) == types
