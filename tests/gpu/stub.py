"""Stub of every program of the acceptance test, for its dry run and its tests. All numbers are SYNTHETIC.

usage: stub.py lockstep|torch|mpirun|nvidia-smi|sanitizer|gtest ARGUMENTS...

STUB_FAULTS="FAULT:TEXT,..." injects a fault into each call whose command line contains TEXT:
  fail           exit status 70
  out-of-memory  exit status 4
  crash          the program is terminated by SIGSEGV
  hang           the program ignores SIGTERM
  garbage        the program prints no JSON
  nan            losses are NaN
  wrong          losses, test accuracy and all-reduce sums are wrong
  short-phases   the phases cover half of the wall-clock time
STUB_HIDDEN_OPTIONS=OPTION,... omits options from --help. STUB_CACHE=FOLDER caches run files that are written repeatedly.
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

STEPS_PER_EPOCH = 4
LARGEST_BATCH = 28000  # that fits into the memory of the simulated GPU
IMAGES_PER_SECOND = 90000.0
BYTES_PER_IMAGE, FIXED_BYTES, LIMIT_BYTES = 5_000_000, 1_000_000_000, 140_000_000_000
OPTIONS = """--model --data --train-samples --test-samples --augment --loader-threads --batch-per-rank --global-batch
--epochs --steps --evaluate-every --seed --deterministic --init-from --lr --lr-schedule --bn --watchdog --device
--precision --data-residency --allow-gpu-sharing --transport --memory-limit --output --overwrite --quiet --json --measure
--ladder-start --write-device-description --dry-run --bn-fusion --gradient-dtype --max-bytes --repeats""".split()
VALUES = {
    "--augment": "crop-flip, none",
    "--bn": "local, sync",
    "--bn-fusion": "auto, none",
    "--data-residency": "host, device",
    "--device": "auto, cpu, cuda",
    "--gradient-dtype": "fp32, bf16",
    "--lr-schedule": "constant, onecycle",
    "--precision": "fp32, tf32, bf16, fp16",
    "--transport": "nccl, staged",
}


def injected_faults():
    """Returns the faults that STUB_FAULTS injects into this call."""
    line = " ".join(sys.argv[1:])
    pairs = [pair.split(":", 1) for pair in os.environ.get("STUB_FAULTS", "").split(",") if pair]
    return {fault for fault, text in pairs if text in line}


def value_of(words, option, default=None):
    """Returns the word after `option` in a command line."""
    return words[words.index(option) + 1] if option in words else default


def loss_of(step, faults):
    if "nan" in faults and step >= 1:
        return math.nan
    return 2.4 * math.exp(-0.02 * step) * (1.1 if "wrong" in faults and step >= 1 else 1.0)


def write_run(words, faults):
    """Writes the run file of --output. If STUB_CACHE is set, copies a file with equal contents from this folder, because
    importing h5py takes longer than all other work of this program."""
    cache = os.environ.get("STUB_CACHE")
    if not cache:
        make_run(words, faults, value_of(words, "--output"))
        return
    sizes = [value_of(words, name, "-") for name in ("--batch-per-rank", "--global-batch", "--epochs", "--steps")]
    cached = os.path.join(cache, "-".join([*sizes, *sorted(faults)]) + ".h5")
    if not os.path.exists(cached):
        make_run(words, faults, f"{cached}.{os.getpid()}")
        os.replace(f"{cached}.{os.getpid()}", cached)
    shutil.copyfile(cached, value_of(words, "--output"))


def make_run(words, faults, path):
    """Writes a run file (docs/run-file.md) with the datasets that the acceptance test reads."""
    import h5py
    import numpy as np

    batch = int(value_of(words, "--batch-per-rank", value_of(words, "--global-batch", "1")))
    epochs = int(value_of(words, "--epochs", "1"))
    steps = int(value_of(words, "--steps", "0")) or epochs * STEPS_PER_EPOCH
    seconds = np.full((steps, 1, 6), batch / IMAGES_PER_SECOND / 6)
    epoch = np.minimum(np.arange(steps) * epochs // steps, epochs - 1) + 1
    wall = np.array([seconds[epoch == e].sum() for e in range(1, epochs + 1)]) * (2 if "short-phases" in faults else 1)
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["status"], file.attrs["synthetic"] = "lockstep-run", "complete", 1
        file["epoch"] = np.arange(1, epochs + 1)
        file["steps/epoch"], file["steps/images"] = epoch, np.full(steps, batch)
        file["steps/loss"] = np.array([loss_of(step, faults) for step in range(steps)])
        file["steps/learning_rate"] = np.full(steps, 0.1)
        file["steps/phase_seconds"] = seconds
        file["epochs/seconds"] = wall
        file["epochs/test_accuracy"] = np.full(epochs, 0.30 if "wrong" in faults else 0.92)


def train(words, faults):
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    if "--transport" in words and os.environ.get("NCCL_HOSTID") != f"rank{rank}":
        print("lockstep: NCCL_HOSTID is not set per rank", file=sys.stderr)
        return 2
    if "--memory-limit" in words and int(value_of(words, "--batch-per-rank")) > LARGEST_BATCH:
        print("lockstep: out of memory", file=sys.stderr)
        return 4
    if rank in (None, "0"):
        write_run(words, faults)
        print(json.dumps({"synthetic": True, "status": "complete"}))
    return 0


def ladder(words, faults):
    points, fits, batch = [], True, int(value_of(words, "--ladder-start", "32"))
    while fits:
        predicted = FIXED_BYTES + BYTES_PER_IMAGE * batch
        fits = predicted <= LIMIT_BYTES
        points.append({"batch_per_rank": batch, "status": "complete" if fits else "out_of_memory",
                       "predicted_bytes": predicted, "images_per_second": IMAGES_PER_SECOND if fits else None,
                       "peak_bytes": predicted if fits else 0})
        batch *= 4
    print(json.dumps({"synthetic": True, "memory_limit_bytes": LIMIT_BYTES, "ladder": points}))
    return 0


def plan(words, faults):
    batch = int(value_of(words, "--batch-per-rank"))
    kernels = [{"operation": "bn1", "phase": "forward", "kernel": "sums from the convolution"},
               {"operation": "conv1", "phase": "forward", "kernel": "synthetic"}]
    print(json.dumps({"synthetic": True, "kernels": kernels, "floor": {
        "flops_per_second": 7.9e14, "bytes_per_second": 4.0e12, "seconds": batch / IMAGES_PER_SECOND,
        "floor_seconds": 0.75 * batch / IMAGES_PER_SECOND,
        "operations": [{"operation": "synthetic", "seconds": 1.0}]}}))
    return 0


def allreduce(words, faults):
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
        print(json.dumps({"synthetic": True, "allreduce": [
            {"algorithm": value_of(words, "--transport"), "bytes": 1024, "wrong": 1 if "wrong" in faults else 0,
             "median_seconds": 1e-4}]}))
    return 0


def info(words, faults):
    print(json.dumps({"synthetic": True, "build": "SYNTHETIC lockstep", "devices": {"cuda": "SYNTHETIC GPU"},
                      "versions": {"mpi": "SYNTHETIC"}}))
    return 0


def lockstep(words, faults):
    if "--help" in words:
        hidden = os.environ.get("STUB_HIDDEN_OPTIONS", "").split(",")
        print("lockstep: SYNTHETIC help")
        for option in OPTIONS:
            if option not in hidden:
                values = f": {VALUES[option]} [default]" if option in VALUES else ""
                print(f"  {option} VALUE    synthetic{values}")
        return 0
    commands = {"allreduce": allreduce, "train": train, "ladder": ladder, "plan": plan, "info": info}
    return commands[words[0]](words, faults)


def torch(words, faults):
    if words[0] == "versions":
        print(json.dumps({"torch": "SYNTHETIC", "cuda": "SYNTHETIC"}))
    elif words[0] == "accuracy":
        print(json.dumps({"test_accuracy": 0.925, "synthetic": True}))
    elif words[0] == "losses":
        curve = [loss_of(step, faults) for step in range(20)]
        close = [loss * 1.001 for loss in curve]
        runs = {"eager": curve, "contiguous": close, "compiled": curve}
        print(json.dumps({"synthetic": True, "losses": {"fp32": {"eager": curve}, "bf16": runs, "fp16": runs}}))
    else:
        variants = words[words.index("--variants") + 1:]
        for variant in variants:
            print(json.dumps({"ready": variant, "synthetic": True}), flush=True)
        print(json.dumps({"all_ready": variants}), flush=True)
        for line in sys.stdin:
            variant = line.split()[0]
            rate = 70000.0 + 1000.0 * len(variant)
            print(json.dumps({"variant": variant, "images_per_second": [rate, rate * 1.01]}), flush=True)
    return 0


def mpirun(words, faults):
    command = words[words.index("bash"):]
    ranks = [subprocess.Popen(command, env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank)}) for rank in range(2)]
    return max(rank.wait() for rank in ranks)


def gtest(words, faults):
    results = [{"name": name, "status": "RUN", "result": result} for name, result in
               (("a", "COMPLETED"), ("b", "SKIPPED"))]
    path = value_of([part for word in words for part in word.split("=json:", 1)], "--gtest_output")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"synthetic": True, "testsuites": [{"testsuite": results}]}, file)
    return 0


def sanitizer(words, faults):
    print("  --kernel-regex SYNTHETIC" if "--help" in words else "========= ERROR SUMMARY: 0 errors (SYNTHETIC)")
    return 0


def nvidia_smi(words, faults):
    print("SYNTHETIC GPU, no driver")
    return 0


def main():
    faults = injected_faults()
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
    programs = {"lockstep": lockstep, "torch": torch, "mpirun": mpirun, "nvidia-smi": nvidia_smi,
                "sanitizer": sanitizer, "gtest": gtest}
    return programs[sys.argv[1]](sys.argv[2:], faults)


if __name__ == "__main__":
    sys.exit(main())
