# SPDX-License-Identifier: BSD-3-Clause
"""Trains ResNet18 on CIFAR-10 in PyTorch; the GPU acceptance test (tests/gpu/acceptance.py)
compares it with Lockstep.

usage: pytorch_gpu.py versions
       pytorch_gpu.py speed --data DIR --batch B [--variants NAME ...] [--turns COMMAND ...]
       pytorch_gpu.py losses --data DIR --order FILE.npy --weights FILE.h5 --precision bf16 fp16
       pytorch_gpu.py accuracy --data DIR --batch B --rates FILE.npy

versions: prints the versions of PyTorch, CUDA and cuDNN and the missing features as JSON.

speed: warms up the variants one after another, which takes at most --warm-up-seconds, and prints a
JSON line for each that has failed. Then, in each of --rounds rounds, it trains whole epochs with
each variant for at least 1.2 s, prints the images/s of each epoch as JSON, and runs the commands of
--turns, for example another program ("{round}" in a command is the number of the round). Every
other round is in reverse order, so that a drift of the GPU clocks affects all equally. After
--seconds, it starts nothing more. All variants use channels-last, bf16 with autocast, fused SGD and
cudnn.benchmark with all algorithms of cuDNN. The images are stored on the GPU as uint8, and a whole
epoch is cropped, flipped and normalised there at once. In variant `host`, the images are stored in
host memory; each batch is copied from pinned memory with a non-blocking copy that overlaps the
preceding step, and is augmented on the GPU. Variants:
  eager            eager execution
  graph            eager code, from forward to SGD captured once as a CUDA graph
  host             like graph, with batches from host memory
  compile          torch.compile(mode="max-autotune"): Inductor's own CUDA graphs, SGD outside of
                   them
  compile_graph    torch.compile(mode="max-autotune-no-cudagraphs"), from forward to SGD captured as
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
import shlex
import signal
import subprocess
import time
from functools import partial

import numpy
import torch
from pytorch_epochs import variant_epoch
from pytorch_training import DTYPES, GraphedStep, Images, ResNet18, Trainer

WARM_UP_EPOCHS = 2
MEASURE_SECONDS = 1.2


def print_json(**fields):
    """Prints one line with a JSON object."""
    print(json.dumps(fields), flush=True)


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


def measure(name, epoch, images, args, number):
    """Trains whole epochs in round `number` for at least MEASURE_SECONDS; returns the JSON object
    of their throughput."""
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
    """Runs a command of --turns in round `number`; returns the JSON object of its exit status."""
    words = [word.replace("{round}", str(number)) for word in shlex.split(command)]
    process = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return {"turn": index, "status": process.returncode, "error": process.stderr.strip()[-500:]}


def speed(args):
    end = time.monotonic() + args.seconds
    images = Images(args.data, "train", args.train_samples, args.device, torch.bfloat16)
    epochs, longest = warm_up(args, images), 0.0
    turns = [partial(measure, *one, images, args) for one in epochs.items()]
    turns += [partial(take_turn, *one) for one in enumerate(args.turns)]
    for number in range(1, args.rounds + 1):
        for turn in turns[:: 1 if number % 2 else -1]:
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


def add_speed_arguments(add):
    add(
        "--variants",
        nargs="+",
        default=["eager", "graph", "host", "compile_default", "compile", "compile_graph"],
        help="variants for speed [all]",
    )
    add(
        "--warm-up-seconds",
        type=float,
        default=600,
        help="time limit of the warm-up for speed [%(default)s]",
    )
    add("--seconds", type=float, default=1200, help="time limit of speed [%(default)s]")
    add("--rounds", type=int, default=3, help="rounds of speed [%(default)s]")
    add(
        "--turns",
        nargs="+",
        default=[],
        metavar="COMMAND",
        help="commands that speed runs in each round",
    )


def add_loss_arguments(add):
    add("--order", metavar="FILE", help="npy file of image indices (steps, batch) for losses")
    add("--weights", metavar="FILE", help="HDF5 file to which losses writes the initial weights")
    add(
        "--precision",
        nargs="+",
        choices=["bf16", "fp16"],
        default=["bf16", "fp16"],
        help="precisions for losses, besides float32 [bf16 fp16]",
    )
    add(
        "--modes",
        nargs="+",
        choices=["eager", "contiguous", "compiled"],
        default=["eager", "contiguous", "compiled"],
        help="modes for losses [all]",
    )
    add("--lr", type=float, default=0.01, help="learning rate for losses [%(default)s]")


def parsed_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("command", choices=["versions", "speed", "losses", "accuracy"])
    add("--data", metavar="DIR", help="folder of the CIFAR-10 binary files")
    add(
        "--batch",
        type=int,
        default=512,
        help="images per step for speed and accuracy [%(default)s]",
    )
    add_speed_arguments(add)
    add("--train-samples", type=int, metavar="N", help="use the first N training images [all]")
    add("--test-samples", type=int, metavar="N", help="use the first N test images [all]")
    add_loss_arguments(add)
    add("--rates", metavar="FILE", help="npy file of the learning rate of each step for accuracy")
    add("--seed", type=int, default=1, help="seed for losses and accuracy [%(default)s]")
    add(
        "--device",
        choices=["cuda", "cpu"],
        default="cuda",
        help="cpu tests the code without a GPU [%(default)s]",
    )
    return parser.parse_args()


def main():
    args = parsed_arguments()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # all algorithms of cuDNN
    commands = {"versions": versions, "speed": speed, "losses": losses, "accuracy": accuracy}
    commands[args.command](args)


if __name__ == "__main__":
    main()
