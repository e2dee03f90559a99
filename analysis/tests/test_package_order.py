# SPDX-License-Identifier: BSD-3-Clause
"""The packages of lockstep_report may import only themselves and the packages before them
(lockstep_report/README.md)."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lockstep_report
import pytest

ROOT = Path(lockstep_report.__file__).parent
# At the top; every module may import them, and they import no other.
BASE = (
    "errors",
    "escaping",
    "groups",
)
PACKAGES = ("runfile", "measure", "models", "tables", "figures", "html")
COMMANDS = len(PACKAGES) + 1  # all other modules at the top
MOST_AT_TOP = 15
SHARED_NAMES = {  # public name that several modules define -> why it is the same
    "add": "each module of a command adds its parser",
    "write": "each module of an export format writes it",
}


def level(module):
    """Returns the place in the order of a module, such as "tables.export.trace"; that of names such
    as `__version__` is the first."""
    package = module.partition(".")[0]
    if package in PACKAGES:
        return 1 + PACKAGES.index(package)
    return 0 if package in BASE or not (ROOT / f"{package}.py").exists() else COMMANDS


def imports(text):
    """Yields (line, module) of the modules of the package that a source file imports, anywhere in
    it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == lockstep_report.__name__:
                yield node.lineno, name.partition(".")[2]


def violations(module, text):
    """Returns "module:line imports other" for each import that the order does not permit."""
    return [
        f"{module}:{line} imports {other}"
        for line, other in imports(text)
        if level(other) > level(module) and other.partition(".")[0] != module.partition(".")[0]
    ]


def sources():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts), path.read_text(encoding="utf-8")


def test_packages_import_only_packages_before_them():
    assert [line for module, text in sources() for line in violations(module, text)] == []


def order_of(texts):
    """Returns the modules {name: source} in an order in which each imports only earlier ones."""

    def module_of(name):
        return name if name in texts else name.rpartition(".")[0]

    return list(
        TopologicalSorter(
            {
                module: {module_of(name) for _, name in imports(text)} & texts.keys()
                for module, text in texts.items()
            }
        ).static_order()
    )


def test_modules_import_each_other_in_no_circle():
    assert len(order_of(dict(sources()))) > 80


def test_local_import_that_closes_a_circle_is_found():
    with pytest.raises(CycleError):
        order_of(
            {
                "figures.a": "def draw():\n    from lockstep_report.figures.b import place\n",
                "figures.b": "from lockstep_report.figures import a\n",
            }
        )


def test_top_has_only_the_packages_and_few_modules():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*PACKAGES}
    assert len(list(ROOT.glob("*.py"))) <= MOST_AT_TOP


def test_later_package_is_a_violation():
    text = (
        "def draw():\n    from lockstep_report.figures import style\n    import"
        " lockstep_report.runfile.read\n"
    )
    assert violations("tables.export.trace", text) == [
        "tables.export.trace:2 imports figures.style"
    ]
    assert violations("measure.points", "from lockstep_report import errors, cli") == [
        "measure.points:1 imports cli"
    ]


def test_recorder_imports_only_the_schema():
    """A training program does not load the report, whose libraries need not be installed where it
    runs."""
    sources = (ROOT.parent / "lockstep_recorder").glob("*.py")
    found = {name for path in sources for _, name in imports(path.read_text(encoding="utf-8"))}
    assert found and all(name.startswith("runfile.schema") for name in found)


def shared_names(texts):
    """Returns {name: modules} of the public classes and functions that several modules define."""
    found = {}
    for module, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_modules_define_the_same_public_name():
    found = shared_names(dict(sources()))
    assert {name: found[name] for name in found.keys() - SHARED_NAMES.keys()} == {}
    assert SHARED_NAMES.keys() - found.keys() == set(), "remove these exceptions"


def test_equal_names_are_found_with_their_modules():
    texts = {
        "a": "class Row: pass\ndef _own(): pass\n",
        "b.c": "class Row: pass\ndef _own(): pass\ndef f():\n    def g(): pass\n",
        "d": "def g(): pass\n",
    }
    assert shared_names(texts) == {"Row": ["a", "b.c"]}
