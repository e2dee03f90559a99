# SPDX-License-Identifier: BSD-3-Clause
"""Tests --pipeline-stages, --stage-cuts, --micro-batches and --pipeline-schedule on the command
line."""

import json

import h5py
import pytest
from command_line import expect_failure, start, start_ranks, train


def pipeline(*arguments, **options):
    return train(
        "--device",
        "cpu",
        *arguments,
        **({"data": "synthetic:32", "batch_per_rank": 8, "steps": 2} | options),
    )


def losses(path):
    with h5py.File(path) as file:
        return list(file["steps/loss"])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_pipeline_has_the_losses_of_one_rank_and_records_its_stages(tmp_path, schedule):
    common = ("--micro-batches", 2, "--deterministic")
    alone = start_ranks((1, pipeline(*common, output=tmp_path / "one.h5")))
    assert alone.returncode == 0, alone.stderr
    result = start_ranks(
        (
            2,
            pipeline(
                *common,
                "--json",
                "--pipeline-stages",
                2,
                "--stage-cuts",
                "layer3",
                "--pipeline-schedule",
                schedule,
                output=tmp_path / "two.h5",
            ),
        )
    )
    assert result.returncode == 0, result.stderr
    assert losses(tmp_path / "two.h5") == pytest.approx(losses(tmp_path / "one.h5"), rel=1e-4)
    with h5py.File(tmp_path / "two.h5") as file:
        stages = json.loads(file["environment"].attrs["pipeline_stages"])
        busy = file["epochs/pipeline_busy_seconds"][0]
        wait = file["epochs/pipeline_wait_seconds"][0]
    assert [stage["first_layer"] for stage in stages] == ["input", "layer3.0.shortcut.0"]
    assert sum(stage["parameters"] for stage in stages) == 11_173_962
    assert len(busy) == 2 and (busy > 0).all() and (wait > 0).all()
    assert json.loads(result.stdout)["results"]["pipeline_stages"] == stages


def test_two_replicas_of_a_pipeline_train(tmp_path):
    result = start_ranks(
        (
            4,
            pipeline(
                "--pipeline-stages",
                2,
                "--micro-batches",
                2,
                "--bn",
                "sync",
                "--stage-cuts",
                "flops",
                output=tmp_path / "four.h5",
            ),
        )
    )
    assert result.returncode == 0, result.stderr
    with h5py.File(tmp_path / "four.h5") as file:
        assert list(file["steps/images"]) == [16, 16]
        assert file["epochs/pipeline_busy_seconds"].shape == (1, 4)


@pytest.mark.parametrize(
    "ranks, options, words",
    [
        (2, ["--pipeline-stages", 3], "requires a multiple of 3 ranks"),
        (
            2,
            ["--pipeline-stages", 2, "--micro-batches", 3],
            "--micro-batches 3 does not divide the 8 images",
        ),
        (2, ["--pipeline-stages", 2, "--stage-cuts", "layer2.0.conv2"], "a residual block"),
        (2, ["--pipeline-stages", 2, "--stage-cuts", "layer7"], "has no layer 'layer7'"),
        (
            2,
            ["--pipeline-stages", 2, "--stage-cuts", "layer2,layer3"],
            "--pipeline-stages 2 requires 1",
        ),
        (2, ["--pipeline-stages", 2, "--grad-clip", 1], "--grad-clip"),
        (2, ["--pipeline-stages", 2, "--reducer", "none"], "--reducer none"),
        (1, ["--stage-cuts", "layer2"], "--stage-cuts requires --pipeline-stages"),
    ],
)
def test_invalid_pipelines_are_usage_errors(ranks, options, words):
    assert words in expect_failure(start_ranks((ranks, pipeline(*options))), 2)


def test_plan_describes_gradient_accumulation():
    """The activations of one micro-batch are in memory; the gradients of the step have another
    buffer for their sums."""

    def plan(batch, *options):
        return start(
            "plan", "--device", "cpu", "--data", "synthetic:64", "--batch-per-rank", batch, *options
        )

    accumulated = plan(16, "--micro-batches", 4)
    assert "16 per rank (gradients accumulated over 4 micro-batches of 4)" in accumulated.stdout
    results = plan(16, "--micro-batches", 4, "--json"), plan(4, "--json")
    memory, of_small = (json.loads(result.stdout)["memory_bytes"] for result in results)
    assert memory["activations"] == of_small["activations"]
    assert memory["workspace"] >= 4 * 11_173_962
    assert "--dry-run" in expect_failure(plan(16, "--pipeline-stages", 2), 2)
