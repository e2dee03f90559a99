# SPDX-License-Identifier: BSD-3-Clause
"""Stub of every program of the acceptance test, for its dry run. All numbers are SYNTHETIC.

usage: stub.py lockstep|torch|torch-features|mpirun|nvidia-smi|sanitizer|gtest ARGUMENTS...

STUB_FAULTS="FAULT:WORDS,..." injects a fault into each call whose command line, with its environment
variables of CUDA and NCCL, contains WORDS: parts joined by &, each of which must occur, or must not
occur if it starts with !. Faults:
  fail           exit status 70
  out-of-memory  exit status 4
  crash          the program is terminated by SIGSEGV
  hang           the program ignores SIGTERM
  end-hang       the program hangs after it has written its results; gtest: during a test
  end-crash      the program is terminated by SIGSEGV after it has written its results
  garbage        the program prints no JSON
  nan            losses are NaN
  wrong          losses, test accuracy, all-reduce sums and tests are wrong
  slow           the throughput is a tenth
  short-phases   the phases cover half of the wall-clock time
  missing        PyTorch lacks a feature
  late           only the first variant of PyTorch becomes ready; SIGUSR1 abandons the others
  one-gpu        the machine has one GPU instead of four"""

import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

STEPS_PER_EPOCH = 4
LARGEST_BATCH = 41000  # that fits into the memory of the stub's GPU
IMAGES_PER_SECOND = 90000.0
BYTES_PER_IMAGE, FIXED_BYTES, LIMIT_BYTES = 3_000_000, 1_000_000_000, 120_000_000_000


def programs():
    """Returns the commands that start the stub of each program."""
    from context import Programs

    def command(name):  # -S: without site-packages, which only writing a run file needs
        return [sys.executable, "-S", str(pathlib.Path(__file__).resolve()), name]

    return Programs(lockstep=command("lockstep"), torch=command("torch"),
                    torch_features=command("torch-features"), mpirun=command("mpirun"),
                    nvidia_smi=command("nvidia-smi"), sanitizer=command("sanitizer"),
                    tests=command("gtest"))


def injected_faults():
    """Returns the faults that STUB_FAULTS injects into this call."""
    line = " ".join([*sys.argv[1:], *(f"-n {value}" if name == "OMPI_COMM_WORLD_SIZE" else f"{name}={value}"
                                      for name, value in os.environ.items()
                                      if name.startswith(("CUDA_", "NCCL_", "OMPI_COMM_")))])
    faults = set()
    for pair in filter(None, os.environ.get("STUB_FAULTS", "").split(",")):
        fault, words = pair.split(":", 1)
        if all((word[1:] not in line) if word.startswith("!") else word in line
               for word in words.split("&")):
            faults.add(fault)
    return faults


def end(faults):
    """Hangs or crashes if there is a fault for the end of the program."""
    sys.stdout.flush()
    if "end-hang" in faults:
        time.sleep(600)
    if "end-crash" in faults:
        os.kill(os.getpid(), signal.SIGSEGV)


def value_of(words, option, default=None):
    """Returns the word after `option` in a command line."""
    return words[words.index(option) + 1] if option in words else default


def loss_of(step, faults):
    if "nan" in faults and step >= 1:
        return math.nan
    return 2.4 * math.exp(-0.02 * step) * (1.1 if "wrong" in faults else 1.0)


def write_run(words, faults):
    """Writes the run file of --output. Copies a file with equal contents if one exists, because
    importing h5py takes longer than all other work of this program."""
    ranks = os.environ.get("OMPI_COMM_WORLD_SIZE", "1")
    sizes = [value_of(words, name, "-") for name in ("--batch-per-rank", "--global-batch", "--epochs",
                                                     "--steps", "--lr")]
    cached = os.path.join(os.environ["TMPDIR"], "-".join([*sizes, ranks, *sorted(faults)]) + ".h5")
    if not os.path.exists(cached):
        own = f"{cached}.{os.getpid()}"
        script = "import json, stub, sys; stub.make_run(*json.loads(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", script, json.dumps([words, int(ranks), sorted(faults), own])],
                       cwd=pathlib.Path(__file__).parent, check=True)
        os.replace(own, cached)
    shutil.copyfile(cached, value_of(words, "--output"))


def make_run(words, ranks, faults, path):
    """Writes a run file (docs/run-file.md) with the datasets that the acceptance test reads."""
    import h5py
    import numpy as np

    batch = int(value_of(words, "--batch-per-rank", "1")) * ranks
    epochs = int(value_of(words, "--epochs", "1"))
    # 32768 images: the large batch comparison, with known means
    per_epoch = 32768 // batch if batch >= 16384 else STEPS_PER_EPOCH
    steps = int(value_of(words, "--steps", "0")) or epochs * per_epoch
    rate = IMAGES_PER_SECOND * ranks * (0.1 if "slow" in faults else 1.0)
    seconds = np.full((steps, ranks, 6), batch / rate / 6)
    epoch = np.arange(steps) * epochs // steps + 1
    wall = np.array([seconds[epoch == e, 0].sum() for e in range(1, epochs + 1)])
    is_constant = value_of(words, "--lr") == "0"
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["status"], file.attrs["synthetic"] = "lockstep-run", "complete", 1
        file["epoch"] = np.arange(1, epochs + 1)
        file["steps/epoch"], file["steps/images"] = epoch, np.full(steps, batch)
        file["steps/loss"] = [loss_of(0 if is_constant else step, faults) for step in range(steps)]
        file["steps/learning_rate"] = np.full(steps, 0.1)
        file["steps/phase_seconds"] = seconds
        file["epochs/seconds"] = wall * (2 if "short-phases" in faults else 1)
        file["epochs/test_accuracy"] = np.full(epochs, 0.30 if "wrong" in faults else 0.92)


def train(words, faults):
    if int(value_of(words, "--batch-per-rank", "1")) > LARGEST_BATCH:
        print("lockstep: out of memory", file=sys.stderr)
        return 4
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
        write_run(words, faults)
    return 0


def ladder(words, faults):
    points, fits, batch = [], True, int(value_of(words, "--ladder-start"))
    while fits:
        predicted = FIXED_BYTES + BYTES_PER_IMAGE * batch
        fits = predicted <= LIMIT_BYTES
        points.append({"batch_per_rank": batch, "status": "complete" if fits else "out_of_memory",
                       "predicted_bytes": predicted, "peak_bytes": predicted if fits else 0,
                       "images_per_second": IMAGES_PER_SECOND if fits else None})
        batch *= 4
    print(json.dumps({"memory_limit_bytes": LIMIT_BYTES, "ladder": points}))
    return 0


def plan(words, faults):
    (pathlib.Path(os.environ["LOCKSTEP_CACHE_DIR"]) / "engines.json").write_text('{"synthetic": true}')
    seconds = int(value_of(words, "--batch-per-rank")) / IMAGES_PER_SECOND
    print(json.dumps({
        "kernels": [{"operation": "conv1", "phase": "forward", "kernel": "SYNTHETIC"}],
        "floor": {"flops_per_second": 7.9e14, "bytes_per_second": 4.0e12, "seconds": seconds,
                  "floor_seconds": 0.75 * seconds}}))
    return 0


def allreduce(words, faults):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
        print(json.dumps({"allreduce": [{"bytes": 1024, "wrong": int("wrong" in faults),
                                         "median_seconds": 1e-4}]}))
    return 0


def info(words, faults):
    print(json.dumps({"devices": {"cuda": "SYNTHETIC GPU"}, "versions": {"mpi": "SYNTHETIC"}}))
    return 0


def lockstep(words, faults):
    commands = {"allreduce": allreduce, "train": train, "ladder": ladder, "plan": plan, "info": info}
    return commands[words[0]](words, faults)


def torch_features(words, faults):
    print(json.dumps({"torch": "SYNTHETIC", "missing": ["torch.compile"] * ("missing" in faults)}))
    return 0


def torch(words, faults):
    if words[0] == "accuracy":
        print(json.dumps({"test_accuracy": 0.925}))
    elif words[0] == "losses":
        curve = [loss_of(step, faults) for step in range(20)]
        runs = {"eager": curve, "contiguous": [loss * 1.001 for loss in curve]}
        print(json.dumps({"losses": {"fp32": {"eager": curve}, "bf16": runs, "fp16": runs}}))
    else:
        speed(words[words.index("--variants") + 1:], faults)
    return 0


def speed(variants, faults):
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for variant in variants:
        is_late = "late" in faults and variant != variants[0]
        if is_late:
            signal.pause()
        print(json.dumps({"failed" if is_late else "ready": variant}), flush=True)
    print(json.dumps({"all_ready": variants}), flush=True)
    for line in sys.stdin:
        end(faults)
        print(json.dumps({"images_per_second": [50000.0, 50500.0]}), flush=True)


def mpirun(words, faults):
    size, command = words[words.index("-n") + 1], words[words.index("-n") + 2:]
    ranks = [subprocess.Popen(command, env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank),
                                                         "OMPI_COMM_WORLD_SIZE": size})
             for rank in range(int(size))]
    return max(abs(rank.wait()) for rank in ranks)


def gtest(words, faults):
    shard = os.environ.get("GTEST_SHARD_INDEX", "0")
    name = f"Devices/SYNTHETIC.Forward{shard}/bn_1_cuda_bf16_fusion_sums"
    good = f"SYNTHETIC.Forward{shard}/bn_1_cuda_fp32"
    print(f"[ RUN      ] {good}\n[       OK ] {good} (0 ms)\n[ RUN      ] {name}")
    end(faults)
    print(f"[  {'FAILED ' if 'wrong' in faults else '     OK'} ] {name} (0 ms)")
    return int("wrong" in faults)


def sanitizer(words, faults):
    """Runs the program, as compute-sanitizer does, and prints a summary."""
    status = subprocess.run(words[words.index("all") + 1:][2 * ("--kernel-regex" in words):]).returncode
    if "wrong" in faults:
        print("========= Invalid __global__ read of size 4 bytes (SYNTHETIC)\n"
              "========= ERROR SUMMARY: 1 error")
        return 99
    print("========= ERROR SUMMARY: 0 errors (SYNTHETIC)")
    return status


def nvidia_smi(words, faults):
    print("GPU 0: NVIDIA H200 (SYNTHETIC)\n" * (1 if "one-gpu" in faults else 4))
    return 0


PROGRAMS = {"lockstep": lockstep, "torch": torch, "torch-features": torch_features,
            "mpirun": mpirun, "nvidia-smi": nvidia_smi, "sanitizer": sanitizer, "gtest": gtest}


def main():
    name, faults = sys.argv[1], injected_faults()
    if name == "mpirun":  # its ranks have the faults
        return mpirun(sys.argv[2:], faults)
    if "hang" in faults:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if "fail" in faults or "out-of-memory" in faults:
        print("lockstep: rank 0: injected failure", file=sys.stderr)
        return 4 if "out-of-memory" in faults else 70
    if "crash" in faults:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "garbage" in faults:
        print("this is not JSON")
        return 0
    status = PROGRAMS[name](sys.argv[2:], faults)
    end(faults)
    return status


if __name__ == "__main__":
    sys.exit(main())
