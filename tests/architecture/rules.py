# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the structural rules in docs/architecture.md: permitted dependencies between modules,
the files in which the preprocessor may test for CUDA, headers, and the length of a file. Each rule
takes the root of a source tree and returns its violations, one line each. test_seeded_violations.py
tests the rules on small trees with one violation each. folder_rules.py has the rules inside a
module.

The table of modules in docs/architecture.md must equal ALLOWED.
"""

import pathlib
import re

import folder_rules
from source_tree import INCLUDE, line_of, module_of, own_headers, sources

# Maps a module to the other modules whose headers it may include. A module depends only on modules
# above it.
ALLOWED = {
    "core": set(),
    "graph": {"core"},
    "data": {"core"},
    "optim": {"core"},
    "backend": {"core", "graph", "optim"},
    "comm": {"core"},
    "record": {"core"},
    "train": {"core", "graph", "data", "backend", "comm", "optim", "record"},
    "study": {"core", "graph", "data", "backend", "comm", "optim", "record", "train"},
    "app": {"core", "graph", "data", "backend", "comm", "optim", "record", "train", "study"},
}

# The preprocessor may test for CUDA only in the factories and in TWO_COMPILERS.
FACTORIES = {"src/backend/make_backend.cpp", "src/comm/make_gradient_transport.cpp"}
# The host compiler and the device compiler compile the kernels; only this header may test which of
# them compiles them.
TWO_COMPILERS = {"src/backend/cuda/kernels/device.hpp"}

# Maps a reason to the .cpp files without a header of their own. All other .cpp files have a header
# of their name, which declares what they define.
OPERATIONS = (
    "add average_pool batch_norm convolution dropout flatten linear max_pool relu"
    " softmax_cross_entropy"
).split()
WITHOUT_HEADER = {
    "defines main": ["src/app/main.cpp"],
    "is a command: app/commands.hpp declares all of them": [
        f"src/app/{command}.cpp"
        for command in "allreduce evaluate info ladder layers plan stack train".split()
    ],
    "is an operation: operations.hpp of the backend declares all of them": [
        *(
            f"src/backend/{folder}/{operation}.cpp"
            for folder in ("reference", "cpu/operations", "cuda")
            for operation in OPERATIONS
        ),
        "src/backend/reference/group_norm.cpp",
        "src/backend/cpu/operations/group_norm.cpp",
    ],
    "creates every implementation of an interface, whose header names none of them": [
        "src/backend/make_backend.cpp",
        "src/comm/make_gradient_transport.cpp",
        "src/data/load.cpp",
    ],
    "is a direction of a convolution: cells/directions.hpp declares all of them": [
        f"src/backend/cpu/cells/{algorithm}_{result}_direction.cpp"
        for algorithm in ("direct", "f2x2", "int16")
        for result in ("map", "weights")
    ],
    "has kernels for an instruction set: one header of cells declares them for all sets": [
        "src/backend/cpu/cells/cell_vectors_avx512.cpp",
        "src/backend/cpu/cells/dot_kernels.cpp",
        "src/backend/cpu/cells/int16_kernels_avx512.cpp",
        "src/backend/cpu/cells/int16_kernels_portable.cpp",
        "src/backend/cpu/cells/tile_kernels.cpp",
    ],
    "defines one entry of a registry: registry.cpp declares all of them": [
        "src/comm/all_reduce/mpi.cpp",
        "src/comm/all_reduce/recursive_doubling.cpp",
        "src/comm/all_reduce/ring.cpp",
        "src/comm/all_reduce/shared_memory.cpp",
        "src/comm/reducers/top_k.cpp",
    ],
    "is a family of networks: graph/models/models.hpp declares all of them": [
        "src/graph/models/resnet.cpp",
        "src/graph/models/vgg.cpp",
    ],
    "defines one group of functions of a class that graph.hpp, backend.hpp or plan.hpp declares": [
        "src/graph/cut.cpp",
        "src/backend/cuda/gradient_sums.cpp",
        "src/backend/cuda/update.cpp",
    ],
}

MAX_LINES = 400
# A file may be longer if a comment of this form in its first 30 lines states the reason.
REASON = re.compile(r"(//|#)\s*Longer than 400 lines: \S.{10,}")

CONDITION = re.compile(
    r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
CUDA_WORD = re.compile(r"CUDA|CUDNN|NCCL|NVCC|NVML|cuda|cudnn|nccl")


def files_outside_modules(root):
    """Reports files that are in no known module."""
    return [
        f"{path}: is in no module; the modules are {', '.join(ALLOWED)}"
        for path, _ in sources(root)
        if module_of(path) not in ALLOWED
    ]


def forbidden_includes(root):
    """Reports includes of a module that ALLOWED does not permit, and of private headers of other
    modules."""
    violations = []
    for path, text in sources(root):
        module = module_of(path)
        for match in INCLUDE.finditer(text):
            bracket, name = match.groups()
            location = f"{path}:{line_of(text, match.start())}"
            if name.startswith("lockstep/"):
                target = name.split("/")[1]
                if not (root / "include" / name).is_file():
                    violations.append(
                        f"{location}: {name} is not a public header (include/lockstep/MODULE/FILE)"
                    )
                elif target != module and target not in ALLOWED.get(module, set()):
                    violations.append(f"{location}: {module} may not include {target} ({name})")
            elif bracket == '"':
                violations += private_include_violations(root, path, module, name, location)
            elif any((root / "src" / other / name).is_file() for other in ALLOWED) and "/" in name:
                violations.append(
                    f"{location}: <{name}> names a module's private header; use quotes, from within"
                    " the module"
                )
    return violations


def private_include_violations(root, path, module, name, location):
    """Reports a quoted include without lockstep/ that does not name a file of the same module.
    CMake may generate this file from a template of the module (NAME.in)."""
    for folder in (path.parent, pathlib.Path("src") / str(module), pathlib.Path("src")):
        target = (root / folder / name).resolve()
        if target.is_file() or target.with_name(target.name + ".in").is_file():
            if path.parts[0] == "include":
                return [f"{location}: a public header may not include a private one ({name})"]
            is_of_module = target.is_relative_to((root / "src" / str(module)).resolve())
            return [] if is_of_module else [f"{location}: {name} is private to another module"]
    return [f"{location}: {name} is not found, neither from this file nor from src/{module}"]


def cuda_conditions(root):
    """Reports preprocessor conditions on CUDA in files other than FACTORIES and TWO_COMPILERS."""
    return [
        f"{path}:{line_of(text, match.start())}: tests for CUDA outside the"
        f" factories:{match.group(1)}"
        for path, text in sources(root)
        if path.as_posix() not in FACTORIES | TWO_COMPILERS
        for match in CONDITION.finditer(text)
        if CUDA_WORD.search(match.group(1))
    ]


def long_files(root):
    """Reports files longer than MAX_LINES lines whose first 30 lines state no reason."""
    violations = []
    for path, text in sources(root):
        lines = text.splitlines()
        if len(lines) > MAX_LINES and not any(REASON.search(line) for line in lines[:30]):
            violations.append(
                f"{path}: has {len(lines)} lines and no comment '// Longer than 400 lines: WHY' in"
                " its first 30 lines"
            )
    return violations


def header_violations(root):
    """Reports headers without #pragma once, public headers that do not open the namespace of their
    module, and headers with `using namespace`."""
    violations = []
    for path, text in sources(root):
        if path.suffix not in {".hpp", ".h", ".cuh"}:
            continue
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            violations.append(f"{path}: has no #pragma once")
        if path.parts[0] == "include" and not re.search(
            rf"^namespace lockstep::{module_of(path)}\b", text, re.MULTILINE
        ):
            violations.append(f"{path}: does not open namespace lockstep::{module_of(path)}")
        if re.search(r"^\s*using namespace ", text, re.MULTILINE):
            violations.append(f"{path}: 'using namespace' is not permitted in a header")
    return violations


def missing_headers(root):
    """Reports .cpp files without a header of their name that WITHOUT_HEADER does not list."""
    excepted = {name for names in WITHOUT_HEADER.values() for name in names}
    return [
        f"{path}: has no header {path.stem}.hpp in its folder or in include/lockstep"
        for path, _ in sources(root)
        if path.suffix == ".cpp" and module_of(path) in ALLOWED
        if path.as_posix() not in excepted and not own_headers(root, path)
    ]


def forbidden_uses(root):
    """Reports modules after USES in lockstep_module (src/MODULE/CMakeLists.txt) that ALLOWED does
    not permit."""
    violations = []
    for module, allowed in ALLOWED.items():
        path = root / "src" / module / "CMakeLists.txt"
        if not path.is_file():
            continue
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        for call in re.finditer(r"lockstep_module\s*\(([^)]*)\)", text):
            words = call.group(1).split()
            if "USES" not in words:
                continue
            used = words[words.index("USES") + 1 :]
            used = used[: next((i for i, word in enumerate(used) if word.isupper()), len(used))]
            violations += [
                f"src/{module}/CMakeLists.txt: {module} may not use {other}"
                for other in used
                if other not in allowed
            ]
    return violations


def documented_dependencies(text, column):
    """Returns a table of dependencies in docs/architecture.md in the form of ALLOWED. It is the
    Markdown table whose first two columns are `column` and `may include`."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        header = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if header[:2] != [column, "may include"]:
            continue
        table = {}
        for row in lines[number + 2 :]:
            if not row.lstrip().startswith("|"):
                break
            module, allowed = [cell.strip() for cell in row.strip().strip("|").split("|")][:2]
            table[module.strip("`")] = set(re.findall(r"`([a-z_/]+)`", allowed))
        return table
    return {}


RULES = [
    files_outside_modules,
    forbidden_includes,
    *folder_rules.RULES,
    cuda_conditions,
    long_files,
    header_violations,
    missing_headers,
    forbidden_uses,
]
