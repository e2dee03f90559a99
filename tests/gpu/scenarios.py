"""Scenarios of the dry run: injected faults (stub.py) and what the report must then contain. One
scenario injects faults into several parts, because their parts are independent."""

from dataclasses import dataclass, field

CORRECT, WRONG, NOT_RUN = "correct", "wrong", "not run"


@dataclass(frozen=True)
class Scenario:
    """`faults`: value of STUB_FAULTS, as a tuple. `verdicts`: of the parts that are not correct.
    `texts`: what the section of a part contains. `seconds`: time limit of the call."""

    name: str
    call: str
    faults: tuple = ()
    verdicts: dict = field(default_factory=dict)
    texts: dict = field(default_factory=dict)
    seconds: float = 300


FULL = "synthetic:1536&--precision bf16"  # the small run at batch 512

SCENARIOS = (
    Scenario("success", "first-contact", texts={
        1: ("full bf16 512", "3 candidates, of which 2 were timed and 1 refused"),
        2: ("racecheck checked our own kernels", "memcheck checked all kernels", "16 tests passed"),
        3: ("bf16 device none", "With the attainable rates of the H200", "75%"),
        4: ("PyTorch graph", "PyTorch compile_default", "ratio to PyTorch", "target 2"),
        5: ("test accuracy bf16 92.00%", "two ranks staged", "two ranks nccl"),
        6: ("out_of_memory", "trained three steps")}),
    Scenario("graph capture, precision, kernels, overlap, no PyTorch", "first-contact", faults=(
        f"crash:{FULL}&!--transport staged", "wrong:synthetic:96&--precision fp16",
        "wrong:--tool memcheck&--batch-per-rank 8", "wrong:gtest", "slow:--data-residency",
        "fail:--transport nccl&!--reducer allreduce", "garbage:ladder", "missing:torch-features"),
        verdicts={1: WRONG, 2: WRONG, 5: WRONG, 6: WRONG}, texts={
            1: ("batch 512, --engines timed, --bn-fusion auto: cause: CUDA graph capture",
                "fp16, batch 32, --engines quick, --bn-fusion auto: cause: precision fp16"),
            2: ("memcheck: Invalid __global__ read", "only precision bf16 and fusion sums",
                "no failure in fp32 fusion auto", "alone, CUDA_LAUNCH_BLOCKING=1"),
            3: ("9,000",), 4: ("lacks torch.compile", "Lockstep bf16 device"),
            5: ("with --reducer allreduce it is correct, so the overlap is the cause",),
            6: ("printed no JSON object",)}),
    Scenario("fusion, crashing test, no device, long run, hang at the end, PyTorch hangs",
             "first-contact", faults=(
                 f"nan:{FULL}&--bn-fusion auto", "crash:gtest", "fail:info", "wrong:accuracy-bf16",
                 "end-hang:train&--transport nccl", "hang:speed"),
             verdicts={1: WRONG, 2: WRONG, 5: WRONG}, texts={
                 1: ("lockstep info: exit status 70", "cause: batch-norm fusion"),
                 2: ("during Devices/SYNTHETIC",),
                 4: ("not ready in time", "Lockstep bf16 device"),
                 5: ("is below 85%", "(reruns of an earlier failure)", "did not end",
                     "the end of the program hangs", "--reducer allreduce is hang")}),
    Scenario("engine, hanging tests, no plan, staged, timers, PyTorch stops answering, ladder fails",
             "first-contact", faults=(
                 f"wrong:{FULL}&--engines timed", "end-hang:gtest", "fail:plan&bf16",
                 "wrong:--transport staged&--allow-gpu-sharing",
                 "short-phases:--data-residency device&fp16-device", "end-hang:torch speed",
                 "fail:ladder"),
             verdicts={1: WRONG, 3: WRONG, 4: WRONG, 5: WRONG, 6: WRONG}, texts={
                 1: ("cause: a selected engine",), 2: ("8 of 8 processes were ended",),
                 3: ("engines 512 bf16: exit status 70", "from the wall clock"),
                 4: ("no reply within",), 5: ("so the cause is not NCCL",),
                 6: ("ladder 32: exit status 70",)}),
    Scenario("stream order, slow ladder", "first-contact", faults=(
        f"crash:{FULL}&!CUDA_LAUNCH_BLOCKING=1", "stopped:ladder"),
        verdicts={1: WRONG, 6: WRONG}, texts={
            1: ("so an order between streams is missing",),
            6: ("ladder 32: did not end within", "| 32768 | complete")}),
    Scenario("too little time", "first-contact", faults=("hang:plan",), seconds=6,
             texts={3: ("when the time of the step ended",)}),

    Scenario("success", "measure", texts={
        2: ("Throughput at batch 2048",), 3: ("PyTorch compile_graph", "target 2"),
        4: ("losses fp16", "92.50%"), 5: ("32,768", "All-reduce of bf16 gradients"),
        6: ("Predicted limit: batch 39,666", "fits, batch")}),
    Scenario("wrong losses, large batch, sums and limit; no PyTorch accuracy", "measure", faults=(
        "wrong:losses-bf16.h5", "fail:accuracy&--rates", "wrong:large-batch-32768",
        "hang:overlap-overlap", "wrong:allreduce", "out-of-memory:--batch-per-rank 38476",
        "slow:--data-residency", "fail:speed&2048"),
        verdicts={4: WRONG, 5: WRONG, 6: WRONG}, texts={
            3: ("PyTorch graph", "the program ended"),
            4: ("losses bf16: step 1", "not reproduced", "injected failure"),
            5: ("batch 32768: the loss", "overlap overlap: did not end", "1 wrong elements"),
            6: ("is predicted to fit",)}),
    Scenario("large batch does not fit, failure near the limit, no PyTorch", "measure", faults=(
        "out-of-memory:--batch-per-rank 32768", "crash:--memory-limit", "missing:torch-features",
        "wrong:accuracy-fp16"),
        verdicts={4: WRONG, 6: WRONG}, texts={
            3: ("lacks torch.compile",), 4: ("is below 85%", "lacks torch.compile"),
            5: ("does not fit into the memory of this GPU",),
            6: ("the expected status is 0 or 4",)}),
)
