"""Stub of every program of the acceptance test, for its dry run. All numbers are SYNTHETIC.

usage: stub.py lockstep|torch|torch-features|mpirun|nvidia-smi|sanitizer|gtest ARGUMENTS...

STUB_FAULTS="FAULT:WORDS,..." injects a fault into each call whose command line contains WORDS: parts
joined by &, each of which must occur, or must not occur if it starts with !. Faults:
  fail           exit status 70
  out-of-memory  exit status 4
  crash          the program is terminated by SIGSEGV
  hang           the program ignores SIGTERM
  end-hang       the program hangs after it has written its results
  garbage        the program prints no JSON
  nan            losses are NaN
  wrong          losses, test accuracy, all-reduce sums and tests are wrong
  slow           the throughput is a tenth
  short-phases   the phases cover half of the wall-clock time
  missing        PyTorch lacks a feature
  stopped        the ladder takes too long; SIGTERM ends it with the points that are complete
STUB_CACHE=FOLDER caches run files that are written repeatedly."""

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
LARGEST_BATCH = 40000  # that fits into the memory of the simulated GPU
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
                    tests=[command("gtest")])


def injected_faults():
    """Returns the faults that STUB_FAULTS injects into this call."""
    line = " ".join(sys.argv[1:]) + " " + " ".join(
        f"{name}={os.environ[name]}" for name in ("CUDA_LAUNCH_BLOCKING",) if name in os.environ)
    faults = set()
    for pair in filter(None, os.environ.get("STUB_FAULTS", "").split(",")):
        fault, words = pair.split(":", 1)
        if all((word[1:] not in line) if word.startswith("!") else word in line
               for word in words.split("&")):
            faults.add(fault)
    return faults


def value_of(words, option, default=None):
    """Returns the word after `option` in a command line."""
    return words[words.index(option) + 1] if option in words else default


def loss_of(step, faults):
    if "nan" in faults and step >= 1:
        return math.nan
    return 2.4 * math.exp(-0.02 * step) * (1.1 if "wrong" in faults else 1.0)


def write_run(words, faults):
    """Writes the run file of --output. If STUB_CACHE is set, copies a file with equal contents from
    this folder, because importing h5py takes longer than all other work of this program."""
    sizes = [value_of(words, name, "-") for name in ("--batch-per-rank", "--global-batch", "--epochs",
                                                     "--steps", "--lr")]
    cached = os.path.join(os.environ["STUB_CACHE"], "-".join([*sizes, *sorted(faults)]) + ".h5")
    if not os.path.exists(cached):
        own = f"{cached}.{os.getpid()}"
        script = "import json, stub, sys; stub.make_run(*json.loads(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", script, json.dumps([words, sorted(faults), own])],
                       cwd=pathlib.Path(__file__).parent, check=True)
        os.replace(own, cached)
    shutil.copyfile(cached, value_of(words, "--output"))


def make_run(words, faults, path):
    """Writes a run file (docs/run-file.md) with the datasets that the acceptance test reads."""
    import h5py
    import numpy as np

    batch = int(value_of(words, "--batch-per-rank", value_of(words, "--global-batch", "1")))
    epochs = int(value_of(words, "--epochs", "1"))
    large = batch >= 16384  # the large batch comparison: a few steps with known means
    per_epoch = 32768 // batch if large else STEPS_PER_EPOCH
    steps = int(value_of(words, "--steps", "0")) or epochs * per_epoch
    rate = IMAGES_PER_SECOND * (0.1 if "slow" in faults else 1.0)
    seconds = np.full((steps, 1, 6), batch / rate / 6)
    epoch = np.minimum(np.arange(steps) * epochs // steps, epochs - 1) + 1
    is_short = "short-phases" in faults
    wall = np.array([seconds[epoch == e].sum() for e in range(1, epochs + 1)])
    is_constant = value_of(words, "--lr") == "0"
    with h5py.File(path, "w") as file:
        file.attrs["format"], file.attrs["status"] = "lockstep-run", "complete"
        file.attrs["synthetic"] = 1
        file["epoch"] = np.arange(1, epochs + 1)
        file["steps/epoch"], file["steps/images"] = epoch, np.full(steps, batch)
        file["steps/loss"] = np.array([loss_of(0 if is_constant else step, faults)
                                       for step in range(steps)])
        file["steps/learning_rate"] = np.full(steps, 0.1)
        file["steps/phase_seconds"] = seconds
        file["epochs/seconds"] = wall * (2 if is_short else 1)
        file["epochs/test_accuracy"] = np.full(epochs, 0.30 if "wrong" in faults else 0.92)


def write_engines(words):
    """Writes --engine-log, and an engine to the cache."""
    cache = pathlib.Path(os.environ["LOCKSTEP_CACHE_DIR"])
    (cache / "plans").mkdir(parents=True, exist_ok=True)
    key = "-".join(value_of(words, name, "") for name in ("--precision", "--batch-per-rank"))
    (cache / "plans" / key).write_text("SYNTHETIC plan")
    (cache / "engines.json").write_text('{"synthetic": true}')
    with open(value_of(words, "--engine-log"), "w", encoding="utf-8") as file:
        for engine, seconds, refusal in (("eng1", 2e-5, None), ("eng2", 1e-5, None),
                                         ("eng3", None, "SYNTHETIC refusal")):
            file.write(json.dumps({
                "graph": "SYNTHETIC", "engine": engine, "precompiled": True, "build_seconds": 0.01,
                "seconds": seconds, "workspace_bytes": 0, "refusal": refusal,
                "chosen": engine == "eng2"}) + "\n")
        file.write('{"graph": "incomplete')


def train(words, faults):
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    if "--allow-gpu-sharing" in words and os.environ.get("NCCL_HOSTID") != f"rank{rank}":
        print("lockstep: NCCL_HOSTID is not set per rank", file=sys.stderr)
        return 2
    if int(value_of(words, "--batch-per-rank", "1")) > LARGEST_BATCH:
        print("lockstep: out of memory", file=sys.stderr)
        return 4
    if rank in (None, "0"):
        write_run(words, faults)
        print(json.dumps({"synthetic": True, "status": "complete"}))
    if "--engine-log" in words:
        write_engines(words)
    return 0


def ladder(words, faults):
    points, fits, batch = [], True, int(value_of(words, "--ladder-start", "32"))
    while fits:
        predicted = FIXED_BYTES + BYTES_PER_IMAGE * batch
        fits = predicted <= LIMIT_BYTES
        points.append({"batch_per_rank": batch, "status": "complete" if fits else "out_of_memory",
                       "predicted_bytes": predicted, "peak_bytes": predicted if fits else 0,
                       "images_per_second": IMAGES_PER_SECOND if fits else None})
        batch *= 4
    if "stopped" in faults:
        points.pop()
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.pause()
    print(json.dumps({"synthetic": True, "memory_limit_bytes": LIMIT_BYTES, "ladder": points}))
    return 143 if "stopped" in faults else 0


def plan(words, faults):
    if "--engine-log" in words:
        write_engines(words)
    batch = int(value_of(words, "--batch-per-rank"))
    print(json.dumps({
        "synthetic": True, "kernels": [{"operation": "conv1", "phase": "forward", "kernel": "eng2"}],
        "floor": {"flops_per_second": 7.9e14, "bytes_per_second": 4.0e12,
                  "seconds": batch / IMAGES_PER_SECOND,
                  "floor_seconds": 0.75 * batch / IMAGES_PER_SECOND,
                  "operations": [{"operation": "synthetic", "seconds": 1.0, "flops": 1e12,
                                  "bytes": 1e9}]}}))
    return 0


def allreduce(words, faults):
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
        print(json.dumps({"synthetic": True, "allreduce": [
            {"algorithm": value_of(words, "--transport"), "bytes": 1024,
             "wrong": 1 if "wrong" in faults else 0, "median_seconds": 1e-4}]}))
    return 0


def info(words, faults):
    pathlib.Path(value_of(words, "--write-device-description")).write_text("{}")
    print(json.dumps({"synthetic": True, "build": "SYNTHETIC lockstep",
                      "devices": {"cuda": "SYNTHETIC GPU"}, "versions": {"mpi": "SYNTHETIC"}}))
    return 0


def lockstep(words, faults):
    if os.environ.get("LOCKSTEP_CACHE_DIR") is None:
        print("lockstep: LOCKSTEP_CACHE_DIR is not set", file=sys.stderr)
        return 70
    commands = {"allreduce": allreduce, "train": train, "ladder": ladder, "plan": plan, "info": info}
    return commands[words[0]](words, faults)


def torch_features(words, faults):
    print(json.dumps({"torch": "SYNTHETIC", "missing": ["torch.compile"] * ("missing" in faults)}))
    return 0


def torch(words, faults):
    if words[0] == "accuracy":
        print(json.dumps({"test_accuracy": 0.925, "synthetic": True}))
    elif words[0] == "losses":
        curve = [loss_of(step, faults) for step in range(20)]
        close = [loss * 1.001 for loss in curve]
        runs = {"eager": curve, "contiguous": close, "compiled": curve}
        pathlib.Path(value_of(words, "--weights")).write_text("SYNTHETIC")
        print(json.dumps({"synthetic": True, "losses": {"fp32": {"eager": curve}, "bf16": runs,
                                                        "fp16": runs}}))
    else:
        speed(words[words.index("--variants") + 1:], faults)
    return 0


def speed(variants, faults):
    for variant in variants:
        print(json.dumps({"ready": variant, "synthetic": True}), flush=True)
    print(json.dumps({"all_ready": variants}), flush=True)
    for line in sys.stdin:
        if "end-hang" in faults:
            time.sleep(600)
        rate = 50000.0 + 1000.0 * len(line.split()[0])
        print(json.dumps({"variant": line.split()[0], "images_per_second": [rate, rate * 1.01]}),
              flush=True)


def mpirun(words, faults):
    command = words[words.index("bash"):]
    ranks = [subprocess.Popen(command, env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank)})
             for rank in range(2)]
    return max(rank.wait() for rank in ranks)


def gtest(words, faults):
    if os.environ.get("LOCKSTEP_REQUIRE_GPU") != "1":
        return 2
    shard = os.environ.get("GTEST_SHARD_INDEX", "0")
    name = f"Devices/SYNTHETIC.Forward{shard}/bn_1_cuda_bf16_fusion_sums"
    print(f"[ RUN      ] SYNTHETIC.Skipped{shard}\n[  SKIPPED ] SYNTHETIC.Skipped{shard} (0 ms)")
    good = f"SYNTHETIC.Forward{shard}/bn_1_cuda_fp32"
    print(f"[ RUN      ] {good}\n[       OK ] {good} (0 ms)\n[ RUN      ] {name}", flush=True)
    if "end-hang" in faults:
        time.sleep(600)
    if "crash" in faults:
        return -1
    if "wrong" in faults:
        print(f"[  FAILED  ] {name}, where GetParam() = SYNTHETIC (0 ms)\n[  FAILED  ] 1 test, listed")
        return 1
    print(f"[       OK ] {name} (0 ms)")
    return 0


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
    print("" if "--query-compute-apps" in " ".join(words) else "NVIDIA H200 (SYNTHETIC), no driver")
    return 0


PROGRAMS = {"lockstep": lockstep, "torch": torch, "torch-features": torch_features,
            "mpirun": mpirun, "nvidia-smi": nvidia_smi, "sanitizer": sanitizer, "gtest": gtest}


def main():
    name, faults = sys.argv[1], injected_faults()
    if "hang" in faults:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if "fail" in faults or "out-of-memory" in faults:
        print("lockstep: rank 0: injected failure", file=sys.stderr)
        return 4 if "out-of-memory" in faults else 70
    if "crash" in faults and name != "gtest":
        os.kill(os.getpid(), signal.SIGSEGV)
    if "garbage" in faults:
        print("this is not JSON")
        return 0
    status = PROGRAMS[name](sys.argv[2:], faults)
    if "end-hang" in faults:
        sys.stdout.flush()
        time.sleep(600)
    return status


if __name__ == "__main__":
    sys.exit(main())
