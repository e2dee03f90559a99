"""Simulates every program of the acceptance run for its dry run and its tests. All numbers are SYNTHETIC.

usage: stand_in.py lockstep|torch|mpirun|nvidia-smi|sanitizer|gtest ARGUMENTS...

STAND_IN="MODE:TEXT,..." injects a fault into each call whose command line contains TEXT: fail (exit status 70), memory
(exit status 4), crash (by a signal), hang (ignores SIGTERM), garbage (prints no JSON), nan (losses are NaN), drift
(losses, test accuracy and sums are wrong), slow (low throughput), lax (phases cover half of the wall-clock time).
STAND_IN_HIDE=OPTION,... omits options from --help. STAND_IN_CACHE=FOLDER caches run files that are written repeatedly.
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

STEPS_PER_EPOCH, FITS = 4, 28000
BYTES_PER_IMAGE, FIXED_BYTES, LIMIT_BYTES = 5_000_000, 1_000_000_000, 140_000_000_000
OPTIONS = """--model --data --train-samples --test-samples --augment --loader-threads --batch-per-rank --global-batch
--epochs --steps --evaluate-every --seed --deterministic --init-from --lr --lr-schedule --bn --watchdog --device
--precision --data-residency --allow-gpu-sharing --transport --memory-limit --output --overwrite --quiet --json --measure
--ladder-start --write-device-description --dry-run --bn-fusion --gradient-dtype --max-bytes --repeats""".split()
CHOICES = {"--precision": "fp32, tf32, bf16, fp16", "--data-residency": "host, device", "--transport": "nccl, staged",
           "--augment": "crop-flip, none", "--lr-schedule": "constant, onecycle", "--bn": "local, sync", "--bn-fusion": "auto, none", "--gradient-dtype": "fp32, bf16",
           "--device": "auto, cpu, cuda"}


def modes():
    """Returns the fault modes of this call."""
    line = " ".join(sys.argv[1:])
    pairs = [pair.split(":", 1) for pair in os.environ.get("STAND_IN", "").split(",") if pair]
    return {mode for mode, text in pairs if text in line}


def value(words, option, default=None):
    return words[words.index(option) + 1] if option in words else default


def loss_of(step, wrong):
    if "nan" in wrong and step >= 1:
        return math.nan
    return 2.4 * math.exp(-0.02 * step) * (1.1 if "drift" in wrong and step >= 1 else 1.0)


def write_run(words, wrong):
    """Writes a run file (docs/run-file.md). If STAND_IN_CACHE is set, equal files are copied from this folder, because
    importing h5py takes longer than all other work of this program."""
    cache = os.environ.get("STAND_IN_CACHE")
    if not cache:
        make_run(words, wrong, value(words, "--output"))
        return
    sizes = [value(words, name, "-") for name in ("--batch-per-rank", "--global-batch", "--epochs", "--steps")]
    known = os.path.join(cache, "-".join([*sizes, *sorted(wrong)]) + ".h5")
    if not os.path.exists(known):
        make_run(words, wrong, f"{known}.{os.getpid()}")
        os.replace(f"{known}.{os.getpid()}", known)
    shutil.copyfile(known, value(words, "--output"))


def make_run(words, wrong, path):
    import h5py
    import numpy as np

    batch = int(value(words, "--batch-per-rank", value(words, "--global-batch", "1")))
    epochs = int(value(words, "--epochs", "1"))
    steps = int(value(words, "--steps", "0")) or epochs * STEPS_PER_EPOCH
    rate = 20000.0 if "slow" in wrong else 90000.0
    seconds = np.full((steps, 1, 6), batch / rate / 6)
    epoch = np.minimum(np.arange(steps) * epochs // steps, epochs - 1) + 1
    wall = np.array([seconds[epoch == e].sum() for e in range(1, epochs + 1)]) * (2 if "lax" in wrong else 1)
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["status"], file.attrs["synthetic"] = "lockstep-run", "complete", 1
        file.create_group("environment").attrs["kernels"] = "synthetic"
        file["epoch"] = np.arange(1, epochs + 1)
        file["steps/epoch"], file["steps/images"] = epoch, np.full(steps, batch)
        file["steps/loss"] = np.array([loss_of(step, wrong) for step in range(steps)])
        file["steps/learning_rate"] = np.full(steps, 0.1)
        file["steps/phase_seconds"] = seconds
        file["epochs/seconds"] = wall
        file["epochs/test_accuracy"] = np.full(epochs, 0.30 if "drift" in wrong else 0.92)


def train(words, wrong):
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    if "--transport" in words and os.environ.get("NCCL_HOSTID") != f"rank{rank}":
        print("lockstep: NCCL_HOSTID is not set per rank", file=sys.stderr)
        return 2
    if "--memory-limit" in words and int(value(words, "--batch-per-rank")) > FITS:
        print("lockstep: out of memory", file=sys.stderr)
        return 4
    if rank in (None, "0"):
        write_run(words, wrong)
        print(json.dumps({"synthetic": True, "status": "complete"}))
    return 0


def ladder(words, wrong):
    points, batch = [], int(value(words, "--ladder-start", "32"))
    while True:
        predicted = FIXED_BYTES + BYTES_PER_IMAGE * batch
        fits = predicted <= LIMIT_BYTES
        points.append({"batch_per_rank": batch, "status": "ok" if fits else "out_of_memory", "predicted_bytes": predicted,
                       "images_per_second": 90000.0 if fits else None, "peak_bytes": predicted if fits else 0})
        batch *= 4
        if not fits:
            break
    print(json.dumps({"synthetic": True, "memory_limit_bytes": LIMIT_BYTES, "ladder": points}))
    return 0


def plan(words, wrong):
    batch = int(value(words, "--batch-per-rank"))
    kernels = [{"operation": "bn1", "phase": "forward", "kernel": "sums from the convolution"},
               {"operation": "conv1", "phase": "forward", "kernel": "synthetic"}]
    print(json.dumps({"synthetic": True, "kernels": kernels, "floor": {
        "flops_per_second": 7.9e14, "bytes_per_second": 4.0e12, "seconds": batch / 9e4, "floor_seconds": batch / 1.2e5,
        "operations": [{"operation": "synthetic", "seconds": 1.0}]}}))
    return 0


def allreduce(words, wrong):
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
        print(json.dumps({"synthetic": True, "allreduce": [
            {"way": value(words, "--transport"), "bytes": 1024, "wrong": 1 if "drift" in wrong else 0,
             "median_seconds": 1e-4}]}))
    return 0


def info(words, wrong):
    print(json.dumps({"synthetic": True, "build": "SYNTHETIC lockstep", "devices": {"cuda": "SYNTHETIC GPU"},
                      "versions": {"mpi": "SYNTHETIC"}}))
    return 0


def lockstep(words, wrong):
    if "--help" in words:
        hidden = os.environ.get("STAND_IN_HIDE", "").split(",")
        print("lockstep: SYNTHETIC help")
        for option in OPTIONS:
            if option not in hidden:
                print(f"  {option} " + (f"WHICH    of {CHOICES[option]}" if option in CHOICES else "VALUE    synthetic"))
        return 0
    return {"allreduce": allreduce, "train": train, "ladder": ladder, "plan": plan, "info": info}[words[0]](words, wrong)


def torch(words, wrong):
    if words[0] == "versions":
        print(json.dumps({"torch": "SYNTHETIC", "cuda": "SYNTHETIC"}))
    elif words[0] == "accuracy":
        print(json.dumps({"test_accuracy": 0.925, "synthetic": True}))
    elif words[0] == "losses":
        curve = [loss_of(step, wrong) for step in range(20)]
        close = [loss * 1.001 for loss in curve]
        runs = {"eager": curve, "contiguous": close, "compiled": curve}
        print(json.dumps({"synthetic": True, "losses": {"fp32": {"eager": curve}, "bf16": runs, "fp16": runs}}))
    else:
        variants = words[words.index("--variants") + 1:]
        for variant in variants:
            print(json.dumps({"ready": variant, "synthetic": True}), flush=True)
        print(json.dumps({"all_ready": variants}), flush=True)
        for line in sys.stdin:
            rate = 60000.0 if "slow" in wrong else 70000.0 + 1000.0 * len(line.split()[0])
            print(json.dumps({"variant": line.split()[0], "images_per_second": [rate, rate * 1.01]}), flush=True)
    return 0


def mpirun(words, wrong):
    command = words[words.index("bash"):]
    ranks = [subprocess.Popen(command, env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank)}) for rank in range(2)]
    return max(rank.wait() for rank in ranks)


def gtest(words, wrong):
    results = [{"name": "a", "status": "RUN", "result": "COMPLETED"}, {"name": "b", "status": "RUN", "result": "SKIPPED"}]
    path = value([part for word in words for part in word.split("=json:", 1)], "--gtest_output")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"synthetic": True, "testsuites": [{"testsuite": results}]}, file)
    return 0


def sanitizer(words, wrong):
    print("  --kernel-regex SYNTHETIC" if "--help" in words else "========= ERROR SUMMARY: 0 errors (SYNTHETIC)")
    return 0


def nvidia_smi(words, wrong):
    print("SYNTHETIC GPU, no driver")
    return 0


def main():
    wrong = modes()
    if "hang" in wrong:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if "fail" in wrong or "memory" in wrong:
        print("lockstep: rank 0: planted failure", file=sys.stderr)
        return 4 if "memory" in wrong else 70
    if "crash" in wrong:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "garbage" in wrong:
        print("this is no JSON")
        return 0
    role = {"lockstep": lockstep, "torch": torch, "mpirun": mpirun, "nvidia-smi": nvidia_smi, "sanitizer": sanitizer,
            "gtest": gtest}[sys.argv[1]]
    return role(sys.argv[2:], wrong)


if __name__ == "__main__":
    sys.exit(main())
