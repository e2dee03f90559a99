"""Part "operations": agreement tests in several processes, and compute-sanitizer."""

import collections
import re

from diagnosis import MEMCHECK_SECONDS, diagnose, first_error, sanitizer_command
from running import last_lines
from small_runs import SmallRun, gpu_arguments

SHARDS = 8  # processes that share the GPU
# Batch norm is the least known part, and the fusions contain it: these tests run first.
BATCH_NORM = "*bn_*:*block*:*Fusions*"
# Share of the time of the step until the end of each group.
GROUPS = (("batch norm", BATCH_NORM, 0.6), ("other operations", f"*-{BATCH_NORM}", 1.0))
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
    """Returns one line that states which precisions and fusions the failed tests have in common."""
    def kind(name):
        found = re.search(r"_(fp32|tf32|bf16|fp16)(?:_fusion_(\w+))?$", name)
        return (found.group(1), found.group(2) or "auto") if found else ("no precision", "auto")

    bad = collections.Counter(map(kind, failed))
    good = collections.Counter(map(kind, passed))
    parts = [f"{precision} fusion {fusion}: {count} of {count + good[precision, fusion]} failed"
             for (precision, fusion), count in sorted(bad.items())]
    only = [f"precision {next(iter(bad))[0]}"] if len({one for one, _ in bad}) == 1 else []
    only += [f"fusion {next(iter(bad))[1]}"] if len({one for _, one in bad}) == 1 else []
    free = [f"{precision} fusion {fusion}" for precision, fusion in sorted(good)
            if (precision, fusion) not in bad]
    text = f"agreement tests: {'; '.join(parts)}"
    if only:
        text += f"; only {' and '.join(only)}"
    return text + (f"; no failure in {', '.join(free)}" if free else "")


def run_group(context, report, program, label, pattern, seconds):
    """Runs the tests that match a GoogleTest filter in SHARDS processes; returns {test: result}."""
    commands = {}
    for shard in range(SHARDS):
        # The tests time engines while the GPU is busy, so they use a cache of their own.
        commands[f"tests {label} {shard}"] = context.program(
            [*program, f"--gtest_filter={pattern}", "--gtest_color=no"],
            LOCKSTEP_REQUIRE_GPU="1", GTEST_TOTAL_SHARDS=SHARDS, GTEST_SHARD_INDEX=shard,
            LOCKSTEP_CACHE_DIR=context.scratch("tests-cache"), **context.core_dump())
    outcomes = context.runner.run_together(commands, context.limited(seconds))
    results, late = {}, 0
    for outcome in outcomes:
        tests = read_tests(outcome.stdout)
        running = [name for name, result in tests.items() if result == "RUN"]
        if outcome.timed_out:
            late += 1
        elif outcome.error or (not outcome.ok and "FAILED" not in tests.values()):
            during = f" during {running[-1]}" if running else ""
            report.fail(f"{outcome.failure}{during}", outcome.tail)
        if running and not outcome.timed_out:
            tests[running[-1]] = "FAILED"
        results |= tests
    if late:
        done = sum(result != "RUN" for result in results.values())
        report.not_run(f"rest of the tests of {label}", f"{late} of {SHARDS} processes were ended "
                                                        f"at their time limit, after {done} tests")
    return results


def rerun_tests(context, report, program, failed):
    """Reruns failed tests alone: with synchronous launches, and with memcheck."""
    context.clock.extend(MAX_RERUNS * 20 + MEMCHECK_SECONDS)
    rows = []
    for number, test in enumerate(failed[:MAX_RERUNS]):
        variables = {"LOCKSTEP_REQUIRE_GPU": "1", "CUDNN_LOGLEVEL_DBG": "1",
                     "CUDNN_LOGDEST_DBG": context.path(f"test-{number}-cudnn.log"),
                     "LOCKSTEP_CACHE_DIR": context.scratch("tests-cache")}
        words = [*program, f"--gtest_filter={test}", "--gtest_color=no"]
        blocking = context.run(f"rerun test {number} blocking", context.program(
            words, CUDA_LAUNCH_BLOCKING="1", **variables, **context.core_dump()), 20)
        rows.append([test, "alone, CUDA_LAUNCH_BLOCKING=1",
                     "passed" if blocking.ok else blocking.failure])
        tool = sanitizer_command(context, "memcheck")
        if tool and number == 0:
            check = context.run(f"rerun test {number} memcheck",
                                context.program([*tool, *words], **variables), MEMCHECK_SECONDS)
            rows.append([test, "memcheck", first_error(check.stdout + check.stderr)
                         or ("no error" if check.ok else check.failure)])
    report.add_table(["test", "rerun", "result"], rows)


def agreement(context, report):
    """Compares the operations with the reference implementation."""
    if not context.programs.tests:
        report.not_run("agreement tests", "--tests names no program")
        return
    total, rows, results = context.clock.left, [], {}
    for program in context.programs.tests:
        for label, pattern, share in GROUPS:
            seconds = context.clock.left - total * (1 - share)
            if seconds < 1:
                report.not_run(f"tests of {label}", "no time")
                continue
            tests = run_group(context, report, program, label, pattern, seconds)
            counts = collections.Counter(tests.values())
            rows.append([f"{program[-1].rsplit('/', 1)[-1]} {label}", counts["OK"],
                         counts["FAILED"], counts["SKIPPED"], counts["RUN"]])
            results |= tests
            if not tests:
                report.not_run(f"tests of {label}", "the program ran no test")
    report.add_table(["tests", "passed", "failed", "skipped", "not complete"], rows)
    passed = [name for name, result in results.items() if result == "OK"]
    failed = [name for name, result in results.items() if result == "FAILED"]
    report.checks += len(passed) + len(failed)
    report.numbers["tests"] = results
    report.headlines.append(f"{len(passed)} tests passed, {len(failed)} failed")
    if failed:
        report.fail(f"{len(failed)} agreement tests failed", last_lines("\n".join(failed), 40))
        rerun_tests(context, report, context.programs.tests[0], failed)
        report.add_diagnosis(pattern_of(failed, passed))


def sanitizers(context, report):
    """Runs compute-sanitizer on two steps with quick engines."""
    if context.programs.sanitizer is None:
        report.not_run("compute-sanitizer", "PATH does not contain it")
        return
    # Checking the kernels of cuDNN takes much longer. It finds wrong pointers and workspaces.
    for tool, own in (("memcheck", True), ("racecheck", True), ("memcheck", False)):
        name, precision = f"sanitizer {tool}{'' if own else ' all'}", "bf16"
        if not context.has_time(report, name, 4):
            continue
        options = ["--kernel-regex", "kns=lockstep"] if own else []
        arguments = gpu_arguments(context, name, SmallRun(precision, batch=8))
        prefix = sanitizer_command(context, tool, *options)
        outcome = context.run(name, context.lockstep(*arguments, "--watchdog", "0", prefix=prefix),
                              SANITIZER_SECONDS)
        text = outcome.stdout + outcome.stderr
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY:.*", text)
        last = found[-1] if found else "no summary"
        scope = "our own kernels" if own else "all kernels"
        if outcome.timed_out:
            report.not_run(name, f"not complete after {outcome.seconds:.0f} s; {last}")
        elif report.check(outcome.ok, f"{name}: {outcome.failure}; {last}"):
            report.add_text(f"{tool} checked {scope} in three steps at batch 8 in {precision} in "
                            f"{outcome.seconds:.0f} s: {last}.")
        else:
            lines = [line for line in text.splitlines() if line.startswith("=========")]
            report.add_text("```text", last_lines("\n".join(lines[:40]), 40) or outcome.tail, "```")
            if first_error(text):
                report.add_diagnosis(f"{tool}: {first_error(text)}")
            elif not lines:  # the program failed, not the check
                diagnose(context, report, precision, 32, "quick")
