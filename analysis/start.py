# SPDX-License-Identifier: BSD-3-Clause
"""Runs a Python program without modules of the current folder; analysis/run-python selects the
interpreter.

    start.py PROGRAM [ARGUMENTS]   PROGRAM: a package of this folder, a Python file, or -c and code
    start.py --check MODULES       exits with 1 and prints the reason if a module of this list
    cannot be imported

The syntax is that of Python 3.6, so that an older interpreter prints that it is too old.
"""

import importlib.util
import os
import runpy
import site
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def set_path():
    """Sets `sys.path`: this folder first. An isolated interpreter (-I) searches PYTHONPATH and
    the user's packages last, so that they provide only what is missing."""
    paths = list(sys.path)
    if sys.flags.isolated:
        paths += os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if sys.prefix == sys.base_prefix:  # no virtual environment
            paths.append(site.getusersitepackages())
    sys.path[:] = [FOLDER] + [path for path in paths if path and path != FOLDER]


def problem(module):
    """Returns why `module` cannot be imported, after the word `missing` or `broken`; an empty text
    if it can."""
    name = module.partition(".")[0]
    spec = importlib.util.find_spec(name)
    if spec is None:
        return "missing no module " + name
    try:
        importlib.import_module(module)
    except BaseException as error:  # libraries raise more than ImportError
        return "broken " + reason(name, spec, error)
    return ""


def reason(name, spec, error):
    """Returns which module cannot be imported, from which folder, because of which error, with
    which NumPy."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = type(error).__name__ + (": " + lines[0] if lines else "")
    text = "cannot import {} from {}: {}".format(name, folder_of(spec.origin), text[:300])
    numpy = sys.modules.get("numpy")
    if name != "numpy" and hasattr(numpy, "__version__"):
        text += " (NumPy {} from {})".format(numpy.__version__, folder_of(numpy.__file__))
    return text


def folder_of(file):
    return os.path.dirname(file or "") or "an unknown folder"


def check(modules):
    """Prints the first problem of the modules in one line and returns the exit status."""
    os.environ["MPLBACKEND"] = (
        "Agg"  # as in the figures; that of a notebook may be unknown to this interpreter
    )
    if sys.version_info < (3, 9):
        found = ["old needs Python 3.9 or newer"]
    else:
        found = [text for text in map(problem, modules) if text][:1]
    for text in found:
        kind, _, rest = text.partition(" ")
        print(
            "start.py: {} {} ({}.{}.{}): {}".format(
                kind, sys.executable, *sys.version_info[:3], rest
            )
        )
    return 1 if found else 0


def run(program):
    if program == "-c":
        exec(sys.argv.pop(1), {"__name__": "__main__"})
    elif program.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


set_path()
del sys.argv[0]
if sys.argv[0] == "--check":
    sys.exit(check(sys.argv[1].split(",")))
run(sys.argv[0])
