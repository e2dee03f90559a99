# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what `lockstep_recorder.Recorder` records of loops in PyTorch."""

import numpy as np
import pytest
from lockstep_report.runfile.read import read_run
from pytorch_programs import NAMES, recorded, run

pytestmark = pytest.mark.requires("PYTORCH")


def medians(found):
    return dict(zip(NAMES, np.median(found.phase_seconds[1:], axis=(0, 1))))


@pytest.mark.parametrize("ranks", [1, 2])
def test_phases_are_those_of_the_loop(tmp_path, ranks):
    found = recorded(
        tmp_path,
        "with Recorder(path, model := parallel(), network='net', data='cifar10') as recorder:\n"
        "    train(recorder, model)",
        ranks,
    )
    times = medians(found)
    assert (
        found.rank_count == ranks
        and found.host_count == 1
        and found.epoch.tolist() == [1] * 4 + [2] * 4
    )
    assert times["data_wait"] >= 0.01 and times["forward"] >= 0.02 and times["backward"] >= 0.06
    assert np.allclose(np.diff(found.step_start[:4], axis=0), found.phase_seconds[:3].sum(axis=2))
    assert found.images.tolist() == [8 * ranks] * 8 and found.number("batch-per-rank") == 8
    assert (found.option("model"), found.option("data"), found.option("seed")) == (
        "net",
        "cifar10",
        "1",
    )
    assert found.attributes["program"] == "pytorch" and 0 < found.loss[-1] < found.loss[0]
    if ranks == 1:
        assert times["exposed_communication"] == 0 and not len(found.bucket_bytes)
    else:
        assert (
            found.bucket_bytes.sum() == 4 * (64 * 64 + 64 + 2 * (64 * 10 + 10))
            and found.option("reducer") == "overlap"
        )


@pytest.mark.parametrize(
    "options",
    [
        "gradient_as_bucket_view=True",
        "static_graph=True, find_unused_parameters=False",
        "broadcast_buffers=False, bucket_cap_mb=0.003",
    ],
)
def test_the_recorder_does_not_change_the_training(tmp_path, options):
    body = (
        f"model = parallel({options})\n"
        + "with Recorder(path, model, network='net', overwrite=True) as recorder:\n    state ="
        " train(recorder, model)\n"
    )
    plain = (
        "class Plain:\n    def batches(self, data, device):\n        return data\n"
        "    def backward(self, loss):\n        loss.backward()\n"
        f"net.load_state_dict(before)\nstate2 = train(Plain(), parallel({options}))\n"
        "assert all(torch.equal(state[name], state2[name]) for name in state)"
    )
    found = recorded(
        tmp_path,
        "before = {name: value.clone() for name, value in net.state_dict().items()}\n"
        + body
        + plain,
    )
    assert medians(found)["backward"] >= 0.06
    assert np.all(found.bucket_end[1:] <= found.phase_seconds[1:].sum(axis=2)[:, :, None] + 1e-3)


def test_a_late_rank_is_exposed_communication_of_the_other(tmp_path):
    """Rank 1 computes 50 ms more, for which rank 0 waits after its backward pass."""
    found = recorded(
        tmp_path,
        "if rank == 1:\n    old = Net.forward\n    Net.forward = lambda self, x: (time.sleep(0.05),"
        " old(self, x))[1]\nwith Recorder(path, model := parallel(), network='net') as recorder:\n "
        "   train(recorder, model)",
    )
    exposed = np.median(found.phase_seconds[1:, :, NAMES.index("exposed_communication")], axis=0)
    assert exposed[0] > 0.04 and exposed[1] < 0.02
    assert np.median(found.phase_seconds[1:, :, NAMES.index("backward")]) < 0.09


def test_accumulated_batches_are_one_step(tmp_path):
    found = recorded(
        tmp_path,
        """
model = parallel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recorder = Recorder(path, model, network="net", accumulate=2, optimizer="sgd")
import contextlib
for _ in range(2):
    for i, (images, labels) in enumerate(recorder.batches(Data(5))):
        with model.no_sync() if i % 2 == 0 and i < 4 else contextlib.nullcontext():
            recorder.backward(torch.nn.functional.cross_entropy(model(images), labels))
        if i % 2:
            optimizer.step()
    recorder.evaluated(0.5 + rank)
recorder.close()
""",
    )
    assert found.images.tolist() == [32, 32, 16] * 2 and found.option("optimizer") == "sgd"
    assert medians(found)["backward"] >= 0.12 and found.epochs["test_accuracy"].tolist() == [
        0.5,
        0.5,
    ]
    assert found.integer("steps_per_epoch") == 3 and found.integer("images_per_epoch") == 80


def test_communication_hook_of_the_user_is_called(tmp_path):
    found = recorded(
        tmp_path,
        "model = parallel()\nhook = (None, fp16_compress_hook)\nwith Recorder(path, model,"
        " network='net', comm_hook=hook) as recorder:\n    train(recorder, model)",
    )
    assert found.option("gradient-dtype") == "fp16" and found.bucket_bytes.sum() == 2 * (
        64 * 64 + 64 + 2 * (64 * 10 + 10)
    )


def test_different_numbers_of_steps_are_a_warning(tmp_path):
    """Rank 1 trains one batch more, without communication, in the second epoch."""
    result = run(
        tmp_path,
        """
import contextlib
model = parallel()
with Recorder(path, model, network="net") as recorder:
    for epoch in range(2):
        for i, (images, labels) in enumerate(recorder.batches(Data(3 + epoch * rank))):
            with model.no_sync() if i == 3 else contextlib.nullcontext():
                recorder.backward(torch.nn.functional.cross_entropy(model(images), labels))
""",
    )
    words = "epoch 2: the ranks trained 3 to 4 steps; the run file has the first 3"
    assert [(status, words in output) for status, output in result] == [(0, True), (0, False)]
    recorded = read_run(tmp_path / "a.h5")
    assert recorded.environment["warnings"] == words and len(recorded.step) == 6


def test_uneven_numbers_of_batches_with_join_and_two_recorders_of_one_model(tmp_path):
    """With `Join`, a rank that has ended must not wait for the other within it. The second Recorder
    times the same model."""
    found = recorded(
        tmp_path,
        """
from torch.distributed.algorithms.join import Join
model = parallel()
with Recorder(path + "1", model, network="net") as recorder:
    train(recorder, model)
with Recorder(path, model, network="net") as recorder:
    for epoch in range(2):
        with Join([model]):
            train(recorder, model, 1, Data(3 + rank))
    recorder.evaluated(0.5)
""",
    )
    assert found.epoch.tolist() == [1] * 3 + [2] * 3 and found.epochs["test_accuracy"][1] == 0.5
    first = read_run(tmp_path / "a.h51")
    assert first.bucket_bytes.tolist() == found.bucket_bytes.tolist() and np.all(
        first.bucket_end[1:] > first.bucket_start[1:]
    )


def test_a_recorder_on_rank_0_alone_is_an_error(tmp_path):
    (status, output), _ = run(
        tmp_path,
        """
import lockstep_recorder.recorder
lockstep_recorder.recorder.START_LIMIT = 0.5
model = parallel()
recorder = Recorder(path, model, network="net") if rank == 0 else None
model(torch.ones(8, 64)).sum().backward()
""",
    )
    assert (
        status == 1
        and "Recorder: 1 of 2 processes created it within" in output
        and "all processes must create" in output
    )


def test_rank_0_alone_can_evaluate_and_close(tmp_path):
    found = recorded(
        tmp_path,
        """
recorder = Recorder(path, model := parallel(), network="net")
train(recorder, model, 1)
if rank == 0:
    recorder.evaluated(0.5)
    recorder.close()
""",
    )
    assert found.epochs["test_accuracy"].tolist() == [0.5]


def test_an_epoch_without_batches_is_a_warning(tmp_path):
    body = (
        "with Recorder(path, net, network='net') as recorder:\n    train(recorder, net, 1,"
        " Data({}))\n    train(recorder, net, 1, Data({}))\n    recorder.evaluated(0.5)\n    raise"
        " SystemExit(0)"
    )
    ((status, output),) = run(tmp_path, body.format(0, 0), 1)
    assert (
        status == 0
        and "epoch 1: the loader has no batch" in output
        and "a.h5 is not written" in output
    ), output
    ((status, output),) = run(tmp_path, body.format(0, 2), 1)
    assert (
        status == 0
        and read_run(tmp_path / "a.h5").status == "complete"
        and read_run(tmp_path / "a.h5").epoch.tolist() == [2, 2]
    )
