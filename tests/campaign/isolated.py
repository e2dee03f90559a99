# SPDX-License-Identifier: BSD-3-Clause
"""Calls a function that may crash its process, once per number."""

import os
import resource
import signal


def call(work, number):
    try:
        return work(number)
    except Exception as error:  # noqa: BLE001
        return f"crash: {type(error).__name__}: {error}"


def results(numbers, work, seconds=60, memory=None):
    """Yields (number, work(number)) for every number of a range; `work` returns a text of one line.
    A process calls it, which is replaced by another one if it crashes or needs more than `seconds`
    for a number; the text then starts with "crash: ". `memory`: limit of the address space of the
    process in bytes."""
    while numbers:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            status = 1
            try:
                if memory:
                    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
                with os.fdopen(writing, "w", errors="backslashreplace") as lines:
                    for number in numbers:
                        signal.alarm(seconds)
                        lines.write(" ".join(call(work, number).split()) + "\n")
                        lines.flush()
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as lines:
            for line in lines:
                yield numbers[0], line.rstrip("\n")
                numbers = numbers[1:]
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if numbers:
            yield numbers[0], f"crash: the process ended with status {status}"
            numbers = numbers[1:]
