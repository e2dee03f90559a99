"""Tests of the measurements: rates, ratios, candidates, image order, and comparison of losses."""

import json
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import candidates  # noqa: E402
import gpus  # noqa: E402
import measures  # noqa: E402
import sample_order  # noqa: E402
import turns  # noqa: E402
from reports import Report  # noqa: E402


@pytest.mark.parametrize("name, kind", [
    ("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA H200", "H200"), ("NVIDIA H100 PCIe", "other"),
    ("NVIDIA H200 NVL", "other"), ("NVIDIA A100-SXM4-80GB", "other")])
def test_kind_of_gpu_follows_from_its_name(name, kind):
    assert gpus.gpu_of(name).kind == kind


def test_roofline_bound_sums_the_larger_time_of_each_operation():
    operations = [{"flops": 10.0, "bytes": 1.0}, {"flops": 1.0, "bytes": 8.0}]
    assert gpus.bound_seconds(operations, 5.0, 2.0) == pytest.approx(2.0 + 4.0)
    assert gpus.H200.attainable_bytes > gpus.H100.attainable_bytes


def test_candidates_are_summarised_without_the_incomplete_last_line(tmp_path):
    log = tmp_path / "log"
    rows = [{"graph": "a", "engine": "1", "seconds": 3.0, "build_seconds": 1, "chosen": False},
            {"graph": "a", "engine": "2", "seconds": 2.0, "build_seconds": 1, "chosen": True},
            {"graph": "b", "engine": "1", "seconds": None, "refusal": "no", "chosen": True}]
    log.write_text("\n".join(map(json.dumps, rows)) + '\n3\n{"graph": "c"')
    found = candidates.summary(candidates.read_candidates(log))
    assert (found["graphs"], found["candidates"], found["timed"], found["refused"]) == (2, 3, 2, 1)
    assert (found["first_candidate_seconds"], found["chosen_seconds"]) == (3.0, 2.0)
    assert candidates.read_candidates(tmp_path / "none") == []


def test_ratio_uses_the_fastest_pytorch_configuration_of_the_same_round():
    process = object()
    ours = turns.Configuration(512, "bf16 device", rounds=[[200.0], [300.0]])
    theirs = [turns.Configuration(512, "graph", process, rounds=[[100.0], [100.0]]),
              turns.Configuration(512, "compile", process, rounds=[[80.0], [150.0]])]
    references = turns.reference_medians([ours, *theirs], 2)
    assert turns.ratios(ours, references) == [2.0, 2.0]
    assert turns.reference_medians([ours], 2) == {}


def test_slow_result_is_correct():
    report = Report(4, "speed")
    ours = turns.Configuration(512, "bf16 device", rounds=[[10.0]], wall_rounds=[[10.0]])
    theirs = turns.Configuration(512, "graph", object(), rounds=[[100.0]])
    assert turns.report_turns(report, 512, [ours, theirs], 1) == pytest.approx(0.1)
    assert report.verdict == "correct"
    assert "ratio to PyTorch 0.10 (target 2)" in report.remarks


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
