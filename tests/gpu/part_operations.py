# SPDX-License-Identifier: BSD-3-Clause
"""Part "operations": agreement tests in several processes, and compute-sanitizer."""

import collections
import concurrent.futures
import re

from diagnosis import MEMCHECK_SECONDS, diagnose, first_error, sanitizer_command
from running import last_lines
from small_runs import SmallRun

SHARDS = 8  # processes that share the GPU
# Batch norm is the least known part, and the fusions contain it: these tests run first.
BATCH_NORM = "*bn_*:*block*:*Fusions*"
MAX_RERUNS = 2  # failed tests that are rerun
SANITIZER_SECONDS = 40
MARK = re.compile(r"^\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] (\S+)", re.MULTILINE)


def read_tests(stdout):
    """Returns {test: OK, FAILED, SKIPPED or RUN} from the output of a GoogleTest program. RUN: the
    program ended during the test. The summary at the end of the output repeats results."""
    results = {}
    for mark, word in MARK.findall(stdout):
        name = word.rstrip(",")
        if mark != "RUN" and name not in results:
            continue  # a line of the summary such as "[  FAILED  ] 2 tests"
        results[name] = mark
    return results


def pattern_of(failed, passed):
    """Returns one line that states in which precisions and fusions tests failed."""
    def kind(name):
        found = re.search(r"_(fp32|tf32|bf16|fp16)(?:_fusion_(\w+))?$", name)
        return f"{found.group(1)} fusion {found.group(2) or 'auto'}" if found else "no precision"

    bad, good = (collections.Counter(map(kind, names)) for names in (failed, passed))
    parts = [f"{one}: {count} of {count + good[one]} failed" for one, count in sorted(bad.items())]
    free = sorted(good.keys() - bad.keys())
    return f"agreement tests: {'; '.join(parts)}" + (f"; no failure in {', '.join(free)}" if free else "")


def agreement_command(context, pattern, prefix=(), **variables):
    """Returns the command of the agreement tests that match a GoogleTest filter. They time engines while the
    GPU is busy, so they use a cache of their own."""
    return context.program([*prefix, *context.programs.tests, f"--gtest_filter={pattern}", "--gtest_color=no"],
                           LOCKSTEP_REQUIRE_GPU="1", LOCKSTEP_CACHE_DIR=context.scratch("tests-cache"), **variables)


def run_shards(context, report, label, pattern):
    """Runs the tests that match a GoogleTest filter in SHARDS processes; returns {test: result}."""
    def run(shard):
        return context.run(f"tests {label} {shard}", agreement_command(
            context, pattern, GTEST_TOTAL_SHARDS=SHARDS, GTEST_SHARD_INDEX=shard, **context.core_dump()), 600)

    with concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:
        try:
            outcomes = list(pool.map(run, range(SHARDS)))
        except BaseException:  # SIGTERM: the threads end with their programs
            context.runner.stop_all()
            raise
    results, late = {}, 0
    for outcome in outcomes:
        tests = read_tests(outcome.stdout)
        running = [name for name, result in tests.items() if result == "RUN"]
        late += outcome.timed_out
        if not outcome.timed_out and not outcome.ok and "FAILED" not in tests.values():
            during = "".join(f" during {test}" for test in running[-1:])
            report.fail(f"{outcome.name}: {outcome.reason}{during}", outcome.tail)
        if running and not outcome.timed_out:
            tests[running[-1]] = "FAILED"
        results |= tests
    if late:
        report.not_run(f"rest of the tests of {label}",
                       f"{late} of {SHARDS} processes were ended at their time limit")
    return results


def rerun_tests(context, report, failed):
    """Reruns failed tests alone: with synchronous launches, and with memcheck."""
    context.clock.extend(MAX_RERUNS * 20 + MEMCHECK_SECONDS)
    rows = []
    for number, test in enumerate(failed[:MAX_RERUNS]):
        blocking = context.run(f"rerun test {number} blocking", agreement_command(
            context, test, CUDA_LAUNCH_BLOCKING="1", **context.core_dump()), 20)
        rows.append([test, "alone, CUDA_LAUNCH_BLOCKING=1",
                     "passed" if blocking.ok else blocking.reason])
        tool = sanitizer_command(context, "memcheck")
        if tool and number == 0:
            check = context.run(f"rerun test {number} memcheck",
                                agreement_command(context, test, prefix=tool), MEMCHECK_SECONDS)
            rows.append([test, "memcheck", first_error(check.stdout + check.stderr)
                         or ("no error" if check.ok else check.reason)])
    report.add_table(["test", "rerun", "result"], rows)


def agreement(context, report, label, pattern):
    """Compares operations with the reference implementation."""
    if not context.programs.tests:
        report.not_run(f"tests of {label}", "--tests is not given")
        return
    results = run_shards(context, report, label, pattern)
    named = {kind: [name for name, result in results.items() if result == kind]
             for kind in ("OK", "FAILED", "SKIPPED")}
    report.checks += len(named["OK"]) + len(named["FAILED"])
    report.numbers[f"tests of {label}"] = results
    report.headlines.append(f"{label}: {len(named['OK'])} tests passed, {len(named['FAILED'])} failed, "
                            f"{len(named['SKIPPED'])} skipped")
    if not results:
        report.not_run(f"tests of {label}", "the program ran no test")
    if named["FAILED"]:
        report.fail(f"{len(named['FAILED'])} tests of {label} failed",
                    last_lines("\n".join(named["FAILED"]), 40))
        rerun_tests(context, report, named["FAILED"])
        report.add_diagnosis(pattern_of(named["FAILED"], named["OK"]))


def batch_norm_tests(context, report):
    agreement(context, report, "batch norm", BATCH_NORM)


def other_tests(context, report):
    agreement(context, report, "other operations", f"*-{BATCH_NORM}")


def sanitizers(context, report):
    """Runs compute-sanitizer on three steps with quick engines."""
    if context.programs.sanitizer is None:
        report.not_run("compute-sanitizer", "PATH does not contain it")
        return
    # Checking the kernels of cuDNN takes much longer. It finds wrong pointers and workspaces.
    for tool, own in (("memcheck", True), ("racecheck", True), ("memcheck", False)):
        name = f"{tool} of {'our own' if own else 'all'} kernels"
        prefix = sanitizer_command(context, tool, *(["--kernel-regex", "kns=lockstep"] if own else []))
        training = context.train(name, [*SmallRun("bf16", batch=8).arguments(context, name),
                                        "--watchdog", "0"], SANITIZER_SECONDS, prefix)
        outcome = training.outcome
        text = outcome.stdout + outcome.stderr
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY:.*", text)
        last = found[-1] if found else "no summary"
        if outcome.timed_out:
            report.not_run(name, f"not complete after {outcome.seconds:.0f} s; {last}")
        elif report.check(outcome.ok, f"{name}: {outcome.reason}; {last}"):
            report.add_text(f"{name} in three steps at batch 8 in bf16: {last}.")
        elif first_error(text):
            report.add_diagnosis(f"{tool}: {first_error(text)}")
        elif not found:  # the program failed, not the check
            diagnose(context, report, "bf16", 32, "quick")
