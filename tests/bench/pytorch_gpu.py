# SPDX-License-Identifier: BSD-3-Clause
"""Trains ResNet18 on CIFAR-10 in PyTorch; the GPU acceptance test (tests/gpu/acceptance.py)
compares it with Lockstep.

usage: pytorch_gpu.py versions
       pytorch_gpu.py speed --data DIR --batch B [--variants NAME ...] [--turns COMMAND ...]
       pytorch_gpu.py losses --data DIR --order FILE.npy --weights FILE.h5 --precision bf16 fp16
       pytorch_gpu.py accuracy --data DIR --batch B --rates FILE.npy

versions: prints the versions of PyTorch, CUDA and cuDNN and the missing features as JSON.

speed: warms up the variants one after another, which takes at most --warm-up-seconds, and prints a
JSON line for each
that has failed. Then, in each of --rounds rounds, it trains whole epochs with each variant for at
least 1.2 s, prints
the images/s of each epoch as JSON, and runs the commands of --turns, for example another program
("{round}" in a command is
the number of the round). Every other round is in reverse order, so that a drift of the GPU clocks
affects all equally.
After --seconds, it starts nothing more. All variants use channels-last, bf16 with autocast, fused
SGD and
cudnn.benchmark with all algorithms of cuDNN. The images are stored on the GPU as uint8, and a whole
epoch is
cropped, flipped and normalised there at once. In variant `host`, the images are stored in host
memory; each batch is
copied from pinned memory with a non-blocking copy that overlaps the preceding step, and is
augmented on the GPU.
Variants:
  eager          eager execution
  graph          eager code, from forward to SGD captured once as a CUDA graph
  host           like graph, with batches from host memory
  compile        torch.compile(mode="max-autotune"): Inductor's own CUDA graphs, SGD outside of them
  compile_graph  torch.compile(mode="max-autotune-no-cudagraphs"), from forward to SGD captured as
  one CUDA graph
  compile_default  torch.compile in its default mode, from forward to SGD captured as one CUDA graph

losses: writes initial weights to FILE.h5 (one dataset per tensor under /state), then prints as JSON
the loss of each step on the images that FILE.npy lists (indices, steps x batch), without
augmentation: in float32 with eager execution and, for each precision, in each mode of --modes: with
eager execution (eager), with eager execution without channels-last (contiguous), and with
torch.compile (compiled).

accuracy: trains with a captured CUDA graph and the learning rates in FILE.npy (one per step);
prints the test accuracy as JSON.
"""

import argparse
import inspect
import json
import math
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import numpy
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis" / "examples"))
import cifar10  # noqa: E402
from networks import ResNet18  # noqa: E402

WARM_UP_EPOCHS = 2
MEASURE_SECONDS = 1.2
SLOTS = 3  # buffers in pinned memory: one is filled, one is copied, one is in use by the step
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
COMPILE_MODES = {
    "compile": "max-autotune",
    "compile_graph": "max-autotune-no-cudagraphs",
    "compile_default": "default",
}
LOSS_SCALE = 1024.0  # for fp16; constant, so that no step is skipped


def print_json(**fields):
    """Prints one line with a JSON object."""
    print(json.dumps(fields), flush=True)


class Images:
    """Labelled images on `device` as uint8, padded for cropping; provides whole epochs or single
    batches."""

    def __init__(self, folder, split, samples, device, dtype):
        images, self.labels = cifar10.read(folder, split, samples)
        self.images = images.permute(0, 2, 3, 1).contiguous()  # on the host, (N, 32, 32, 3)
        self.device, self.dtype, self.count = device, dtype, len(images)
        self.padded = F.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1).contiguous().to(device)
        self.device_labels = self.labels.to(device)
        self.mean = cifar10.MEAN.view(3).mul(255).to(device)
        self.scale = cifar10.STD.view(3).mul(255).reciprocal().to(device)

    def normalise(self, pixels):
        """Normalises (N, 32, 32, 3) uint8; returns (N, 3, 32, 32) in channels-last format and
        `self.dtype`."""
        return ((pixels.float() - self.mean) * self.scale).to(self.dtype).permute(0, 3, 1, 2)

    def crop_and_flip(self, padded, pick, count):
        """Crops and flips the `count` padded images with the indices `pick` at random; returns
        (count, 32, 32, 3)."""
        top, left = (torch.randint(0, 9, (count, 1), device=self.device) for _ in range(2))
        flip = torch.rand(count, 1, device=self.device) < 0.5
        side = torch.arange(32, device=self.device).view(1, 32)
        columns = torch.where(flip, 31 - side, side) + left
        return padded[pick.view(-1, 1, 1), (side + top).unsqueeze(2), columns.unsqueeze(1)]

    def epoch(self):
        """Returns all images (N, 3, 32, 32), augmented and in a new random order, and their
        labels."""
        order = torch.randperm(self.count, device=self.device)
        return (
            self.normalise(self.crop_and_flip(self.padded, order, self.count)),
            self.device_labels[order],
        )

    def augment(self, images):
        """Augments and normalises a batch (N, 32, 32, 3) of uint8 on the device; returns (N, 3, 32,
        32)."""
        padded = F.pad(images, (0, 0, 4, 4, 4, 4))
        count = len(images)
        pick = torch.arange(count, device=self.device)
        return self.normalise(self.crop_and_flip(padded, pick, count))

    def without_augmentation(self, pick):
        """Returns the images with the indices `pick`, normalised, and their labels."""
        return self.normalise(self.padded[pick.to(self.device), 4:36, 4:36]), self.labels[pick].to(
            self.device
        )


class Trainer:
    """A network and its training step. `compile_options` are passed to torch.compile; None selects
    eager execution."""

    def __init__(
        self, device, precision, rate, compile_options=None, channels_last=True, state=None
    ):
        self.device, self.scale = device, LOSS_SCALE if precision == "fp16" else 1.0
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.network = ResNet18().to(device, memory_format=self.layout)
        if state is not None:
            self.network.load_state_dict(state)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4, fused=True
        )
        self.autocast = {
            "device_type": device,
            "dtype": DTYPES[precision],
            "enabled": precision != "fp32",
        }
        self.has_inductor_graphs = (
            compile_options is not None and compile_options.get("mode") == "max-autotune"
        )
        self.loss = self.eager_loss
        if compile_options is not None:
            self.loss = torch.compile(self.eager_loss, fullgraph=True, **compile_options)

    def eager_loss(self, pixels, labels):
        with torch.autocast(**self.autocast):
            logits = self.network(pixels)
        return F.cross_entropy(logits.float(), labels)

    def step(self, pixels, labels):
        """Runs forward pass, backward pass and update on one batch; returns the loss."""
        if self.has_inductor_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss(pixels.contiguous(memory_format=self.layout), labels)
        if self.scale == 1.0:
            loss.backward()
        else:
            (loss * self.scale).backward()
            gradients = [parameter.grad for parameter in self.network.parameters()]
            torch._foreach_mul_(gradients, 1 / self.scale)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class GraphedStep:
    """Executes `step(pixels, labels)` as one captured CUDA graph; on a CPU, calls `step`."""

    def __init__(self, step, pixels, labels):
        self.step, self.graph = step, None
        self.pixels, self.labels = pixels.clone(), labels.clone()
        if not pixels.is_cuda:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):  # select kernels and allocate momentum before the capture
                step(self.pixels, self.labels)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = step(self.pixels, self.labels)

    def replay(self):
        if self.graph is None:
            return self.step(self.pixels, self.labels)
        self.graph.replay()
        return self.loss

    def __call__(self, pixels, labels):
        self.pixels.copy_(pixels)
        self.labels.copy_(labels)
        return self.replay()


def device_epoch(images, step, batch):
    """Trains one epoch with images that are stored on the device; returns the last loss."""
    pixels, labels = images.epoch()
    for begin in range(0, images.count - batch + 1, batch):
        loss = step(pixels[begin : begin + batch], labels[begin : begin + batch])
    return loss


class HostEpochs:
    """Trains epochs with images in host memory. Each batch is gathered in pinned memory, copied to
    the GPU on a separate stream while the preceding step runs, and augmented on the GPU."""

    def __init__(self, images, trainer, batch):
        self.images, self.batch, self.cuda = images, batch, images.device == "cuda"
        shape = (batch, 32, 32, 3)
        self.pinned = [
            torch.empty(shape, dtype=torch.uint8, pin_memory=self.cuda) for _ in range(SLOTS)
        ]
        self.pinned_labels = [
            torch.empty(batch, dtype=torch.int64, pin_memory=self.cuda) for _ in range(SLOTS)
        ]
        self.staged = [
            torch.empty(shape, dtype=torch.uint8, device=images.device) for _ in range(SLOTS)
        ]
        self.staged_labels = [
            torch.empty(batch, dtype=torch.int64, device=images.device) for _ in range(SLOTS)
        ]
        if self.cuda:
            self.stream = torch.cuda.Stream()
            self.copied = [torch.cuda.Event() for _ in range(SLOTS)]
            self.used = [torch.cuda.Event() for _ in range(SLOTS)]
        example, labels = (
            images.images[:batch].to(images.device),
            images.labels[:batch].to(images.device),
        )
        self.step = GraphedStep(
            lambda raw, targets: trainer.step(images.augment(raw), targets), example, labels
        )

    def upload(self, slot):
        """Copies the batch in the pinned buffer `slot` to the device."""
        if not self.cuda:
            self.staged[slot].copy_(self.pinned[slot])
            self.staged_labels[slot].copy_(self.pinned_labels[slot])
            return
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[slot])
            self.staged[slot].copy_(self.pinned[slot], non_blocking=True)
            self.staged_labels[slot].copy_(self.pinned_labels[slot], non_blocking=True)
            self.copied[slot].record()
        torch.cuda.current_stream().wait_event(self.copied[slot])

    def __call__(self):
        """Trains one epoch; returns the last loss."""
        order = torch.randperm(self.images.count)
        for index, begin in enumerate(range(0, self.images.count - self.batch + 1, self.batch)):
            slot, pick = index % SLOTS, order[begin : begin + self.batch]
            if self.cuda:
                self.copied[
                    slot
                ].synchronize()  # wait until the previous copy from this slot has finished
            torch.index_select(self.images.images, 0, pick, out=self.pinned[slot])
            torch.index_select(self.images.labels, 0, pick, out=self.pinned_labels[slot])
            self.upload(slot)
            loss = self.step(self.staged[slot], self.staged_labels[slot])
            if self.cuda:
                self.used[slot].record()
        return loss


def variant_epoch(name, images, args):
    """Returns a function that trains one epoch with variant `name` and returns the last loss."""
    options = None
    if name.startswith("compile"):
        options = {"mode": COMPILE_MODES[name]} if args.device == "cuda" else {"backend": "eager"}
    trainer = Trainer(args.device, "bf16", 0.1 * args.batch / 1024, options)
    if name == "host":
        return HostEpochs(images, trainer, args.batch)
    step = trainer.step
    if name in ("graph", "compile_graph", "compile_default"):
        pixels, labels = images.epoch()
        step = GraphedStep(step, pixels[: args.batch], labels[: args.batch])
    return lambda: device_epoch(images, step, args.batch)


def timed_epoch(epoch, images, args):
    """Trains one epoch; returns its throughput in images per second of wall-clock time, and the
    last loss."""
    start = time.perf_counter()
    loss = epoch().item()  # waits for the device
    return images.count // args.batch * args.batch / (time.perf_counter() - start), loss


def abandon_warm_up(*_):
    raise TimeoutError("not ready in time")


def warm_up(args, images):
    """Returns {variant: function that trains one epoch}. Prints the variants that fail or are not
    ready in time."""
    epochs, end = {}, time.monotonic() + args.warm_up_seconds
    signal.signal(signal.SIGALRM, abandon_warm_up)
    for name in args.variants:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(end - time.monotonic(), 0.01))
            epoch = variant_epoch(name, images, args)
            for _ in range(WARM_UP_EPOCHS):
                timed_epoch(epoch, images, args)
            epochs[name] = epoch
        except Exception as error:  # the other variants can still be measured
            print_json(failed=name, error=f"{type(error).__name__}: {error}"[-2000:])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return epochs


def measure(name, epoch, images, args):
    """Trains whole epochs for at least MEASURE_SECONDS; returns the JSON object of their
    throughput."""
    rates, loss, start = [], math.nan, time.monotonic()
    while not rates or time.monotonic() - start < MEASURE_SECONDS:
        rate, loss = timed_epoch(epoch, images, args)
        rates.append(rate)
    return {
        "variant": name,
        "images_per_second": rates,
        "loss": loss if math.isfinite(loss) else None,
    }


def take_turn(index, command, number):
    """Runs a command of --turns; returns the JSON object of its exit status."""
    words = [word.replace("{round}", str(number)) for word in shlex.split(command)]
    process = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return {"turn": index, "status": process.returncode, "error": process.stderr.strip()[-500:]}


def speed(args):
    end = time.monotonic() + args.seconds
    images = Images(args.data, "train", args.train_samples, args.device, torch.bfloat16)
    epochs, longest = warm_up(args, images), 0.0
    turns = [lambda number, one=one: measure(*one, images, args) for one in epochs.items()]
    turns += [lambda number, one=one: take_turn(*one, number) for one in enumerate(args.turns)]
    for number in range(1, args.rounds + 1):
        for turn in turns if number % 2 else turns[::-1]:
            start = time.monotonic()
            if start + longest > end:
                return
            print_json(round=number, **turn(number))
            longest = max(longest, time.monotonic() - start)
    print_json(is_complete=True)


def write_weights(path, seed):
    """Writes random initial weights as an `--init-from` file and returns them as a state_dict."""
    import h5py

    torch.manual_seed(seed)
    state = ResNet18().state_dict()
    with h5py.File(path, "w") as file:
        for name, tensor in state.items():
            file.create_dataset(f"state/{name}", data=tensor.numpy())
    return state


def losses_of(trainer, images, order):
    """Trains one step per row of `order`, indices (steps, batch); returns the losses."""
    return [
        trainer.step(*images.without_augmentation(pick)).item() for pick in torch.from_numpy(order)
    ]


def losses(args):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # losses do not need the fastest algorithms
    order = numpy.load(args.order)
    state = write_weights(args.weights, args.seed)
    result = {}
    for precision in ["fp32", *args.precision]:
        images = Images(args.data, "train", args.train_samples, args.device, DTYPES[precision])
        modes = {"eager": {}}
        if precision != "fp32":
            compiler = {} if args.device == "cuda" else {"backend": "eager"}
            modes |= {
                "contiguous": {"channels_last": False},
                "compiled": {"compile_options": compiler},
            }
            modes = {mode: modes[mode] for mode in args.modes}
        result[precision] = {}
        for mode, options in modes.items():
            trainer = Trainer(args.device, precision, args.lr, state=state, **options)
            result[precision][mode] = losses_of(trainer, images, order)
    print_json(losses=result)


def evaluate(trainer, images, batch=500):
    """Returns the accuracy on all images."""
    trainer.network.eval()
    correct = 0
    with torch.no_grad():
        for begin in range(0, images.count, batch):
            pixels, labels = images.without_augmentation(
                torch.arange(begin, min(begin + batch, images.count))
            )
            with torch.autocast(**trainer.autocast):
                correct += (trainer.network(pixels).argmax(1) == labels).sum().item()
    return correct / images.count


def accuracy(args):
    torch.manual_seed(args.seed)
    rates = numpy.load(args.rates)
    images = Images(args.data, "train", args.train_samples, args.device, torch.bfloat16)
    rate = torch.zeros((), device=args.device)
    trainer = Trainer(args.device, "bf16", rate)
    before = {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}
    pixels, labels = images.epoch()
    step = GraphedStep(trainer.step, pixels[: args.batch], labels[: args.batch])
    # The warm-up steps changed the momentum and the running statistics.
    trainer.network.load_state_dict(before)
    for entry in trainer.optimizer.state.values():
        entry["momentum_buffer"].zero_()
    done, start = 0, time.perf_counter()
    while done < len(rates):
        pixels, labels = images.epoch()
        for begin in range(0, images.count - args.batch + 1, args.batch):
            rate.fill_(float(rates[done]))
            step(pixels[begin : begin + args.batch], labels[begin : begin + args.batch])
            done += 1
            if done == len(rates):
                break
    test = Images(args.data, "test", args.test_samples, args.device, torch.bfloat16)
    seconds = time.perf_counter() - start
    print_json(test_accuracy=evaluate(trainer, test), steps=done, seconds=seconds)


def missing_features():
    """Returns the names of the features that this program uses and this version of PyTorch
    lacks."""
    has_fused_sgd = "fused" in inspect.signature(torch.optim.SGD.__init__).parameters
    has_compile = callable(getattr(torch, "compile", None))
    has_step_begin = hasattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin")
    needed = {
        "torch.compile": has_compile,
        "SGD(fused=True)": has_fused_sgd,
        "torch.compiler.cudagraph_mark_step_begin": has_step_begin,
    }
    return [name for name, is_available in needed.items() if not is_available]


def versions(args):
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else None
    print_json(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=cudnn,
        nccl=nccl,
        cuda_available=torch.cuda.is_available(),
        missing=missing_features(),
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["versions", "speed", "losses", "accuracy"])
    parser.add_argument("--data", metavar="DIR", help="folder of the CIFAR-10 binary files")
    parser.add_argument(
        "--batch",
        type=int,
        default=512,
        help="images per step for speed and accuracy [%(default)s]",
    )
    parser.add_argument(
        "--variants",
        nargs="+",
        default=["eager", "graph", "host", "compile_default", "compile", "compile_graph"],
        help="variants for speed [all]",
    )
    parser.add_argument(
        "--warm-up-seconds",
        type=float,
        default=600,
        help="time limit of the warm-up for speed [%(default)s]",
    )
    parser.add_argument(
        "--seconds", type=float, default=1200, help="time limit of speed [%(default)s]"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of speed [%(default)s]")
    parser.add_argument(
        "--turns",
        nargs="+",
        default=[],
        metavar="COMMAND",
        help="commands that speed runs in each round",
    )
    parser.add_argument(
        "--train-samples", type=int, metavar="N", help="use the first N training images [all]"
    )
    parser.add_argument(
        "--test-samples", type=int, metavar="N", help="use the first N test images [all]"
    )
    parser.add_argument(
        "--order", metavar="FILE", help="npy file of image indices (steps, batch) for losses"
    )
    parser.add_argument(
        "--weights", metavar="FILE", help="HDF5 file to which losses writes the initial weights"
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=["bf16", "fp16"],
        default=["bf16", "fp16"],
        help="precisions for losses, besides float32 [bf16 fp16]",
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=["eager", "contiguous", "compiled"],
        default=["eager", "contiguous", "compiled"],
        help="modes for losses [all]",
    )
    parser.add_argument(
        "--lr", type=float, default=0.01, help="learning rate for losses [%(default)s]"
    )
    parser.add_argument(
        "--rates", metavar="FILE", help="npy file of the learning rate of each step for accuracy"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed for losses and accuracy [%(default)s]"
    )
    parser.add_argument(
        "--device",
        choices=["cuda", "cpu"],
        default="cuda",
        help="cpu tests the code without a GPU [%(default)s]",
    )
    args = parser.parse_args()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = (
        True,
        0,
    )  # 0: all algorithms of cuDNN
    {"versions": versions, "speed": speed, "losses": losses, "accuracy": accuracy}[args.command](
        args
    )


if __name__ == "__main__":
    main()
