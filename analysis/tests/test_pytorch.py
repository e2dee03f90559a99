# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `lockstep_recorder.Recorder` with PyTorch on CPUs, in processes with Gloo."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run
from lockstep_report.runfile.settings import setting_of

pytestmark = pytest.mark.requires("PYTORCH")

HEAD = """
import atexit, os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from lockstep_recorder import Recorder
torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if world > 1:
    dist.init_process_group("gloo")
    @atexit.register
    def leave():  # without the destructors of PyTorch, which can abort the process because threads of Gloo still run
        dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(hasattr(sys, "last_value"))
class Slow(torch.autograd.Function):  # the passes through the first layer take 20 ms and 60 ms
    @staticmethod
    def forward(context, x):
        time.sleep(0.02)
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        time.sleep(0.06)
        return gradient
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.unused = (torch.nn.Linear(64, size) for size in (64, 10, 10))
    def forward(self, x):
        return self.last(Slow.apply(self.first(x)))
class Data:
    def __init__(self, batches=4):
        self.batches = batches
    def __len__(self):
        return self.batches
    def __iter__(self):
        for _ in range(self.batches):
            time.sleep(0.01)
            yield torch.ones(8, 64), torch.zeros(8, dtype=torch.int64)
net = Net()
def parallel(**options):
    return DDP(net, **{"find_unused_parameters": True, **options}) if world > 1 else net
def train(recorder, model, epochs=2, data=Data()):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for images, labels in recorder.batches(data, "cpu"):
            optimizer.zero_grad()
            recorder.backward(torch.nn.functional.cross_entropy(model(images), labels))
            optimizer.step()
    return model.state_dict()
"""
NAMES = ("data_wait", "upload", "forward", "backward", "exposed_communication", "update")


def run(tmp_path, body, ranks=2, head=HEAD):
    """Runs `head` and `body` on `ranks` ranks, with "a.h5" in `path`; returns [(exit status,
    output)]."""
    return start(["-c", f"{head}\npath = {str(tmp_path / 'a.h5')!r}\n{body}"], ranks)


def start(arguments, ranks):
    """Runs Python with these arguments on `ranks` ranks; returns [(exit status, output)]."""
    port = (
        5000 + os.getpid() % 5000
    )  # below the range from which the kernel takes the ports of outgoing connections
    environment = {
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment | {"RANK": str(rank)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(ranks)
    ]
    return [
        (process.returncode, text)
        for process in processes
        for text in [process.communicate(timeout=600)[0]]
    ]


def recorded(tmp_path, body, ranks=2):
    """Runs `body` without errors; returns the run of a valid file."""
    for status, output in run(tmp_path, body, ranks):
        assert status == 0, output
    assert main(["validate", str(tmp_path / "a.h5")]) == 0
    return read_run(tmp_path / "a.h5")


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
    assert 0.01 <= times["data_wait"] and 0.02 <= times["forward"] and 0.06 <= times["backward"]
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


@pytest.mark.parametrize("name, ranks", [("pytorch_ddp.py", 2), ("pytorch_dp.py", 1)])
def test_example_trains_and_records(tmp_path, name, ranks):
    example = Path(__file__).parents[1] / "examples" / name
    for status, output in start(
        [
            example,
            "--data",
            "synthetic:40",
            "--model",
            "vgg11",
            "--batch-per-rank",
            "8",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--output",
            tmp_path / "a.h5",
        ],
        ranks,
    ):
        assert status == 0, output
    assert main(["validate", str(tmp_path / "a.h5")]) == 0
    found = read_run(tmp_path / "a.h5")
    assert found.rank_count == ranks and found.integer("steps_per_epoch") == {1: 5, 2: 2}[ranks]
    assert found.number("train-samples") == 40 and found.option("bn") == (
        "local" if ranks == 2 else ""
    )
    assert setting_of(found)[:4] == ("vgg11", "cpu", "fp32", "synthetic, 40 images")


@pytest.mark.parametrize(
    "folder", ["", "cifar-10-batches-bin"]
)  # without and with that of the archive
def test_example_trains_with_a_schedule_and_evaluates(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    for name in ["test_batch", *(f"data_batch_{i}" for i in range(1, 6))]:
        (tmp_path / folder / f"{name}.bin").write_bytes(bytes(i % 10 for i in range(8 * 3073)))
    example = Path(__file__).parents[1] / "examples" / "pytorch_dp.py"
    ((status, output),) = start(
        [
            example,
            "--data",
            f"cifar10:{tmp_path}",
            "--model",
            "vgg11",
            "--batch-per-rank",
            "8",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--epochs",
            "3",
            "--lr",
            "0.01",
            "--lr-schedule",
            "onecycle",
            "--nesterov",
            "--label-smoothing",
            "0.1",
            "--evaluate-every",
            "2",
            "--output",
            tmp_path / "a.h5",
        ],
        1,
    )
    assert status == 0, output
    found = read_run(tmp_path / "a.h5")
    assert found.option("lr-schedule") == "onecycle" and found.option("label-smoothing") == "0.1"
    assert [0 <= value <= 1 for value in found.epochs["test_accuracy"]] == [False, True, True]


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({}, ("0", "1", "127.0.0.1")),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "head"}, ("1", "2", "head")),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_NODES": "1",
                "SLURM_LAUNCH_NODE_IPADDR": "login",
            },
            ("1", "2", "127.0.0.1"),
        ),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_NODES": "2",
                "SLURM_LAUNCH_NODE_IPADDR": "head",
            },
            ("1", "2", "head"),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "SLURM_LAUNCH_NODE_IPADDR": "login",
            },
            ("1", "2", "127.0.0.1"),
        ),
    ],
)
def test_example_finds_its_ranks(variables, expected, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    import pytorch_ddp  # noqa: PLC0415

    monkeypatch.setattr(os, "environ", dict(variables))
    pytorch_ddp.set_ranks()
    assert tuple(os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")) == expected


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"lr_schedule": "onecycle"}, {0: 0.04, 3: 1, 10: 1e-4}),
        ({"lr_schedule": "cosine"}, {0: 1, 5: 0.5, 10: 0}),
        ({"lr_schedule": "onecycle", "warmup_epochs": 1}, {0: 0.2, 4: 1, 5: 1, 10: 1e-4}),
        ({"lr_schedule": "constant"}, {0: 1, 9: 1}),
    ],
)
def test_example_computes_the_learning_rates_of_lockstep(options, expected, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    from pytorch_training import learning_rate  # noqa: PLC0415

    args = SimpleNamespace(lr=1.0, epochs=2, **{"warmup_epochs": 0, **options})
    assert {step: learning_rate(args, step, 5) for step in expected} == pytest.approx(expected)
