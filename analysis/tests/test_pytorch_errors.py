# SPDX-License-Identifier: BSD-3-Clause
"""Tests of wrong use of the Recorder, and of trainings that fail."""

import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from pytorch_programs import recorded, run

pytestmark = pytest.mark.requires("PYTORCH")


def test_break_and_an_exception_keep_the_steps_before(tmp_path):
    found = recorded(
        tmp_path,
        """
model = parallel()
with Recorder(path, model, network="net") as recorder:
    epoch = recorder.batches(Data())
    assert len(epoch) == 4
    for i, (images, labels) in enumerate(epoch):
        recorder.backward(model(images).square().sum())
        if i == 2:
            break
    time.sleep(1)
""",
    )
    assert found.epochs["seconds"][0] < 1
    assert (
        found.epoch.tolist() == [1] * 3
        and found.integer("steps_per_epoch") == 4
        and found.integer("images_per_epoch") == 64
    )
    results = run(
        tmp_path,
        """
model = parallel()
with Recorder(path, model, network="net", overwrite=True) as recorder:
    train(recorder, model, 1)
    for images, labels in recorder.batches(Data()):
        raise ValueError("no such label")
""",
    )
    assert all(
        status == 1 and output.rstrip().endswith("ValueError: no such label")
        for status, output in results
    )
    found = read_run(tmp_path / "a.h5")
    assert (found.status, found.attributes["failure"]) == ("failed", "ValueError: no such label")
    assert found.epoch.tolist() == [1] * 4


@pytest.mark.parametrize(
    "ranks, body, message",
    [
        (
            1,
            (
                "recorder = Recorder(path, net, network='net')\nfor images, labels in"
                " recorder.batches(Data()):\n    net(images).sum().backward()"
            ),
            "must call Recorder.backward",
        ),
        (
            1,
            (
                "recorder = Recorder(path, net, network='net')\nfor a, b in"
                " zip(recorder.batches(Data()), recorder.batches(Data())):\n   "
                " recorder.backward(net(a[0]).sum())"
            ),
            "use one Recorder per loop",
        ),
        (
            1,
            "for batch in Recorder(path, net, network='net').batches([['a.png']]):\n    pass",
            "contains no tensor that is no scalar",
        ),
        (1, "Recorder(path, torch.nn.ReLU(), network='net')", "the model ReLU has no parameters"),
        (
            1,
            "Recorder(path, print, network='net')",
            "must be a torch.nn.Module, not builtin_function_or_method",
        ),
        (
            2,
            (
                "first = Recorder(path, model := parallel(), network='net')\nRecorder(path + '1',"
                " model, network='net')\nfor images, labels in first.batches(Data()):\n   "
                " first.backward(model(images).sum())"
            ),
            "a later Recorder records this model",
        ),
        (
            2,
            (
                "Recorder(path, model := parallel(), network='net')\n"
                "Recorder(path + '1', model, network='net', comm_hook=(None, fp16_compress_hook))"
            ),
            "has another comm_hook",
        ),
        (
            1,
            "Recorder(path, net, network='net').backward(net(torch.ones(1, 64)).sum())",
            "in the loop over Recorder.batches",
        ),
        (1, "Recorder(path, net, network='net').evaluated(0.5)", "after an epoch"),
        (
            1,
            (
                "recorder = Recorder(path, net, network='net')\ntrain(recorder, net,"
                " 1)\nrecorder.evaluated(torch.tensor(93.5))"
            ),
            "the accuracy is a share from 0 to 1, not 93.5; divide percent by 100",
        ),
        (1, "open(path, 'w').close()\nRecorder(path, net, network='net')", "a.h5 exists"),
        (2, "Recorder(path, net, network='net')", "must be a DistributedDataParallel"),
        (
            2,
            (
                "rank or open(path, 'w').close()\ndist.barrier()\nRecorder(path, parallel(),"
                " network='net')"
            ),
            "a.h5 exists",
        ),
        (
            2,
            (
                "model = parallel()\nmodel.register_comm_hook(None,"
                " fp16_compress_hook)\nRecorder(path, model, network='net')"
            ),
            "give a communication hook to the Recorder",
        ),
    ],
)
def test_wrong_use_is_an_error_on_every_rank(tmp_path, ranks, body, message):
    for status, output in run(tmp_path, body, ranks):
        assert status == 1 and message in output.splitlines()[-1], output


def test_gradients_that_are_not_finite_make_a_failed_run(tmp_path):
    for status, output in run(
        tmp_path,
        "with Recorder(path, net, network='net') as recorder:\n"
        "    for images, labels in recorder.batches(Data()):\n"
        "        recorder.backward(net(images).sum() * float('nan'))",
        1,
    ):
        assert status == 0, output
    assert read_run(tmp_path / "a.h5").attributes["failure"] == "the loss is not finite"
    assert main(["validate", str(tmp_path / "a.h5")]) == 0
