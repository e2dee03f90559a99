"""Finds the programs that some tests need."""

import os
import shutil

import pytest


def find_program(name, programs, package, variable=None):
    """Returns the value of the environment variable `variable`, or the path of the first of
    `programs` that is installed. If there is none, skips the test, or fails it if
    LOCKSTEP_REQUIRE_`name`=1. `package`: what contains the program."""
    found = variable and os.environ.get(variable)
    found = found or next(filter(None, map(shutil.which, programs)), None)
    if found:
        return found
    message = f"{programs[0]} is missing; install {package}" + (
        f" or set {variable}" if variable else "")
    if os.environ.get(f"LOCKSTEP_REQUIRE_{name}") == "1":
        pytest.fail(message)
    pytest.skip(message)
