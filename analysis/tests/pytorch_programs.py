# SPDX-License-Identifier: BSD-3-Clause
"""Starts PyTorch programs with a Recorder on CPUs, in processes with Gloo."""

import os
import subprocess
import sys
from pathlib import Path

from lockstep_report.cli import main
from lockstep_report.runfile.read import read_run

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
    def leave():
        # Without the destructors of PyTorch, which can abort the process because threads of Gloo
        # still run.
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
    # Below the range from which the kernel takes the ports of outgoing connections.
    port = 5000 + os.getpid() % 5000
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
